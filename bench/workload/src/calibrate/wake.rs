//! What it takes to wake a thread that sleeps.
//!
//! The sleeper waits at a word. The waker knows that it is about to sleep, spins for a while,
//! changes the word and calls FUTEX_WAKE. Two times are taken: how long the call takes, and how
//! long after its beginning the sleeper runs its next instruction. A round counts only if the call
//! says that it woke a thread: otherwise the sleeper had not slept.
//!
//! *On another CPU* ([`of_idle`]) the sleeper's CPU is idle. The waker's call then may have an
//! interrupt in it that it sends there, and on a virtual machine the host sends that: it takes
//! longer than all the rest. *On the waker's own CPU* ([`beside`]) no interrupt is sent. The
//! sleeper is of the class SCHED_BATCH there, so that the kernel seldom lets it run before the call
//! returns. Where it has run by then, the call holds a turn of the sleeper, and the round does not
//! count.
//!
//! How deep an idle CPU sleeps depends on how long it has been idle: some guests poll for up to
//! 200 µs first. So two lengths are measured. The machine file has the short one: threads that wait
//! for a lock sleep for such times.
//!
//! The two clocks are the same counter on both CPUs, or the kernel's clock where the kernel does
//! not trust the counter.

use super::samples::{Samples, between_ns, elapsed_ns, pair};
use crate::error::Error;
use platform::{clock, cpu, futex, thread};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A short idle time, as waits for locks have.
pub const SHORT_NS: u64 = 10_000;
/// An idle time after which the CPU sleeps.
pub const LONG_NS: u64 = 2_000_000;

/// The measured quantity.
#[derive(Clone, Debug)]
pub struct Wakes {
    /// How long the waker's call takes, with one look at the clock
    pub call: Samples,
    /// From the beginning of the call until the sleeper looks at the clock
    pub until_run: Samples,
}

/// What the two threads share. A round is over when each word has its number.
struct Shared {
    /// The word at which the sleeper waits.
    word: AtomicU32,
    /// The sleeper is about to sleep.
    ready: AtomicU32,
    /// The sleeper has run, at `ran_at`.
    ran: AtomicU32,
    ran_at: AtomicU64,
    /// Both threads are on one CPU.
    is_shared: bool,
}

/// Wakes a thread on the CPU `cpus[1]` from `cpus[0]` for `rounds` rounds, each after it was idle
/// for `idle_ns`.
///
/// # Errors
/// If a thread may not run on one of them.
pub fn of_idle(cpus: [usize; 2], idle_ns: u64, rounds: u32) -> Result<Wakes, Error> {
    wakes(cpus, idle_ns, rounds)
}

/// Wakes a thread on the waker's own CPU for `rounds` rounds.
///
/// # Errors
/// If a thread may not run there.
pub fn beside(cpu: usize, rounds: u32) -> Result<Wakes, Error> {
    wakes([cpu; 2], SHORT_NS, rounds)
}

fn wakes(cpus: [usize; 2], idle_ns: u64, rounds: u32) -> Result<Wakes, Error> {
    let is_shared = cpus[0] == cpus[1];
    let zero = || AtomicU32::new(0);
    let shared = Shared { word: zero(), ready: zero(), ran: zero(), ran_at: AtomicU64::new(0), is_shared };
    let waker = || (1..=rounds).filter_map(|round| shared.wake(round, idle_ns)).collect::<Vec<_>>();
    let sleeper = || {
        if is_shared {
            seldom_preempt();
        }
        (1..=rounds).for_each(|round| shared.sleep(round));
    };
    let (woken, ()) = pair(cpus, waker, sleeper)?;
    let (call, until_run): (Vec<f64>, Vec<f64>) = woken.into_iter().unzip();
    Ok(Wakes { call: Samples::of(call), until_run: Samples::of(until_run) })
}

impl Shared {
    /// A round of the sleeper.
    fn sleep(&self, round: u32) {
        self.ready.store(round, Ordering::Release);
        while self.word.load(Ordering::Acquire) != round {
            futex::wait(&self.word, round - 1);
        }
        self.ran_at.store(clock::ticks(), Ordering::Relaxed);
        // Release: with it the waker sees the time.
        self.ran.store(round, Ordering::Release);
    }

    /// A round of the waker: its call and when the sleeper ran, if it woke it.
    fn wake(&self, round: u32, idle_ns: u64) -> Option<(f64, f64)> {
        self.await_round(&self.ready, round);
        let idle_until = clock::ticks() + clock::ns_to_ticks(idle_ns);
        while clock::ticks() < idle_until {
            cpu::pause();
        }
        self.word.store(round, Ordering::Release);
        let began = clock::ticks();
        let woken = futex::wake(&self.word, 1);
        let ended = clock::ticks();
        // Acquire is not needed: only whether it has run is asked here.
        let has_run = self.ran.load(Ordering::Relaxed) == round;
        self.await_round(&self.ran, round);
        let ran_at = self.ran_at.load(Ordering::Relaxed);
        let counts = woken == 1 && !(self.is_shared && has_run);
        counts.then(|| (between_ns(began, ended), between_ns(began, ran_at)))
    }

    fn await_round(&self, word: &AtomicU32, round: u32) {
        while word.load(Ordering::Acquire) != round {
            if self.is_shared {
                thread::yield_now();
            } else {
                cpu::pause();
            }
        }
    }
}

/// The calling thread seldom takes the CPU from another one when it wakes up. After a refusal it
/// does, and less rounds count.
fn seldom_preempt() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 stands for the calling thread; the kernel reads the parameters.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) };
}

// How late a short sleep ends.
//
// The kernel lets a sleep end late by the thread's timer slack, so that it can end several sleeps
// with one interrupt. Without other timers near, it ends at the end of the slack: what a sleep is
// late is the slack and the way from the timer's interrupt until the thread runs.

/// The length of a sleep.
const SLEEP_NS: u64 = 100_000;

/// How much longer than asked for each of `count` sleeps takes, with the thread's slack as it is.
pub fn sleeps(count: usize) -> Samples {
    let sleep = || {
        let began = clock::ticks();
        thread::sleep_ns(SLEEP_NS);
        elapsed_ns(began) - SLEEP_NS as f64
    };
    Samples::of((0..count).map(|_| sleep()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_ends_and_counts_once_at_most() {
        let cpus = crate::machine::cpus();
        if cpus.len() < 2 {
            return testing::skip("it takes two CPUs");
        }
        let count = |samples: &Samples| samples.summary().values["count"];
        for wakes in [of_idle([cpus[0], cpus[cpus.len() - 1]], 20_000, 50), beside(cpus[0], 50)] {
            let wakes = wakes.unwrap();
            assert!(count(&wakes.call) <= 50.0);
            assert_eq!(count(&wakes.call), count(&wakes.until_run));
        }
    }
}
