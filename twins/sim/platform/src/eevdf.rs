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
//! | groups, bandwidth, deadlines shorter than others' | not modelled |
//!
//! 1. The mean is taken over all queued threads, with the one that runs, by weight.
//! 2. A thread is in the queue once at most.

/// A thread's number.
pub type Id = usize;

/// The weight of nice 0.
pub const WEIGHT: i64 = 1024;

/// What the scheduler knows of a thread. Times are virtual nanoseconds, of a queue's own beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entity {
    id: Id,
    weight: i64,
    slice_ns: i64,
    vruntime: i64,
    deadline: i64,
    /// While it is in no queue.
    lag: i64,
    /// It sleeps, and is queued only to burn what it was ahead.
    delayed: bool,
}

impl Entity {
    /// A thread of this weight that asks for slices of this length.
    pub fn new(id: Id, weight: i64, slice_ns: u64) -> Entity {
        let slice_ns = i64::try_from(slice_ns).unwrap_or(i64::MAX / 4096);
        Entity { id, weight, slice_ns, vruntime: 0, deadline: 0, lag: 0, delayed: false }
    }

    /// The number of its thread.
    pub fn id(&self) -> Id {
        self.id
    }

    fn virtual_slice(&self) -> i64 {
        self.slice_ns * WEIGHT / self.weight
    }
}

/// The queue of a CPU.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    entities: Vec<Entity>,
    /// The thread that runs; it is among the entities.
    current: Option<Id>,
    /// A mean to begin with, for a queue that was empty.
    mean: i64,
    /// The thread that runs has used up its slice.
    is_over: bool,
}

impl Queue {
    /// How many threads are runnable here, with the one that runs.
    pub fn runnable(&self) -> usize {
        self.entities.iter().filter(|entity| !entity.delayed).count()
    }

    /// How many threads are in the queue, with those that only burn what they were ahead.
    pub fn queued(&self) -> usize {
        self.entities.len()
    }

