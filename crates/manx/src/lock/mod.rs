//! Locks that stay fast when threads outnumber CPUs, and overtake nobody for long.
//!
//! [`Mutex`] is the one to begin with: whoever runs may take it before those who sleep, for a window of 1 ms
//! by default; then those who waited are served. See [`bounded`] for how, and the README beside this file for
//! when another lock is better.

pub mod bounded;
mod mutex;
mod slice;
mod spin;

pub use mutex::RawMutex;
platform::os_only! {
    pub use mutex::{Mutex, MutexGuard};
}
