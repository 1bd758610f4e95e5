//! How late a waiter notices the flag, and the CPU time that the waiting costs.
//!
//! There are a waker and a waiter. In each round the waker works for the given time (it burns CPU,
//! so it could run), then raises the flag. The waiter waits for the flag in its peer's way, and
//! then reads the clock. Both threads stay on their CPUs. If both share one CPU, a waiter that does
//! not release it keeps the waker from finishing. That shows in [`Outcome::stretch`] and not in the
//! delay.
//!
//! Invariants:
//! 1. `raised` and `stamp` are written by the waker only, `seen` by the waiter only. Both count
//!    rounds, and neither thread gets more than a round ahead of the other.
//! 2. `stamp` is written before `raised` (release) and read after it (acquire), so it is of that
//!    round.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::waiting::Peer;
use platform::clock::thread_cpu_ns;
use workload::machine::{cpus, stay_on};

/// The placement of the two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each on a CPU of its own.
    Apart,
    /// Both on the same CPU.
    Together,
}

/// The figures of some rounds.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The median time until the waiter notices the raised flag.
    pub delay: Duration,
    /// The longest round, from the beginning of the waker's work until the waiter notices the flag.
    /// A median alone would hide the rounds in which the waiter kept the waker from working.
    pub longest: Duration,
    /// The waiter's CPU time over the time for which it waited; 1 is a whole CPU.
    pub burnt: f64,
    /// All rounds together, as a multiple of the work in them.
    pub stretch: f64,
}

/// One round as the waiter saw it; the times are since the beginning of the measurement.
struct Round {
    begin: Duration,
    end: Duration,
    raised: Duration,
    cpu: Duration,
}

/// Runs `rounds` rounds with a waker that works for `work` in each.
///
/// # Errors
/// The threads cannot be placed like this.
///
/// # Panics
/// If `rounds` is 0.
pub fn measure(peer: Peer, work: Duration, place: Place, rounds: usize) -> Result<Outcome, String> {
    assert!(rounds > 0, "no rounds, no median");
    let cpus = cpus();
    let first = *cpus.first().ok_or("no CPU is allowed")?;
    let second = match place {
        Place::Together => first,
        Place::Apart => *cpus.get(1).ok_or("two CPUs are needed to wait apart")?,
    };
    let (raised, stamp, seen) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let zero = Instant::now();
    thread::scope(|scope| {
        let waker = scope.spawn(|| {
            let placed = stay_on(first);
            let begins: Vec<Duration> = (1..=rounds as u64)
                .map(|round| {
                    let begin = zero.elapsed();
                    while zero.elapsed() - begin < work {}
                    stamp.store(zero.elapsed().as_nanos() as u64, Ordering::Relaxed);
                    raised.store(round, Ordering::Release); // Invariant 2
                    // Acquire orders only the rounds. The waiter may need this CPU to go on.
                    while seen.load(Ordering::Acquire) != round {
                        thread::yield_now();
                    }
                    begin
                })
                .collect();
            placed.map(|()| begins)
        });
        let waiter = scope.spawn(|| {
            let placed = stay_on(second);
            let seen_rounds: Vec<Round> = (1..=rounds as u64)
                .map(|round| {
                    let (begin, cpu) = (zero.elapsed(), thread_cpu_ns());
                    (peer.until)(&|| raised.load(Ordering::Acquire) == round); // Invariant 2
                    let (end, cpu) = (zero.elapsed(), Duration::from_nanos(thread_cpu_ns() - cpu));
                    let raised = Duration::from_nanos(stamp.load(Ordering::Relaxed));
                    // Release: pairs with the waker's Acquire; `stamp` has been read.
                    seen.store(round, Ordering::Release);
                    Round { begin, end, raised, cpu }
                })
                .collect();
            placed.map(|()| seen_rounds)
        });
        let begins = waker.join().map_err(|_| "the waker panicked")??;
        let rounds = waiter.join().map_err(|_| "the waiter panicked")??;
        Ok(summarise(&begins, &rounds, work))
    })
}

fn summarise(begins: &[Duration], rounds: &[Round], work: Duration) -> Outcome {
    let lengths = || begins.iter().zip(rounds).map(|(begin, round)| round.end - *begin);
    let waited: Duration = rounds.iter().map(|round| round.end - round.begin).sum();
    let cpu: Duration = rounds.iter().map(|round| round.cpu).sum();
    let delays = rounds.iter().map(|round| round.end.saturating_sub(round.raised).as_secs_f64());
    Outcome {
        delay: Duration::from_secs_f64(median(delays)),
        longest: lengths().max().unwrap_or_default(),
        burnt: cpu.as_secs_f64() / waited.as_secs_f64(),
        stretch: lengths().sum::<Duration>().as_secs_f64() / (work.as_secs_f64() * rounds.len() as f64),
    }
}

/// The middle value, the lower one of two.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::PEERS;

    #[test]
    fn the_middle_is_the_lower_of_two() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.0);
    }

    #[test]
    fn a_round_is_put_together_from_both_sides() {
        let us = Duration::from_micros;
        let quick = Round { begin: us(90), end: us(130), raised: us(120), cpu: us(20) };
        let slow = Round { begin: us(190), end: us(250), raised: us(210), cpu: us(30) };
        let outcome = summarise(&[us(100), us(200)], &[quick, slow], us(10));
        assert_eq!((outcome.delay, outcome.longest), (us(10), us(50)));
        assert!((outcome.burnt - 0.5).abs() < 1e-9 && (outcome.stretch - 4.0).abs() < 1e-9, "{outcome:?}");
    }

    #[test]
    fn every_peer_completes_its_rounds_on_one_cpu() {
        for peer in PEERS {
            let outcome = measure(peer, Duration::from_micros(10), Place::Together, 5).unwrap();
            // The work alone takes its time, whatever the machine does.
            assert!(outcome.stretch >= 1.0, "{}: {outcome:?}", peer.name);
        }
    }
}
