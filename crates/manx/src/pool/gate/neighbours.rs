//! How many workers of a foreign pool fit between the threads of other processes.
//!
//! The rules are those of our pool's default control (`control/pressure.rs`, `control/fair.rs`),
//! and so is the length of a tick. Two of the facts that they ask for are not to be had of a
//! foreign pool, and have a substitute:
//!
//! | our pool knows | here |
//! | --- | --- |
//! | for how long each worker ran and waited for a CPU | the same of all threads of the process: parked workers and threads that sleep add nothing |
//! | whether jobs are queued | its threads wish to run for as long as the active workers could, nearly: then more workers would have something to do |

use crate::cpu::{BudgetWatch, Pressure, PressureWatch, Rounding};
use crate::pool::control::pressure::Pressure as Rules;
use crate::pool::control::{Seen, fair};
use platform::clock::{duration_ns, now_ns};

/// Workers that wish to run for this part of the time have something to do all the time.
const BUSY: f64 = 0.8;

/// What is remembered from tick to tick.
#[derive(Debug)]
pub(super) struct Neighbours {
    budget: BudgetWatch,
    watch: PressureWatch,
    before: Pressure,
    fair: fair::Fair,
    rules: Rules,
    active: u32,
}

impl Neighbours {
    pub(super) fn new() -> Neighbours {
        let mut watch = PressureWatch::new();
        let before = watch.read();
        let (fair, rules, budget) = (fair::Fair::default(), Rules::default(), BudgetWatch::new());
        Neighbours { budget, watch, before, fair, rules, active: u32::MAX }
    }

    /// Returns how many workers may be active from now on.
    pub(super) fn count(&mut self) -> usize {
        let now = self.watch.read();
        let cpus = self.budget.cpus();
        let limit = Rounding::Floor.count(cpus) as u32;
        let budget = self.budget.budget();
        // A process that may use a part of the CPUs cannot know which threads run there.
        let has_all = budget.online().is_some_and(|online| {
            let sets = budget.limits().iter().filter_map(|limit| limit.kind.cpus());
            sets.into_iter().all(|set| set.len() >= online.len())
        });
        let cpu_idle = now.runnable.zip(now.online).map(|(runnable, online)| runnable <= online);
        let seen = self.seen(now, limit, cpu_idle.filter(|_| has_all));
        self.decide(&seen);
        if self.rules.gives_way(&seen) {
            let may_correct = self.rules.may_correct(&seen);
            match self.fair.look(now_ns(), seen.target, cpus.min(f64::from(limit)), may_correct) {
                Some(fair::Verdict::Unfair(unfair)) => {
                    self.active = self.rules.correct(&seen, unfair).map_or(self.active, |(to, _)| to);
                }
                Some(fair::Verdict::Ineffective) => self.rules.withdraw(),
                None => {}
            }
        }
        self.active as usize
    }

    fn seen(&mut self, now: Pressure, limit: u32, cpu_idle: Option<bool>) -> Seen {
        let elapsed_ns = duration_ns(now.read_at.saturating_sub(self.before.read_at)).max(1);
        let times = now.threads.as_ref().zip(self.before.threads.as_ref());
        let passed = times.map(|(now, before)| now.since(before)).unwrap_or_default();
        self.before = now;
        let (run_ns, wait_ns) = (duration_ns(passed.run_time), duration_ns(passed.wait_time));
        let target = self.active.clamp(1, limit);
        let queued = (run_ns + wait_ns) as f64 >= BUSY * f64::from(target) * elapsed_ns as f64;
        Seen { target, limit, run_ns, wait_ns, elapsed_ns, ticks: 1, queued, cpu_idle }
    }

    fn decide(&mut self, seen: &Seen) {
        self.active = self.rules.decide(seen).map_or(seen.target, |(to, _)| to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A process of `threads` threads that always wish to run, on `CPUS` CPUs beside neighbours
    /// that keep `taken` of them busy, for some ticks of made-up files. Returns the number of
    /// active workers after each tick.
    fn ticks(neighbours: &mut Neighbours, root: &std::path::Path, taken: f64, count: u32) -> Vec<u32> {
        const CPUS: u32 = 4;
        const TICK_NS: u64 = 10_000_000;
        let mut all = Vec::new();
        for _ in 0..count {
            let active = neighbours.active.clamp(1, CPUS);
            let wished = f64::from(active);
            let got = wished.min((f64::from(CPUS) - taken).max(wished * f64::from(CPUS) / (wished + taken)));
            let run_ns = (got / wished * TICK_NS as f64) as u64;
            for thread in 0..active {
                let path = root.join(format!("proc/self/task/{}/schedstat", 100 + thread));
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                let before = std::fs::read_to_string(&path).unwrap_or("0 0 0".into());
                let mut words = before.split_whitespace().map(|word| word.parse::<u64>().expect("a number"));
                let (ran, waited) = (words.next().expect("ran"), words.next().expect("waited"));
                let text = format!("{} {} 1\n", ran + run_ns, waited + TICK_NS - run_ns);
                std::fs::write(&path, text).expect("written");
            }
            let mut now = neighbours.watch.read();
            now.read_at = neighbours.before.read_at + Duration::from_nanos(TICK_NS);
            let is_idle = wished + taken < f64::from(CPUS);
            let seen = neighbours.seen(now, CPUS, Some(is_idle));
            neighbours.decide(&seen);
            all.push(neighbours.active);
        }
        all
    }

    #[test]
    fn a_gate_comes_down_beside_a_neighbour_and_goes_up_again_without() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("proc/self")).expect("made");
        std::fs::write(root.path().join("proc/self/schedstat"), "1 1 1\n").expect("written");
        let mut watch = PressureWatch::detect(root.path());
        let before = watch.read();
        let mut neighbours = Neighbours { watch, before, active: 4, ..Neighbours::new() };
        assert_eq!(ticks(&mut neighbours, root.path(), 0.0, 20).last(), Some(&4), "alone");
        let beside = ticks(&mut neighbours, root.path(), 2.0, 50);
        assert_eq!(beside.last(), Some(&2), "half of the CPUs: {beside:?}");
        let after = ticks(&mut neighbours, root.path(), 0.0, 20);
        assert_eq!(after.last(), Some(&4), "it has left: {after:?}");
    }
}
