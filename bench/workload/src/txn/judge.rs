//! Which figure each target is about.

use super::arguments::Way;
use super::cases::{
    self, COMPONENT, DURABLE, FIXED, GUARDED, LMDB, MANX, OVER, ROCKSDB, WIREDTIGER, allocation, boosted,
    idle, ycsb,
};
use crate::verdict::Figure;
use report::{Compared, Report, Samples};

const RATE: &str = "throughput_per_s";
const TAIL: &str = "p999_ns";
const READ: &str = "empty_ns";

/// What a target looks at by its id; `None` if there is no such figure.
pub(super) fn figure(report: &Report, id: &str) -> Option<Figure> {
    let over = Figure::ratio;
    let help = cases::of(Way::Help);
    // The repaired one: in its source if there is such a library, or else by the guard.
    let repaired = |case: &str| {
        let fixed = boosted(FIXED);
        if report.variants(case).contains(&fixed) { fixed } else { boosted(GUARDED) }
    };
    let known = |name: &str| Way::ALL.into_iter().find(|way| way.name() == name).map(cases::of);
    let count = |text: &str| text.parse::<usize>().ok();
    // txn-PART-WHICH…
    let words: Vec<&str> = id.split('-').collect();
    Some(match words[..] {
        ["txn", "boost", "help", "wait"] => {
            over(&allocation(20), &boosted(help), &boosted(cases::of(Way::Wait)), TAIL)
        }
        ["txn", "boost", way] => {
            let way = known(way)?;
            over(&allocation(20), &boosted(way), way, TAIL)
        }
        ["txn", figure @ ("p999" | "max"), threads, peer @ ("wait" | "wiredtiger")] => {
            let case = allocation(count(threads)?);
            let peer = if peer == "wait" { boosted(cases::of(Way::Wait)) } else { repaired(&case) };
            over(&case, &boosted(help), &peer, &format!("{figure}_ns"))
        }
        ["txn", "ycsb", workload, threads, "wiredtiger"] => {
            over(&ycsb(workload, None, count(threads)?), MANX, WIREDTIGER, RATE)
        }
        ["txn", "ycsb", workload, threads, "best"] => {
            let case = ycsb(workload, None, count(threads)?);
            let of = |peer: &str| report.middle(&case, peer, RATE);
            // A comparison with what was not measured is false.
            over(&case, MANX, if of(ROCKSDB) > of(LMDB) || of(LMDB).is_nan() { ROCKSDB } else { LMDB }, RATE)
        }
        ["txn", "read"] => Figure::Plain(report.middle(&idle(0), help, READ)),
        ["txn", "read", "sessions", sessions] => {
            let of =
                |sessions: usize| Samples { case: idle(sessions), version: help.into(), figure: READ.into() };
            Figure::Ratio(Compared { over: of(count(sessions)?), under: of(0), factor: 1.0 })
        }
        ["txn", "durable"] => over(DURABLE, OVER, COMPONENT, RATE),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Machine;

    fn report(runs: &[(String, String, &str, f64)]) -> Report {
        let mut report = Report::new("txn", Machine::default(), 0);
        for (case, variant, figure, value) in runs {
            report.add(case, variant, 0, &[(figure, *value)]);
        }
        report
    }

    #[test]
    fn figures_are_over_the_versions_that_the_target_names() {
        let (twenty, forty, a) = (allocation(20), allocation(40), ycsb("a", None, 8));
        let mut runs = vec![
            (twenty.clone(), "spin".into(), TAIL, 1e5),
            (twenty.clone(), boosted("spin"), TAIL, 2e6),
            (twenty.clone(), boosted("wait"), TAIL, 4e5),
            (twenty, boosted("help"), TAIL, 2e5),
            (forty.clone(), boosted("help"), "max_ns", 3e6),
            (forty.clone(), boosted(GUARDED), "max_ns", 6e6),
            (a.clone(), MANX.into(), RATE, 3e6),
            (a.clone(), WIREDTIGER.into(), RATE, 1e6),
            (a.clone(), LMDB.into(), RATE, 2e6),
            (a, ROCKSDB.into(), RATE, 1e6),
            (idle(0), "help".into(), READ, 40.0),
            (idle(1000), "help".into(), READ, 42.0),
            (DURABLE.into(), OVER.into(), RATE, 900.0),
            (DURABLE.into(), COMPONENT.into(), RATE, 1000.0),
        ];
        let value = |report: &Report, id: &str| figure(report, id).unwrap().value(report);
        let first = report(&runs);
        for (id, expected) in [
            ("txn-boost-spin", 20.0),
            ("txn-boost-help-wait", 0.5),
            ("txn-max-40-wiredtiger", 0.5),
            ("txn-ycsb-a-8-wiredtiger", 3.0),
            ("txn-ycsb-a-8-best", 1.5),
            ("txn-read", 40.0),
            ("txn-read-sessions-1000", 1.05),
            ("txn-durable", 0.9),
        ] {
            assert!((value(&first, id) - expected).abs() < 1e-9, "{id}: {}", value(&first, id));
        }
        assert!(value(&first, "txn-boost-help").is_nan(), "there is none without boost");
        runs.push((forty, boosted(FIXED), "max_ns", 3e6));
        assert_eq!(value(&report(&runs), "txn-max-40-wiredtiger"), 1.0, "a repaired source comes first");
    }

    #[test]
    fn every_target_has_a_figure_and_others_have_none() {
        let others = ["txn-nothing", "txn-boost-sleep", "pool-idle", "txn-ycsb-a-many-best"];
        crate::verdict::check_ids("txn", figure, &others);
    }
}
