//! What the quotas of a process's control groups did while it was watched.
//!
//! Each level from the process's own group upwards may have a quota, and each stops the process.
//! `cpu.stat` counts for how long a level was stopped, summed over the CPUs on which it had threads
//! that wished to run. So the sum is divided by the number of CPUs that the process could use at
//! once: what is left is a part of the wall time.

use manx::cpu::{CpuBudget, CpuSet, Group, GroupLevel, ProcessGroups};
use platform::clock::duration_ns;
use serde::Serialize;

/// What the quota of one control group did while the process was watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupEvidence {
    /// The group, in words
    pub group: String,
    /// How many levels it is above the process's own
    pub levels_up: usize,
    /// The quota in the kernel's words, in µs and µs
    pub quota: Option<String>,
    /// The quota in CPUs
    pub cpus: Option<f64>,
    /// Periods in which a thread of the group wished to run
    pub periods: u64,
    /// Periods in which the quota was used up
    pub throttled: u64,
    /// For how long threads were stopped, in ns, summed over the CPUs
    pub throttled_ns: u64,
}

/// The groups of a process, since the first look.
#[derive(Debug)]
pub struct Groups {
    groups: ProcessGroups,
    first: Vec<GroupLevel>,
}

impl Groups {
    /// Finds the groups of a process, and looks at them for the first time.
    pub fn of(pid: u32) -> Groups {
        let groups = ProcessGroups::find("/".as_ref(), pid);
        let first = groups.levels();
        Groups { groups, first }
    }

    /// What the quota of each group did since the first look.
    pub fn evidence(&self) -> Vec<GroupEvidence> {
        self.groups.levels().iter().map(|level| between(self.before(&level.group), level)).collect()
    }

    fn before(&self, group: &Group) -> Option<&GroupLevel> {
        self.first.iter().find(|level| level.group == *group)
    }

    /// The budget of threads with this affinity.
    pub fn budget(&self, affinity: Option<&CpuSet>) -> CpuBudget {
        self.groups.budget(affinity)
    }
}

fn between(before: Option<&GroupLevel>, now: &GroupLevel) -> GroupEvidence {
    let earlier = before.and_then(|level| level.throttled).unwrap_or_default();
    let later = now.throttled.unwrap_or_default();
    GroupEvidence {
        group: now.group.to_string(),
        levels_up: now.group.levels_up,
        quota: now.quota.map(|quota| quota.to_string()),
        cpus: now.quota.map(|quota| quota.cpus()),
        periods: later.periods.saturating_sub(earlier.periods),
        throttled: later.throttled.saturating_sub(earlier.throttled),
        throttled_ns: duration_ns(later.throttled_time.saturating_sub(earlier.throttled_time)),
    }
}

/// How many CPUs the sets of a budget have in common: what there is without a quota.
pub fn cpus_of_sets(budget: &CpuBudget) -> Option<usize> {
    let sets = budget.limits().iter().filter_map(|limit| limit.kind.cpus());
    let common = sets.fold(None::<CpuSet>, |common, set| match common {
        // A set that has nothing in common with the others is about another machine.
        Some(common) if !common.intersection(set).is_empty() => Some(common.intersection(set)),
        Some(common) => Some(common),
        None => Some(set.clone()),
    });
    common.map(|common| common.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manx::cpu::{Quota, Throttled};
    use std::time::Duration;

    #[test]
    fn a_level_counts_from_the_first_look() {
        let group = Group { path: "/a".into(), own: "/a/b".into(), levels_up: 1, unified: true };
        let quota = Quota {
            time: Duration::from_millis(50),
            period: Duration::from_millis(100),
            burst: Duration::ZERO,
        };
        let level = |factor: u64| {
            let mut throttled = Throttled::default();
            (throttled.periods, throttled.throttled) = (10 * factor, 4 * factor);
            throttled.throttled_time = Duration::from_nanos(100 * factor);
            GroupLevel { group: group.clone(), quota: Some(quota), throttled: Some(throttled) }
        };
        let evidence = between(Some(&level(1)), &level(3));
        assert_eq!((evidence.periods, evidence.throttled, evidence.throttled_ns), (20, 8, 200));
        assert_eq!(evidence.group, "the parent group /a of /a/b");
        assert_eq!((evidence.quota.as_deref(), evidence.cpus), (Some("50000/100000"), Some(0.5)));
        assert_eq!(between(None, &level(1)).throttled, 4);
    }

    #[test]
    fn this_process_has_cpus() {
        let budget = Groups::of(std::process::id()).budget(None);
        assert!(cpus_of_sets(&budget).is_none_or(|cpus| cpus >= 1), "{budget}");
    }
}
