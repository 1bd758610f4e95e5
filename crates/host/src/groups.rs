//! The control groups of processes: quotas, how often each was used up, and budgets.
//!
//! Processes of one group share what is found, so a host with many processes has few groups to look
//! at. A group is read again when its last reading is old ([`Ages`]), a budget when it is
//! [`BUDGET_S`] seconds old. There are at most [`GROUPS_MAX`] groups; processes of others have
//! neither.
//!
//! To find the folders of a group may take long, where names have to be searched for. So what costs
//! CPU time may be followed by a pause of [`PAUSE_FACTOR`] times that; until then a process has no
//! budget, or the one before.

use manx::cpu::{CpuSet, GroupLevel, ProcessGroups};
use platform::clock::{now_ns, thread_cpu_ns};
use std::collections::{BTreeMap, HashMap};

/// The most groups that are looked at.
pub const GROUPS_MAX: usize = 500;
/// How old a budget may be, in seconds.
pub const BUDGET_S: u64 = 30;
/// For how long groups without a process are kept, in seconds: processes come and go.
const KEPT_S: u64 = 300;
/// How much longer the pause is than what was before it.
pub const PAUSE_FACTOR: u64 = 1000;

/// How old a reading of a group may be.
#[derive(Clone, Copy, Debug)]
pub struct Ages {
    /// That of a group with a quota, in seconds.
    pub quota_s: u64,
    /// That of others, which may get one.
    pub other_s: u64,
}

/// When the next thing may be found that costs CPU time.
#[derive(Debug, Default)]
struct Pause {
    end_ns: u64,
    is_on: bool,
}

impl Pause {
    /// Does it, unless there is a pause.
    fn after<T>(&mut self, act: impl FnOnce() -> T) -> Option<T> {
        if self.is_on && now_ns() < self.end_ns {
            return None;
        }
        let before_ns = thread_cpu_ns();
        let done = act();
        let cost_ns = thread_cpu_ns().saturating_sub(before_ns);
        self.end_ns = now_ns().saturating_add(cost_ns.saturating_mul(PAUSE_FACTOR));
        Some(done)
    }
}

/// The groups of some processes.
#[derive(Debug)]
struct Known {
    groups: ProcessGroups,
    levels: Vec<GroupLevel>,
    /// The reading before.
    before: Vec<GroupLevel>,
    levels_s: u64,
    /// Budgets with their affinity, and when they were found.
    budgets: Vec<(Option<CpuSet>, f64, u64)>,
    references: usize,
    left_s: u64,
}

/// The groups of one process, as `/proc/PID/cgroup` writes them; nothing if they are not known.
pub type Membership = Option<String>;

/// All of them.
#[derive(Debug)]
pub struct Groups {
    ages: Ages,
    known: HashMap<String, Known>,
    pause: Pause,
}

impl Groups {
    /// No group is known yet, and there are no pauses.
    pub fn new(ages: Ages) -> Groups {
        Groups { ages, known: HashMap::new(), pause: Pause::default() }
    }

    /// Whether there are pauses.
    pub fn set_pauses(&mut self, are_on: bool) {
        self.pause.is_on = are_on;
    }

    /// Reads in which groups a process is. They have it until [`Groups::leave`].
    ///
    /// ```
    /// use host::groups::{Ages, Groups, Membership};
    ///
    /// let mut groups = Groups::new(Ages { quota_s: 5, other_s: 5 });
    /// let mut membership = Membership::None;
    /// groups.follow(&mut membership, std::process::id(), 0);
    /// assert!(groups.budget(&membership, None, 0).is_none_or(|cpus| cpus > 0.0));
    /// groups.leave(&mut membership, 0);
    /// ```
    pub fn follow(&mut self, membership: &mut Membership, pid: u32, now_s: u64) {
        let text = std::fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if membership.as_deref() != Some(&*text) {
            self.leave(membership, now_s);
            *membership = self.enter(&text, pid, now_s).then(|| text.into_owned());
        }
    }

