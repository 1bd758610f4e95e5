//! Locks that stay fast when threads outnumber CPUs, and let no waiter be overtaken for long.
//!
//! [`Mutex`] is the lock to begin with: running threads may take it before sleeping ones, for a
//! window of 1 ms by default; then the waiters are served. See [`bounded`] for how, and the README
//! beside this file for when another lock is better.

mod asl;
pub mod bounded;
pub(crate) mod circle;
pub mod condvar;
mod futex_mutex;
mod mcs;
mod mutex;
mod node;
pub mod passes;
pub mod queue;
mod raw;
pub mod reorderable;
pub mod rwlock;
mod slice;
mod standby;
mod window;

pub use asl::Asl;
pub use condvar::RawCondvar;
pub use futex_mutex::FutexMutex;
pub use mcs::Mcs;
pub use mutex::RawMutex;
pub use queue::QueueHeld;
pub use raw::{Fifo, RawLock};
pub use reorderable::Reorderable;
pub use rwlock::RawRwLock;
platform::os_only! {
    pub mod observe;
    mod raw_mutex;

    pub use condvar::{Condvar, WaitTimeoutResult};
    pub use mutex::{MappedMutexGuard, Mutex, MutexGuard};
    pub use observe::{
        Histogram, LockStatistics, Nameable, Observe, Statistics, name, observe, observed, statistics, unname,
    };
    pub use rwlock::{
        MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
}
