//! How late a waiter notices that its wait is over, and what it burns until then, for each policy
//! of `manx::wait`.
//!
//! One thread, the *signaller*, makes a condition true; `waiters` others wait for it by one policy.
//! A round:
//!
//! 1. The waiters say that they have arrived, and begin to wait. The signaller waits for all of
//!    them.
//! 2. The signaller lets `wait_ns` pass: by working if that is short ([`WORK_NS_MAX`]; a critical
//!    section somewhere else), by sleeping if it is long (a device, a lock behind a device).
//! 3. It reads the clock, makes the condition true, and signals where the policy wants it.
//! 4. Each waiter reads the clock as soon as it sees the condition. The difference is a *delay*:
//!    time in which the waiter could have gone on.
//!
//! All threads share the same [`CPUS`] CPUs, so with eight waiters most of them cannot run when
//! their wait ends, and a policy that burns CPU delays the signaller's next round too, which shows
//! in `rounds`. Delays are all kept: with more threads than CPUs a percentile alone hides which
//! threads starve.

use manx::wait::{Adaptive, Event, FixedSleep, Mutable, Policy, Spin, Yield};
use platform::atomic::{AtomicU64, Ordering};
use platform::{clock, cpu, thread};
use report::Histogram;
use std::sync::Arc;
use std::time::Duration;

/// How many CPUs the threads share.
pub const CPUS: usize = 2;
/// Waits of up to this length are worked through, longer ones are slept through, in nanoseconds.
pub const WORK_NS_MAX: u64 = 20_000;
/// The lengths of waits to measure, in nanoseconds.
pub const WAITS_NS: [u64; 6] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// The numbers of waiters to measure.
pub const WAITERS: [usize; 3] = [1, 2, 8];
/// How long [`WaitPolicy::Sleep`] sleeps, in nanoseconds.
pub const SLEEP_NS: u64 = 100_000;

contention::named! {
    /// The policies, with their defaults.
    pub enum WaitPolicy {
        /// `Spin`
        Spin = "spin",
        /// `Yield`
        Yield = "yield",
        /// `FixedSleep` of [`SLEEP_NS`]
        Sleep = "sleep",
        /// `Adaptive::DEFAULT`
        Adaptive = "adaptive",
        /// `Event`: spins shortly and parks
        Park = "park",
        /// `Mutable`
        Mutable = "mutable",
    }
}

/// The measured quantity.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Every delay: one for each waiter and round.
    pub delays: Histogram,
    /// The CPU time that the waiters used while they waited, all together, in nanoseconds.
    pub cpu_ns: u64,
    /// The time that the waiters waited, all together, in nanoseconds.
    pub wall_ns: u64,
    /// How many rounds there was time for.
    pub rounds: u64,
}

impl Measurement {
    /// How much of a CPU a waiter burnt while it waited, from 0 to 1 (and a little more, as clocks
    /// go).
    pub fn cpu_share(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.cpu_ns as f64 / self.wall_ns as f64 }
    }
}

/// Measures waits of `wait_ns` nanoseconds by `policy`, with `waiters` threads (at least 1), for at
/// most `rounds` rounds, and for no longer than about `limit_ns` nanoseconds and the round in
/// progress. There is always at least one round.
///
/// The calling thread only waits for the result; its CPUs and scheduling stay as they are.
///
/// ```
/// use workload::waits::{WaitPolicy, measure};
///
/// let measured = measure(WaitPolicy::Park, 1_000, 2, 10, 1_000_000_000);
/// assert_eq!(measured.delays.count(), 2 * measured.rounds);
/// ```
pub fn measure(policy: WaitPolicy, wait_ns: u64, waiters: usize, rounds: u64, limit_ns: u64) -> Measurement {
    let plan = Plan { wait_ns, waiters: waiters.max(1), rounds: rounds.max(1), limit_ns };
    match policy {
        WaitPolicy::Spin => plan.run(Spin, |_| ()),
        WaitPolicy::Yield => plan.run(Yield, |_| ()),
        WaitPolicy::Sleep => plan.run(FixedSleep::new(Duration::from_nanos(SLEEP_NS)), |_| ()),
        WaitPolicy::Adaptive => plan.run(Adaptive::DEFAULT, |_| ()),
        WaitPolicy::Park => plan.run(Event::new(), Event::signal_all),
        WaitPolicy::Mutable => plan.run(Mutable::new(), Mutable::signal_all),
    }
}

#[derive(Clone, Copy)]
struct Plan {
    wait_ns: u64,
    waiters: usize,
    rounds: u64,
    limit_ns: u64,
}

