//! A readers-writer lock and a number that only it guards. The tests of `manx-shuttle` use this,
//! too.

#![allow(dead_code, reason = "each test uses a part of it")]

use crate::Arc;
use manx::lock::RawRwLock;
use manx::lock::bounded::Wait;
use platform::cell::UnsafeCell;

/// A number, and how often it was written.
pub struct Shared {
    pub lock: RawRwLock,
    number: UnsafeCell<u32>,
}

// SAFETY: the number is used under the lock only, and that this suffices is what the cell finds
// out.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    pub fn new() -> Arc<Shared> {
        Shared::by(RawRwLock::new())
    }

    pub fn by(lock: RawRwLock) -> Arc<Shared> {
        Arc::new(Shared { lock, number: UnsafeCell::new(0) })
    }

    pub fn write(&self, wait: &Wait) -> bool {
        let entered = self.lock.try_write() || self.lock.write_slow(wait).is_ok();
        if entered {
            self.add_one();
            // SAFETY: this thread is the writer.
            unsafe { self.lock.release_write() };
        }
        entered
    }

    pub fn read(&self, wait: &Wait) -> bool {
        let entered = self.lock.try_read() || self.lock.read_slow(wait).is_ok();
        if entered {
            self.look();
            // SAFETY: this thread is a reader.
            unsafe { self.lock.release_read() };
        }
        entered
    }

    /// Writes, and leaves as a reader.
    pub fn write_and_downgrade(&self, wait: &Wait) -> bool {
        if !self.lock.try_write() && self.lock.write_slow(wait).is_err() {
            return false;
        }
        self.add_one();
        let mine = self.look();
        // SAFETY: this thread is the writer.
        unsafe { self.lock.downgrade() };
        assert_eq!(self.look(), mine, "nobody writes in between");
        // SAFETY: this thread is a reader.
        unsafe { self.lock.release_read() };
        true
    }

    /// Reads upgradably, and writes without leaving in between, unless that has a deadline which is
    /// over; returns whether it wrote.
    pub fn upgrade(&self, wait: &Wait, upgrade: &Wait) -> bool {
        if !self.lock.try_read_upgradably() && self.lock.read_upgradably_slow(wait).is_err() {
            return false;
        }
        let mine = self.look();
        // SAFETY: this thread is the upgradable reader.
        let upgraded = unsafe { self.lock.try_upgrade() || self.lock.upgrade_slow(upgrade).is_ok() };
        if upgraded {
            assert_eq!(self.look(), mine, "no thread writes in between");
            self.add_one();
            // SAFETY: this thread is the writer.
            unsafe { self.lock.downgrade_to_upgradable() };
            assert_eq!(self.look(), mine + 1, "no thread writes in between");
        }
        assert!(!self.lock.try_read_upgradably(), "there is one at most");
        // SAFETY: this thread is the upgradable reader.
        unsafe { self.lock.release_upgradable() };
        upgraded
    }

    pub fn read_upgradably(&self, wait: &Wait) -> bool {
        let entered = self.lock.try_read_upgradably() || self.lock.read_upgradably_slow(wait).is_ok();
        if entered {
            self.look();
            // SAFETY: this thread is the upgradable reader, and then a reader.
            unsafe {
                self.lock.downgrade_upgradable();
                self.look();
                self.lock.release_read();
            }
        }
        entered
    }

    /// By the writer.
    pub fn add_one(&self) {
        // SAFETY: the caller is the only one under the lock.
        self.number.with_mut(|number| unsafe { *number += 1 });
    }

    /// Under the lock, or when the others have ended.
    pub fn look(&self) -> u32 {
        // SAFETY: the caller has the lock, and no thread writes.
        self.number.with(|number| unsafe { *number })
    }

    /// Checks that nothing is left behind.
    pub fn assert_free(&self) {
        assert!(!self.lock.is_held());
        assert!(self.lock.try_write(), "no gate is left closed");
    }
}
