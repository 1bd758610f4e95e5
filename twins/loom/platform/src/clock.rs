//! Time: a counter of nanoseconds that starts with each execution and moves by a little when
//! somebody looks, and by the length of each sleep.
//!
//! It is the same in every replay of an execution, which loom needs, and no algorithm may lean on
//! more than that it never goes back.

pub use crate::clocks::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
/// How much time passes between two looks.
const LOOK_NS: u64 = 10;

// The standard library's atomic: time is no step that loom should try in every order.
crate::global! {
    static NOW_NS: AtomicU64 = AtomicU64::new(SECOND_NS);
}

/// Nanoseconds of a clock that never steps back.
pub fn now_ns() -> u64 {
    advance(LOOK_NS)
}

/// Lets time pass.
fn advance(ns: u64) -> u64 {
    NOW_NS.fetch_add(ns, Ordering::Relaxed).saturating_add(ns)
}

/// Sleeps: others go first.
pub(crate) fn sleep(ns: u64) {
    advance(ns);
    crate::checker::thread::yield_now();
}
