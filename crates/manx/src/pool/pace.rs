//! Pacing: jobs begin only as fast as the quota pays for them.
//!
//! A group that has used up its quota is stopped, all its threads together, in the middle of
//! whatever they do, until the next period begins: with a quota of half a CPU, for 50 of 100 ms. A
//! count of workers does not help below one CPU, and gives away what lies between two counts above
//! it. So a worker asks, between two jobs, whether the process is ahead of its quota, and if so it
//! sleeps for as long as it is ahead. The same time is lost, but no job is stopped by it; and of
//! two workers under a quota of 1.5 CPUs each sleeps a quarter of the time.
//!
//! The same paces a process to the share that it has by a registry ([`registry`](super::registry)):
//! four processes with one worker each on two CPUs would stop each other in the middle of jobs too.
//! But any process may use what no other uses, so a worker beyond its share goes on while a CPU is
//! idle.
//!
//! What the process may use is a bucket that fills at the quota's rate and from which all CPU time
//! of the process is taken, that of its other threads included. The bucket holds [`BURST_NS`]:
//! after a pause that much is free, since the kernel, too, lets a group that did nothing use the
//! rest of its period's quota at once. What is taken is real CPU time, so a job that is longer than
//! the bucket is deep is paid for afterwards.

use crate::lock::Mutex;
use platform::atomic::{AtomicBool, AtomicU64, Ordering};
use platform::clock::{now_ns, process_cpu_ns};
use platform::thread::sleep_ns;

/// The most CPU time that can be credited.
const BURST_NS: i64 = 4_000_000;
/// The quota is used up to this part, in thousandths: the kernel's own account is in slices, and is
/// never exactly ours.
const PART_THOUSANDTHS: u64 = 985;
/// Whatever the account says, a worker waits for its turn no longer than this.
pub(super) const TURN_NS_MAX: u64 = 200_000_000;
/// The shortest sleep of a worker: a longer sleep than needed is credited, and each check costs.
const SLEEP_NS_MIN: u64 = 500_000;
/// The longest sleep of a worker before it checks again: the quota may have been raised.
const SLEEP_NS_MAX: u64 = 10_000_000;

/// How far the process is ahead of its quota.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Thousandths of a CPU; 0: there is no quota.
    rate: AtomicU64,
    /// Whether an idle CPU may be used beyond it: it is a share, not a quota.
    is_soft: AtomicBool,
    account: Mutex<Account>,
    /// Times that a worker slept, and for how long in all.
    sleeps: AtomicU64,
}

#[derive(Debug, Default)]
struct Account {
    saved_ns: i64,
    at_ns: u64,
    used_ns: u64,
}

impl Account {
    /// Brings the account up to date. Returns how long it takes until something is saved, in
    /// nanoseconds; 0 if there is.
    fn settle(&mut self, rate: u64, now_ns: u64, used_ns: u64) -> u64 {
        if self.at_ns == 0 {
            *self = Account { saved_ns: BURST_NS, at_ns: now_ns, used_ns };
        }
        let earned = u128::from(now_ns.saturating_sub(self.at_ns)) * u128::from(rate) / 1000;
        let spent = used_ns.saturating_sub(self.used_ns);
        let saved = i128::from(self.saved_ns) + earned as i128 - i128::from(spent);
        // A debt is bounded too: of a second, so that no clock's leap stops the pool.
        self.saved_ns = saved.clamp(-1_000_000_000, BURST_NS.into()) as i64;
        (self.at_ns, self.used_ns) = (now_ns, used_ns);
        match self.saved_ns {
            1.. => 0,
            debt => (debt.unsigned_abs() + 1).saturating_mul(1000).div_ceil(rate.max(1)),
        }
    }
}

impl Pace {
    /// Sets the quota to `cpus` CPUs, or to none.
    pub(super) fn set_quota(&self, cpus: Option<f64>) {
        self.set_rate(cpus.map_or(0, |cpus| ((cpus * PART_THOUSANDTHS as f64) as u64).max(1)), false);
    }

