//! Two threads that want one CPU all the time: how long a turn is, and what a yield gives away.
//!
//! *Turns.* Each thread looks at the clock all the time. A jump of more than [`GAP_NS`] means that
//! it did not run in between. A turn is the time between two jumps. The kernel ends a turn at a
//! tick after the slice is used up, so a turn is a slice, rounded up to whole ticks.
//!
//! *Yields.* One thread works, the other one yields all the time. If a yield gives up the rest of
//! the slice (Linux 6.18), a yielder pays for a slice with each yield: it hardly gets any CPU time.
//! If a yield only asks for a later turn (6.6 to 6.17), the scheduler still owes the yielder its
//! half, and gives it. The two shares are so far apart that noise cannot make one the other.

use super::samples::{Samples, between_ns, pair};
use crate::error::Error;
use platform::{clock, thread};

/// How long the threads go on, in nanoseconds.
const TIME_NS: u64 = 300_000_000;
/// A thread that does not look at the clock for longer does not run, in nanoseconds.
const GAP_NS: f64 = 100_000.0;

/// The lengths of turns of two busy threads on this CPU.
///
/// # Errors
/// If a thread may not run there.
pub fn turns(cpu: usize) -> Result<Samples, Error> {
    let (one, other) = pair([cpu; 2], looks, looks)?;
    Ok(Samples::of(one.into_iter().chain(other)))
}

fn looks() -> Vec<f64> {
    let end = clock::ticks() + clock::ns_to_ticks(TIME_NS);
    turns_of(std::iter::from_fn(|| Some(clock::ticks()).filter(|now| *now < end)))
}

/// The turns in a series of looks at the clock, in nanoseconds. The first and the last one are not
/// whole.
fn turns_of(looks: impl Iterator<Item = u64>) -> Vec<f64> {
    let (mut turns, mut began, mut last) = (Vec::new(), None, None);
    for now in looks {
        if let Some(last) = last.filter(|last| between_ns(*last, now) > GAP_NS) {
            turns.extend(began.replace(now).map(|began| between_ns(began, last)));
        }
        last = Some(now);
    }
    turns
}

/// The share of the CPU time that a thread gets that yields all the time, beside one that works: 0
/// to 1.
///
/// # Errors
/// If a thread may not run there.
pub fn yielders_share(cpu: usize) -> Result<f64, Error> {
    let yields = || cpu_time_of(thread::yield_now);
    let works = || cpu_time_of(|| ());
    let (yielder_ns, worker_ns) = pair([cpu; 2], yields, works)?;
    Ok(yielder_ns as f64 / (yielder_ns + worker_ns) as f64)
}

/// The CPU time of a thread that does this again and again, in nanoseconds.
fn cpu_time_of(act: impl Fn()) -> u64 {
    let began_ns = clock::thread_cpu_ns();
    let end = clock::ticks() + clock::ns_to_ticks(TIME_NS);
    while clock::ticks() < end {
        act();
    }
    clock::thread_cpu_ns() - began_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_between_two_jumps_of_the_clock() {
        clock::init();
        let ticks = |us: u64| clock::ns_to_ticks(us * 1000);
        let looks = [0, 50, 1000, 1050, 1100, 3000, 3010].map(ticks);
        let turns = turns_of(looks.into_iter());
        assert_eq!(turns.len(), 1, "the first and the last are not whole: {turns:?}");
        assert!((turns[0] - 100_000.0).abs() < 1_000.0, "{turns:?}");
        assert!(turns_of([].into_iter()).is_empty());
    }
}
