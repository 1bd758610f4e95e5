//! Which thread a CPU runs next, as Linux decided it from 2.6.23 to 6.5: the thread that has run
//! least, by weight (CFS; `kernel/sched/fair.c` of 5.15).
//!
//! The least virtual run time of a queue, `least`, never goes back. A thread that has slept begins
//! near it, so that it cannot keep the CPU for as long as it has slept. What is owed to threads is
//! not counted further: that is what EEVDF adds.
//!
//! | Linux | here |
//! | --- | --- |
//! | a round lets each thread run once, and takes `latency_ns`, or `min_granularity_ns` for each thread if these are more; a thread's slice is its part of the round by weight (`sched_slice`) | the same |
//! | at a tick a thread loses the CPU that has run longer than its slice, or is ahead by a slice of the one that has run least (`check_preempt_tick`) | the same |
//! | a thread that wakes up takes the CPU at once if the current one is ahead of it by more than `wakeup_granularity_ns` (`wakeup_preempt_entity`) | the same |
//! | it begins half a `latency_ns` behind `least` at most (`GENTLE_FAIR_SLEEPERS`) | the same |
//! | a new thread begins a slice ahead of `least` (`START_DEBIT`) | the same |
//! | a thread that yields only marks itself: the second one is chosen in its place, unless that is ahead of it by more than `wakeup_granularity_ns` (the `skip` buddy) | the same |
//! | the buddies `next` (off in 5.15) and `last`, groups | not modelled |
//!
//! 1. `least` is at most the virtual run time of each thread that has stayed in the queue, or it
//!    was so when the thread came.
//! 2. A thread that leaves takes its distance to `least` with it (`Origin::Moved`); one that falls
//!    asleep keeps its virtual run time until it is known where it wakes up (`Origin::Slept`).

use crate::fair::{Entities, Entity, Fair, Id, Origin};

/// The intervals of the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// A round of all threads
    pub latency_ns: i64,
    /// The least that each one gets of it
    pub min_granularity_ns: i64,
    /// How far behind a thread is that takes the CPU when it wakes up
    pub wakeup_granularity_ns: i64,
}

/// The queue of a CPU.
#[derive(Clone, Debug)]
pub struct Cfs {
    entities: Entities,
    intervals: Intervals,
    least: i64,
    /// The thread that has yielded.
    skip: Option<Id>,
}

impl Cfs {
    /// An empty queue.
    pub fn new(intervals: Intervals) -> Cfs {
        Cfs { entities: Entities::default(), intervals, least: 0, skip: None }
    }

    /// The slice of a thread if there were `more` threads, with `weight` together.
    fn slice_ns(&self, entity: &Entity, more: usize, weight: i64) -> i64 {
        let threads = (self.entities.all.len() + more) as i64;
        let round_ns = self.intervals.latency_ns.max(threads * self.intervals.min_granularity_ns);
        round_ns * entity.weight / (self.entities.load() + weight)
    }

    /// The thread that has run least, of those but `not`; of equal ones the current one is last.
    fn first(&self, not: Option<Id>) -> Option<Entity> {
        let others = self.entities.all.iter().filter(|entity| Some(entity.id) != not);
        let order = |it: &&Entity| (it.vruntime, Some(it.id) == self.entities.current, it.id);
        others.min_by_key(order).copied()
    }

    /// Whether one thread is so far ahead of another one that wakes up that it loses the CPU.
    fn is_far_ahead(&self, ahead: &Entity, behind: &Entity) -> bool {
        ahead.vruntime - behind.vruntime > behind.scaled(self.intervals.wakeup_granularity_ns)
    }

    fn move_least(&mut self) {
        let least = self.entities.all.iter().map(|entity| entity.vruntime).min();
        self.least = self.least.max(least.unwrap_or(self.least));
    }

    fn remove(&mut self, id: Id, origin: Origin) -> Option<Entity> {
        let at = self.entities.at(id)?;
        let mut entity = Entity { origin: Origin::Slept, ..self.entities.remove(at) };
        self.skip = self.skip.filter(|skip| *skip != id);
        self.move_least();
        if origin == Origin::Moved {
            self.release(&mut entity);
        }
        Some(entity)
    }
}

impl Fair for Cfs {
    fn entities(&self) -> &Entities {
        &self.entities
    }

    fn add(&mut self, mut entity: Entity) {
        let after_sleep = self.least - self.intervals.latency_ns / 2;
        entity.vruntime = match entity.origin {
            Origin::New => self.least + entity.scaled(self.slice_ns(&entity, 1, entity.weight)),
            Origin::Slept => entity.vruntime.max(after_sleep),
            Origin::Moved => (self.least + entity.vruntime).max(after_sleep),
        };
        self.entities.all.push(entity);
    }

    fn sleep(&mut self, id: Id) -> Option<Entity> {
        self.remove(id, Origin::Slept)
    }

    fn leave(&mut self, id: Id) -> Option<Entity> {
        self.remove(id, Origin::Moved)
    }

    fn release(&self, entity: &mut Entity) {
        if entity.origin == Origin::Slept {
            (entity.vruntime, entity.origin) = (entity.vruntime - self.least, Origin::Moved);
        }
    }

    fn ran(&mut self, ns: i64) {
        let Some(at) = self.entities.current_at() else { return };
        let entity = &mut self.entities.all[at];
        entity.vruntime += entity.scaled(ns);
        entity.ran_ns += ns;
        self.move_least();
    }

