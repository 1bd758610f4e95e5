//! How much CPU time the program may use in a period, on all CPUs together, as `cpu.max` of a
//! control group limits it (CFS bandwidth control; Turner, Rao, Rao 2010; `kernel/sched/fair.c`).
//!
//! At the beginning of each period a pool is filled up. A CPU that runs threads of the program
//! takes a slice from the pool, and the next one when it has used that up. A CPU that finds the
//! pool empty is *throttled*: the threads of the program that are there do not run until the next
//! period.
//!
//! | Linux | here |
//! | --- | --- |
//! | what a thread has used is counted at ticks and when the scheduler decides, so a CPU may use more than it has; it owes this | the same |
//! | what a CPU has not used of its slice remains its own (since 5.4); a CPU on which no thread of the group is left gives it back but for 1 ms | the same |
//! | what is given back wakes throttled CPUs after 5 ms (the slack timer) | it serves other CPUs that ask; throttled ones wait for the period |
//! | at a new period throttled CPUs go on in the order in which they were throttled, each if the pool can pay what it owes and 1 ns | in the order of their numbers |
//! | the group competes with others as one entity by `cpu.weight` | its threads compete by themselves |
//! | bursts (`cpu.max.burst`) | not modelled |
//!
//! 1. A thread that is `parked` is runnable, and in no queue.
//! 2. The pool is never more than the quota, and what all CPUs have is never more than the pools
//!    were.

use crate::fair::Id;
use crate::machine::Quota;

/// What a CPU keeps that has no thread of the program any more.
const KEPT_NS: i64 = 1_000_000;

#[derive(Clone, Debug, Default)]
struct Share {
    /// What the CPU has left; below 0: what it owes.
    left_ns: i64,
    is_throttled: bool,
    /// Since when it is throttled, or when it was last.
    throttled_at: u64,
    parked: Vec<Id>,
}

/// The pool, and what each CPU has taken from it.
#[derive(Debug)]
pub struct Bandwidth {
    quota: Quota,
    pool_ns: i64,
    refill_at: u64,
    /// For how long CPUs were throttled until their last end of it.
    throttled_ns: u64,
    shares: Vec<Share>,
}

impl Bandwidth {
    /// The first period begins.
    pub fn new(quota: Quota, cpus: usize) -> Bandwidth {
        let shares = vec![Share::default(); cpus];
        Bandwidth {
            quota,
            pool_ns: quota.quota_ns as i64,
            refill_at: quota.period_ns,
            throttled_ns: 0,
            shares,
        }
    }

    /// When the next period begins.
    pub fn refill_at(&self) -> u64 {
        self.refill_at
    }

    /// A thread of the program has run on a CPU.
    pub fn used(&mut self, cpu: usize, ns: u64) {
        self.shares[cpu].left_ns -= ns as i64;
    }

    /// Whether threads of the program may run on a CPU, which takes a slice if it needs one.
    pub fn may_run(&mut self, cpu: usize, now: u64) -> bool {
        if !self.shares[cpu].is_throttled && self.shares[cpu].left_ns <= 0 {
            self.take(cpu, self.quota.slice_ns as i64);
            self.shares[cpu].is_throttled = self.shares[cpu].left_ns <= 0;
            self.shares[cpu].throttled_at = now;
        }
        !self.shares[cpu].is_throttled
    }

    /// Whether a CPU is throttled.
    pub fn is_throttled(&self, cpu: usize) -> bool {
        self.shares[cpu].is_throttled
    }

    /// For how long CPUs were throttled until now, summed over CPUs: `throttled_usec` of
    /// `cpu.stat`.
    pub fn throttled_ns(&self, now: u64) -> u64 {
        let throttled = self.shares.iter().filter(|share| share.is_throttled);
        self.throttled_ns + throttled.map(|share| now.saturating_sub(share.throttled_at)).sum::<u64>()
    }

    /// A thread waits on a throttled CPU for the next period.
    pub fn park(&mut self, cpu: usize, id: Id) {
        self.shares[cpu].parked.push(id);
    }

    /// A thread no longer waits there.
    pub fn unpark(&mut self, cpu: usize, id: Id) {
        self.shares[cpu].parked.retain(|parked| *parked != id);
    }

    /// No thread of the program is left on a CPU.
    pub fn give_back(&mut self, cpu: usize) {
        let more_ns = self.shares[cpu].left_ns - KEPT_NS;
        if more_ns > 0 {
            self.shares[cpu].left_ns = KEPT_NS;
            self.pool_ns = (self.pool_ns + more_ns).min(self.quota.quota_ns as i64);
        }
    }

    /// The next period begins: the threads that go on, each with its CPU.
    pub fn refill(&mut self) -> Vec<(usize, Id)> {
        let now = self.refill_at;
        self.refill_at += self.quota.period_ns;
        self.pool_ns = self.quota.quota_ns as i64;
        let mut go_on = Vec::new();
        for cpu in 0..self.shares.len() {
            if self.shares[cpu].is_throttled {
                self.take(cpu, 1);
                if self.shares[cpu].left_ns > 0 {
                    self.shares[cpu].is_throttled = false;
                    self.throttled_ns += now.saturating_sub(self.shares[cpu].throttled_at);
                }
            }
            if !self.shares[cpu].is_throttled {
                go_on.extend(std::mem::take(&mut self.shares[cpu].parked).into_iter().map(|id| (cpu, id)));
            }
        }
        go_on
    }

    /// Takes from the pool what a CPU needs to have `ns` left, or all that there is.
    fn take(&mut self, cpu: usize, ns: i64) {
        let taken_ns = (ns - self.shares[cpu].left_ns).min(self.pool_ns);
        self.pool_ns -= taken_ns;
        self.shares[cpu].left_ns += taken_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn cpus_take_slices_until_the_pool_is_empty_and_owe_what_is_too_much() {
        let quota = Quota { quota_ns: 12 * MS, period_ns: 100 * MS, slice_ns: 5 * MS };
        let mut pool = Bandwidth::new(quota, 3);
        assert!(pool.may_run(0, 0) && pool.may_run(1, 0) && pool.pool_ns == 2 * MS as i64);
        pool.used(0, 8 * MS);
        assert!(!pool.may_run(0, 8 * MS) && pool.shares[0].left_ns == -(MS as i64));
        pool.park(0, 7);
        pool.used(1, MS);
        pool.give_back(1);
        assert_eq!((pool.pool_ns, pool.is_throttled(0)), (3 * MS as i64, true));
        assert!(pool.may_run(2, 9 * MS), "what was given back is there for others");
        assert_eq!((pool.throttled_ns(98 * MS), pool.refill()), (90 * MS, vec![(0, 7)]));
        assert_eq!(pool.throttled_ns(150 * MS), 92 * MS);
        assert_eq!((pool.pool_ns, pool.refill_at()), (11 * MS as i64 - 1, 200 * MS));
    }

    #[test]
    fn a_cpu_that_owes_more_than_a_quota_waits_for_several_periods() {
        let quota = Quota { quota_ns: 2 * MS, period_ns: 10 * MS, slice_ns: 5 * MS };
        let mut pool = Bandwidth::new(quota, 1);
        assert!(pool.may_run(0, 0));
        pool.used(0, 7 * MS);
        assert!(!pool.may_run(0, 7 * MS));
        pool.park(0, 1);
        assert!(pool.refill().is_empty() && pool.refill().is_empty());
        assert_eq!(pool.refill(), [(0, 1)]);
    }
}
