//! Which thread a CPU runs next, as Linux decides it since 6.6: the earliest eligible virtual
//! deadline first (Stoica and Abdel-Wahab 1995; `kernel/sched/fair.c`).
//!
//! Each thread has a virtual run time, which grows while it runs, slowly if its weight is great.
//! Its *lag* is how far the mean of all is ahead of it: how much CPU time it is owed. A thread that
//! is owed none is not *eligible*. Among the eligible ones the thread with the earliest virtual
//! deadline runs: the virtual time at which the slice ends that it asked for.
//!
//! | Linux | here |
//! | --- | --- |
//! | a thread keeps the CPU until it has used its slice, while it is eligible (`RUN_TO_PARITY`) | the same |
//! | a thread that falls asleep while it is owed nothing stays queued until it is eligible (`DELAY_DEQUEUE`), and then has no lag (`DELAY_ZERO`) | the same |
//! | lag is kept while a thread sleeps, at most two slices of it (`PLACE_LAG`) | the same |
//! | groups, slices shorter than others' | not modelled |
//! | a thread whose weight changes keeps its place in its slice | it begins a new slice |
//!
//! 1. The mean is taken over all queued threads, with the one that runs, by weight.
//! 2. A thread that is in no queue has its lag, and no other time of it is used.

pub use crate::fair::Id;
use crate::fair::{Entities, Entity, Fair};

/// The queue of a CPU.
#[derive(Clone, Debug)]
pub struct Eevdf {
    entities: Entities,
    /// The slice that each thread asks for.
    slice_ns: i64,
    /// Whether a thread that yields gives up the rest of its slice.
    forfeits: bool,
    /// A mean to begin with, for a queue that was empty.
    mean: i64,
    /// The thread that runs has used up its slice.
    is_over: bool,
}

impl Eevdf {
    /// A queue whose threads ask for slices of this length.
    pub fn new(slice_ns: u64, forfeits: bool) -> Eevdf {
        let slice_ns = i64::try_from(slice_ns).unwrap_or(i64::MAX).min(i64::MAX / 4096);
        Eevdf { entities: Entities::default(), slice_ns, forfeits, mean: 0, is_over: false }
    }

    fn best(&self) -> Option<usize> {
        let mean = self.mean_now();
        let all = &self.entities.all;
        let eligible = |at: &usize| all[*at].vruntime <= mean;
        let current = self.entities.current_at().filter(|at| eligible(at) && !self.is_over);
        current.or_else(|| {
            let deadline = |at: &usize| (all[*at].deadline, all[*at].id);
            // Rounding of the mean may leave none eligible: then the one that has run least.
            let least = || (0..all.len()).min_by_key(|at| (all[*at].vruntime, all[*at].id));
            (0..all.len()).filter(eligible).min_by_key(deadline).or_else(least)
        })
    }

    fn mean_now(&self) -> i64 {
        let all = &self.entities.all;
        let Some(first) = all.first() else { return self.mean };
        // Distances are short where the times themselves are long.
        let sum: i64 = all.iter().map(|entity| (entity.vruntime - first.vruntime) * entity.weight).sum();
        first.vruntime + sum.div_euclid(self.entities.load())
    }

    fn remove(&mut self, at: usize) -> Entity {
        let mean = self.mean_now();
        let mut entity = self.entities.remove(at);
        let most = 2 * entity.scaled(self.slice_ns);
        entity.lag = (mean - entity.vruntime).clamp(-most, most);
        entity.delayed = false;
        self.mean = if self.entities.all.is_empty() { mean } else { self.mean };
        entity
    }
}

impl Fair for Eevdf {
    fn entities(&self) -> &Entities {
        &self.entities
    }

