//! The sums that are exported: one entry for each program, in bounded memory.
//!
//! A *program* is a name: all processes of this name count into one entry. What a process counted
//! stays in its program's sums when it ends, so the counters never fall while other processes of
//! the program run.
//!
//! A name is not to be trusted: a flood of processes may bring a new one each. So the numbers of
//! entries and of locks are bounded, and the rest is summed in `other`:
//!
//! Invariants:
//! 1. There are at most [`Limits::programs`] entries beside `other`. Programs without Manx have at
//!    most half of them, so that they do not crowd out those under Manx.
//! 2. A program has at most [`Limits::locks`] locks beside `other`.
//! 3. A name has at most [`NAME_BYTES`] bytes.
//! 4. An entry is given to another program only if no process refers to it, and none has for
//!    [`IDLE_S`] seconds. Its series then end.
//! 5. Counters only grow: all that is added is a difference that is not negative.

use crate::metric::Histogram;
use std::collections::HashMap;

/// What all that has no entry of its own is summed in.
pub const OTHER: &str = "other";
/// The most bytes of a name.
pub const NAME_BYTES: usize = 128;
/// For how many seconds an entry without a process is kept at least.
pub const IDLE_S: u64 = 300;

/// How many entries there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Programs with an entry of their own.
    pub programs: usize,
    /// Locks of each program with a histogram of their own.
    pub locks: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { programs: 200, locks: 20 }
    }
}

/// What is counted of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// CPU time, in nanoseconds.
    Cpu,
    /// Time that runnable threads waited for a CPU, in nanoseconds.
    RunDelay,
    /// Waits in repaired loops.
    LoopWaits,
    /// Time of these waits, in nanoseconds.
    LoopWaited,
    /// Yields in these waits.
    LoopYields,
    /// Sleeps in these waits.
    LoopSleeps,
    /// Waits for locks that ended by a hand-off.
    HandOffs,
    /// Waits for locks that were longer than their window.
    Starving,
}

/// The number of counters.
pub const COUNTERS: usize = 8;

/// A value for each [`Counter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals([u64; COUNTERS]);

impl Totals {
    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Adds to a counter.
    pub fn add(&mut self, counter: Counter, more: u64) {
        self.0[counter as usize] = self.0[counter as usize].saturating_add(more);
    }

    /// Adds to all counters.
    fn add_all(&mut self, more: &Totals) {
        self.0.iter_mut().zip(more.0).for_each(|(value, more)| *value = value.saturating_add(more));
    }

    /// What has come since an earlier reading; 0 where a counter fell.
    ///
    /// ```
    /// use exporter::registry::{Counter, Totals};
    ///
    /// let (mut before, mut now) = (Totals::default(), Totals::default());
    /// before.add(Counter::Cpu, 3);
    /// now.add(Counter::Cpu, 5);
    /// assert_eq!(now.since(&before).get(Counter::Cpu), 2);
    /// assert_eq!(before.since(&now), Totals::default());
    /// ```
    #[must_use]
    pub fn since(&self, before: &Totals) -> Totals {
        Totals(std::array::from_fn(|at| self.0[at].saturating_sub(before.0[at])))
    }
}

/// Which entry of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(usize);

/// Which lock of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockSlot(u16);

/// The sums of one program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its counters.
    pub totals: Totals,
    /// Whether a process of it ran under Manx.
    pub is_guarded: bool,
    /// Its locks with their histograms. The first is `other`.
    locks: Vec<(String, Histogram)>,
    /// The number of processes that refer to it.
    references: usize,
    /// When the last one ceased to, in seconds.
    left_s: u64,
}

impl Program {
    fn new(name: &str) -> Program {
        Program {
            name: name.to_owned(),
            totals: Totals::default(),
            is_guarded: false,
            locks: vec![(OTHER.to_owned(), Histogram::default())],
            references: 0,
            left_s: 0,
        }
    }

    /// The locks that were waited for, and how long.
    pub fn locks(&self) -> impl Iterator<Item = (&str, &Histogram)> {
        let all = self.locks.iter().map(|(name, histogram)| (name.as_str(), histogram));
        all.filter(|(_, histogram)| histogram.counts.count() > 0)
    }

    fn has_counts(&self) -> bool {
        self.totals != Totals::default() || self.locks().next().is_some()
    }

    /// The number of processes that refer to it.
    pub fn references(&self) -> usize {
        self.references
    }
}

/// All sums.
#[derive(Debug)]
pub struct Registry {
    limits: Limits,
    /// The entry for `other` comes first. A place that is free is `None`.
    programs: Vec<Option<Program>>,
    by_name: HashMap<String, usize>,
    /// The number of processes that were summed in `other` for want of an entry.
    merged: u64,
}

impl Registry {
    /// An empty one.
    pub fn new(limits: Limits) -> Registry {
        let by_name = HashMap::from([(OTHER.to_owned(), 0)]);
        Registry { limits, programs: vec![Some(Program::new(OTHER))], by_name, merged: 0 }
    }

