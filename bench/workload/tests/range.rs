//! `manx bench range` from end to end, too short to say anything about time: every case runs, every
//! version has its figures, every target has a figure that this version knows how to find, and no
//! lock is caught.

use report::Machine;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;
use workload::harness::{Bench, Silent};
use workload::range::{Part, Setup, conclude, draw, heat, measure};

/// A run forks, which a test beside it need not see.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn report(parts: &[Part], check: bool) -> report::Report {
    let mut progress = Silent;
    let mut bench = Bench::new("range", Machine::here(), None, &mut progress);
    bench.resolution.pairs_max = Some(1);
    let setup = Setup {
        parts: parts.to_vec(),
        quick: true,
        check,
        time: Duration::from_millis(3),
        threads: vec![1, 2],
        ranges: 1024,
        locks: Vec::new(),
        thesis: false,
    };
    let result = measure(setup, &mut bench);
    result.as_ref().unwrap();
    let mut report = bench.finish(&result);
    conclude(&mut report);
    report
}

/// All but those that run the command itself.
fn parts() -> Vec<Part> {
    Part::ALL.into_iter().filter(|part| *part != Part::Counters).collect()
}

#[test]
fn every_case_runs_and_every_target_is_known() {
    let _alone = ONE_AT_A_TIME.lock();
    let report = report(&parts(), false);
    let cases: BTreeSet<&str> = report.runs.iter().map(|run| run.case.as_str()).collect();
    for part in parts() {
        let word = if part == Part::Contended { "contended" } else { part.name() };
        assert!(cases.iter().any(|case| case.contains(word)), "{word} is not in {cases:?}");
    }
    // The grid's cells share four tables.
    let cells = cases.iter().filter(|case| case.starts_with("grid,")).count();
    assert_eq!(report.tables.len(), cases.len() - cells + 4);
    for run in &report.runs {
        assert!(run.values.values().all(|value| value.is_finite()), "{} {}", run.case, run.variant);
        let value = |name: &str| run.values.get(name).copied();
        // A percentile never without the maximum, and none above it.
        if let Some(p999_ns) = value("acquire_p999_ns") {
            assert!(p999_ns <= value("acquire_max_ns").unwrap(), "{} {}", run.case, run.variant);
        }
        if let Some(share) = value("slowest_share") {
            assert!((0.0..=1.0).contains(&share), "{} {}", run.case, run.variant);
        }
    }
    // A lock that cannot share takes no part where ranges are shared, and `none` takes no part
    // where ranges overlap.
    let of = |word: &str| -> BTreeSet<&str> {
        let runs = report.runs.iter().filter(|run| run.case.starts_with(word));
        runs.map(|run| run.variant.as_str()).collect()
    };
    assert!(of("shared").contains("map") && !of("shared").contains("range-mutex"));
    assert!(
        of("w1").contains("none") && !of("contended").contains("none") && !of("overlap").contains("none")
    );
    let grid = of("grid, 8 threads, 500 ns, 31 %, exclusive");
    assert!(
        ["manx, owners", "manx, tasks", "range-mutex"].iter().all(|name| grid.contains(name)),
        "{grid:?}"
    );
    assert!(!of("grid, 8 threads, 500 ns, 31 %, 90 % shared").contains("range-mutex"));
    assert!(heat(&report).is_some());
    assert!(report.notes.iter().any(|note| note.contains("which have no shared ranges")));
    assert!(!report.targets.is_empty());
    for target in &report.targets {
        let reason = target.reason.as_deref().unwrap_or_default();
        assert!(!reason.contains("does not know"), "{}: {reason}", target.id);
    }
    let charts = draw(&report);
    let names: BTreeSet<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["w1", "w2", "shard", "overlap", "shared", "contended", "heights"] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
    for (name, chart) in &charts {
        assert!(chart.panels.iter().all(|panel| !panel.series.is_empty()), "{name}");
    }
}

#[test]
fn no_lock_is_caught() {
    let _alone = ONE_AT_A_TIME.lock();
    let report =
        report(&[Part::W2, Part::Overlap, Part::Contended, Part::Shared, Part::Widths, Part::Grid], true);
    assert!(!report.runs.is_empty());
    for run in &report.runs {
        assert_eq!(run.values["violations"], 0.0, "{}, {}", run.variant, run.case);
    }
    let pairs: f64 = report.runs.iter().map(|run| run.values["checked_pairs"]).sum();
    assert!(pairs > 0.0);
    assert!(report.targets.iter().all(|target| target.measured.is_none()));
}
