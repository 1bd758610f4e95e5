//! The asymmetry-aware lock: big cores stand in line, little ones stand by for as long as their
//! epoch allows.
//!
//! Liu and others, "Asymmetry-aware scalable locking" (2022), Algorithm 3, on top of
//! [`Reorderable`]. A thread on a big core takes the lock beneath in its order. A thread on a
//! little core lets others overtake it for the window of the epoch that it is in. In no epoch it
//! does so for the longest window, [`slo::WINDOW_MAX`] unless another one is set: without a
//! promise of latency only throughput counts.
//!
//! A thread that tries to lock takes a free lock, whatever its core. A thread that holds such a
//! lock already does not stand by for another: the waiters of the first would stand by with it. A
//! thread that comes to run on a big core while it stands by stands in line.
//!
//! Invariant 1: what is held is held as the lock beneath gave it, so trying, nesting and giving
//! back are its own.

use super::{RawLock, ReorderHeld, Reorderable};
use crate::cpu::{Class, class};
use crate::slo;
use core::cell::Cell;
use core::time::Duration;

platform::thread_local! {
    /// The number of such locks that the thread holds: a hint. A lock that another thread gives
    /// back is counted wrongly.
    static HELD: Cell<i32> = Cell::new(0);
}

#[inline]
fn held() -> i32 {
    HELD.with(Cell::get)
}

#[inline]
fn count(change: i32) {
    HELD.with(|held| held.set(held.get().saturating_add(change).max(0)));
}

/// LibASL's lock for cores of two speeds, over any lock `L`: threads on big cores stand in line at
/// once, threads on little cores let them pass for a window.
///
/// The window is that of the calling thread's innermost epoch ([`crate::slo::Epoch`]), and 100 ms
/// outside of any. A thread that holds such a lock already takes a second one without standing by.
/// Which cores are big: [`crate::cpu::Classes`].
///
/// Source: Liu and others, "Asymmetry-aware scalable locking" (PPoPP 2022), Algorithm 3.
///
/// ```
/// use manx::lock::{Asl, Mcs};
///
/// static COUNT: lock_api::Mutex<Asl<Mcs>, u32> = lock_api::Mutex::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
#[derive(Debug)]
pub struct Asl<L> {
    lock: Reorderable<L>,
}

impl<L: RawLock> Asl<L> {
    platform::const_fn! {
        /// Makes the lock over `lock`, which no thread may hold.
        pub const fn over(lock: L) -> Self {
            Asl { lock: Reorderable::over(lock) }
        }
    }

    /// Returns the reorderable lock inside, for threads that name a window themselves.
    pub fn reorderable(&self) -> &Reorderable<L> {
        &self.lock
    }

    /// Sets the longest window of this lock. Threads outside of any epoch stand by for this long.
    /// `None` (the default) takes the process's maximum ([`slo::set_window_max`], 100 ms unless
    /// set).
    pub fn set_window_max(&self, window: Option<Duration>) {
        self.lock.set_window_max(window);
    }

    #[cold]
    fn lock_from_a_little_core(&self) -> ReorderHeld<L::Held> {
        let window_ns = match held() {
            0 => slo::window_ns().unwrap_or(u64::MAX),
            _ => 0,
        };
        self.lock.lock_reorder_ns_while(window_ns, || class() == Class::Little)
    }
}

// SAFETY: by Invariant 1 this is the promise of the lock beneath.
unsafe impl<L: RawLock> RawLock for Asl<L> {
    type Held = ReorderHeld<L::Held>;
    const NAME: &'static str = "asl";
    platform::initial! { L => Asl::over }

    #[inline]
    fn lock(&self) -> ReorderHeld<L::Held> {
        let held = match class() {
            Class::Big => self.lock.lock_immediately(),
            Class::Little => self.lock_from_a_little_core(),
        };
        count(1);
        held
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Held> {
        let held = self.lock.try_lock();
        if held.is_some() {
            count(1);
        }
        held
    }

    #[inline]
    unsafe fn unlock(&self, held: Self::Held) {
        count(-1);
        // SAFETY: the contract is the same.
        unsafe { self.lock.unlock(held) }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}