    /// The entry for a process of this name, which refers to it until [`Registry::leave`].
    ///
    /// ```
    /// use exporter::registry::{Limits, Registry};
    ///
    /// let mut registry = Registry::new(Limits { programs: 2, locks: 1 });
    /// let (server, job) = (registry.enter("server", true, 0), registry.enter("job", true, 0));
    /// assert_eq!(registry.enter("server", true, 0), server);
    /// let third = registry.enter("third", true, 0);
    /// assert_eq!(registry.program(third).name, "other");
    /// assert_ne!(server, job);
    /// ```
    pub fn enter(&mut self, name: &str, is_guarded: bool, now_s: u64) -> Slot {
        let name = &name[..name.floor_char_boundary(NAME_BYTES)];
        let slot = match self.by_name.get(name) {
            Some(&slot) => slot,
            None => self.make_room(is_guarded, now_s).map_or(0, |slot| {
                self.programs[slot] = Some(Program::new(name));
                self.by_name.insert(name.to_owned(), slot);
                slot
            }),
        };
        if slot == 0 && name != OTHER {
            self.merged += 1;
        }
        let program = self.at(slot);
        program.references += 1;
        program.is_guarded |= is_guarded;
        Slot(slot)
    }

    /// A free place, by Invariants 1 and 4.
    fn make_room(&mut self, is_guarded: bool, now_s: u64) -> Option<usize> {
        let taken = self.programs.iter().skip(1).flatten();
        let strangers = taken.clone().filter(|program| !program.is_guarded).count();
        let all = taken.count();
        let is_full = all >= self.limits.programs || !is_guarded && strangers >= self.limits.programs / 2;
        if is_full {
            let mut oldest: Option<(usize, u64)> = None;
            for (slot, program) in self.programs.iter().enumerate().skip(1) {
                let Some(program) = program else { continue };
                let is_idle = program.references == 0 && now_s.saturating_sub(program.left_s) >= IDLE_S;
                // A program without Manx does not take the place of one with it.
                let may = is_guarded || !program.is_guarded;
                if is_idle && may && oldest.is_none_or(|(_, left_s)| program.left_s < left_s) {
                    oldest = Some((slot, program.left_s));
                }
            }
            let (slot, _) = oldest?;
            if let Some(old) = self.programs[slot].take() {
                self.by_name.remove(&old.name);
            }
            return Some(slot);
        }
        match self.programs.iter().position(Option::is_none) {
            Some(free) => Some(free),
            None => {
                self.programs.push(None);
                Some(self.programs.len() - 1)
            }
        }
    }

    /// One more refers to an entry that is referred to already, until [`Registry::leave`].
    pub fn hold(&mut self, slot: Slot) {
        self.at(slot.0).references += 1;
    }

    /// A process of the entry has ended, or has become another program.
    pub fn leave(&mut self, slot: Slot, now_s: u64) {
        let program = self.at(slot.0);
        program.references = program.references.saturating_sub(1);
        program.left_s = now_s;
    }

    /// Adds to the counters of an entry.
    pub fn add(&mut self, slot: Slot, more: &Totals) {
        self.at(slot.0).totals.add_all(more);
    }

    /// The lock of this name in an entry, or its `other`.
    pub fn lock(&mut self, slot: Slot, name: &str) -> LockSlot {
        let locks_max = self.limits.locks;
        let locks = &mut self.at(slot.0).locks;
        let name = &name[..name.floor_char_boundary(2 * NAME_BYTES)];
        if let Some(known) = locks.iter().position(|(known, _)| known == name) {
            return LockSlot(known as u16);
        }
        if locks.len() > locks_max {
            return LockSlot(0);
        }
        locks.push((name.to_owned(), Histogram::default()));
        LockSlot(locks.len() as u16 - 1)
    }

    /// Adds waits for a lock.
    pub fn add_waits(&mut self, slot: Slot, lock: LockSlot, more: &Histogram) {
        let (_, histogram) = &mut self.at(slot.0).locks[usize::from(lock.0)];
        histogram.counts.add(&more.counts);
        histogram.sum_ns = histogram.sum_ns.saturating_add(more.sum_ns);
    }

    /// The sums of an entry.
    pub fn program(&self, slot: Slot) -> &Program {
        self.programs[slot.0].as_ref().expect("an entry that is referred to stays (Invariant 4)")
    }

    /// All entries that have had a process.
    pub fn programs(&self) -> impl Iterator<Item = (Slot, &Program)> {
        let all = self.programs.iter().enumerate();
        all.filter_map(|(slot, program)| program.as_ref().map(|program| (Slot(slot), program)))
            .filter(|(_, program)| program.references > 0 || program.has_counts())
    }

    /// How many processes were summed in `other` for want of an entry.
    pub fn merged(&self) -> u64 {
        self.merged
    }

    fn at(&mut self, slot: usize) -> &mut Program {
        self.programs[slot].as_mut().expect("an entry that is referred to stays (Invariant 4)")
    }
}
