//! Real-time threads (`SCHED_FIFO`): which one a CPU runs next.
//!
//! A real-time thread runs before all fair ones, and until it sleeps, ends, yields, or one of a
//! higher priority comes (`kernel/sched/rt.c`).
//!
//! 1. Of two threads of one priority, the one that came earlier stands earlier. A thread that loses
//!    its CPU to one of a higher priority keeps its place; one that yields goes behind the others.
//! 2. The first one of the highest priority runs.
//!
//! Linux leaves 5 % of the time to fair threads by default (`sched_rt_runtime_us`). This is not
//! modelled: here a real-time thread that never sleeps starves them.

use crate::fair::{Entity, Id};

/// The real-time threads of a CPU.
#[derive(Clone, Debug, Default)]
pub struct RealTime {
    /// In the order of their arrival.
    entities: Vec<Entity>,
    current: Option<Id>,
}

impl RealTime {
    /// How many there are, with the one that runs.
    pub fn runnable(&self) -> usize {
        self.entities.len()
    }

    /// Those that do not run.
    pub fn waiting(&self) -> impl Iterator<Item = Id> + '_ {
        self.entities.iter().map(|entity| entity.id).filter(|id| Some(*id) != self.current)
    }

    /// Whether one of them runs.
    pub fn runs(&self) -> bool {
        self.current.is_some()
    }

    /// The priority of one of them.
    pub fn priority(&self, id: Id) -> Option<u8> {
        self.entities.iter().find(|entity| entity.id == id).map(|entity| entity.priority)
    }

    /// The priority of the one that runs; 0 if none does.
    pub fn current_priority(&self) -> u8 {
        self.current.and_then(|id| self.priority(id)).unwrap_or(0)
    }

    /// Adds a thread behind the others of its priority.
    pub fn add(&mut self, entity: Entity) {
        self.entities.push(entity);
    }

    /// Takes a thread out.
    pub fn leave(&mut self, id: Id) -> Option<Entity> {
        self.current = self.current.filter(|current| *current != id);
        let at = self.entities.iter().position(|entity| entity.id == id)?;
        Some(self.entities.remove(at))
    }

    /// The one that runs goes behind the others of its priority.
    pub fn yields(&mut self) {
        if let Some(entity) = self.current.and_then(|id| self.leave(id)) {
            self.current = Some(entity.id);
            self.add(entity);
        }
    }

    /// Chooses the one that runs next, and lets it run.
    pub fn choose(&mut self) -> Option<Id> {
        // Of equal ones the first one is taken.
        self.current =
            self.entities.iter().rev().max_by_key(|entity| entity.priority).map(|entity| entity.id);
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::Class;

    #[test]
    fn the_highest_priority_runs_and_of_equal_ones_the_first() {
        let mut queue = RealTime::default();
        for (id, priority) in [(0, 5), (1, 5), (2, 9), (3, 5)] {
            queue.add(Entity::new(id, Class { nice: 0, priority }));
        }
        assert_eq!((queue.choose(), queue.current_priority()), (Some(2), 9));
        queue.yields();
        assert_eq!(queue.choose(), Some(2), "no other one has its priority");
        queue.leave(2).expect("it was queued");
        assert_eq!(queue.choose(), Some(0));
        queue.yields();
        assert_eq!(queue.choose(), Some(1));
        queue.add(Entity::new(2, Class { nice: 0, priority: 9 }));
        assert_eq!(queue.choose(), Some(2));
        queue.leave(2).expect("it was queued");
        assert_eq!(queue.choose(), Some(1), "it has kept its place");
        assert_eq!(queue.waiting().collect::<Vec<_>>(), [3, 0]);
    }
}
