//! Locks that stay fast when threads outnumber CPUs, and overtake nobody for long.
//!
//! [`Mutex`] is the one to begin with: whoever runs may take it before those who sleep, for a window of 1 ms
//! by default; then those who waited are served. See [`bounded`] for how, and the README beside this file for
//! when another lock is better.

mod asl;
pub mod bounded;
mod cna;
pub mod condvar;
mod futex_mutex;
mod looks;
mod mcs;
mod mcs_park;
mod mutable_lock;
mod mutex;
mod node;
pub mod passes;
mod queue;
mod raw;
pub mod reorderable;
pub mod rwlock;
mod shfl;
mod slice;
mod spin;
mod standby;
mod tas;
mod ticket;
mod ttas;
mod window;

pub use asl::Asl;
pub use cna::Cna;
pub use condvar::RawCondvar;
pub use futex_mutex::FutexMutex;
pub use mcs::Mcs;
pub use mcs_park::McsPark;
pub use mutable_lock::MutableLock;
pub use mutex::RawMutex;
pub use queue::QueueHeld;
pub use raw::{Fifo, RawLock};
pub use reorderable::Reorderable;
pub use rwlock::RawRwLock;
pub use shfl::Shfl;
pub use tas::Tas;
pub use ticket::Ticket;
pub use ttas::Ttas;
platform::os_only! {
    pub mod observe;

    pub use condvar::{Condvar, WaitTimeoutResult};
    pub use mutex::{MappedMutexGuard, Mutex, MutexGuard};
    pub use observe::{
        Histogram, LockStatistics, Nameable, Observe, Statistics, name, observe, observed, statistics, unname,
    };
    pub use rwlock::{
        MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
}
