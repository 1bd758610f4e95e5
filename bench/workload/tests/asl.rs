//! `manx bench asl` from end to end, too short to say anything about time: every case runs, every
//! version has its figures, and every target has a figure that this version knows how to find.

use contention::length::Length;
use contention::lock::Lock;
use contention::run::{Burn, Run, Window, Work};
use report::Machine;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;
use workload::asl::{Part, Setup, conclude, draw, measure};
use workload::harness::{Bench, Silent};
use workload::machine;
use workload::place::Place;

/// Locks that spin in order are slow beside another test.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn every_case_runs_and_every_target_is_known() {
    let _alone = ONE_AT_A_TIME.lock();
    if machine::cpus().len() < 2 {
        testing::skip("big and little threads need a CPU each");
        return;
    }
    let mut progress = Silent;
    let mut bench = Bench::new("asl", Machine::here(), None, &mut progress);
    bench.resolution.pairs_max = Some(1);
    let setup = Setup {
        parts: Part::ALL.to_vec(),
        quick: true,
        time: Duration::from_millis(10),
        dilation: None,
        pinned: true,
        place: Place::here(),
    };
    let result = measure(setup, &mut bench);
    result.as_ref().unwrap();
    let mut report = bench.finish(&result);
    conclude(&mut report);

    let cases: BTreeSet<&str> = report.runs.iter().map(|run| run.case.as_str()).collect();
    // Eleven cases: the cost of an epoch, bench-1, figure 5, bench-2, bench-6, epochs that compete,
    // two times of bench-5, and three mixtures of bench-3. Figure 1, figure 4 and bench-4 have a
    // case for each number of threads from one to the number of CPUs.
    assert_eq!(cases.len(), 11 + 3 * machine::cpus().len(), "{cases:?}");
    // One for each case but the cost of an epoch, and one for ours beside LibASL as it is printed.
    assert_eq!((report.tables.len(), report.plots.len()), (cases.len(), 1));
    // One pair each, and none of a version that had no epoch.
    assert!(report.ratios.iter().all(|ratio| ratio.pairs.len() == 1), "{:?}", report.ratios);
    let charts = draw(&report);
    let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
    let all = "bench-1 bench-1-latency bench-2 bench-3 figure-1 figure-4 bench-4 bench-5 bench-6 figure-5";
    assert_eq!(names.join(" "), all);
    for (name, chart) in &charts {
        assert!(chart.panels.iter().all(|panel| !panel.series.is_empty()), "{name}");
    }
    for run in report.runs.iter().filter(|run| run.values.contains_key("epochs_per_s")) {
        assert!(run.values.values().all(|value| value.is_finite()), "{} {}", run.case, run.variant);
        let max_ns = |who: &str| run.values.get(&format!("{who}_max_ns")).copied().unwrap_or(0.0);
        assert_eq!(max_ns("all"), max_ns("big").max(max_ns("little")));
        // On a busy machine a run may be over before its threads were on a CPU.
        let ran = max_ns("big") > 0.0 || max_ns("little") > 0.0;
        assert_eq!(ran, run.values["epochs_per_s"] > 0.0, "{} {}", run.case, run.variant);
    }
    // An SLO of 0 is missed by every epoch, if there was time for one.
    let zero = report.values("bench-1", "asl 0", "missed_share");
    assert!(zero.iter().all(|&share| share == 1.0 || share == 0.0) && zero.len() == 1, "{zero:?}");
    assert!(!report.targets.is_empty());
    for target in &report.targets {
        let reason = target.reason.as_deref().unwrap_or_default();
        assert!(!reason.contains("does not know"), "{}: {reason}", target.id);
    }
}

#[test]
fn slices_hold_the_epochs_of_the_measured_time_and_no_others() {
    let _alone = ONE_AT_A_TIME.lock();
    let run = Run {
        threads: 3,
        first_big: Some(1),
        cpus: machine::cpus(),
        pinned: false,
        burn: Burn::Rounds { per_us: 100.0 },
        dilation: 1.0,
        work: Work { sections: 1, locks: 1, lines: 3, hold_ns: 1000, nops: 0 },
        think_ns: 100,
        length: Length::Mixed { long_percent: 10, times: 5 },
        window: Window::ByLength { short_ns: 50_000, long_ns: 1000 },
        time: Duration::from_millis(50),
        little_epochs: 200,
        limit: Duration::from_secs(60),
        is_interrupted: || false,
        slices: Some(5),
    };
    let found = contend::run(Lock::Std, &run).expect("the lock excludes");
    assert!(found.little.count() >= run.little_epochs, "it ends before there are epochs enough");
    let slices = found.timeline.expect("slices were asked for").slices;
    assert_eq!(slices.len(), 5);
    let (big, little): (u64, u64) =
        slices.iter().fold((0, 0), |(b, l), slice| (b + slice.big.count, l + slice.little.count));
    assert!(big <= found.big.count() && little <= found.little.count(), "{big} {little}");
    assert!(slices.iter().all(|slice| slice.window_ns == 1000.0 || slice.window_ns == 0.0), "{slices:?}");
    assert_eq!(found.missed, 0, "there is no target");
}
