//! The readers-writer lock of programs: around data, with guards, by `lock_api`; and what observers
//! are told.

use super::RawRwLock;
use crate::lock::bounded::Wait;
use crate::lock::observe::{self, Access, WaitOutcome};
use lock_api::GuardNoSend;
use platform::futex::Deadline;
use std::panic::Location;
use std::time::{Duration, Instant};

/// A readers-writer lock around data: eight bytes and the data. There is no poisoning.
///
/// Running readers and writers may overtake sleeping ones, for a window of 1 ms, or as long as the
/// thread's epoch allows ([`crate::slo`]). After that the waiter is *starving*, and no new holder
/// of the other kind enters before it: neither readers nor writers starve for long. All methods are
/// `lock_api`'s; [`RawRwLock::with_window`] sets another window.
///
/// A thread that reads and wants to read once more may wait for itself, if a writer waits.
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
///
/// ```
/// use manx::lock::{RwLock, RwLockReadGuard};
///
/// fn sum(numbers: RwLockReadGuard<'_, Vec<u32>>) -> u32 {
///     numbers.iter().sum()
/// }
/// assert_eq!(sum(RwLock::new(vec![1, 2]).read()), 3);
/// ```
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// The writer's guard of a [`RwLock`]: gives exclusive access to the data, and unlocks when it is
/// dropped.
///
/// ```
/// use manx::lock::{RwLock, RwLockWriteGuard};
///
/// let lock = RwLock::new(1);
/// let mut writer: RwLockWriteGuard<'_, u32> = lock.write();
/// *writer += 1;
/// let reader = RwLockWriteGuard::downgrade(writer);
/// assert_eq!((*reader, *lock.read()), (2, 2));
/// ```
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// The upgradable reader's guard of a [`RwLock`]: gives shared access beside other readers, and
/// becomes the writer's guard by `RwLockUpgradableReadGuard::upgrade`, without a write in between.
///
/// ```
/// use manx::lock::{RwLock, RwLockUpgradableReadGuard};
///
/// static NAMES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
///
/// fn number_of(name: &'static str) -> usize {
///     let names = NAMES.upgradable_read();
///     if let Some(number) = names.iter().position(|known| *known == name) {
///         return number;
///     }
///     let mut names = RwLockUpgradableReadGuard::upgrade(names);
///     names.push(name);
///     names.len() - 1
/// }
/// assert_eq!((number_of("a"), number_of("b"), number_of("a")), (0, 1, 0));
/// ```
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
/// A reader's guard of a part of a [`RwLock`]'s data (`RwLockReadGuard::map`).
///
/// ```
/// use manx::lock::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
///
/// let lock = RwLock::new((1, "one"));
/// let name: MappedRwLockReadGuard<'_, &str> = RwLockReadGuard::map(lock.read(), |pair| &pair.1);
/// assert_eq!(*name, "one");
/// ```
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
/// The writer's guard of a part of a [`RwLock`]'s data (`RwLockWriteGuard::map`).
///
/// ```
/// use manx::lock::{MappedRwLockWriteGuard, RwLock, RwLockWriteGuard};
///
/// let lock = RwLock::new((1, "one"));
/// let mut number: MappedRwLockWriteGuard<'_, u32> = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.0);
/// *number += 1;
/// drop(number);
/// assert_eq!(lock.read().0, 2);
/// ```
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
            Access::Upgradable => self.read_upgradably_slow(&wait),
            Access::Exclusive => self.write_slow(&wait),
            // SAFETY: only `upgrade_until` asks for it, and its caller is the upgradable reader.
            Access::Upgrade => unsafe { self.upgrade_slow(&wait) },
        };
        let Ok(acquired) = result else { return false };
        if access == Access::Upgrade {
            self.observe_release(Access::Upgradable);
        }
        if let Some(waiting) = waiting {
            waiting.acquired(WaitOutcome { starving: acquired.starving, handed_over: acquired.handed_off });
        }
        true
    }
}

