//! Runs threads by a [`Pattern`], and records what the scheduler does to them.
//!
//! Each thread is bound to its CPU and keeps its own times. A thread that works looks at the clock
//! all the time: two looks that are further apart than `GAP_NS` had another thread in between.

use crate::workers::{Phases, run_on};
use contention::schedule::Pattern;
use platform::atomic::{AtomicU32, Ordering};
use platform::clock::now_ns;
use platform::{futex, thread};
use report::Histogram;
use std::time::Duration;

/// Shorter times between two looks are interrupts and other noise.
pub const GAP_NS: u64 = 200_000;
/// The nice value of a thread that is to get less.
const NICE: i32 = 5;

/// The times of both threads together. `cpus` are two CPUs; a pattern for one takes the first. Each
/// thread calls `joins` before it begins.
///
/// # Errors
/// A CPU on which no thread may be, or a thread that panicked.
pub fn measure(
    pattern: Pattern,
    cpus: [usize; 2],
    time: Duration,
    joins: impl Fn() -> Result<(), String> + Sync,
) -> Result<Histogram, String> {
    let cpus = if pattern.is_apart() { cpus } else { [cpus[0]; 2] };
    let turn = AtomicU32::new(0);
    let outcome = run_on(
        &cpus,
        2,
        time,
        || {},
        |index, phases| {
            if pattern == Pattern::Nice && index == 1 {
                set_nice(NICE);
            }
            let joined = joins();
            phases.begin();
            joined?;
            Ok(match pattern {
                Pattern::Turns | Pattern::Nice | Pattern::Quota | Pattern::NearQuota => gaps(phases),
                Pattern::Yields => yields(phases),
                Pattern::Near | Pattern::Far => rounds(phases, &turn, index as u32),
            })
        },
    )?;
    Ok(outcome.records.into_iter().sum())
}

fn gaps(phases: &Phases) -> Histogram {
    let mut times = Histogram::new();
    let mut before_ns = now_ns();
    while let Some(counts) = phases.next() {
        let ns = now_ns();
        if counts && ns - before_ns > GAP_NS {
            times.record(ns - before_ns);
        }
        before_ns = ns;
    }
    times
}

fn yields(phases: &Phases) -> Histogram {
    let mut times = Histogram::new();
    while let Some(counts) = phases.next() {
        let before_ns = now_ns();
        thread::yield_now();
        let ns = now_ns() - before_ns;
        if counts {
            times.record(ns);
        }
    }
    times
}

/// The threads have the turn one after the other; a thread whose turn it is not sleeps.
fn rounds(phases: &Phases, turn: &AtomicU32, own: u32) -> Histogram {
    let mut times = Histogram::new();
    let mut before_ns = now_ns();
    loop {
        while turn.load(Ordering::Acquire) & 1 != own {
            futex::wait(turn, 1 - own);
        }
        let ns = now_ns();
        let Some(counts) = phases.next() else { break };
        if counts {
            times.record(ns - before_ns);
        }
        before_ns = ns;
        turn.store(1 - own, Ordering::Release);
        futex::wake(turn, 1);
    }
    // The other one may sleep: it sees the end when it has the turn.
    turn.store(1 - own, Ordering::Release);
    futex::wake(turn, 1);
    times
}

platform::os_only! {
    fn set_nice(nice: i32) {
        // SAFETY: 0 stands for the calling thread, as Linux has it. A refusal leaves it as it is.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    }
}
platform::twins_only! {
    use platform::thread::set_nice;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_ends_and_has_times() {
        for pattern in Pattern::ALL {
            // No pattern needs a second CPU to end.
            let times = measure(pattern, [0, 0], Duration::from_millis(60), || Ok(())).unwrap();
            // Turns may be longer than the run.
            let has_rounds = matches!(pattern, Pattern::Yields | Pattern::Near | Pattern::Far);
            assert!(times.count() > 0 || !has_rounds, "{pattern:?}");
        }
    }
}
