//! Slow cores on a machine that has none: `dilate=RATIO`.
//!
//! What a lock does on cores of two speeds can be measured where all are alike if the threads of
//! some take longer for everything. A program that we cannot change is made to, between its calls:
//! when a thread of a little CPU is about to lock or to unlock, it first burns (ratio − 1) times
//! the CPU time that it has used since its last such call returned. So both its critical sections
//! and the time between them are as long as a slow core would make them, whatever the lock: also
//! the C library's own. Waiting for a lock is not stretched.
//!
//! The time since the last call is one on the clock if it is short. A longer one may have been
//! slept through, or the thread may have been preempted; then the kernel is asked for how long it
//! ran. That is a system call; so the time that it ran is summed from the short ones, and the
//! kernel's figure is refreshed now and then.
//!
//! A call is stretched in `stretch`: calls that find the mode undecided come there
//! ([`mode`](crate::lock::mode)).
//!
//! What is not seen: the memory and the caches are as fast as ever, and a thread that takes no
//! locks is not slowed.

use crate::settings::settings;
use core::cell::Cell;
use manx::cpu::{Class, class_of_this_cpu};
use platform::clock::{ns_to_ticks, ticks, ticks_to_ns};
use platform::cpu;

/// A time as short as this was not slept through.
const SHORT_NS: u64 = 20_000;
/// After this much summed time the kernel is asked again.
const REFRESH_NS: u64 = 1_000_000;

/// What is remembered of a thread; all-zero to begin with.
#[derive(Debug, Default)]
#[repr(C)]
pub struct DilationState {
    /// When its last call returned, in ticks; 0: there was none.
    left_ticks: Cell<u64>,
    /// The CPU time that it had used when the kernel was asked last …
    ran_ns: Cell<u64>,
    /// … and what has come to it since.
    since_ns: Cell<u64>,
}

/// A call of the program, from when it has paid for what it did until then to its return, or to
/// where a cancelled thread is unwound.
struct Call<'a> {
    past: &'a DilationState,
    entered_ticks: u64,
}

impl Drop for Call<'_> {
    /// Starts the thread's time anew: what the call itself took is not charged to it.
    fn drop(&mut self) {
        let Call { past, entered_ticks } = *self;
        let now_ticks = ticks();
        let passed_ns = ticks_to_ns(now_ticks.wrapping_sub(entered_ticks));
        if passed_ns < SHORT_NS && past.ran_ns.get() != 0 && past.since_ns.get() < REFRESH_NS {
            past.since_ns.set(past.since_ns.get() + passed_ns);
        } else {
            refresh(past);
        }
        past.left_ticks.set(now_ticks);
    }
}

/// Whether threads on little CPUs are to be slowed. Known once the options have been read.
pub(super) fn is_wanted() -> bool {
    settings().dilate > 1000
}

/// Does what the program has called for. Before that the calling thread, whose `past` this is, pays
/// for the time since its last call, if it is to be slowed.
#[cold]
pub fn stretch<R>(past: &DilationState, call: impl FnOnce() -> R) -> R {
    let _call = is_wanted().then(|| Call { past, entered_ticks: pay(past) });
    call()
}

fn pay(past: &DilationState) -> u64 {
    let now_ticks = ticks();
    let left_ticks = past.left_ticks.get();
    if left_ticks == 0 || class_of_this_cpu() == Class::Big {
        return now_ticks;
    }
    let passed_ns = ticks_to_ns(now_ticks.wrapping_sub(left_ticks));
    let ran_ns = if passed_ns < SHORT_NS {
        past.since_ns.set(past.since_ns.get() + passed_ns);
        passed_ns
    } else {
        let before_ns = past.ran_ns.get() + past.since_ns.get();
        refresh(past);
        past.ran_ns.get().saturating_sub(before_ns).min(passed_ns)
    };
    let thousandths = u64::from(settings().dilate);
    let burnt_ns = ran_ns * thousandths.saturating_sub(1000) / 1000;
    past.since_ns.set(past.since_ns.get() + burnt_ns);
    // A handler that interrupts this and locks is not charged for it.
    past.left_ticks.set(0);
    consume_cpu(now_ticks, burnt_ns)
}

/// Burns `ns` nanoseconds of CPU time; returns when that was done, in ticks.
fn consume_cpu(from_ticks: u64, ns: u64) -> u64 {
    let short_ticks = ns_to_ticks(SHORT_NS);
    let (mut end_ticks, mut last_ticks) = (from_ticks.wrapping_add(ns_to_ticks(ns)), from_ticks);
    loop {
        let now_ticks = ticks();
        let gap_ticks = now_ticks.wrapping_sub(last_ticks);
        if gap_ticks > short_ticks {
            // Others ran.
            end_ticks = end_ticks.wrapping_add(gap_ticks);
        }
        if end_ticks.wrapping_sub(now_ticks) as i64 <= 0 {
            return now_ticks;
        }
        last_ticks = now_ticks;
        cpu::pause();
    }
}

/// Asks the kernel how long the thread has run.
fn refresh(past: &DilationState) {
    past.ran_ns.set(platform::clock::thread_cpu_ns());
    past.since_ns.set(0);
}
