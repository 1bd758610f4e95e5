//! The readers-writer lock of programs: around data, with guards, by `lock_api`; and what observers
//! are told.

use super::RawRwLock;
use crate::lock::bounded::Wait;
use crate::lock::observe::{self, Access, WaitOutcome};
use lock_api::GuardNoSend;
use platform::futex::Deadline;
use std::panic::Location;
use std::time::{Duration, Instant};

/// A readers-writer lock around data: eight bytes and the data. There is no poisoning. See
/// [`crate::lock::rwlock`].
///
/// ```
/// use manx::lock::RwLock;
///
/// static TABLE: RwLock<Vec<u32>> = RwLock::new(Vec::new());
///
/// TABLE.write().push(7);
/// let (one, other) = (TABLE.read(), TABLE.read());
/// assert_eq!((one[0], other.len()), (7, 1));
/// assert!(TABLE.try_write().is_none());
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// A reader's guard of a [`RwLock`]: gives shared access to the data, and unlocks when it
/// is dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// The writer's guard of a [`RwLock`]: gives exclusive access to the data, and unlocks when it is
/// dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// A reader's guard of a part of a [`RwLock`]'s data (`RwLockReadGuard::map`).
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
/// The writer's guard of a part of a [`RwLock`]'s data (`RwLockWriteGuard::map`).
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

impl RawRwLock {
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Tells observers, if there are any, that the lock was had without a wait.
    #[inline(always)]
    #[track_caller]
    fn observe_entry(&self, entered: bool, access: Access) -> bool {
        if entered && observe::on() {
            observe::acquired(self.address(), Location::caller(), access);
        }
        entered
    }

    /// Tells observers, if there are any, that the lock is about to be released.
    #[inline(always)]
    fn observe_release(&self, access: Access) {
        if observe::on() {
            observe::released(self.address(), access);
        }
    }

    #[cold]
    #[track_caller]
    fn wait(&self, access: Access, deadline: Option<Deadline>) -> bool {
        let limited = deadline.is_some();
        // No closure: a closure's caller is not ours.
        let waiting = if observe::on() {
            Some(observe::waiting(self.address(), Location::caller(), access, limited))
        } else {
            None
        };
        let wait = Wait { deadline, ..Wait::default() };
        let result = match access {
            Access::Shared => self.read_slow(&wait),
            Access::Exclusive => self.write_slow(&wait),
        };
        let Ok(acquired) = result else { return false };
        if let Some(waiting) = waiting {
            waiting.acquired(WaitOutcome { starving: acquired.starving, handed_over: acquired.handed_off });
        }
        true
    }
}

// SAFETY: exclusion, acquire and release are those of `RawRwLock` (its Invariant 1). What unwinds
// (too many readers, a deadlock that an observer finds) does so before anything is acquired.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawRwLock = RawRwLock::new();
    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) -> GuardNoSend {
        if !self.observe_entry(self.try_read(), Access::Shared) {
            self.wait(Access::Shared, None);
        }
        GuardNoSend::new()
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        self.observe_entry(self.try_read(), Access::Shared).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardNoSend) {
        self.observe_release(Access::Shared);
        // SAFETY: the caller gives back the state of its acquisition.
        unsafe { self.release_read() }
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) -> GuardNoSend {
        if !self.observe_entry(self.try_write(), Access::Exclusive) {
            self.wait(Access::Exclusive, None);
        }
        GuardNoSend::new()
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        self.observe_entry(self.try_write(), Access::Exclusive).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardNoSend) {
        self.observe_release(Access::Exclusive);
        // SAFETY: the caller gives back the state of its acquisition.
        unsafe { self.release_write() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_held()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.is_written()
    }
}

// SAFETY: as above. Waiters are woken and given the CPU.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    unsafe fn unlock_shared_fair(&self, _guard: GuardNoSend) {
        self.observe_release(Access::Shared);
        // SAFETY: the caller gives back the state of its acquisition.
        unsafe { self.release_read_fair() }
    }

    unsafe fn unlock_exclusive_fair(&self, _guard: GuardNoSend) {
        self.observe_release(Access::Exclusive);
        // SAFETY: the caller gives back the state of its acquisition.
        unsafe { self.release_write_fair() }
    }
}

// SAFETY: as above; one step makes a writer a reader, with release.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self, guard: GuardNoSend) -> GuardNoSend {
        if observe::on() {
            observe::downgraded(self.address());
        }
        // SAFETY: the caller is the writer.
        unsafe { RawRwLock::downgrade(self) };
        guard
    }
}

// SAFETY: as above; a wait that timed out holds nothing.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardNoSend> {
        let entered = self.observe_entry(self.try_read(), Access::Shared)
            || self.wait(Access::Shared, Some(Deadline::after(timeout)));
        entered.then(GuardNoSend::new)
    }

    #[track_caller]
    fn try_lock_shared_until(&self, timeout: Instant) -> Option<GuardNoSend> {
        self.try_lock_shared_for(timeout.saturating_duration_since(Instant::now()))
    }

    #[track_caller]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardNoSend> {
        let entered = self.observe_entry(self.try_write(), Access::Exclusive)
            || self.wait(Access::Exclusive, Some(Deadline::after(timeout)));
        entered.then(GuardNoSend::new)
    }

    #[track_caller]
    fn try_lock_exclusive_until(&self, timeout: Instant) -> Option<GuardNoSend> {
        self.try_lock_exclusive_for(timeout.saturating_duration_since(Instant::now()))
    }
}
