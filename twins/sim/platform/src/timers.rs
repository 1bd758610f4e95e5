//! Timers: which sleep ends next, and when.
//!
//! Timers of one time end in the order in which they were set. A timer is never taken back: it
//! names the sleep that it ends by its number, and a thread that sleeps another time is not meant.

use crate::eevdf::Id;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No time at all.
pub const NEVER: u64 = u64::MAX;

/// All timers.
#[derive(Debug, Default)]
pub struct Timers {
    /// When, its number, the thread, and which of its sleeps.
    heap: BinaryHeap<Reverse<(u64, u64, Id, u64)>>,
    count: u64,
}

impl Timers {
    /// Ends this sleep of a thread at a time.
    pub fn set(&mut self, at_ns: u64, id: Id, sleep: u64) {
        self.count += 1;
        self.heap.push(Reverse((at_ns, self.count, id, sleep)));
    }

    /// When the next one ends; [`NEVER`] if there is none.
    pub fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse((at_ns, ..))| *at_ns)
    }

    /// Takes the next one: the thread, and which of its sleeps.
    pub fn take(&mut self) -> Option<(Id, u64)> {
        self.heap.pop().map(|Reverse((_, _, id, sleep))| (id, sleep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_end_by_time_and_then_in_their_order() {
        let mut timers = Timers::default();
        [(7, 1), (5, 2), (7, 3), (5, 4)].into_iter().for_each(|(at_ns, id)| timers.set(at_ns, id, 0));
        assert_eq!(timers.next_ns(), 5);
        let order: Vec<Id> = std::iter::from_fn(|| timers.take()).map(|(id, _)| id).collect();
        assert_eq!((order, timers.next_ns()), (vec![2, 4, 1, 3], NEVER));
    }
}
