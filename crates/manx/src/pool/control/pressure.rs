//! The default rules: fewer workers when they wait for CPUs, more when none does.
//!
//! A worker that waits in the scheduler's queue is one too many: the job that it has begun ages
//! there, and so does another thread's, ours or a neighbour's. So the signal is the waiting itself,
//! which the kernel counts for each thread in nanoseconds, and not how much of the machine each
//! process uses, as in the paper; that has to be counted in whole ticks.
//!
//! - *Shrink*: the workers waited for more than `WAITING_MAX` of the time in which they wished to
//!   run, by a moving average over some `TICKS_AVERAGED` ticks. Then as many are to be active as
//!   CPUs were received, and one less at least.
//! - *Grow*: jobs are queued, and a CPU is idle (one more at once), or no worker waited for some
//!   ticks (one more, to try). After a trial that failed twice as many ticks pass before the next
//!   one, up to `PATIENCE_MAX`.
//! - *Not below the floor*: a neighbour that never gives way would get what a pool that does gives
//!   up. If the process gets less than a fair part (`fair.rs`), the floor is raised to as many
//!   workers as that part has CPUs, and to one more than there are at least. It comes down by one
//!   after `FLOOR_TICKS`; each time that it has to be raised again, twice as long.

use super::{Seen, Why};

/// Waiting more than this, of the time in which workers wished to run, is too much, if there is to
/// be a worker for each CPU.
const WAITING_MAX: f64 = 0.25;
/// Waiting less is none.
const WAITING_NONE: f64 = 0.05;
/// The average is of about this number of ticks.
const TICKS_AVERAGED: f64 = 4.0;
/// Ticks without waiting before one more is tried: at first …
const PATIENCE: u32 = 10;
/// … if it is known that no CPU is idle …
const PATIENCE_BUSY: u32 = 200;
/// … and at most.
const PATIENCE_MAX: u32 = 1_000;
/// A trial has failed if the pool shrinks within this number of ticks.
const TRIAL_TICKS: u32 = 20;
/// Ticks for which the floor holds: at first …
const FLOOR_TICKS: u32 = 1_000;
/// … and at most.
const FLOOR_TICKS_MAX: u32 = 16_000;

/// How many CPUs the process gets, and how many would be fair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unfair {
    /// What it gets
    pub received_cpus: f64,
    /// What would be fair
    pub fair_cpus: f64,
}

/// What the rules remember from tick to tick.
#[derive(Debug)]
pub struct Pressure {
    overcommit: f64,
    run_ns: f64,
    wait_ns: f64,
    elapsed_ns: f64,
    /// Ticks since a worker waited, or since the last growth.
    quiet: u32,
    patience: u32,
    /// Ticks since the last trial.
    since_trial: u32,
    floor: u32,
    floor_ticks: u32,
    floor_ticks_left: u32,
}

impl Default for Pressure {
    fn default() -> Pressure {
        Pressure::new(1.0)
    }
}

impl Pressure {
    /// Returns the rules for `overcommit` workers for each CPU.
    pub fn new(overcommit: f64) -> Pressure {
        Pressure {
            overcommit,
            run_ns: 0.0,
            wait_ns: 0.0,
            elapsed_ns: 0.0,
            quiet: 0,
            patience: PATIENCE,
            since_trial: TRIAL_TICKS,
            floor: 1,
            floor_ticks: FLOOR_TICKS / 2,
            floor_ticks_left: 0,
        }
    }

    /// The part of the time in which workers wished to run and waited.
    fn waiting(&self) -> f64 {
        let wished_ns = self.run_ns + self.wait_ns;
        if wished_ns > 0.0 { self.wait_ns / wished_ns } else { 0.0 }
    }

    fn received_cpus(&self) -> f64 {
        if self.elapsed_ns > 0.0 { self.run_ns / self.elapsed_ns } else { 0.0 }
    }

    /// Whether what the next tick shows could hardly change anything: no worker waits, or as few as
    /// may be are to be active.
    pub fn is_calm(&self, seen: &Seen) -> bool {
        !self.is_waiting() || seen.target <= self.floor.min(seen.limit)
    }

    /// Whether the pool gives way to no neighbour for a while, since neighbours do not give way.
    pub fn is_firm(&self) -> bool {
        self.floor > 1
    }

    /// Whether workers wait.
    pub fn is_waiting(&self) -> bool {
        self.waiting() > self.expected(WAITING_NONE)
    }

    /// The part of the time that workers wait if it is `part` with one for each CPU. Several
    /// workers for each CPU also wait for one another.
    fn expected(&self, part: f64) -> f64 {
        1.0 - (1.0 - part) / self.overcommit.max(1.0)
    }

