//! The control groups of processes: throttling of each group with a quota, and budgets.
//!
//! Processes of one group share what is found, so a host with many processes has few groups to look
//! at. A group is read again when its last reading is [`LOOK_S`] seconds old, a budget when it is
//! [`BUDGET_S`] seconds old. There are at most [`GROUPS_MAX`] groups; processes of others have no
//! budget.

use manx::cpu::{CpuSet, GroupLevel, ProcessGroups};
use std::collections::{BTreeMap, HashMap};

/// The most groups that are looked at.
pub const GROUPS_MAX: usize = 500;
/// How old a reading of a group may be, in seconds.
pub const LOOK_S: u64 = 5;
/// How old a budget may be, in seconds.
pub const BUDGET_S: u64 = 30;

/// The groups of some processes, as `/proc/PID/cgroup` writes them.
#[derive(Debug)]
struct Membership {
    groups: ProcessGroups,
    levels: Vec<GroupLevel>,
    levels_s: u64,
    /// Budgets with their affinity, and when they were found.
    budgets: Vec<(Option<CpuSet>, f64, u64)>,
    references: usize,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Groups {
    known: HashMap<String, Membership>,
    left_out: u64,
}

impl Groups {
    /// A process belongs to these groups, until [`Groups::leave`].
    pub fn enter(&mut self, text: &str, pid: u32, now_s: u64) {
        if let Some(known) = self.known.get_mut(text) {
            known.references += 1;
        } else if self.known.len() < GROUPS_MAX {
            let groups = ProcessGroups::find("/".as_ref(), pid);
            let levels = groups.levels();
            let membership =
                Membership { groups, levels, levels_s: now_s, budgets: Vec::new(), references: 1 };
            self.known.insert(text.to_owned(), membership);
        } else {
            self.left_out += 1;
        }
    }

    /// A process has ended, or moved.
    pub fn leave(&mut self, text: &str) {
        if let Some(known) = self.known.get_mut(text) {
            known.references = known.references.saturating_sub(1);
            if known.references == 0 {
                self.known.remove(text);
            }
        }
    }

    /// The number of CPUs that a process of these groups and with this affinity may use.
    pub fn budget(&mut self, text: &str, affinity: Option<CpuSet>, now_s: u64) -> Option<f64> {
        /// More affinities in one group than any program has.
        const AFFINITIES_MAX: usize = 64;
        let known = self.known.get_mut(text)?;
        known.budgets.retain(|(_, _, found_s)| now_s.saturating_sub(*found_s) < BUDGET_S);
        if let Some((_, cpus, _)) = known.budgets.iter().find(|(of, ..)| *of == affinity) {
            return Some(*cpus);
        }
        let cpus = known.groups.budget(affinity.as_ref()).cpus();
        if known.budgets.len() < AFFINITIES_MAX {
            known.budgets.push((affinity, cpus, now_s));
        }
        Some(cpus)
    }

    /// Reads groups whose last reading is old, as long as `goes_on` says so.
    pub fn look(&mut self, now_s: u64, mut goes_on: impl FnMut() -> bool) {
        for known in self.known.values_mut() {
            if now_s.saturating_sub(known.levels_s) < LOOK_S {
                continue;
            }
            if !goes_on() {
                return;
            }
            known.levels = known.groups.levels();
            known.levels_s = now_s;
        }
    }

    /// The groups that have a quota or had one, by their paths. A group that several memberships
    /// have above them stands once, as it was read last.
    pub fn levels(&self) -> BTreeMap<&str, &GroupLevel> {
        let mut all: BTreeMap<&str, (&GroupLevel, u64)> = BTreeMap::new();
        for known in self.known.values() {
            for level in &known.levels {
                let newest = all.entry(&level.group.path).or_insert((level, known.levels_s));
                if known.levels_s > newest.1 {
                    *newest = (level, known.levels_s);
                }
            }
        }
        all.into_iter().map(|(path, (level, _))| (path, level)).collect()
    }

    /// How many processes were in groups beyond [`GROUPS_MAX`].
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}
