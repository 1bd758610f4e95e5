//! How many waiters may spin at once: a number that learns from how waits end.
//!
//! That the number of spinners tunes itself, in between a spin lock's "all" and a sleep lock's
//! "none", is the idea of Marotta, Tiriticco, Di Sanzo, Pellegrini, Ciciani and Quaglia, "Mutable
//! locks: Combining the best of spin and sleep locks" (Concurrency and Computation: Practice and
//! Experience 32(22), 2020; a preprint is arXiv:1906.00490). They tune it for a lock, by how its
//! hand-overs go: twice as many after a late sleeper, one less after some hand-overs without. The
//! rules here are for waits of any kind:
//!
//! | what happened | what follows |
//! | --- | --- |
//! | a sleeper was woken and found its wait over, and spinning would have been cheap ([`WORTH_NS`]) | twice as many may spin (1 instead of 0), at most one less than there are CPUs |
//! | the same, but the signal woke more than could ever spin | nothing: they were late for want of CPUs |
//! | a spinner spun for as long as a sleep costs, in vain | one less may spin, down to none |
//! | [`CALM_WAITS`] waits in a row ended without a late sleeper | one less may spin, down to one |
//!
//! By the second rule a spinner pays at most about what a sleep would have cost, which is never
//! worse than twice the best choice (Karlin, Li, Manasse and Owicki, 1991), and a window whose
//! spinners fail falls to none: a waiter for a thread that was preempted must not spin on.
//!
//! Invariant 1: `spinners` is the number of threads between a true [`Window::enter`] and their
//! [`Window::leave`]. The window itself is advice, read without order.

use platform::atomic::{AtomicU32, Ordering};
use platform::cpu;

/// What a sleep and a wake-up cost, and so how long spinning is worth it, in nanoseconds.
pub(super) const WORTH_NS: u64 = 50_000;
/// After this number of waits without a late sleeper, fewer may spin.
pub(super) const CALM_WAITS: u32 = 64;

/// How many may spin, and how many do.
#[derive(Debug)]
pub(super) struct Window {
    spinners: AtomicU32,
    size: AtomicU32,
    /// One less than the number of CPUs, and at least 1; 0 until it is needed first.
    size_max: AtomicU32,
    calm: AtomicU32,
}

impl Window {
    platform::const_fn! {
        /// One may spin.
        pub(super) const fn new() -> Self {
            Window {
                spinners: AtomicU32::new(0),
                size: AtomicU32::new(1),
                size_max: AtomicU32::new(0),
                calm: AtomicU32::new(0),
            }
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    pub(super) fn spinners(&self) -> u32 {
        self.spinners.load(Ordering::Relaxed)
    }

    /// Becomes a spinner, if there is room.
    pub(super) fn enter(&self) -> bool {
        let size = self.size();
        let more = |spinners| if spinners < size { Some(spinners + 1) } else { None };
        self.spinners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Is a spinner no longer.
    pub(super) fn leave(&self) {
        self.spinners.fetch_sub(1, Ordering::Relaxed);
    }

    /// A sleeper was woken that had better spun.
    #[cold]
    pub(super) fn sleeper_was_late(&self) {
        let size_max = self.size_max();
        let double = |size: u32| Some(size.saturating_mul(2).clamp(1, size_max));
        let _ = self.size.fetch_update(Ordering::Relaxed, Ordering::Relaxed, double);
        self.calm.store(0, Ordering::Relaxed);
    }

    /// A spinner gave up.
    #[cold]
    pub(super) fn spinner_failed(&self) {
        self.narrow(0);
    }

    /// A wait ended as it should.
    pub(super) fn wait_succeeded(&self) {
        if self.calm.fetch_add(1, Ordering::Relaxed) + 1 >= CALM_WAITS {
            self.calm.store(0, Ordering::Relaxed);
            self.narrow(1);
        }
    }

    fn narrow(&self, least: u32) {
        let less = |size: u32| if size > least { Some(size - 1) } else { None };
        let _ = self.size.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// How many may ever spin.
    pub(super) fn size_max(&self) -> u32 {
        match self.size_max.load(Ordering::Relaxed) {
            0 => {
                let others = u32::try_from(cpu::count().saturating_sub(1)).unwrap_or(u32::MAX).max(1);
                self.size_max.store(others, Ordering::Relaxed);
                others
            }
            known => known,
        }
    }
}
