//! Range locks from elsewhere, behind the trait of Manx's own: the crates `range-lock` and
//! `range-mutex`.
//!
//! Both protect a vector of theirs and lend slices of it. Here its elements have no size, so what
//! is compared is the lock. Each waits as it does: `range-lock` can only be tried, so a waiter
//! yields and tries again, as its documentation leaves it to the caller; a waiter of `range-mutex`
//! parks. Neither has shared ranges.
//!
//! Invariant: what is held refers to the lock that returned it, and [`RawRangeLock::unlock`] is
//! called with it before that lock is gone, by the contract of that trait and because a lock that
//! its users borrow does not move. The locks are boxed, so that they would not move even then.

use manx::range::{Access, RawRangeLock, Span};
use range_lock::{VecRangeLock, VecRangeLockGuard};
use range_mutex::{RangeMutex, RangeMutexGuard};
use std::ops::Range;
use std::sync::TryLockError;

/// The span as far as the space, in the integers that these crates have; above it there is nothing
/// to lock, and an empty range hinders no thread.
#[inline(always)]
fn within(span: &Span<u64>, space: usize) -> Range<usize> {
    let start = span.start().map_or(0, |&start| start as usize);
    let end = span.end().map_or(space, |&end| (end as usize).min(space));
    if start < end { start..end } else { 0..0 }
}

/// Büsch's `range-lock`: a map of ranges in a mutex.
pub(super) struct RangeLockCrate(Box<VecRangeLock<()>>);

/// A range of it.
pub(super) struct RangeLockHeld(VecRangeLockGuard<'static, ()>);

// SAFETY: the guard is a reference to the lock, which all threads may share, and a range. It is not
// sent by itself so that its slice stays in one thread; no code here looks at the slice, and giving
// the range back takes the lock's mutex, as any thread may.
unsafe impl Send for RangeLockHeld {}

// SAFETY: the crate lends no slice twice: a range is entered into its map only if none in there
// overlaps it, in a mutex, and leaves it in the same mutex.
unsafe impl RawRangeLock for RangeLockCrate {
    type Held = RangeLockHeld;

    const NAME: &'static str = "range-lock";
    const SHARES: bool = false;

    fn with_space(space: u64) -> RangeLockCrate {
        RangeLockCrate(Box::new(VecRangeLock::new(vec![(); space as usize])))
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<RangeLockHeld> {
        match self.0.try_lock(within(span, self.0.data_len())) {
            // SAFETY: only the lifetime changes; the guard is given back before the lock is gone
            // (the invariant).
            Ok(guard) => Some(RangeLockHeld(unsafe {
                std::mem::transmute::<VecRangeLockGuard<'_, ()>, VecRangeLockGuard<'static, ()>>(guard)
            })),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => unreachable!("nobody panics within the crate's mutex"),
        }
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> RangeLockHeld {
        loop {
            if let Some(held) = self.try_lock(span, access) {
                return held;
            }
            std::thread::yield_now();
        }
    }

    #[inline]
    unsafe fn unlock(&self, held: RangeLockHeld) {
        drop(held.0);
    }
}

/// Zachary S's `range-mutex`: sorted ranges in a mutex, and waiters that park.
pub(super) struct RangeMutexCrate(Box<RangeMutex<(), Vec<()>>>);

impl RangeMutexCrate {
    #[inline(always)]
    fn held(guard: RangeMutexGuard<'_, ()>) -> RangeMutexGuard<'static, ()> {
        // SAFETY: only the lifetime changes; the guard is given back before the lock is gone (the
        // invariant).
        unsafe { std::mem::transmute::<RangeMutexGuard<'_, ()>, RangeMutexGuard<'static, ()>>(guard) }
    }
}

// SAFETY: the crate lends no slice twice: a range is entered into its list only if none in there
// overlaps it, in a mutex, and leaves it in the same mutex.
unsafe impl RawRangeLock for RangeMutexCrate {
    type Held = RangeMutexGuard<'static, ()>;

    const NAME: &'static str = "range-mutex";
    const SHARES: bool = false;

    fn with_space(space: u64) -> RangeMutexCrate {
        RangeMutexCrate(Box::new(RangeMutex::new(vec![(); space as usize])))
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<Self::Held> {
        self.0.try_lock(within(span, self.0.len())).map(RangeMutexCrate::held)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, _access: Access) -> Self::Held {
        RangeMutexCrate::held(self.0.lock(within(span, self.0.len())))
    }

    #[inline]
    unsafe fn unlock(&self, held: Self::Held) {
        drop(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excludes<L: RawRangeLock>() {
        let lock = L::with_space(100);
        let span = |start, end| Span::new(start, end).unwrap();
        let held = lock.lock(&span(10, 20), Access::Exclusive);
        assert!(lock.try_lock(&span(19, 21), Access::Exclusive).is_none());
        assert!(lock.try_lock(&Span::all(), Access::Shared).is_none());
        let next = lock.try_lock(&span(20, 30), Access::Exclusive).expect("a neighbour is in nobody's way");
        let beyond = lock.try_lock(&span(90, 1000), Access::Exclusive).expect("as far as the space");
        // SAFETY: they are what this lock returned.
        unsafe {
            lock.unlock(held);
            lock.unlock(next);
            lock.unlock(beyond);
        }
        let all = lock.try_lock(&Span::all(), Access::Exclusive).expect("all were given back");
        // Another thread may give it back.
        std::thread::scope(|scope| {
            let lock = &lock;
            // SAFETY: as above.
            scope.spawn(move || unsafe { lock.unlock(all) });
        });
        assert!(lock.try_lock(&span(0, 1), Access::Exclusive).is_some());
    }

    #[test]
    fn they_exclude_what_overlaps_and_nothing_else() {
        excludes::<RangeLockCrate>();
        excludes::<RangeMutexCrate>();
    }
}