    /// Sets no quota, but a share of `cpus` CPUs for the process. Beyond it the process uses only
    /// idle CPUs.
    pub(super) fn set_share(&self, cpus: f64) {
        self.set_rate(((cpus * 1000.0) as u64).max(1), true);
    }

    fn set_rate(&self, rate: u64, is_soft: bool) {
        self.is_soft.store(is_soft, Ordering::Relaxed);
        if self.rate.swap(rate, Ordering::Relaxed) == 0 && rate != 0 {
            *self.account.lock() = Account::default();
        }
    }

    /// Waits until the quota pays for another job, if there is a quota. Beyond a share that is no
    /// quota, an idle CPU pays too. If it `is_needless`, or after [`TURN_NS_MAX`], it waits no
    /// longer: other threads of the process may use all of the quota, and then some thread has to
    /// be stopped.
    #[inline]
    pub(super) fn wait_for_turn(&self, is_cpu_idle: impl Fn() -> bool, is_needless: impl Fn() -> bool) {
        // Relaxed, here and below: numbers, which order nothing.
        if self.rate.load(Ordering::Relaxed) != 0 {
            self.wait_slow(is_cpu_idle, is_needless);
        }
    }

    #[cold]
    fn wait_slow(&self, is_cpu_idle: impl Fn() -> bool, is_needless: impl Fn() -> bool) {
        let end_ns = now_ns() + TURN_NS_MAX;
        loop {
            let rate = self.rate.load(Ordering::Relaxed);
            let now_ns = now_ns();
            if rate == 0 || now_ns >= end_ns || is_needless() {
                return;
            }
            let ahead_ns = self.account.lock().settle(rate, now_ns, process_cpu_ns());
            if ahead_ns == 0 || self.is_soft.load(Ordering::Relaxed) && is_cpu_idle() {
                return;
            }
            self.sleeps.fetch_add(1, Ordering::Relaxed);
            sleep_ns(ahead_ns.clamp(SLEEP_NS_MIN, SLEEP_NS_MAX));
        }
    }

    /// How often a worker slept.
    pub(super) fn sleeps(&self) -> u64 {
        self.sleeps.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn saved_time_is_spent_first_and_more_must_be_earned() {
        let mut account = Account::default();
        assert_eq!(account.settle(500, 1_000, 7), 0, "something is saved to begin with");
        let burst = BURST_NS as u64;
        assert_eq!(account.settle(500, 1_000, 7 + burst), 2, "and now nothing");
        assert_eq!(account.settle(500, 3_000, 7 + burst), 0, "half of the time is earned");
        assert_eq!(account.saved_ns, 1_000);
        assert_eq!(account.settle(500, 1_000_000_000, 7 + burst), 0);
        assert_eq!(account.saved_ns, BURST_NS, "the bucket is full");
    }

    proptest! {
        /// A worker that obeys never uses more than the rate and the bucket allow, beyond its last
        /// job.
        #[test]
        fn no_more_is_used_than_was_paid(rate in 50..4_000_u64, jobs in prop::collection::vec(1..5_000_000_u64, 1..200)) {
            let mut account = Account::default();
            let (began_ns, mut now_ns, mut used_ns, mut last_ns) = (1, 1_u64, 0_u64, 0);
            for job_ns in jobs {
                loop {
                    let ahead_ns = account.settle(rate, now_ns, used_ns);
                    if ahead_ns == 0 {
                        break;
                    }
                    now_ns += ahead_ns;
                }
                let earned_ns = (now_ns - began_ns) * rate / 1000;
                prop_assert!(used_ns <= earned_ns + BURST_NS as u64 + last_ns, "{used_ns} of {earned_ns}");
                now_ns += job_ns;
                used_ns += job_ns;
                last_ns = job_ns;
            }
        }
    }
}
