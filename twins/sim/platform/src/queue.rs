//! The queue of a CPU: its real-time threads, and its fair ones, which run while there are none.

use crate::cfs::{Cfs, Intervals};
use crate::eevdf::Eevdf;
use crate::fair::{Entity, Fair, Id};
use crate::machine::{Policy, Scheduler};
use crate::realtime::RealTime;

/// The queue of a CPU.
#[derive(Debug)]
pub struct Queue {
    realtime: RealTime,
    fair: Box<dyn Fair>,
}

impl Queue {
    /// An empty queue of a machine's scheduler.
    pub fn new(scheduler: &Scheduler) -> Queue {
        let fair: Box<dyn Fair> = match scheduler.policy {
            Policy::Eevdf => Box::new(Eevdf::new(scheduler.slice_ns, scheduler.yield_forfeits)),
            Policy::Cfs => Box::new(Cfs::new(Intervals {
                latency_ns: scheduler.latency_ns as i64,
                min_granularity_ns: scheduler.min_granularity_ns as i64,
                wakeup_granularity_ns: scheduler.wakeup_granularity_ns as i64,
            })),
        };
        Queue { realtime: RealTime::default(), fair }
    }

    /// How many threads are runnable here, with the one that runs.
    pub fn runnable(&self) -> usize {
        self.realtime.runnable() + self.fair.entities().runnable()
    }

    /// How many threads are in the queue, with those that only burn what they were ahead.
    pub fn queued(&self) -> usize {
        self.realtime.runnable() + self.fair.entities().all.len()
    }

    /// The threads that are runnable here and do not run.
    pub fn waiting(&self) -> impl Iterator<Item = Id> + '_ {
        self.realtime.waiting().chain(self.fair.entities().waiting())
    }

    /// The real-time priority of the thread that runs; 0 if it is none.
    pub fn priority(&self) -> u8 {
        self.realtime.current_priority()
    }

    /// Queues a thread that becomes runnable.
    pub fn add(&mut self, entity: Entity) {
        if entity.priority > 0 { self.realtime.add(entity) } else { self.fair.add(entity) }
    }

    /// A thread falls asleep: what is known of it then. `None` if it stays queued.
    pub fn sleep(&mut self, id: Id) -> Option<Entity> {
        self.realtime.leave(id).or_else(|| self.fair.sleep(id))
    }

    /// Takes a thread out of the queue, wherever it stands: it ends, or goes to another CPU.
    pub fn leave(&mut self, id: Id) -> Option<Entity> {
        self.realtime.leave(id).or_else(|| self.fair.leave(id))
    }

    /// A thread that slept here wakes up on another CPU.
    pub fn release(&self, entity: &mut Entity) {
        self.fair.release(entity);
    }

    /// The thread that runs has run for so long, without being counted yet.
    pub fn ran(&mut self, ns: u64) {
        if !self.realtime.runs() {
            self.fair.ran(ns as i64);
        }
    }

    /// Whether a tick takes the CPU from the thread that runs.
    pub fn is_over(&self) -> bool {
        !self.realtime.runs() && self.fair.is_over()
    }

    /// The thread that runs yields.
    pub fn yields(&mut self) {
        if self.realtime.runs() { self.realtime.yields() } else { self.fair.yields() }
    }

    /// Chooses the thread that runs next, and lets it run. `gone` is called with threads that were
    /// asleep and leave only now.
    pub fn choose(&mut self, mut gone: impl FnMut(Entity)) -> Option<Id> {
        let id = self.realtime.choose();
        if id.is_none() {
            return self.fair.choose(&mut gone);
        }
        self.fair.suspend();
        id
    }

    /// Whether a thread that has just been added should run at once.
    pub fn preempts(&self, id: Id) -> bool {
        match self.realtime.priority(id) {
            Some(priority) => priority > self.priority(),
            None => !self.realtime.runs() && self.fair.preempts(id),
        }
    }
}
