//! Locks, waiting and more for programs whose threads outnumber their CPUs.
//!
//! When there are more threads than CPUs, a thread that could run often waits for one that cannot,
//! because the waiter has its CPU. Each room of this crate deals with one face of that:
//!
//! - [`cpu`]: which cores are fast and which are slow.
//! - [`lock`]: who gets a lock when those whose turn it would be cannot run.
//! - [`pool`]: threads that follow the CPUs they really have.
//! - [`range`]: locks of a part of what there is.
//! - [`slo`]: how late a piece of work may be, and what follows for its locks.
//! - [`txn`]: transactions over any ordered store.
//! - [`wait`]: how a loop waits for something that another thread does.
//!
//! The source says nothing about the machine but `use platform::…`, so a model checker runs these
//! very lines (the package `manx-loom`), and so does a sampler of schedules (`manx-shuttle`).

pub mod cpu;
pub mod lock;
pub mod pool;
pub mod range;
pub mod slo;
pub mod txn;
pub mod wait;

/// The pages for users: their examples in Rust compile and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/locks.md")]
    mod locks {}
    #[doc = include_str!("../../../docs/pools.md")]
    mod pools {}
    #[doc = include_str!("../../../docs/ranges.md")]
    mod ranges {}
    #[doc = include_str!("../../../docs/slo.md")]
    mod slo {}
    #[doc = include_str!("../../../docs/transactions.md")]
    mod transactions {}
}