    /// Returns whether the groups are known now.
    fn enter(&mut self, text: &str, pid: u32, now_s: u64) -> bool {
        if let Some(known) = self.known.get_mut(text) {
            known.references += 1;
            return true;
        }
        if self.known.len() >= GROUPS_MAX {
            self.known.retain(|_, known| known.references > 0);
        }
        if text.is_empty() || self.known.len() >= GROUPS_MAX {
            return false;
        }
        let found = self.pause.after(|| {
            let groups = ProcessGroups::find("/".as_ref(), pid);
            let (levels, before, budgets) = (groups.levels(), Vec::new(), Vec::new());
            Known { groups, levels, before, levels_s: now_s, budgets, references: 1, left_s: 0 }
        });
        let is_found = found.is_some();
        self.known.extend(found.map(|found| (text.to_owned(), found)));
        is_found
    }

    /// A process has ended, or moved.
    pub fn leave(&mut self, membership: &mut Membership, now_s: u64) {
        if let Some(known) = membership.take().and_then(|text| self.known.get_mut(&text)) {
            known.references = known.references.saturating_sub(1);
            known.left_s = now_s;
        }
    }

    /// The number of CPUs that a process of these groups and with this affinity may use.
    pub fn budget(&mut self, membership: &Membership, affinity: Option<CpuSet>, now_s: u64) -> Option<f64> {
        /// More affinities in one group than any program has.
        const AFFINITIES_MAX: usize = 64;
        let known = self.known.get_mut(membership.as_deref()?)?;
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
            let has_quota = known.levels.iter().any(|level| level.quota.is_some());
            let age_s = if has_quota { self.ages.quota_s } else { self.ages.other_s };
            if now_s.saturating_sub(known.levels_s) < age_s {
                continue;
            }
            if !goes_on() {
                return;
            }
            known.before = std::mem::replace(&mut known.levels, known.groups.levels());
            known.levels_s = now_s;
        }
    }

    /// The levels of a process's groups, as they were read last and before that.
    pub fn readings(&self, membership: &Membership) -> Option<[&[GroupLevel]; 2]> {
        let known = self.known.get(membership.as_deref()?)?;
        Some([&known.levels, &known.before])
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_time_is_followed_by_a_pause() {
        let mut pause = Pause { end_ns: 0, is_on: true };
        assert_eq!(pause.after(|| 1), Some(1));
        // As if that had taken long.
        pause.end_ns = u64::MAX;
        assert_eq!(pause.after(|| 2), None);
        pause.is_on = false;
        assert_eq!(pause.after(|| 3), Some(3));
    }

    #[test]
    fn groups_stay_known_for_a_while() {
        let pid = std::process::id();
        let mut groups = Groups::new(Ages { quota_s: 0, other_s: 16 });
        let [mut one, mut other] = [Membership::None, Membership::None];
        groups.follow(&mut one, pid, 0);
        groups.follow(&mut other, pid, 0);
        groups.follow(&mut one, pid, 0);
        let Some(known) = one.as_ref().and_then(|text| groups.known.get(text)) else {
            return testing::skip("this process is in no control group");
        };
        assert_eq!(known.references, 2);
        assert!(groups.budget(&one, None, 0).is_some_and(|cpus| cpus > 0.0));
        groups.look(16, || true);
        let [now, before] = groups.readings(&one).expect("known");
        assert_eq!(now.len(), before.len());
        let text = one.clone();
        groups.leave(&mut one, 10);
        groups.leave(&mut other, 10);
        assert!(groups.levels().is_empty() && one.is_none(), "no process is in them");
        groups.look(10 + KEPT_S - 1, || true);
        assert_eq!(groups.known.len(), 1);
        groups.look(10 + KEPT_S, || true);
        assert_eq!(groups.known.len(), 0);
        assert_eq!(groups.budget(&text, None, 10 + KEPT_S), None);
    }
}