    /// The threads that are runnable here and do not run.
    pub fn waiting(&self) -> impl Iterator<Item = Id> + '_ {
        let waits = |entity: &&Entity| !entity.delayed && Some(entity.id) != self.current;
        self.entities.iter().filter(waits).map(|entity| entity.id)
    }

    /// Queues a thread that becomes runnable. If it is queued here and delayed, it goes on as it
    /// is.
    pub fn add(&mut self, mut entity: Entity) {
        if let Some(at) = self.at(entity.id) {
            debug_assert!(self.entities[at].delayed, "rule 2");
            self.entities[at].delayed = false;
            return;
        }
        // The mean moves as the thread is added: its lag is scaled so that it is right afterwards.
        let load: i64 = self.entities.iter().map(|entity| entity.weight).sum();
        let mean = self.mean_now();
        let lag = if load > 0 { entity.lag.saturating_mul(load + entity.weight) / load } else { 0 };
        entity.vruntime = mean - lag;
        entity.deadline = entity.vruntime + entity.virtual_slice();
        entity.delayed = false;
        self.entities.push(entity);
    }

    /// The thread that runs falls asleep, or another one leaves: what is known of it then. `None`
    /// if it stays queued because it is owed nothing.
    pub fn sleep(&mut self, id: Id) -> Option<Entity> {
        let at = self.at(id)?;
        self.give_up(id);
        if self.mean_now() < self.entities[at].vruntime {
            self.entities[at].delayed = true;
            return None;
        }
        Some(self.remove(at))
    }

    /// Takes a thread out of the queue, wherever it stands: it ends, or goes to another CPU.
    pub fn leave(&mut self, id: Id) -> Option<Entity> {
        let at = self.at(id)?;
        self.give_up(id);
        Some(self.remove(at))
    }

    /// The thread that runs has run for so long, without being counted yet.
    pub fn ran(&mut self, ns: u64) {
        let Some(at) = self.current.and_then(|id| self.at(id)) else { return };
        let entity = &mut self.entities[at];
        entity.vruntime += ns as i64 * WEIGHT / entity.weight;
        if entity.vruntime >= entity.deadline {
            entity.deadline = entity.vruntime + entity.virtual_slice();
            self.is_over = true;
        }
    }

    /// Whether the thread that runs has used up its slice and others wait.
    pub fn is_over(&self) -> bool {
        self.is_over && self.entities.len() > 1
    }

    /// The thread that runs yields. `forfeits`: it gives up the rest of its slice.
    pub fn yields(&mut self, forfeits: bool) {
        let mean = self.mean_now();
        let Some(at) = self.current.and_then(|id| self.at(id)) else { return };
        let entity = &mut self.entities[at];
        if !forfeits {
            entity.deadline += entity.virtual_slice();
        } else if entity.vruntime <= mean {
            entity.vruntime = entity.deadline;
            entity.deadline += entity.virtual_slice();
        }
        self.is_over = true;
    }

    /// Chooses the thread that runs next, and lets it run. Threads that were delayed and are
    /// eligible by now leave: `gone` is called with them.
    pub fn choose(&mut self, mut gone: impl FnMut(Entity)) -> Option<Id> {
        loop {
            let Some(at) = self.best() else {
                self.current = None;
                return None;
            };
            if !self.entities[at].delayed {
                let id = self.entities[at].id;
                if self.current != Some(id) {
                    self.current = Some(id);
                    self.is_over = false;
                } else if self.is_over {
                    self.is_over = false;
                }
                return Some(id);
            }
            let mut entity = self.remove(at);
            entity.lag = entity.lag.min(0);
            entity.delayed = false;
            gone(entity);
        }
    }

    /// Whether a thread that has just been added should run at once.
    pub fn preempts(&self, id: Id) -> bool {
        self.best().is_some_and(|at| self.entities[at].id == id)
    }

    fn best(&self) -> Option<usize> {
        let mean = self.mean_now();
        let eligible = |entity: &Entity| entity.vruntime <= mean;
        let current = self.current.and_then(|id| self.at(id));
        if let Some(at) = current.filter(|at| eligible(&self.entities[*at]) && !self.is_over) {
            return Some(at);
        }
        let indices = (0..self.entities.len()).filter(|at| eligible(&self.entities[*at]));
        let deadline = |at: &usize| (self.entities[*at].deadline, self.entities[*at].id);
        // Rounding of the mean may leave none eligible: then the one that has run least.
        indices.min_by_key(deadline).or_else(|| {
            (0..self.entities.len()).min_by_key(|at| (self.entities[*at].vruntime, self.entities[*at].id))
        })
    }

    fn mean_now(&self) -> i64 {
        let Some(first) = self.entities.first() else { return self.mean };
        let load: i64 = self.entities.iter().map(|entity| entity.weight).sum();
        // Distances are short where the times themselves are long.
        let sum: i64 =
            self.entities.iter().map(|entity| (entity.vruntime - first.vruntime) * entity.weight).sum();
        first.vruntime + sum.div_euclid(load)
    }

    fn remove(&mut self, at: usize) -> Entity {
        let mean = self.mean_now();
        let mut entity = self.entities.swap_remove(at);
        let most = 2 * entity.virtual_slice();
        entity.lag = (mean - entity.vruntime).clamp(-most, most);
        self.mean = if self.entities.is_empty() { mean } else { self.mean };
        entity
    }

    fn give_up(&mut self, id: Id) {
        if self.current == Some(id) {
            self.current = None;
        }
    }

    fn at(&self, id: Id) -> Option<usize> {
        self.entities.iter().position(|entity| entity.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLICE_NS: u64 = 3_000_000;

    fn queue(weights: &[i64]) -> Queue {
        let mut queue = Queue::default();
        for (id, weight) in weights.iter().enumerate() {
            queue.add(Entity::new(id, *weight, SLICE_NS));
        }
        queue
    }

    /// Runs ticks of 1 ms; how many each thread gets.
    fn ticks(queue: &mut Queue, count: usize, threads: usize) -> Vec<u64> {
        let mut got = vec![0; threads];
        let none_sleeps = |_: Entity| panic!("no thread sleeps");
        let mut runs = queue.choose(none_sleeps).expect("a thread");
        for _ in 0..count {
            got[runs] += 1;
            queue.ran(1_000_000);
            if queue.is_over() {
                runs = queue.choose(none_sleeps).expect("a thread");
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
        assert_eq!(queue.choose(|_| ()), Some(0));
        queue.ran(3_000_000);
        assert_eq!(queue.choose(|_| ()), Some(1), "it is owed 1.5 ms");
        queue.ran(500_000);
        let slept = queue.sleep(1).expect("it is owed time, and leaves");
        assert_eq!(slept.lag, 1_250_000);
        assert_eq!(queue.choose(|_| ()), Some(0));
        queue.ran(50_000_000);
        queue.add(slept);
        assert!(queue.preempts(1), "the other one is not eligible");
    }

    #[test]
    fn a_thread_that_ran_ahead_stays_until_the_others_have_caught_up() {
        let mut queue = queue(&[1024; 2]);
        assert_eq!(queue.choose(|_| ()), Some(0));
        queue.ran(2_000_000);
        assert_eq!(queue.sleep(0), None, "it is ahead by 1 ms");
        assert_eq!(queue.runnable(), 1);
        let mut gone = vec![];
        assert_eq!(queue.choose(|entity| gone.push(entity)), Some(1));
        queue.ran(3_000_000);
        assert_eq!(queue.choose(|entity| gone.push(entity)), Some(1));
        assert_eq!((gone.len(), gone[0].id, gone[0].lag), (1, 0, 0));
    }

    #[test]
    fn a_thread_that_yields_lets_the_other_one_run() {
        for forfeits in [true, false] {
            let mut queue = queue(&[1024; 2]);
            assert_eq!(queue.choose(|_| ()), Some(0));
            queue.ran(1000);
            queue.yields(forfeits);
            assert_eq!(queue.choose(|_| ()), Some(1));
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
                let runs = queue.choose(|entity| gone.push(entity));
                gone.iter().for_each(|entity| asleep[entity.id] = Some(*entity));
                prop_assert_eq!(runs.is_some(), sleeps.contains(&false));
                match (what, runs) {
                    (0, _) if sleeps[id] => {
                        let new = asleep[id].take().unwrap_or(Entity::new(id, 1024, SLICE_NS));
                        queue.add(new);
                        sleeps[id] = false;
                    }
                    (1, Some(id)) => {
                        sleeps[id] = true;
                        asleep[id] = queue.sleep(id);
                    }
                    (2, Some(_)) => queue.yields(true),
                    _ => queue.ran(1_000_000),
                }
                let mean = queue.mean_now();
                let bound = 4 * (SLICE_NS as i64 + 1_000_000);
                prop_assert!(queue.entities.iter().all(|it| it.vruntime - mean <= bound));
                prop_assert_eq!(queue.runnable(), sleeps.iter().filter(|it| !**it).count());
            }
        }
    }
}
