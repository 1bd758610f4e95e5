//! Time: a virtual clock that starts with each execution and that chance moves.
//!
//! A look at the clock takes a little while, and once in [`JUMP_ONCE_IN`] the thread is away from
//! its CPU for up to [`JUMP_NS_MAX`] first: long enough for every limit in the algorithms to pass
//! between any two steps. A sleep or a timeout that ends moves the clock to its end at least. So
//! limits are reached in any order, and no second is really waited for.
//!
//! Invariant 1: the clock never goes back, and who slept until a time sees that time or a later
//! one.

use crate::chance;
pub use crate::clocks::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
/// How much time passes between two looks.
const LOOK_NS: u64 = 10;
/// One look in this number comes late.
const JUMP_ONCE_IN: u64 = 4;
/// How late it comes at most: more than spinning is ever worth.
const JUMP_NS_MAX: u64 = 100_000;

// The standard library's atomic: time is no step that others could come before.
crate::global! {
    static NOW_NS: AtomicU64 = AtomicU64::new(SECOND_NS);
}

/// Nanoseconds of a clock that never steps back.
pub fn now_ns() -> u64 {
    let late_ns = if chance::once_in(JUMP_ONCE_IN) { chance::below(JUMP_NS_MAX) } else { 0 };
    let took_ns = LOOK_NS + late_ns;
    NOW_NS.fetch_add(took_ns, Ordering::Relaxed).saturating_add(took_ns)
}

/// The time that [`now_ns`] will not return any more; takes none.
pub(crate) fn last_ns() -> u64 {
    NOW_NS.load(Ordering::Relaxed)
}

/// It is at least this late.
pub(crate) fn reach(time_ns: u64) {
    NOW_NS.fetch_max(time_ns, Ordering::Relaxed);
}

/// Sleeps until the clock is `ns` nanoseconds further; how much the others do meanwhile is open.
pub(crate) fn sleep(ns: u64) {
    let until_ns = last_ns().saturating_add(ns);
    crate::thread::yield_now();
    reach(until_ns);
}
