//! When a thread that releases a contended lock lets others run.
use core::cell::Cell;

/// What the lock remembers of each thread; all-zero to begin with.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Thread {
    /// When the thread last gave its CPU away, in ticks.
    pub(super) began_ticks: Cell<u64>,
    /// How long it may run before it gives its CPU away again, in ticks.
    pub(super) slice_ticks: Cell<u64>,
    /// Acquisitions since then that were not free at once.
    pub(super) contentions: Cell<u32>,
    pub(super) reserved: Cell<u32>,
    pub(super) more: Cell<u64>,
}

impl Thread {
    platform::const_fn! {
        /// A thread that has not waited yet.
        pub const fn new() -> Thread {
            Thread {
                began_ticks: Cell::new(0),
                slice_ticks: Cell::new(0),
                contentions: Cell::new(0),
                reserved: Cell::new(0),
                more: Cell::new(0),
            }
        }
    }

    pub(super) fn met_contention(&self) {
        self.contentions.set(self.contentions.get().wrapping_add(1));
    }

    pub(super) fn slept(&self) {}
}

pub(super) fn maybe_yield(_thread: &Thread) {}
