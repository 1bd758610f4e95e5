//! The reorderable lock: any lock, before which some threads stand by for a while, so that others
//! pass.
//!
//! On cores of two speeds the order of arrival gives all threads the pace of the slow ones, and any
//! other order of a lock makes some thread wait for long. Here the caller says for how long it may
//! be overtaken (Liu and others, "Asymmetry-aware scalable locking", 2022, Algorithm 1):
//! [`Reorderable::lock_immediately`] stands in line at once; [`Reorderable::lock_reorder`] stands
//! by first, takes the lock if it finds it free, and stands in line when its window is over. Giving
//! the lock back is the lock's own affair: it knows nothing of the threads that stand by.
//!
//! ```text
//!   lock_reorder ──► free? ──no──► stand by: look, wait twice as long, look …
//!                      │yes          │ found free      │ the window is over
//!                      ▼             ▼                 ▼
//!                    taken         taken        in line, as lock_immediately
//! ```
//!
//! Where the paper lets threads that find the lock free stand in line, a look here takes the lock
//! or does not. Of several threads that look at the same time one succeeds, and the others do not
//! stand in the way of arriving threads.
//!
//! `standby.rs` decides when a thread looks. `payoff.rs` decides whether standing by pays, and when
//! a lock that is free is taken.
//!
//! Invariants:
//! 1. A thread that stands by is in no queue: no thread waits for it, and no thread has to wake it.
//! 2. Standing by ends after the window, or after the maximum if that is shorter; from then on the
//!    caller waits as the lock's own order has it. So over a lock that is [`super::Fifo`] no thread
//!    starves.
//! 3. With a window of 0 `lock_reorder` is the lock's own `lock`.

use super::RawLock;
use super::payoff::Payoff;
use crate::slo;
use core::time::Duration;
use platform::atomic::{AtomicU64, Ordering};
use platform::clock::duration_ns;

/// The lock has no maximum of its own.
const UNSET: u64 = u64::MAX;

/// LibASL's reorderable lock, over any lock `L`: a thread says for how long others may overtake it.
///
/// [`Reorderable::lock_immediately`] stands in line at once. [`Reorderable::lock_reorder`] first
/// looks at the lock from outside of the queue for at most a window, takes it if it is free, and
/// stands in line when the window is over.
///
/// Source: Liu and others, "Asymmetry-aware scalable locking" (PPoPP 2022), Algorithm 1.
///
/// ```
/// use manx::lock::{Mcs, RawLock, Reorderable};
/// use std::time::Duration;
///
/// let lock = Reorderable::<Mcs>::new();
/// let held = lock.lock_reorder(Duration::from_millis(1));
/// assert!(lock.is_locked());
/// // SAFETY: held by this thread.
/// unsafe { lock.unlock(held) };
/// ```
#[derive(Debug)]
pub struct Reorderable<L> {
    lock: L,
    window_ns_max: AtomicU64,
    payoff: Payoff,
}

/// A held [`Reorderable`] lock: what the lock beneath gave, and whether its thread might have stood
/// by.
#[derive(Debug)]
#[must_use = "the lock is held until it is unlocked with this"]
pub struct ReorderHeld<H> {
    held: H,
    is_reordered: bool,
}

impl<H> ReorderHeld<H> {
    fn at_once(held: H) -> Self {
        ReorderHeld { held, is_reordered: false }
    }
}

impl<L: RawLock> Reorderable<L> {
    platform::const_fn! {
        /// Makes the lock over `lock`, which no thread may hold.
        pub const fn over(lock: L) -> Self {
            Reorderable {
                lock,
                window_ns_max: AtomicU64::new(UNSET),
                payoff: Payoff::new(),
            }
        }
    }

    /// Returns the lock that threads stand in line for.
    pub fn beneath(&self) -> &L {
        &self.lock
    }