/// What the threads share. A round is over when `finished` reaches its number, counted from 1.
struct Shared<P> {
    policy: P,
    finished: AtomicU64,
    /// The round's condition became true at this time; written before `finished`.
    finished_ns: AtomicU64,
    /// Arrivals of all waiters in all rounds.
    arrived: AtomicU64,
}

/// In `finished`: there will be no more rounds.
const NO_MORE: u64 = u64::MAX;

impl Plan {
    fn run<P: Policy + Send + Sync + 'static>(self, policy: P, signal: fn(&P)) -> Measurement {
        let signaller = thread::spawn_punctual(move || {
            cpu::restrict(CPUS);
            let zero = || AtomicU64::new(0);
            let shared = Shared { policy, finished: zero(), finished_ns: zero(), arrived: zero() };
            let shared = Arc::new(shared);
            let waiters: Vec<_> = (0..self.waiters)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || shared.wait())
                })
                .collect();
            let rounds = self.signal(&shared, signal);
            let mut all = Measurement { rounds, ..Measurement::default() };
            for waiter in waiters {
                let one = waiter.join().expect("a waiter cannot fail");
                all.delays.merge(&one.delays);
                all.cpu_ns += one.cpu_ns;
                all.wall_ns += one.wall_ns;
            }
            all
        });
        signaller.join().expect("the signaller cannot fail")
    }

    fn signal<P>(self, shared: &Shared<P>, signal: fn(&P)) -> u64 {
        let began_ns = clock::now_ns();
        let mut round = 0;
        loop {
            while shared.arrived.load(Ordering::Acquire) < (round + 1) * self.waiters as u64 {
                thread::yield_now();
            }
            let over = round == self.rounds || clock::now_ns() - began_ns >= self.limit_ns;
            if over && round > 0 {
                shared.finished.store(NO_MORE, Ordering::Release);
                signal(&shared.policy);
                return round;
            }
            self.let_it_wait();
            round += 1;
            shared.finished_ns.store(clock::now_ns(), Ordering::Relaxed);
            shared.finished.store(round, Ordering::Release);
            signal(&shared.policy);
        }
    }

    fn let_it_wait(self) {
        if self.wait_ns > WORK_NS_MAX {
            thread::sleep_ns(self.wait_ns);
            return;
        }
        let began_ns = clock::now_ns();
        while clock::now_ns() - began_ns < self.wait_ns {
            cpu::pause();
        }
    }
}

impl<P: Policy> Shared<P> {
    fn wait(&self) -> Measurement {
        let mut mine = Measurement::default();
        for round in 1.. {
            let (began_ns, began_cpu_ns) = (clock::now_ns(), clock::thread_cpu_ns());
            self.arrived.fetch_add(1, Ordering::Release);
            self.policy.until(|| self.finished.load(Ordering::Acquire) >= round);
            let seen_ns = clock::now_ns();
            let cpu_ns = clock::thread_cpu_ns() - began_cpu_ns;
            if self.finished.load(Ordering::Acquire) == NO_MORE {
                break;
            }
            // The next round cannot have ended before this thread arrives in it, so the time is
            // this round's.
            mine.delays.record(seen_ns.saturating_sub(self.finished_ns.load(Ordering::Relaxed)));
            mine.cpu_ns += cpu_ns;
            mine.wall_ns += seen_ns - began_ns;
        }
        mine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_measured_with_every_number_of_waiters() {
        for policy in WaitPolicy::ALL {
            for waiters in WAITERS {
                let measured = measure(policy, 1_000, waiters, 5, 50_000_000);
                assert!((1..=5).contains(&measured.rounds), "{policy:?}");
                assert_eq!(measured.delays.count(), measured.rounds * waiters as u64);
                assert!(measured.wall_ns > 0);
            }
        }
    }

    #[test]
    fn a_round_takes_as_long_as_its_wait() {
        for wait_ns in [WORK_NS_MAX, 2_000_000] {
            let measured = measure(WaitPolicy::Park, wait_ns, 1, 3, u64::MAX);
            assert_eq!(measured.rounds, 3);
            // Arrival is after the first look at the clock, so a wait is never shorter.
            assert!(measured.wall_ns >= 3 * wait_ns, "{measured:?}");
        }
    }

    #[test]
    fn time_limits_rounds_but_one() {
        let measured = measure(WaitPolicy::Adaptive, 100, 1, u64::MAX, 0);
        assert_eq!((measured.rounds, measured.delays.count()), (1, 1));
    }
}
