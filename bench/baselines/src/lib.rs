//! The locks that manx's own ones are compared with: algorithms of papers and peers, behind manx's
//! traits.
//!
//! The package is for benchmarks and tests: of what is installed, only `manx bench` uses it. Each
//! lock is as its authors describe it, and correct, so that a comparison is fair. The README beside
//! this folder names the sources.
//!
//! - [`lock`]: mutual exclusion; [`manx::lock::RawLock`]s.
//! - [`range`]: locks of ranges of keys, which are [`manx::range::RawRangeLock`]s.
//! - [`txn`]: how an engine that is in use makes snapshots.
//!
//! As in manx, the source says nothing about the machine but `use platform::…`, so a model checker
//! runs these very lines (the package `baselines-loom`), and so does a sampler of schedules
//! (`baselines-shuttle`).

pub mod lock;
pub mod range;
pub mod txn;
mod xorshift;
