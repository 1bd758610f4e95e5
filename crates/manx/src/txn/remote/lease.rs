//! Until when no other server is at work.
//!
//! A lease counts from when its renewal was *sent*, so it ends here before it ends for the others.
//! Until then what is in memory is what the store has. So a read is answered if this time has not
//! come *after* the value was read. A thread or process that stood still in between finds out then.
//! The clock counts on while a process is stopped, but not while the whole machine sleeps.

use crate::lock::{Condvar, Mutex};
use platform::atomic::{AtomicU64, Ordering};
use platform::clock::now_ns;
use std::time::Duration;

/// How long a thread waits for a lease before it looks again.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// See [the module](self).
#[derive(Default)]
pub(in crate::txn) struct Lease {
    until_ns: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Lease {
    /// Whether what was read before is what the store had then.
    pub(super) fn holds(&self) -> bool {
        // Acquire: entries that a later owner has read are there with its lease.
        now_ns() < self.until_ns.load(Ordering::Acquire)
    }

    /// Waits for a change, not for long.
    pub(super) fn wait(&self) {
        let mut guard = self.lock.lock();
        if !self.holds() {
            self.changed.wait_for(&mut guard, LOOK_EVERY);
        }
    }

    /// It was renewed, or, with 0, is over.
    pub(in crate::txn) fn set(&self, until_ns: u64) {
        let guard = self.lock.lock();
        // Release: see `holds`.
        self.until_ns.store(until_ns, Ordering::Release);
        drop(guard);
        self.changed.notify_all();
    }
}