    /// If the thread is queued here and delayed, it goes on as it is.
    fn add(&mut self, mut entity: Entity) {
        if let Some(at) = self.entities.at(entity.id) {
            debug_assert!(self.entities.all[at].delayed, "a thread is in a list once");
            self.entities.all[at].delayed = false;
            return;
        }
        // The mean moves as the thread is added: its lag is scaled so that it is right afterwards.
        let load = self.entities.load();
        let lag = if load > 0 { entity.lag.saturating_mul(load + entity.weight) / load } else { 0 };
        entity.vruntime = self.mean_now() - lag;
        entity.deadline = entity.vruntime + entity.scaled(self.slice_ns);
        self.entities.all.push(entity);
    }

    /// A thread that is owed nothing stays queued.
    fn sleep(&mut self, id: Id) -> Option<Entity> {
        let at = self.entities.at(id)?;
        if self.mean_now() < self.entities.all[at].vruntime {
            self.entities.current = self.entities.current.filter(|current| *current != id);
            self.entities.all[at].delayed = true;
            return None;
        }
        Some(self.remove(at))
    }

    fn leave(&mut self, id: Id) -> Option<Entity> {
        self.entities.at(id).map(|at| self.remove(at))
    }

    fn release(&self, _entity: &mut Entity) {
        // Its lag holds in each queue (rule 2).
    }

    fn ran(&mut self, ns: i64) {
        let Some(at) = self.entities.current_at() else { return };
        let entity = &mut self.entities.all[at];
        entity.vruntime += entity.scaled(ns);
        if entity.vruntime >= entity.deadline {
            entity.deadline = entity.vruntime + entity.scaled(self.slice_ns);
            self.is_over = true;
        }
    }

    fn is_over(&self) -> bool {
        self.is_over && self.entities.all.len() > 1
    }

    fn yields(&mut self) {
        let mean = self.mean_now();
        let Some(at) = self.entities.current_at() else { return };
        let entity = &mut self.entities.all[at];
        if !self.forfeits {
            entity.deadline += entity.scaled(self.slice_ns);
        } else if entity.vruntime <= mean {
            entity.vruntime = entity.deadline;
            entity.deadline += entity.scaled(self.slice_ns);
        }
        self.is_over = true;
    }

    /// Threads that were delayed and are eligible by now leave.
    fn choose(&mut self, gone: &mut dyn FnMut(Entity)) -> Option<Id> {
        while let Some(at) = self.best() {
            if !self.entities.all[at].delayed {
                self.entities.current = Some(self.entities.all[at].id);
                self.is_over = false;
                return self.entities.current;
            }
            let mut entity = self.remove(at);
            entity.lag = entity.lag.min(0);
            gone(entity);
        }
        self.entities.current = None;
        None
    }

    fn suspend(&mut self) {
        self.entities.current = None;
    }