impl RawRwLock {
    /// Waits until the upgradable reader is the writer (true), or the deadline is over.
    ///
    /// # Safety
    /// The calling context is the upgradable reader.
    #[track_caller]
    unsafe fn upgrade_until(&self, deadline: Option<Deadline>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.try_upgrade_now() || self.wait(Access::Upgrade, deadline) }
    }

    /// # Safety
    /// The calling context is the upgradable reader.
    #[track_caller]
    unsafe fn try_upgrade_now(&self) -> bool {
        // SAFETY: the caller's promise.
        let upgraded = unsafe { self.try_upgrade() };
        if upgraded {
            self.observe_release(Access::Upgradable);
        }
        self.observe_entry(upgraded, Access::Exclusive)
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
            observe::downgraded(self.address(), Access::Exclusive, Access::Shared);
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

// SAFETY: as above; by the same Invariant no thread writes between an upgradable read and the write
// that it becomes.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    type UpgradableGuard = GuardNoSend;

    #[inline]
    #[track_caller]
    fn lock_upgradable(&self) -> GuardNoSend {
        if !self.observe_entry(self.try_read_upgradably(), Access::Upgradable) {
            self.wait(Access::Upgradable, None);
        }
        GuardNoSend::new()
    }

    #[inline]
    #[track_caller]
    fn try_lock_upgradable(&self) -> Option<GuardNoSend> {
        self.observe_entry(self.try_read_upgradably(), Access::Upgradable).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_upgradable(&self, _guard: GuardNoSend) {
        self.observe_release(Access::Upgradable);
        // SAFETY: the caller gives back the state of its acquisition.
        unsafe { self.release_upgradable() };
    }

    #[inline]
    #[track_caller]
    unsafe fn upgrade(&self, guard: GuardNoSend) -> GuardNoSend {
        // SAFETY: the caller is the upgradable reader.
        unsafe { self.upgrade_until(None) };
        guard
    }

    #[inline]
    #[track_caller]
    unsafe fn try_upgrade(&self, guard: GuardNoSend) -> Result<GuardNoSend, GuardNoSend> {
        // SAFETY: the caller is the upgradable reader.
        if unsafe { self.try_upgrade_now() } { Ok(guard) } else { Err(guard) }
    }
}

// SAFETY: as above. Waiters are woken and given the CPU.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    unsafe fn unlock_upgradable_fair(&self, _guard: GuardNoSend) {
        self.observe_release(Access::Upgradable);
        // SAFETY: the caller gives back the state of its acquisition.
        if unsafe { self.release_upgradable() } {
            platform::thread::yield_now();
        }
    }
}

// SAFETY: as above; one step makes the one the other, with release.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    unsafe fn downgrade_upgradable(&self, guard: GuardNoSend) -> GuardNoSend {
        if observe::on() {
            observe::downgraded(self.address(), Access::Upgradable, Access::Shared);
        }
        // SAFETY: the caller is the upgradable reader.
        unsafe { RawRwLock::downgrade_upgradable(self) };
        guard
    }

    unsafe fn downgrade_to_upgradable(&self, guard: GuardNoSend) -> GuardNoSend {
        if observe::on() {
            observe::downgraded(self.address(), Access::Exclusive, Access::Upgradable);
        }
        // SAFETY: the caller is the writer.
        unsafe { RawRwLock::downgrade_to_upgradable(self) };
        guard
    }
}

// SAFETY: as above; a wait that timed out holds what was held before.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    #[track_caller]
    fn try_lock_upgradable_for(&self, timeout: Duration) -> Option<GuardNoSend> {
        let entered = self.observe_entry(self.try_read_upgradably(), Access::Upgradable)
            || self.wait(Access::Upgradable, Some(Deadline::after(timeout)));
        entered.then(GuardNoSend::new)
    }

    #[track_caller]
    fn try_lock_upgradable_until(&self, timeout: Instant) -> Option<GuardNoSend> {
        self.try_lock_upgradable_for(timeout.saturating_duration_since(Instant::now()))
    }

    #[track_caller]
    unsafe fn try_upgrade_for(
        &self,
        guard: GuardNoSend,
        timeout: Duration,
    ) -> Result<GuardNoSend, GuardNoSend> {
        // SAFETY: the caller is the upgradable reader.
        if unsafe { self.upgrade_until(Some(Deadline::after(timeout))) } { Ok(guard) } else { Err(guard) }
    }

    #[track_caller]
    unsafe fn try_upgrade_until(
        &self,
        guard: GuardNoSend,
        timeout: Instant,
    ) -> Result<GuardNoSend, GuardNoSend> {
        let left = timeout.saturating_duration_since(Instant::now());
        // SAFETY: the caller is the upgradable reader.
        unsafe { lock_api::RawRwLockUpgradeTimed::try_upgrade_for(self, guard, left) }
    }
}
