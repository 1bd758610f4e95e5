//! How often the quotas of control groups were used up since they were read before.
//!
//! The share is that of periods: a period counts if a thread of the group wished to run in it, and
//! is throttled if the quota did not last to its end. Of several levels the worst counts. Both
//! versions of control groups say so in `cpu.stat`.

use manx::cpu::GroupLevel;

/// The level whose quota was used up most often.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// In which part of its periods, 0 to 1
    pub share: f64,
    /// The group, in words
    pub group: String,
}

/// What the quotas did between two readings of a process's groups; `None` if there is no quota, or
/// if this is the first reading.
pub fn worst(now: &[GroupLevel], before: &[GroupLevel]) -> Option<Worst> {
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
        let found = worst(&now, &before).expect("quotas");
        assert_eq!((found.share, found.group.contains("/a/b")), (0.5, true), "{found:?}");
        assert_eq!(worst(&now, &now).map(|worst| worst.share), Some(0.0), "nothing has happened");
        assert_eq!(worst(&now, &[]), None, "the first look");
        let free = [level("/a", false, 1, 1)];
        assert_eq!(worst(&free, &free), None, "no quota");
    }
}