    fn is_over(&self) -> bool {
        let Some(at) = self.entities.current_at() else { return false };
        let current = &self.entities.all[at];
        let Some(first) = self.first(Some(current.id)) else { return false };
        let slice_ns = self.slice_ns(current, 0, 0);
        let is_ahead = current.vruntime - first.vruntime > slice_ns;
        current.ran_ns > slice_ns || current.ran_ns >= self.intervals.min_granularity_ns && is_ahead
    }

    fn yields(&mut self) {
        self.skip = self.entities.current;
    }

    fn choose(&mut self, _gone: &mut dyn FnMut(Entity)) -> Option<Id> {
        let mut chosen = self.first(None);
        if let Some(first) = chosen.filter(|first| self.skip == Some(first.id)) {
            let second = self.first(Some(first.id)).filter(|second| !self.is_far_ahead(second, &first));
            chosen = second.or(chosen);
        }
        let id = chosen.map(|entity| entity.id);
        self.skip = self.skip.filter(|skip| Some(*skip) != id);
        if id != self.entities.current {
            self.entities.current = id;
            if let Some(at) = self.entities.current_at() {
                self.entities.all[at].ran_ns = 0;
            }
        }
        id
    }

    fn suspend(&mut self) {
        self.entities.current = None;
    }

    fn preempts(&self, id: Id) -> bool {
        let (Some(new), Some(current)) = (self.entities.at(id), self.entities.current_at()) else {
            return true;
        };
        self.is_far_ahead(&self.entities.all[current], &self.entities.all[new])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::Class;

    const MS: i64 = 1_000_000;

    /// As on a machine with eight CPUs.
    fn queue(nices: &[i32]) -> Cfs {
        let intervals =
            Intervals { latency_ns: 24 * MS, min_granularity_ns: 3 * MS, wakeup_granularity_ns: 4 * MS };
        let mut queue = Cfs::new(intervals);
        for (id, nice) in nices.iter().enumerate() {
            queue
                .add(Entity { origin: Origin::Moved, ..Entity::new(id, Class { nice: *nice, priority: 0 }) });
        }
        queue
    }

    fn choose(queue: &mut Cfs) -> Option<Id> {
        queue.choose(&mut |_| panic!("a thread that sleeps is gone at once"))
    }

    #[test]
    fn a_round_is_shared_by_weight_and_grows_with_many() {
        let mut two = queue(&[0, 5]);
        let mut got = [0; 2];
        let mut runs = choose(&mut two).expect("a thread");
        for _ in 0..20_000 {
            got[runs] += 1;
            two.ran(MS);
            if two.is_over() {
                runs = choose(&mut two).expect("a thread");
            }
        }
        let share = f64::from(got[0]) / f64::from(got[0] + got[1]);
        assert!((share - 1024.0 / (1024.0 + 335.0)).abs() < 0.02, "{got:?}");
        let sixteen = queue(&[0; 16]);
        assert_eq!(sixteen.slice_ns(&sixteen.entities.all[0], 0, 0), 3 * MS);
        assert_eq!(queue(&[0; 4]).slice_ns(&sixteen.entities.all[0], 0, 0), 6 * MS);
    }

    #[test]
    fn a_sleeper_has_half_a_round_and_takes_the_cpu_if_it_is_far_behind() {
        let mut queue = queue(&[0; 2]);
        assert_eq!(choose(&mut queue), Some(0));
        let slept = queue.sleep(1).expect("it leaves at once");
        queue.ran(100 * MS);
        queue.add(slept);
        let credit = queue.least - queue.entities.all[1].vruntime;
        assert_eq!(credit, 12 * MS);
        assert!(queue.preempts(1));
        let mut slept = queue.sleep(1).expect("it leaves at once");
        queue.ran(3 * MS);
        slept.vruntime = queue.least;
        queue.add(slept);
        assert!(!queue.preempts(1), "no wake-up granularity is between them");
    }

    #[test]
    fn a_thread_that_yields_is_skipped_while_the_second_one_is_near() {
        let mut queue = queue(&[0; 2]);
        assert_eq!(choose(&mut queue), Some(0));
        queue.entities.all[1].vruntime = 2 * MS;
        queue.yields();
        assert_eq!(choose(&mut queue), Some(1), "the first one has run less, and has yielded");
        let mut queue = self::queue(&[0; 2]);
        assert_eq!(choose(&mut queue), Some(0));
        queue.entities.all[1].vruntime = 5 * MS;
        queue.yields();
        assert_eq!(choose(&mut queue), Some(0), "the second one is too far ahead");
    }

    #[test]
    fn a_thread_takes_its_distance_to_another_queue_and_a_new_one_begins_a_slice_later() {
        let mut from = queue(&[0; 2]);
        assert_eq!(choose(&mut from), Some(0));
        from.ran(10 * MS);
        let moved = from.leave(0).expect("it was queued");
        assert_eq!((moved.vruntime, moved.origin), (10 * MS, Origin::Moved));
        let mut to = queue(&[0]);
        to.least = 500 * MS;
        to.add(Entity { id: 7, ..moved });
        assert_eq!(to.entities.all[1].vruntime, 510 * MS);
        to.add(Entity::new(8, Class::default()));
        assert_eq!(to.entities.all[2].vruntime, 508 * MS, "a third of a round");
    }
}