    /// Sets the longest window of this lock. `None` stands for that of all locks
    /// ([`slo::set_window_max`]).
    ///
    /// ```
    /// use manx::lock::{Mcs, Reorderable};
    /// use std::time::Duration;
    ///
    /// let lock = Reorderable::<Mcs>::new();
    /// lock.set_window_max(Some(Duration::from_millis(1)));
    /// assert_eq!(lock.window_max(), Duration::from_millis(1));
    /// lock.set_window_max(None);
    /// assert_eq!(lock.window_max(), manx::slo::window_max());
    /// ```
    pub fn set_window_max(&self, window: Option<Duration>) {
        let window_ns = window.map_or(UNSET, |window| duration_ns(window).min(UNSET - 1));
        // Relaxed: a number that stands for itself; so everywhere in this file.
        self.window_ns_max.store(window_ns, Ordering::Relaxed);
    }

    /// Returns the longest window of this lock.
    pub fn window_max(&self) -> Duration {
        Duration::from_nanos(self.window_ns_max())
    }

    fn window_ns_max(&self) -> u64 {
        match self.window_ns_max.load(Ordering::Relaxed) {
            UNSET => slo::window_ns_max(),
            window_ns => window_ns,
        }
    }

    /// Waits as the lock beneath has it.
    #[inline]
    pub fn lock_immediately(&self) -> ReorderHeld<L::Held> {
        self.payoff.came();
        ReorderHeld::at_once(self.lock.lock())
    }

    /// Lets others pass for `window` at most, and for no longer than [`Reorderable::window_max`].
    /// With a window of 0 it waits in line at once.
    #[inline]
    pub fn lock_reorder(&self, window: Duration) -> ReorderHeld<L::Held> {
        self.lock_reorder_while(window, || true)
    }

    /// As [`Reorderable::lock_reorder`], but enters the queue as soon as `willing` returns false.
    /// It is called before each try to take the lock.
    ///
    /// ```
    /// use manx::lock::{Mcs, RawLock, Reorderable};
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::time::Duration;
    ///
    /// static URGENT: AtomicBool = AtomicBool::new(false);
    /// let lock = Reorderable::<Mcs>::new();
    /// let window = Duration::from_millis(1);
    /// let held = lock.lock_reorder_while(window, || !URGENT.load(Ordering::Relaxed));
    /// // SAFETY: held by this thread.
    /// unsafe { lock.unlock(held) };
    /// ```
    #[inline]
    pub fn lock_reorder_while(&self, window: Duration, willing: impl Fn() -> bool) -> ReorderHeld<L::Held> {
        self.lock_reorder_ns_while(duration_ns(window), willing)
    }

    /// As [`Reorderable::lock_reorder_while`], without a conversion: for [`super::Asl`], and for
    /// the package `workload`, which measures it.
    #[doc(hidden)]
    #[inline]
    pub fn lock_reorder_ns_while(&self, window_ns: u64, willing: impl Fn() -> bool) -> ReorderHeld<L::Held> {
        let window_ns = window_ns.min(self.window_ns_max());
        if window_ns == 0 {
            return ReorderHeld::at_once(self.lock.lock());
        }
        let stand_by =
            || self.payoff.stand_by(window_ns, || self.lock.is_locked(), || self.lock.try_lock(), willing);
        let had = if self.payoff.pays() { stand_by() } else { None };
        ReorderHeld { held: had.unwrap_or_else(|| self.lock.lock()), is_reordered: true }
    }
}

// SAFETY: exclusion and the order of memory are those of the lock beneath: whatever is returned
// came from its `lock` or `try_lock`, and goes back to its `unlock`. Nothing refers to where this
// lock is.
unsafe impl<L: RawLock> RawLock for Reorderable<L> {
    type Held = ReorderHeld<L::Held>;
    const NAME: &'static str = "reorderable";
    platform::initial! { L => Reorderable::over }

    #[inline]
    fn lock(&self) -> Self::Held {
        self.lock_immediately()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Held> {
        let held = self.lock.try_lock()?;
        self.payoff.came();
        Some(ReorderHeld::at_once(held))
    }

    #[inline]
    unsafe fn unlock(&self, held: Self::Held) {
        if held.is_reordered {
            // SAFETY: the contract is the same.
            let waited = unsafe { self.lock.unlock_and_look(held.held) };
            self.payoff.released(waited);
        } else {
            // SAFETY: the contract is the same.
            unsafe { self.lock.unlock(held.held) }
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}
