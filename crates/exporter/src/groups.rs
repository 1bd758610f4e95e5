//! The control groups of processes: throttling of each group with a quota, and budgets.
//!
//! Processes of one group share what is found, so a host with many processes has few groups to look
//! at. A group is read again when its last reading is [`LOOK_S`] seconds old, a budget when it is
//! [`BUDGET_S`] seconds old. There are at most [`GROUPS_MAX`] groups; processes of others have no
//! budget.
//!
//! To find the folders of a group may take long, where names have to be searched for. So what costs
//! CPU time is followed by a pause of [`PAUSE_FACTOR`] times that, but for the first pass; until
//! then a process has no budget, or the one before.

use manx::cpu::{CpuSet, GroupLevel, ProcessGroups};
use platform::clock::{now_ns, thread_cpu_ns};
use std::collections::{BTreeMap, HashMap};

/// The most groups that are looked at.
pub const GROUPS_MAX: usize = 500;
/// How old a reading of a group may be, in seconds.
pub const LOOK_S: u64 = 5;
/// How old a budget may be, in seconds.
pub const BUDGET_S: u64 = 30;

/// For how long groups without a process are kept, in seconds: processes come and go.
pub const KEPT_S: u64 = 300;
/// How much longer the pause is than what was before it.
pub const PAUSE_FACTOR: u64 = 1000;

/// When the next thing may be found that costs CPU time.
#[derive(Debug, Default)]
struct Pause {
    end_ns: u64,
    is_off: bool,
}

impl Pause {
    /// Does it, unless there is a pause.
    fn after<T>(&mut self, act: impl FnOnce() -> T) -> Option<T> {
        if !self.is_off && now_ns() < self.end_ns {
            return None;
        }
        let before_ns = thread_cpu_ns();
        let done = act();
        let cost_ns = thread_cpu_ns().saturating_sub(before_ns);
        self.end_ns = now_ns().saturating_add(cost_ns.saturating_mul(PAUSE_FACTOR));
        Some(done)
    }
}

/// The groups of some processes, as `/proc/PID/cgroup` writes them.
#[derive(Debug)]
struct Membership {
    groups: ProcessGroups,
    levels: Vec<GroupLevel>,
    levels_s: u64,
    /// Budgets with their affinity, and when they were found.
    budgets: Vec<(Option<CpuSet>, f64, u64)>,
    references: usize,
    left_s: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Groups {
    known: HashMap<String, Membership>,
    left_out: u64,
    pause: Pause,
}

impl Groups {
    /// Whether there are pauses: not in the first pass.
    pub fn set_pauses(&mut self, are_on: bool) {
        self.pause.is_off = !are_on;
    }

    /// A process belongs to these groups, until [`Groups::leave`]. Returns whether they are known
    /// now; if not, the process may ask again later.
    pub fn enter(&mut self, text: &str, pid: u32, now_s: u64) -> bool {
        if let Some(known) = self.known.get_mut(text) {
            known.references += 1;
            return true;
        }
        if self.known.len() >= GROUPS_MAX {
            self.known.retain(|_, known| known.references > 0);
        }
        if self.known.len() >= GROUPS_MAX {
            self.left_out += 1;
            return false;
        }
        let found = self.pause.after(|| {
            let groups = ProcessGroups::find("/".as_ref(), pid);
            let levels = groups.levels();
            Membership { groups, levels, levels_s: now_s, budgets: Vec::new(), references: 1, left_s: 0 }
        });
        let is_found = found.is_some();
        self.known.extend(found.map(|found| (text.to_owned(), found)));
        is_found
    }

    /// A process has ended, or moved.
    pub fn leave(&mut self, text: &str, now_s: u64) {
        if let Some(known) = self.known.get_mut(text) {
            known.references = known.references.saturating_sub(1);
            known.left_s = now_s;
        }
    }

    /// The number of CPUs that a process of these groups and with this affinity may use.
    pub fn budget(&mut self, text: &str, affinity: Option<CpuSet>, now_s: u64) -> Option<f64> {
        /// More affinities in one group than any program has.
        const AFFINITIES_MAX: usize = 64;
        let known = self.known.get_mut(text)?;
        let before = known.budgets.iter().position(|(of, ..)| *of == affinity);
        if let Some(at) = before
            && now_s.saturating_sub(known.budgets[at].2) < BUDGET_S
        {
            return Some(known.budgets[at].1);
        }
        let found = self.pause.after(|| known.groups.budget(affinity.as_ref()).cpus());
        match (found, before) {
            (Some(cpus), Some(at)) => known.budgets[at] = (affinity, cpus, now_s),
            (Some(cpus), None) if known.budgets.len() < AFFINITIES_MAX => {
                known.budgets.push((affinity, cpus, now_s));
            }
            (None, Some(at)) => return Some(known.budgets[at].1),
            _ => {}
        }
        found
    }

    /// Reads groups whose last reading is old, as long as `goes_on` says so.
    pub fn look(&mut self, now_s: u64, mut goes_on: impl FnMut() -> bool) {
        self.known.retain(|_, known| known.references > 0 || now_s.saturating_sub(known.left_s) < KEPT_S);
        for known in self.known.values_mut().filter(|known| known.references > 0) {
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
        for known in self.known.values().filter(|known| known.references > 0) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_time_is_followed_by_a_pause() {
        let mut pause = Pause::default();
        assert_eq!(pause.after(|| 1), Some(1));
        // As if that had taken long.
        pause.end_ns = u64::MAX;
        assert_eq!(pause.after(|| 2), None);
        pause.is_off = true;
        assert_eq!(pause.after(|| 3), Some(3));
    }

    #[test]
    fn groups_stay_known_for_a_while() {
        let pid = std::process::id();
        let Some(text) = crate::process::groups(pid) else {
            return testing::skip("this process is in no control group");
        };
        let mut groups = Groups::default();
        groups.set_pauses(false);
        assert!(groups.enter(&text, pid, 0) && groups.enter(&text, pid, 0));
        assert!(groups.budget(&text, None, 0).is_some_and(|cpus| cpus > 0.0));
        groups.leave(&text, 10);
        groups.leave(&text, 10);
        assert!(groups.levels().is_empty(), "no process is in them");
        groups.look(10 + KEPT_S - 1, || true);
        assert_eq!(groups.known.len(), 1);
        groups.look(10 + KEPT_S, || true);
        assert_eq!(groups.known.len(), 0);
        assert_eq!(groups.budget(&text, None, 10 + KEPT_S), None);
    }
}
