//! Whether CPUs are short for the threads of this process: what makes a wait that spins sleep instead.
//!
//! One word says until when they are taken to be short. A thread that spins reads its own clock now and then. If two
//! readings are far apart, the thread was preempted in between, so another thread wanted its CPU: CPUs are short
//! for a while. The option `short` says it instead, for tests.
//!
//! # Memory orderings
//! Relaxed throughout: the word is a hint and orders nothing.

use crate::settings;
use core::sync::atomic::{AtomicU64, Ordering};
use platform::clock::ns_to_ticks;
use preload_abi::options::Short;

/// A gap between two readings as long as this is a preemption, not an interrupt.
const GAP_NS: u64 = 1_000_000;
/// For how long CPUs are taken to be short after a preemption.
const MEMORY_NS: u64 = 100_000_000;

/// Until when CPUs are short, in ticks; `u64::MAX`: for ever.
static SHORT_UNTIL_TICKS: AtomicU64 = AtomicU64::new(0);

/// Takes over the option `short`.
pub fn prepare() {
    if settings::short() == Short::Always {
        SHORT_UNTIL_TICKS.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Whether CPUs are short: one relaxed load.
#[inline]
pub fn is_short(now_ticks: u64) -> bool {
    SHORT_UNTIL_TICKS.load(Ordering::Relaxed) > now_ticks
}

/// A look by a thread that has been spinning since `_began_ticks`, and whose previous reading of the clock was `last_ticks`.
/// Returns whether CPUs are short.
#[cold]
pub fn look(_began_ticks: u64, last_ticks: u64, now_ticks: u64) -> bool {
    let preempted = now_ticks.saturating_sub(last_ticks) > ns_to_ticks(GAP_NS);
    if preempted && settings::short() == Short::Auto {
        SHORT_UNTIL_TICKS.store(now_ticks.saturating_add(ns_to_ticks(MEMORY_NS)), Ordering::Relaxed);
    }
    is_short(now_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_in_the_clock_is_remembered_for_a_while() {
        let now_ticks = ns_to_ticks(1 << 40);
        assert!(!look(0, now_ticks - ns_to_ticks(GAP_NS / 2), now_ticks));
        assert!(look(0, now_ticks - ns_to_ticks(GAP_NS * 2), now_ticks));
        assert!(is_short(now_ticks + ns_to_ticks(MEMORY_NS / 2)));
        assert!(!is_short(now_ticks + ns_to_ticks(MEMORY_NS * 2)));
        SHORT_UNTIL_TICKS.store(0, Ordering::Relaxed);
    }
}
