//! Throttled by a quota: a control group has used up its CPU time, and the kernel stops all of its
//! threads until the next period.
//!
//! The quota may be set on any level above the process, where nobody looks for it. A program with
//! more threads than the quota has CPUs uses it up early in each period, and then all of its
//! threads stand still, holders of locks included.

use super::pools;
use crate::evidence::Evidence;
use crate::shares::Shares;
use crate::verdict::{Cause, Remedy, Verdict};

pub(super) fn judge(evidence: &Evidence, shares: &Shares) -> Option<Verdict> {
    let worst = evidence.groups.iter().max_by_key(|group| group.throttled_ns)?;
    if worst.throttled == 0 && worst.throttled_ns == 0 {
        return None;
    }
    let quota = worst.quota.as_deref().unwrap_or("that is gone now");
    let headline = format!(
        "the quota {quota} of {} stopped the program for {:.0} % of the time",
        worst.group,
        100.0 * shares.stopped
    );
    let mut verdict = Verdict::new(Cause::Quota, shares.throttled, headline);
    let at_once = shares.cpus.min((shares.running + shares.waiting).max(1.0));
    for group in evidence.groups.iter().filter(|group| group.throttled > 0) {
        let each_ms = group.throttled_ns as f64 / group.throttled as f64 / at_once / 1e6;
        let cpus = group.cpus.map_or(String::new(), |cpus| format!(" ({cpus:.2} CPUs)"));
        verdict.evidence.push(format!(
            "{}{cpus}: used up in {} of {} periods, then threads stood still for {each_ms:.0} ms on average",
            group.group, group.throttled, group.periods
        ));
    }
    verdict.evidence.push(format!(
        "{:.1} threads wished to run, {:.2} ran; {:.1} were stopped by the quota on average",
        shares.running + shares.waiting,
        shares.running,
        shares.throttled
    ));
    verdict.remedies.push(Remedy::advice(format!(
        "remove the quota of {}, and give the group a weight, which counts only while CPUs are short; or \
         raise it, to {at_once:.1} CPUs if all are to run: its folder has the files cpu.max and cpu.weight \
         (cgroup version 2), or cpu.cfs_quota_us and cpu.shares (version 1)",
        worst.group
    )));
    let pools = pools::of(evidence);
    verdict.evidence.extend(pools::words(&pools));
    let threads = worst.cpus.map_or(1, |cpus| (cpus.floor() as usize).max(1));
    verdict.remedies.push(Remedy::advice(pools::advice(&pools, threads)));
    verdict.remedies.push(Remedy::manx_run(
        evidence,
        "--cpus=auto",
        "tells the program how many CPUs the quota is, so that it starts fewer threads, and keeps its \
         threads to that many CPUs while they use it up",
    ));
    Some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::group::GroupEvidence;

    #[test]
    fn the_level_and_its_figures_are_named() {
        let group = GroupEvidence {
            group: "the parent group /a of /a/b".into(),
            levels_up: 1,
            quota: Some("50000/100000".into()),
            cpus: Some(0.5),
            periods: 100,
            throttled: 96,
            throttled_ns: 14_400_000_000,
        };
        let evidence = Evidence { span_ns: 10_000_000_000, groups: vec![group], ..Evidence::default() };
        let shares = Shares {
            cpus: 2.0,
            running: 0.5,
            waiting: 3.5,
            stopped: 0.72,
            throttled: 3.0,
            ..Shares::default()
        };
        let verdict = judge(&evidence, &shares).unwrap();
        assert_eq!(
            verdict.headline,
            "the quota 50000/100000 of the parent group /a of /a/b stopped the program for 72 % of the time"
        );
        let figures =
            "(0.50 CPUs): used up in 96 of 100 periods, then threads stood still for 75 ms on average";
        assert!(verdict.evidence[0].ends_with(figures), "{verdict:?}");
        assert!(verdict.remedies[0].what.contains("of /a/b, and give the group a weight"), "{verdict:?}");
        assert!(verdict.remedies[1].what.contains("number of threads to 1"), "{verdict:?}");
        assert!(verdict.remedies[0].what.contains("to 2.0 CPUs"), "{verdict:?}");
    }

    #[test]
    fn a_quota_that_was_never_used_up_is_no_finding() {
        let evidence = Evidence { groups: vec![GroupEvidence::default()], ..Evidence::default() };
        assert_eq!(judge(&evidence, &Shares::default()), None);
        assert_eq!(judge(&Evidence::default(), &Shares::default()), None);
    }
}