    fn preempts(&self, id: Id) -> bool {
        self.best().is_some_and(|at| self.entities.all[at].id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::Class;
    use proptest::prelude::*;

    const SLICE_NS: u64 = 3_000_000;

    fn entity(id: Id) -> Entity {
        Entity::new(id, Class::default())
    }

    fn queue(weights: &[i64]) -> Eevdf {
        let mut queue = Eevdf::new(SLICE_NS, true);
        for (id, weight) in weights.iter().enumerate() {
            queue.add(Entity { weight: *weight, ..entity(id) });
        }
        queue
    }

    /// Runs ticks of 1 ms; how many each thread gets.
    fn ticks(queue: &mut Eevdf, count: usize, threads: usize) -> Vec<u64> {
        let mut got = vec![0; threads];
        let mut none_sleeps = |_: Entity| panic!("no thread sleeps");
        let mut runs = queue.choose(&mut none_sleeps).expect("a thread");
        for _ in 0..count {
            got[runs] += 1;
            queue.ran(1_000_000);
            if queue.is_over() {
                runs = queue.choose(&mut none_sleeps).expect("a thread");
            }
        }
        got
    }

    #[test]
    fn threads_get_cpu_time_by_weight_and_whole_slices() {
        let mut equal = queue(&[1024; 3]);
        assert_eq!(ticks(&mut equal, 3, 3), [3, 0, 0]);
        let got = ticks(&mut queue(&[1024; 3]), 300, 3);
        assert!(got.iter().all(|ticks| ticks.abs_diff(100) <= 3), "a slice has three: {got:?}");
        let got = ticks(&mut queue(&[2048, 1024]), 3000, 2);
        assert!(got[0].abs_diff(2000) < 10, "{got:?}");
    }

    #[test]
    fn a_thread_that_slept_has_no_more_than_it_was_owed() {
        let mut queue = queue(&[1024; 2]);
        assert_eq!(queue.choose(&mut |_| ()), Some(0));
        queue.ran(3_000_000);
        assert_eq!(queue.choose(&mut |_| ()), Some(1), "it is owed 1.5 ms");
        queue.ran(500_000);
        let slept = queue.sleep(1).expect("it is owed time, and leaves");
        assert_eq!(slept.lag, 1_250_000);
        assert_eq!(queue.choose(&mut |_| ()), Some(0));
        queue.ran(50_000_000);
        queue.add(slept);
        assert!(queue.preempts(1), "the other one is not eligible");
    }

    #[test]
    fn a_thread_that_ran_ahead_stays_until_the_others_have_caught_up() {
        let mut queue = queue(&[1024; 2]);
        assert_eq!(queue.choose(&mut |_| ()), Some(0));
        queue.ran(2_000_000);
        assert_eq!(queue.sleep(0), None, "it is ahead by 1 ms");
        assert_eq!(queue.entities.runnable(), 1);
        let mut gone = vec![];
        assert_eq!(queue.choose(&mut |entity| gone.push(entity)), Some(1));
        queue.ran(3_000_000);
        assert_eq!(queue.choose(&mut |entity| gone.push(entity)), Some(1));
        assert_eq!((gone.len(), gone[0].id, gone[0].lag), (1, 0, 0));
    }

    #[test]
    fn a_thread_that_yields_lets_the_other_one_run() {
        for forfeits in [true, false] {
            let mut queue = Eevdf { forfeits, ..queue(&[1024; 2]) };
            assert_eq!(queue.choose(&mut |_| ()), Some(0));
            queue.ran(1000);
            queue.yields();
            assert_eq!(queue.choose(&mut |_| ()), Some(1));
        }
    }

    proptest! {
        /// Whatever threads do: one runs if one is runnable, and none is more than a slice and a
        /// tick ahead of the mean of those that stayed.
        #[test]
        fn no_thread_runs_far_ahead(steps in proptest::collection::vec((0usize..4, 0u8..4), 1..400)) {
            let mut queue = queue(&[1024; 4]);
            let mut asleep: [Option<Entity>; 4] = [None; 4];
            let mut sleeps = [false; 4];
            for (id, what) in steps {
                let mut gone = vec![];
                let runs = queue.choose(&mut |entity| gone.push(entity));
                gone.iter().for_each(|entity| asleep[entity.id] = Some(*entity));
                prop_assert_eq!(runs.is_some(), sleeps.contains(&false));
                match (what, runs) {
                    (0, _) if sleeps[id] => {
                        let new = asleep[id].take().unwrap_or(entity(id));
                        queue.add(new);
                        sleeps[id] = false;
                    }
                    (1, Some(id)) => {
                        sleeps[id] = true;
                        asleep[id] = queue.sleep(id);
                    }
                    (2, Some(_)) => queue.yields(),
                    _ => queue.ran(1_000_000),
                }
                let mean = queue.mean_now();
                let bound = 4 * (SLICE_NS as i64 + 1_000_000);
                prop_assert!(queue.entities.all.iter().all(|it| it.vruntime - mean <= bound));
                prop_assert_eq!(queue.entities.runnable(), sleeps.iter().filter(|it| !**it).count());
            }
        }
    }
}
