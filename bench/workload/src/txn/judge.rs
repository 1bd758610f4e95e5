//! Which figure each target is about.

use super::arguments::Way;
use super::cases::{LMDB, MANX, ROCKSDB, idle, ycsb};
use crate::verdict::Figure;
use report::{Compared, Report, Samples};

const RATE: &str = "throughput_per_s";
const READ: &str = "empty_ns";

/// What a target looks at if that depends on what was measured, or is of two cases; `None` if there
/// is no such figure.
pub(super) fn figure(report: &Report, id: &str) -> Option<Figure> {
    let over = Figure::ratio;
    let help = Way::Help.name();
    let count = |text: &str| text.parse::<usize>().ok();
    // txn-PART-WHICH…
    let words: Vec<&str> = id.split('-').collect();
    Some(match words[..] {
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
    use crate::txn::cases::{DURABLE, allocation};
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
        let a = ycsb("a", None, 8);
        let runs = vec![
            (a.clone(), MANX.into(), RATE, 3e6),
            (a.clone(), LMDB.into(), RATE, 2e6),
            (a, ROCKSDB.into(), RATE, 1e6),
            (idle(0), "help".into(), READ, 40.0),
            (idle(1000), "help".into(), READ, 42.0),
        ];
        let value = |report: &Report, id: &str| figure(report, id).unwrap().value(report);
        let first = report(&runs);
        for (id, expected) in [("txn-ycsb-a-8-best", 1.5), ("txn-read-sessions-1000", 1.05)] {
            assert!((value(&first, id) - expected).abs() < 1e-9, "{id}: {}", value(&first, id));
        }
    }

    #[test]
    fn every_target_has_a_figure_and_others_have_none() {
        let ycsb = ["a", "c"].into_iter().flat_map(|letter| [2, 8].map(|count| ycsb(letter, None, count)));
        let cases = [allocation(20), allocation(40), allocation(80), idle(0), DURABLE.to_owned()];
        crate::verdict::check_ids("txn", &cases.into_iter().chain(ycsb).collect::<Vec<_>>(), figure);
        assert_eq!(figure(&report(&[]), "txn-ycsb-a-many-best"), None);
    }
}
