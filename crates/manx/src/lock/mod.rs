//! Locks that stay fast when threads outnumber CPUs, and let no waiter be overtaken for long.
//!
//! [`Mutex`] is the lock to begin with: running threads may take it before sleeping ones, for a
//! window of 1 ms by default; then the waiters are served. The README beside this file says how,
//! and when another lock is better.
//!
//! [`Mutex`], [`RwLock`], [`ReentrantMutex`], [`Condvar`] and [`Once`] have the names and methods
//! of `parking_lot`; the locks are those of `lock_api` over [`RawMutex`] and [`RawRwLock`].
//! [`RawLock`] is for authors of locks. [`observe`](mod@observe) has statistics of all locks, and
//! finds deadlocks.

mod asl;
// The packages `capi` and `preload` make C's mutexes of it.
#[doc(hidden)]
pub mod bounded;
pub(crate) mod circle;
// `RawCondvar` is what the packages `capi` and `preload` make C's condition variables of.
#[doc(hidden)]
pub mod condvar;
mod futex_mutex;
mod line;
mod mcs;
mod mutex;
mod node;
mod once;
// The package `preload` keeps one in each mutex of the program.
#[doc(hidden)]
pub mod passes;
mod payoff;
// The package `baselines` makes locks of it.
#[doc(hidden)]
pub mod queue;
mod raw;
mod reorderable;
mod rwlock;
mod slice;
mod spinning;
mod standby;
// The package `preload` keeps one in each mutex of the program.
#[doc(hidden)]
pub mod turns;
mod window;
mod words;

pub use asl::Asl;
#[doc(hidden)]
pub use condvar::RawCondvar;
pub use futex_mutex::FutexMutex;
pub use mcs::Mcs;
pub use mutex::RawMutex;
pub use once::{Once, OnceState};
pub use queue::QueueHeld;
pub use raw::{Fifo, RawLock};
pub use reorderable::{ReorderHeld, Reorderable};
pub use rwlock::RawRwLock;
platform::twins_only! {
    mod mutex_of_twins;

    pub use mutex_of_twins::{Mutex, MutexGuard};
    /// The constants of the default mutex that a bench may vary.
    #[doc(hidden)]
    pub const CONSTANTS: &[platform::constant::Constant] = &[
        window::DEFAULT_NS,
        spinning::SPIN_OWN_NS,
        spinning::SPIN_WOKEN_NS,
        spinning::LOOK_INTERVAL_COSTS,
        bounded::SPIN_STARVING_NS,
        bounded::LINE_NS_MIN,
        line::STILL_NS,
        line::FAR,
        line::BACK_NS,
        line::CROWD_NS,
    ];
}
platform::os_only! {
    pub mod observe;
    mod raw_mutex;
    mod reentrant;

    pub use condvar::{Condvar, WaitTimeoutResult};
    pub use mutex::{MappedMutexGuard, Mutex, MutexGuard};
    pub use observe::{
        Histogram, LockStatistics, Nameable, Observe, Statistics, name, observe, observed, statistics, unname,
    };
    pub use reentrant::{
        MappedReentrantMutexGuard, RawThreadId, ReentrantMutex, ReentrantMutexGuard,
    };
    pub use rwlock::{
        MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
    };
}