    /// Whether the pool does less than it could for the sake of others, so that it is worth asking
    /// whether that is fair: workers wait, or too few are active for what is queued, and others use
    /// all other CPUs.
    pub fn gives_way(&self, seen: &Seen) -> bool {
        self.is_waiting() || seen.queued && seen.target < seen.limit && seen.cpu_idle == Some(false)
    }

    /// Whether [`Pressure::correct`] can do anything: not if all are active and stay so.
    pub fn may_correct(&self, seen: &Seen) -> bool {
        seen.target.min(self.floor) < seen.limit
    }

    fn average(&mut self, seen: &Seen) {
        let keep = (1.0 - 1.0 / TICKS_AVERAGED).powi(seen.ticks.min(100) as i32);
        self.run_ns = self.run_ns * keep + seen.run_ns as f64;
        self.wait_ns = self.wait_ns * keep + seen.wait_ns as f64;
        self.elapsed_ns = self.elapsed_ns * keep + seen.elapsed_ns as f64;
    }

    /// What was before does not count.
    pub fn forget(&mut self) {
        (self.run_ns, self.wait_ns, self.elapsed_ns, self.quiet) = (0.0, 0.0, 0.0, 0);
    }

    /// How many are to be active from now on, if not as many as before.
    pub fn decide(&mut self, seen: &Seen) -> Option<(u32, Why)> {
        self.average(seen);
        self.since_trial = self.since_trial.saturating_add(seen.ticks);
        self.lower_floor(seen.ticks);
        let (waiting, received_cpus) = (self.waiting(), self.received_cpus());
        let floor = self.floor.min(seen.limit);
        if waiting > self.expected(WAITING_MAX) && seen.target > floor {
            let to =
                ((self.overcommit * received_cpus).round() as u32).clamp(floor, (seen.target - 1).max(floor));
            if self.since_trial < TRIAL_TICKS {
                self.patience = (self.patience * 2).min(PATIENCE_MAX);
                self.since_trial = TRIAL_TICKS;
            }
            self.forget();
            return Some((to, Why::Waited { waiting, received_cpus }));
        }
        if self.is_waiting() {
            self.quiet = 0;
            return None;
        }
        self.quiet = self.quiet.saturating_add(seen.ticks);
        if !seen.queued || seen.target >= seen.limit {
            return None;
        }
        match seen.cpu_idle {
            Some(true) => Some((seen.target + 1, Why::CpuIdle)),
            // The threads that keep the CPUs busy may give way to us: threads of nice 19, or of
            // other groups. But most do not.
            Some(false) if self.quiet < self.patience.max(PATIENCE_BUSY) => None,
            None if self.quiet < self.patience => None,
            _ => {
                if self.since_trial > self.patience.saturating_mul(4) {
                    self.patience = PATIENCE;
                }
                (self.quiet, self.since_trial) = (0, 0);
                Some((seen.target + 1, Why::Quiet))
            }
        }
    }

    /// What was corrected gained nothing.
    pub fn withdraw(&mut self) {
        self.floor = 1;
        self.forget();
    }

    fn lower_floor(&mut self, ticks: u32) {
        if self.floor > 1 {
            self.floor_ticks_left = self.floor_ticks_left.saturating_sub(ticks);
            if self.floor_ticks_left == 0 {
                self.floor -= 1;
                self.floor_ticks_left = self.floor_ticks;
            }
        }
    }

