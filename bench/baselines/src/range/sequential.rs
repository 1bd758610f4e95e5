//! The fence that a sequentially consistent read-modify-write makes unnecessary.
//!
//! Dekker's pattern asks that a thread's write stands before its next load in one order that all
//! agree on. On the machine a sequentially consistent read-modify-write followed by a sequentially
//! consistent load is enough, and on x86-64 it costs nothing beyond the read-modify-write, where a
//! fence would cost as much again. The model checkers take such accesses as acquire and release,
//! and know fences only; so there, and only there, a fence stands in between.

platform::os_only! {
    /// Orders a sequentially consistent read-modify-write before a sequentially consistent load:
    /// nothing to do.
    #[inline(always)]
    pub(super) const fn after_rmw() {}
}

platform::twins_only! {
    /// Orders a sequentially consistent read-modify-write before a sequentially consistent load.
    pub(super) fn after_rmw() {
        platform::atomic::fence(platform::atomic::Ordering::SeqCst);
    }
}
