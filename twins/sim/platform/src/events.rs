//! Which CPU something happens on next: a tournament of all CPUs.
//!
//! A machine of 112 CPUs makes a step on another CPU each nanosecond or so, and each one asks for
//! the CPU that is next. A winner tree (Knuth, *The Art of Computer Programming* 3, section 5.4.1)
//! answers at once, and takes as many comparisons for a change as the tree is high.
//!
//! 1. A leaf is a CPU's next time and its number, in one word. So the least word is the earliest,
//!    and of two at one time that of the lower CPU.
//! 2. An inner node is the lesser one of its children.
//! 3. A run ends before `END_NS` (2.2 years).

use crate::machine::CPUS_MAX;
use crate::timers::NEVER;

const CPU_BITS: u32 = CPUS_MAX.trailing_zeros();
const END_NS: u64 = NEVER >> CPU_BITS;

/// The next time of each CPU.
#[derive(Debug)]
pub struct Events {
    /// The root is at 1; the children of a node are at twice its place, and behind.
    words: Vec<u64>,
}

impl Events {
    /// Nothing happens on any CPU.
    pub fn new(cpus: usize) -> Events {
        Events { words: vec![NEVER; 2 * cpus.next_power_of_two().max(2)] }
    }

    /// Sets when something happens on a CPU next.
    #[inline]
    pub fn set(&mut self, cpu: usize, at_ns: u64) {
        assert!(at_ns < END_NS || at_ns == NEVER, "a run ends within two years");
        let mut node = self.words.len() / 2 + cpu;
        self.words[node] = if at_ns == NEVER { NEVER } else { at_ns << CPU_BITS | cpu as u64 };
        while node > 1 {
            let winner = self.words[node].min(self.words[node ^ 1]);
            node /= 2;
            if self.words[node] == winner {
                return;
            }
            self.words[node] = winner;
        }
    }

    /// The CPU on which something happens first, and when; `None` if nothing ever does.
    #[inline]
    pub fn first(&self) -> Option<(usize, u64)> {
        let word = self.words[1];
        (word != NEVER).then(|| ((word % CPUS_MAX as u64) as usize, word >> CPU_BITS))
    }

    /// Until when a CPU is before all others.
    #[inline]
    pub fn until_others(&self, cpu: usize) -> u64 {
        let mut node = self.words.len() / 2 + cpu;
        let mut first = NEVER;
        while node > 1 {
            first = first.min(self.words[node ^ 1]);
            node /= 2;
        }
        let is_behind = first % CPUS_MAX as u64 > cpu as u64;
        if first == NEVER { NEVER } else { (first >> CPU_BITS) + u64::from(is_behind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// It says what a look at all CPUs says.
        #[test]
        fn the_first_is_the_first(
            cpus in 1usize..9,
            sets in proptest::collection::vec((0usize..8, prop_oneof![0u64..6, Just(NEVER)]), 0..60),
        ) {
            let (mut events, mut all) = (Events::new(cpus), vec![NEVER; cpus]);
            for (cpu, at_ns) in sets {
                all[cpu % cpus] = at_ns;
                events.set(cpu % cpus, at_ns);
                let first = (0..cpus).min_by_key(|cpu| all[*cpu]).filter(|cpu| all[*cpu] != NEVER);
                prop_assert_eq!(events.first(), first.map(|cpu| (cpu, all[cpu])));
                for own in 0..cpus {
                    let others = (0..cpus).filter(|other| *other != own);
                    let ends = others.map(|other| all[other].saturating_add(u64::from(other > own)));
                    prop_assert_eq!(events.until_others(own), ends.min().unwrap_or(NEVER));
                }
            }
        }
    }
}
