//! Threads that wait at addresses (futexes), in the order of their arrival.

use crate::eevdf::Id;
use std::collections::{BTreeMap, VecDeque};

/// A thread that waits at an address.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// The thread
    pub id: Id,
    /// Which sets it is in
    pub set: u32,
    /// The value that it has seen
    pub expected: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Waiters(BTreeMap<usize, VecDeque<Waiter>>);

impl Waiters {
    /// Adds one behind the others at its address.
    pub fn add(&mut self, address: usize, waiter: Waiter) {
        self.0.entry(address).or_default().push_back(waiter);
    }

    /// Takes at most `count` at an address that are wanted, the first ones first.
    pub fn take(&mut self, address: usize, count: u32, wanted: impl Fn(&Waiter) -> bool) -> Vec<Id> {
        let Some(queue) = self.0.get_mut(&address) else { return Vec::new() };
        let mut taken = Vec::new();
        queue.retain(|waiter| {
            let is_taken = taken.len() < count as usize && wanted(waiter);
            if is_taken {
                taken.push(waiter.id);
            }
            !is_taken
        });
        if queue.is_empty() {
            self.0.remove(&address);
        }
        taken
    }

    /// Takes a thread from wherever it waits.
    pub fn forget(&mut self, id: Id) {
        self.0.retain(|_, queue| {
            queue.retain(|waiter| waiter.id != id);
            !queue.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_are_wanted_are_taken() {
        let mut waiters = Waiters::default();
        for id in 0..5 {
            waiters.add(8, Waiter { id, set: 1 + id as u32 % 2, expected: 0 });
        }
        waiters.forget(2);
        assert_eq!(waiters.take(8, 2, |waiter| waiter.set == 1), [0, 4]);
        assert_eq!(waiters.take(8, u32::MAX, |_| true), [1, 3]);
        assert!(waiters.take(8, 1, |_| true).is_empty() && waiters.0.is_empty());
    }
}