    /// The process gets less than is fair: as many workers as would be, one more than there are at
    /// least, and no fewer for a while.
    pub fn correct(&mut self, seen: &Seen, unfair: Unfair) -> Option<(u32, Why)> {
        self.floor =
            ((self.overcommit * unfair.fair_cpus).round() as u32).max(seen.target + 1).min(seen.limit);
        self.floor_ticks = (self.floor_ticks * 2).min(FLOOR_TICKS_MAX);
        self.floor_ticks_left = self.floor_ticks;
        self.forget();
        let Unfair { received_cpus, fair_cpus } = unfair;
        (self.floor > seen.target).then_some((self.floor, Why::Unfair { received_cpus, fair_cpus }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: u64 = 10_000_000;

    /// Returns a tick in which each of the `target` workers that are to be active waited for this
    /// part of the time, with work for all.
    fn seen(target: u32, limit: u32, waiting: f64, cpu_idle: Option<bool>) -> Seen {
        let wished_ns = f64::from(target) * TICK_NS as f64;
        let wait_ns = (wished_ns * waiting) as u64;
        Seen {
            target,
            limit,
            run_ns: wished_ns as u64 - wait_ns,
            wait_ns,
            elapsed_ns: TICK_NS,
            ticks: 1,
            queued: true,
            cpu_idle,
        }
    }

    /// After how many ticks like this something is decided, and what.
    fn until_decided(rules: &mut Pressure, tick: Seen) -> (u32, u32, Why) {
        for ticks in 1..5_000 {
            if let Some((to, why)) = rules.decide(&tick) {
                return (ticks, to, why);
            }
        }
        panic!("never");
    }

    #[test]
    fn workers_that_wait_become_as_many_as_cpus_were_received() {
        let mut rules = Pressure::default();
        let (ticks, to, why) = until_decided(&mut rules, seen(8, 8, 0.5, Some(false)));
        assert_eq!((ticks, to), (1, 4));
        assert_eq!(why, Why::Waited { waiting: 0.5, received_cpus: 4.0 });
        assert_eq!(
            until_decided(&mut Pressure::default(), seen(2, 2, 0.3, Some(false))).1,
            1,
            "one less at least"
        );
    }

    #[test]
    fn several_workers_for_each_cpu_wait_for_one_another() {
        // Eight workers get four CPUs. With two for each CPU that is as it should be.
        let mut rules = Pressure::new(2.0);
        for _ in 0..1_000 {
            assert_eq!(rules.decide(&seen(8, 8, 0.5, Some(false))), None);
        }
        let (_, to, _) = until_decided(&mut Pressure::new(2.0), seen(8, 8, 0.7, Some(false)));
        assert_eq!(to, 5, "2 · 8 · 0.3 CPUs");
        let unfair = Unfair { received_cpus: 1.0, fair_cpus: 2.0 };
        let corrected = Pressure::new(2.0).correct(&seen(2, 8, 0.5, Some(false)), unfair);
        assert_eq!(corrected.map(|(to, _)| to), Some(4));
        // Half as many as CPUs are received.
        let (_, to, _) = until_decided(&mut Pressure::new(0.5), seen(8, 8, 0.5, Some(false)));
        assert_eq!(to, 2);
    }

    #[test]
    fn one_always_stays_and_little_waiting_is_none() {
        let mut rules = Pressure::default();
        for _ in 0..1_000 {
            assert_eq!(rules.decide(&seen(1, 2, 0.9, Some(false))), None);
            assert_eq!(Pressure::default().decide(&seen(4, 4, 0.2, Some(false))), None);
        }
    }

    #[test]
    fn an_idle_cpu_is_taken_at_once_and_only_if_there_is_work() {
        let mut rules = Pressure::default();
        assert_eq!(rules.decide(&seen(1, 2, 0.0, Some(true))), Some((2, Why::CpuIdle)));
        assert_eq!(rules.decide(&Seen { queued: false, ..seen(1, 2, 0.0, Some(true)) }), None);
        assert_eq!(rules.decide(&seen(2, 2, 0.0, Some(true))), None, "the limit");
        assert_eq!(rules.decide(&seen(1, 2, 0.0, Some(false))), None);
    }

    #[test]
    fn trials_that_fail_become_rare() {
        let mut rules = Pressure::default();
        let mut last = 0;
        for _ in 0..5 {
            let (ticks, to, why) = until_decided(&mut rules, seen(1, 2, 0.0, None));
            assert_eq!((to, why), (2, Why::Quiet));
            assert!(ticks > last, "{ticks} after {last}");
            last = ticks;
            assert_eq!(until_decided(&mut rules, seen(2, 2, 0.5, None)).1, 1);
        }
        assert!(last >= PATIENCE * 8);
    }

    #[test]
    fn a_pool_below_its_fair_part_stops_yielding_for_a_while() {
        let mut rules = Pressure::default();
        let cheated = seen(1, 2, 0.34, Some(false));
        assert_eq!(rules.decide(&cheated), None);
        let unfair = Unfair { received_cpus: 0.66, fair_cpus: 1.0 };
        let why = Why::Unfair { received_cpus: 0.66, fair_cpus: 1.0 };
        assert_eq!(rules.correct(&cheated, unfair), Some((2, why)));
        let (first, to, _) = until_decided(&mut rules, seen(2, 2, 0.5, Some(false)));
        assert_eq!((first, to), (FLOOR_TICKS, 1));
        rules.correct(&cheated, unfair);
        let (second, ..) = until_decided(&mut rules, seen(2, 2, 0.5, Some(false)));
        assert_eq!(second, 2 * FLOOR_TICKS);
    }
}
