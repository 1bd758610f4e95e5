//! Threads that stay on one CPU each while they measure.
//!
//! Without that the kernel moves threads, and a figure is about no particular CPU. Two threads
//! begin only when both are where they belong: a thread whose partner was refused its CPU would
//! wait for it forever.

use crate::error::Error;
use crate::machine::stay_on;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const REFUSED: &str = "run it where it may choose its CPUs";

/// What `measure` returns, on this CPU.
///
/// # Errors
/// If the thread may not run there.
pub fn alone<T: Send>(cpu: usize, measure: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let run = || stay_on(cpu).map(|()| measure());
    thread::scope(|scope| scope.spawn(run).join())
        .expect("what is measured does not panic")
        .map_err(|why| Error::request(why, REFUSED))
}

/// What two threads return, each on its CPU; they begin together.
///
/// # Errors
/// If one of them may not run there; then neither runs.
pub fn pair<A: Send, B: Send>(
    cpus: [usize; 2],
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> Result<(A, B), Error> {
    let (barrier, is_refused) = (Barrier::new(2), AtomicBool::new(false));
    let begin = |cpu| {
        let stays = stay_on(cpu);
        // Relaxed: the barrier orders it.
        is_refused.fetch_or(stays.is_err(), Ordering::Relaxed);
        barrier.wait();
        stays.and_then(|()| match is_refused.load(Ordering::Relaxed) {
            true => Err(format!("CPU {cpu}: its partner was refused")),
            false => Ok(()),
        })
    };
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| begin(cpus[0]).map(|()| one()));
        let other = scope.spawn(|| begin(cpus[1]).map(|()| other()));
        (one.join(), other.join())
    });
    let both = one.expect("it does not panic").and_then(|one| Ok((one, other.expect("nor does this")?)));
    both.map_err(|why| Error::request(why, REFUSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::cpus;

    /// No machine has it.
    const NOWHERE: usize = 1023;

    #[test]
    fn threads_run_where_they_are_put() {
        let all = cpus();
        let (first, last) = (all[0], *all.last().unwrap());
        assert_eq!(alone(last, cpus).unwrap(), [last]);
        assert_eq!(pair([first, last], cpus, cpus).unwrap(), (vec![first], vec![last]));
    }

    #[test]
    fn if_one_is_refused_neither_runs() {
        let first = cpus()[0];
        assert!(alone(NOWHERE, || panic!("it runs")).is_err());
        for cpus in [[first, NOWHERE], [NOWHERE, first]] {
            let refused = pair(cpus, || panic!("it runs"), || panic!("it runs"));
            assert!(matches!(refused, Err(Error::Request { .. })));
        }
    }
}
