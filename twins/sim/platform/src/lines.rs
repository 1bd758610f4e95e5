//! Cache lines: which CPUs have a line, and how long an access takes.
//!
//! A line is in the caches of some CPUs for reading, or in that of one for writing (MESI without
//! the difference between E and M). A CPU that lacks it asks for it, and the answer takes as long
//! as it is far to the CPU that has it. Requests for one line queue up in the order in which they
//! are made, so a line that all CPUs write has the throughput of one transfer after the other.
//!
//! 1. A request decides at once who has the line next; that the line arrives later is the
//!    requester's affair. So requests, made in the order of time, are served in this order, and
//!    what an access sees is what the accesses before it have left.
//! 2. `busy_until` never goes back: a transfer begins when the one before it has ended.
//!
//! A plain store does not wait: the line comes while the program goes on (a store buffer). A change
//! (exchange, addition, comparison) waits for the line and for the CPU's stores before it.

use crate::machine::{CPUS_MAX, Machine};
use std::collections::{BTreeMap, HashMap};

/// What is done to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load
    Load,
    /// A store that need not be seen before what comes next
    Store,
    /// A change in one step, or a store that must be seen before what comes next
    Change,
}

const WORDS: usize = CPUS_MAX / 64;

/// The CPUs that have a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holders([u64; WORDS]);

impl Holders {
    fn only(cpu: usize) -> Holders {
        let mut holders = Holders::default();
        holders.add(cpu);
        holders
    }

    fn add(&mut self, cpu: usize) {
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    fn has(&self, cpu: usize) -> bool {
        self.0[cpu / 64] & 1 << (cpu % 64) != 0
    }

    fn meet(&self, others: &Holders) -> bool {
        self.0.iter().zip(&others.0).any(|(own, other)| own & other != 0)
    }
}

/// The CPUs that are equally far from one, and how far.
#[derive(Clone, Copy, Debug)]
struct Ring {
    cpus: Holders,
    ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    holders: Holders,
    /// One CPU has it, and may write.
    exclusive: bool,
    busy_until: u64,
}

/// All lines.
#[derive(Debug)]
pub struct Lines {
    shift: u32,
    /// For how long a change keeps the line.
    change_ns: u64,
    memory_ns: u64,
    /// For each CPU the others, the nearest ones first. There are as few rings as a machine has
    /// levels, so that a line that all CPUs have takes no longer than another one.
    rings: Vec<Vec<Ring>>,
    lines: HashMap<usize, Line, Fast>,
    /// When the stores of each CPU have reached their lines.
    stored_at: Vec<u64>,
}

impl Lines {
    /// None was used yet.
    pub fn new(machine: &Machine) -> Lines {
        let cpus = machine.cpus();
        // A machine's figure is that of a ping-pong by changes: it has the change in it.
        let change_ns = machine.cost.change_ns as u64;
        let rings = |own: usize| {
            let mut rings: BTreeMap<u64, Holders> = BTreeMap::new();
            for other in (0..cpus.len()).filter(|other| *other != own) {
                let ns = machine.distance_ns(&cpus[other], &cpus[own]).saturating_sub(change_ns).max(1);
                rings.entry(ns).or_default().add(other);
            }
            rings.into_iter().map(|(ns, cpus)| Ring { cpus, ns }).collect()
        };
        Lines {
            change_ns,
            shift: machine.line_bytes.trailing_zeros(),
            memory_ns: machine.distance.memory_ns,
            rings: (0..cpus.len()).map(rings).collect(),
            lines: HashMap::default(),
            stored_at: vec![0; cpus.len()],
        }
    }

    /// Until when a CPU waits for the line of an address, from `now_ns` on: `now_ns` if it has the
    /// line. A change keeps the line for a while after that.
    pub fn access(&mut self, now_ns: u64, cpu: usize, address: usize, access: Access) -> u64 {
        let (rings, memory_ns) = (&self.rings[cpu], self.memory_ns);
        let change_ns = if access == Access::Change { self.change_ns } else { 0 };
        let line = self.lines.entry(address >> self.shift).or_default();
        if access == Access::Load {
            if line.holders.has(cpu) {
                return now_ns;
            }
            let nearest = rings.iter().find(|ring| ring.cpus.meet(&line.holders)).map(|ring| ring.ns);
            let start = if line.exclusive { now_ns.max(line.busy_until) } else { now_ns };
            let there = start + nearest.unwrap_or(memory_ns);
            if line.exclusive {
                line.busy_until = there;
            }
            line.exclusive = nearest.is_none();
            line.holders.add(cpu);
            return there.max(line.busy_until);
        }
        // It may have asked for the line before, for a store, and the line may be on its way.
        let mut there = now_ns.max(line.busy_until);
        if !(line.exclusive && line.holders.has(cpu)) {
            // The others give it up at the same time.
            let farthest = rings.iter().rfind(|ring| ring.cpus.meet(&line.holders)).map(|ring| ring.ns);
            let ns = farthest.unwrap_or(if line.holders.has(cpu) { 0 } else { memory_ns });
            there += ns;
            *line = Line { holders: Holders::only(cpu), exclusive: true, busy_until: there };
        }
        line.busy_until = there + change_ns;
        let stored_at = &mut self.stored_at[cpu];
        if access == Access::Store {
            *stored_at = there.max(*stored_at);
            return now_ns;
        }
        there.max(*stored_at)
    }

