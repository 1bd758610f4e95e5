//! What the fair schedulers share: threads with a weight and a virtual run time, in a list.
//!
//! A fair scheduler gives each thread CPU time by its weight. So it counts time in units of the
//! weight: the *virtual run time* of a thread grows while the thread runs, slowly if its weight is
//! great. `eevdf.rs` and `cfs.rs` differ in the thread that they choose, and in what they do with a
//! thread that sleeps or yields.
//!
//! 1. A thread is in one list, and there once at most.
//! 2. The current thread of a list is in it.
//! 3. Virtual run times of two lists cannot be compared. An entity that is in no list says by
//!    `origin` what its virtual run time means.

use std::fmt::Debug;

/// A thread's number.
pub type Id = usize;

/// The weight of nice 0.
pub const WEIGHT: i64 = 1024;

/// The weights of nice -20 to 19: each step is a tenth of the CPU against a thread of the other
/// value (Linux, `sched_prio_to_weight`).
const WEIGHTS: [i64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// How the scheduler treats a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// From -20 to 19; a thread of a lower value gets more CPU time
    pub nice: i32,
    /// Its real-time priority (`SCHED_FIFO`), from 1 to 99; 0: it is no real-time thread
    pub priority: u8,
}

/// What a virtual run time means that is in no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing: the thread is new.
    New,
    /// It is that of the list in which the thread was last.
    Slept,
    /// It is the distance to the least one of the list in which the thread was last.
    Moved,
}

/// What the scheduler knows of a thread. Times are virtual nanoseconds, but for `ran_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entity {
    /// The number of its thread
    pub id: Id,
    /// Its weight
    pub weight: i64,
    /// Its real-time priority; 0: none
    pub priority: u8,
    /// How much it has run
    pub vruntime: i64,
    /// What `vruntime` means while it is in no list
    pub origin: Origin,
    /// CFS: how long it has run since it was chosen
    pub ran_ns: i64,
    /// EEVDF: when its slice ends
    pub deadline: i64,
    /// EEVDF: what it is owed, while it is in no list
    pub lag: i64,
    /// EEVDF: it sleeps, and is in the list only to burn what it was ahead
    pub delayed: bool,
}

impl Entity {
    /// A thread that has not run.
    pub fn new(id: Id, class: Class) -> Entity {
        let mut entity = Entity {
            id,
            weight: WEIGHT,
            priority: 0,
            vruntime: 0,
            origin: Origin::New,
            ran_ns: 0,
            deadline: 0,
            lag: 0,
            delayed: false,
        };
        entity.set(class);
        entity
    }

    /// Sets how it is treated, while it is in no list. What it is owed stays the same CPU time.
    pub fn set(&mut self, class: Class) {
        let weight = WEIGHTS[(class.nice.clamp(-20, 19) + 20) as usize];
        self.lag = self.lag.saturating_mul(self.weight) / weight;
        (self.weight, self.priority) = (weight, class.priority);
    }

    /// A time in units of its weight.
    pub fn scaled(&self, ns: i64) -> i64 {
        if self.weight == WEIGHT { ns } else { ns * WEIGHT / self.weight }
    }
}

/// The threads that are queued on a CPU, and the one of them that runs.
#[derive(Clone, Debug, Default)]
pub struct Entities {
    /// All, in no order
    pub all: Vec<Entity>,
    /// The thread that runs
    pub current: Option<Id>,
}

impl Entities {
    /// Where a thread stands.
    pub fn at(&self, id: Id) -> Option<usize> {
        self.all.iter().position(|entity| entity.id == id)
    }

    /// Where the current thread stands.
    pub fn current_at(&self) -> Option<usize> {
        self.current.and_then(|id| self.at(id))
    }

    /// Takes a thread out.
    pub fn remove(&mut self, at: usize) -> Entity {
        let entity = self.all.swap_remove(at);
        self.current = self.current.filter(|id| *id != entity.id);
        entity
    }

    /// The sum of the weights.
    pub fn load(&self) -> i64 {
        self.all.iter().map(|entity| entity.weight).sum()
    }

    /// How many threads are runnable, with the one that runs.
    pub fn runnable(&self) -> usize {
        self.all.iter().filter(|entity| !entity.delayed).count()
    }

    /// The threads that are runnable and do not run.
    pub fn waiting(&self) -> impl Iterator<Item = Id> + '_ {
        let waits = |entity: &&Entity| !entity.delayed && Some(entity.id) != self.current;
        self.all.iter().filter(waits).map(|entity| entity.id)
    }
}

/// A fair scheduler: the queue of a CPU.
pub trait Fair: Debug {
    /// Its threads.
    fn entities(&self) -> &Entities;

    /// Queues a thread that becomes runnable.
    fn add(&mut self, entity: Entity);

    /// A thread falls asleep: what is known of it then. `None` if it stays queued.
    fn sleep(&mut self, id: Id) -> Option<Entity>;

    /// Takes a thread out, wherever it stands: it ends, or goes to another CPU.
    fn leave(&mut self, id: Id) -> Option<Entity>;

    /// A thread that slept here wakes up on another CPU.
    fn release(&self, entity: &mut Entity);

    /// The current thread has run for so long, without being counted yet.
    fn ran(&mut self, ns: i64);

    /// Whether a tick takes the CPU from the current thread.
    fn is_over(&self) -> bool;

    /// The current thread yields.
    fn yields(&mut self);

    /// Chooses the thread that runs next, and lets it run. `gone` is called with threads that were
    /// asleep and leave only now.
    fn choose(&mut self, gone: &mut dyn FnMut(Entity)) -> Option<Id>;

    /// A thread of another class runs, and the current one waits.
    fn suspend(&mut self);

    /// Whether a thread that has just been added should run at once.
    fn preempts(&self, id: Id) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_nice_is_a_tenth_and_what_is_owed_is_cpu_time() {
        let weight = |nice| Entity::new(0, Class { nice, priority: 0 }).weight;
        assert_eq!((weight(-20), weight(0), weight(19)), (88761, WEIGHT, 15));
        for nice in -20..19 {
            let ratio = weight(nice) as f64 / weight(nice + 1) as f64;
            assert!((1.17..1.29).contains(&ratio), "{nice}: {ratio}");
        }
        let mut entity = Entity::new(0, Class::default());
        entity.lag = 1_000_000;
        entity.set(Class { nice: 19, priority: 0 });
        assert!((999_900..=1_000_000).contains(&(entity.lag * entity.weight / WEIGHT)), "{}", entity.lag);
    }
}
