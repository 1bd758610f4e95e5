//! Which figure each target is about.

use super::arguments::Way;
use super::cases::{FIXED, GUARDED, LMDB, MANX, ROCKSDB, allocation, boosted, idle, ycsb};
use crate::verdict::Figure;
use report::{Compared, Report, Samples};

const RATE: &str = "throughput_per_s";
const READ: &str = "empty_ns";

/// What a target looks at if that depends on what was measured, or is of two cases; `None` if there
/// is no such figure.
pub(super) fn figure(report: &Report, id: &str) -> Option<Figure> {
    let over = Figure::ratio;
    let help = Way::Help.name();
    // The repaired one: in its source if there is such a library, or else by the guard.
    let repaired = |case: &str| {
        let fixed = boosted(FIXED);
        if report.variants(case).contains(&fixed) { fixed } else { boosted(GUARDED) }
    };
    let count = |text: &str| text.parse::<usize>().ok();
    // txn-PART-WHICH…
    let words: Vec<&str> = id.split('-').collect();
    Some(match words[..] {
        ["txn", figure @ ("p999" | "max"), threads, "wiredtiger"] => {
            let case = allocation(count(threads)?);
            over(&case, &boosted(help), &repaired(&case), &format!("{figure}_ns"))
        }
        ["txn", "ycsb", workload, threads, "best"] => {
            let case = ycsb(workload, None, count(threads)?);
            let of = |peer: &str| report.middle(&case, peer, RATE);
            // A comparison with what was not measured is false.
            over(&case, MANX, if of(ROCKSDB) > of(LMDB) || of(LMDB).is_nan() { ROCKSDB } else { LMDB }, RATE)
        }
        ["txn", "read", "sessions", sessions] => {
            let of =
                |sessions: usize| Samples { case: idle(sessions), version: help.into(), figure: READ.into() };
            Figure::Ratio(Compared { over: of(count(sessions)?), under: of(0), factor: 1.0 })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::cases::DURABLE;
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
        let (forty, a) = (allocation(40), ycsb("a", None, 8));
        let mut runs = vec![
            (forty.clone(), boosted("help"), "max_ns", 3e6),
            (forty.clone(), boosted(GUARDED), "max_ns", 6e6),
            (a.clone(), MANX.into(), RATE, 3e6),
            (a.clone(), LMDB.into(), RATE, 2e6),
            (a, ROCKSDB.into(), RATE, 1e6),
            (idle(0), "help".into(), READ, 40.0),
            (idle(1000), "help".into(), READ, 42.0),
        ];
        let value = |report: &Report, id: &str| figure(report, id).unwrap().value(report);
        let first = report(&runs);
        for (id, expected) in
            [("txn-max-40-wiredtiger", 0.5), ("txn-ycsb-a-8-best", 1.5), ("txn-read-sessions-1000", 1.05)]
        {
            assert!((value(&first, id) - expected).abs() < 1e-9, "{id}: {}", value(&first, id));
        }
        runs.push((forty, boosted(FIXED), "max_ns", 3e6));
        assert_eq!(value(&report(&runs), "txn-max-40-wiredtiger"), 1.0, "a repaired source comes first");
    }

    #[test]
    fn every_target_has_a_figure_and_others_have_none() {
        let ycsb = ["a", "c"].into_iter().flat_map(|letter| [2, 8].map(|count| ycsb(letter, None, count)));
        let cases = [allocation(20), allocation(40), allocation(80), idle(0), DURABLE.to_owned()];
        crate::verdict::check_ids("txn", &cases.into_iter().chain(ycsb).collect::<Vec<_>>(), figure);
        assert_eq!(figure(&report(&[]), "txn-ycsb-a-many-best"), None);
    }
}
