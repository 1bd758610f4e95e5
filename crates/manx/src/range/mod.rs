//! Locks of ranges of keys: as cheap as a plain lock when no other thread is in the way, and never
//! in the way of a thread that wants other keys.
//!
//! A lock that covers more than it must makes threads wait that have nothing to do with each other.
//! [`RangeLock`] covers what is asked for: some bytes of a file, some rows, some keys, or all of
//! them; exclusively, or shared.
//!
//! ```
//! use manx::range::RangeLock;
//!
//! let file: RangeLock<u64> = RangeLock::new();
//! std::thread::scope(|scope| {
//!     for part in 0..4 {
//!         let file = &file;
//!         scope.spawn(move || {
//!             let _bytes = file.lock(part * 1000..(part + 1) * 1000).unwrap();
//!             // No other thread has these.
//!         });
//!     }
//! });
//! ```
//!
//! | to hold | take |
//! | --- | --- |
//! | a range, in a scope | [`RangeLock::lock`], `lock_shared`, `try_…`; a [`RangeGuard`] can be cut in two, made smaller, shared, had alone, and sent |
//! | … or give up in time | [`RangeLock::lock_timeout`], [`RangeLock::lock_until`], `lock_shared_…`; likewise for sets, owners and upgrades |
//! | several ranges, all or none | [`RangeLock::lock_many`] |
//! | ranges one after the other, until a transaction ends | [`RangeLock::owner`] |
//! | a range, in a task | [`RangeLock::lock_async`], within [`task()`] for an identity; [`Owner::lock_async`] |
//! | a part of a slice | [`RangeMutex`] |
//! | a range, against processes on other machines | `cluster` (the cargo feature `cluster`) |
//!
//! How it works, what bounds its waits, and what else was tried: the README beside this file. The
//! locks that it is compared with are another package's, `baselines`, behind the same trait
//! (`raw.rs`).

mod chain;
mod deadlock;
mod dump;
mod error;
mod escalate;
mod future;
mod guard;
mod holder;
mod key;
mod learn;
mod lock;
mod many;
mod options;
mod outline;
mod owner;
mod precedence;
mod raw;
mod reach;
mod request;
mod rescale;
mod scale;
mod scales;
mod shard;
mod slot;
mod span;
mod table;
mod take;
mod task;
mod wait_queue;
mod waiting;
mod word;
mod words;
mod yielding;

pub use dump::{Dump, HeldRange, Statistics, Waiter};
pub use error::{Deadlock, InvalidRange, Link, LockError};
pub use future::{LockFuture, OwnerLockFuture};
pub use guard::{RangeGuard, Unchanged};
pub use holder::Holder;
pub use key::Key;
pub use lock::RangeLock;
// The packages `baselines` and `workload` compare range locks by these.
#[doc(hidden)]
pub use lock::RawHeld;
pub use many::{ManyGuard, SpanSet};
pub use options::{BLOCK_LOG2, Options, SPILL_MAX};
pub use owner::Owner;
pub use raw::Access;
#[doc(hidden)]
pub use raw::RawRangeLock;
pub use span::{IntoSpan, Span, Successor};
pub use task::{Task, task};
pub use waiting::WINDOW;

platform::os_only! {
    #[cfg(feature = "cluster")]
    pub mod cluster;
    mod mutex;
    mod timed;

    pub use mutex::{RangeMutex, SharedSliceGuard, SliceGuard};
}