    /// When the stores of a CPU have reached their lines.
    pub fn stored(&self, cpu: usize) -> u64 {
        self.stored_at[cpu]
    }
}

/// Addresses of lines are spread by a multiplication; a stronger hash takes longer than a look.
#[derive(Clone, Copy, Debug, Default)]
struct Fast(u64);

impl std::hash::BuildHasher for Fast {
    type Hasher = Fast;

    fn build_hasher(&self) -> Fast {
        Fast(0)
    }
}

impl std::hash::Hasher for Fast {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, number: usize) {
        let mixed = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn here() -> (Lines, u64, u64) {
        let machine = Machine::known("here").unwrap();
        let lines = Lines::new(&machine);
        let far = lines.rings[0][0].ns;
        (lines, far, machine.distance.memory_ns)
    }

    #[test]
    fn a_line_comes_once_and_stays_until_another_cpu_writes() {
        let (mut lines, far, memory) = here();
        assert_eq!(lines.access(0, 0, 640, Access::Load), memory);
        assert_eq!(lines.access(memory, 0, 703, Access::Load), memory, "the same line");
        assert_eq!(lines.access(memory, 0, 640, Access::Change), memory, "no other CPU has it");
        let now = 1000;
        assert_eq!(lines.access(now, 1, 640, Access::Load), now + far);
        assert_eq!(lines.access(now, 0, 640, Access::Load), now, "both have it");
        let now = 2000;
        assert_eq!(lines.access(now, 0, 640, Access::Change), now + far, "the other one gives it up");
        assert_eq!(
            lines.access(now, 1, 640, Access::Load),
            now + 2 * far + lines.change_ns,
            "it queues behind"
        );
    }

    #[test]
    fn a_store_does_not_wait_and_a_change_waits_for_it() {
        let (mut lines, far, _) = here();
        lines.access(0, 1, 0, Access::Change);
        assert_eq!(lines.access(1000, 0, 0, Access::Store), 1000);
        assert_eq!(lines.access(1000, 0, 0, Access::Load), 1000, "of its own stores a CPU knows");
        assert_eq!(lines.access(1010, 0, 0, Access::Change), 1000 + far);
    }

    #[test]
    fn writers_of_one_line_take_one_transfer_each() {
        let machine = Machine::known("epyc-64").unwrap();
        let mut lines = Lines::new(&machine);
        let ends: Vec<u64> = (0..8).map(|cpu| lines.access(0, cpu, 0, Access::Change)).collect();
        let far = machine.group[0].core_ns;
        let first = machine.distance.memory_ns;
        assert_eq!(ends, (0..8).map(|at| first + at * far).collect::<Vec<u64>>());
    }

    proptest! {
        /// Whatever is accessed in the order of time: no access ends before it begins, changes of a
        /// line end in the order in which they were asked for, and a CPU that asks again at once
        /// has the line.
        #[test]
        fn time_goes_on(steps in proptest::collection::vec((0u64..200, 0usize..8, 0usize..4, 0u8..3), 1..200)) {
            let mut lines = Lines::new(&Machine::known("m1").unwrap());
            let (mut now, mut last) = (0, [0; 4]);
            for (pause, cpu, line, kind) in steps {
                now += pause;
                let access = [Access::Load, Access::Store, Access::Change][usize::from(kind)];
                let end = lines.access(now, cpu, line * 128, access);
                prop_assert!(end >= now);
                if access == Access::Change {
                    // It may have waited for stores to other lines.
                    prop_assert!(end >= last[line] || last[line] <= lines.stored_at.iter().copied().max().unwrap_or(0));
                    last[line] = end;
                }
                prop_assert_eq!(lines.access(end, cpu, line * 128, Access::Load), end);
            }
        }
    }
}
