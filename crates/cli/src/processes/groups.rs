//! How often the quotas of control groups were used up since the pass before.
//!
//! Many processes share a group, so each group is read once in a pass, and only if it or one above
//! it has a quota. The share is that of periods: a period counts if a thread of the group wished to
//! run in it, and is throttled if the quota did not last to its end. Of several levels the worst
//! counts. Both versions of control groups say so in `cpu.stat`.

use manx::cpu::{GroupLevel, ProcessGroups};
use std::collections::HashMap;

/// The number of passes after which a group without a quota is read again.
const LOOK_EVERY: u64 = 16;

/// The groups, by the text of `/proc/PID/cgroup`.
#[derive(Debug, Default)]
pub struct Groups {
    known: HashMap<Vec<u8>, State>,
}

/// A group and those above it.
#[derive(Debug)]
struct State {
    groups: ProcessGroups,
    levels: Vec<GroupLevel>,
    /// In which pass the levels were read
    read: u64,
    /// In which pass it was asked for
    asked: u64,
    worst: Option<Worst>,
}

/// The level whose quota was used up most often.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// In which part of its periods, 0 to 1
    pub share: f64,
    /// The group, in words
    pub group: String,
}

impl Groups {
    /// What the quota of a process's groups did; `None` if there is no quota, or if this is the
    /// first look.
    pub fn worst(&mut self, membership: &[u8], pid: u32, pass: u64) -> Option<&Worst> {
        if !self.known.contains_key(membership) {
            let groups = ProcessGroups::find("/".as_ref(), pid);
            let levels = groups.levels();
            let state = State { groups, levels, read: pass, asked: pass, worst: None };
            self.known.insert(membership.to_owned(), state);
        }
        let state = self.known.get_mut(membership)?;
        state.asked = pass;
        let has_quota = state.levels.iter().any(|level| level.quota.is_some());
        if pass > state.read && (has_quota || pass >= state.read + LOOK_EVERY) {
            let now = state.groups.levels();
            state.worst = worst(&state.levels, &now);
            (state.levels, state.read) = (now, pass);
        }
        state.worst.as_ref()
    }

    /// Forgets the groups that no process was in for a while.
    pub fn forget(&mut self, pass: u64) {
        self.known.retain(|_, state| state.asked + LOOK_EVERY > pass);
    }
}

fn worst(before: &[GroupLevel], now: &[GroupLevel]) -> Option<Worst> {
    let of = |level: &GroupLevel| {
        level.quota?;
        let later = level.throttled?;
        let earlier = before.iter().find(|it| it.group == level.group).and_then(|it| it.throttled)?;
        let periods = later.periods.saturating_sub(earlier.periods);
        let throttled = later.throttled.saturating_sub(earlier.throttled);
        let share = if periods == 0 { 0.0 } else { (throttled as f64 / periods as f64).min(1.0) };
        Some(Worst { share, group: level.group.to_string() })
    };
    now.iter().filter_map(of).max_by(|one, other| one.share.total_cmp(&other.share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manx::cpu::{Group, Quota, Throttled};
    use std::time::Duration;

    fn level(path: &str, quota: bool, periods: u64, times: u64) -> GroupLevel {
        let group = Group { path: path.into(), own: "/a/b".into(), levels_up: path.len() % 2, unified: true };
        let mut throttled = Throttled::default();
        (throttled.periods, throttled.throttled) = (periods, times);
        let quota = quota.then(|| Quota::new(Duration::from_millis(50), Duration::from_millis(100)));
        GroupLevel { group, quota, throttled: Some(throttled) }
    }

    #[test]
    fn the_worst_level_counts_and_only_what_has_come_since() {
        let before = [level("/a", true, 100, 100), level("/a/b", true, 10, 0)];
        let now = [level("/a", true, 110, 101), level("/a/b", true, 20, 5)];
        let found = worst(&before, &now).expect("quotas");
        assert_eq!((found.share, found.group.contains("/a/b")), (0.5, true), "{found:?}");
        assert_eq!(worst(&now, &now).map(|worst| worst.share), Some(0.0), "nothing has happened");
        assert_eq!(worst(&[], &now), None, "the first look");
        let free = [level("/a", false, 1, 1)];
        assert_eq!(worst(&free, &free), None, "no quota");
    }

    #[test]
    fn a_group_that_no_process_is_in_is_forgotten() {
        let (mut groups, own) = (Groups::default(), std::fs::read("/proc/self/cgroup").unwrap_or_default());
        assert_eq!(groups.worst(&own, std::process::id(), 0), None, "the first look");
        groups.forget(LOOK_EVERY - 1);
        assert_eq!(groups.known.len(), 1);
        groups.forget(LOOK_EVERY);
        assert_eq!(groups.known.len(), 0);
    }
}
