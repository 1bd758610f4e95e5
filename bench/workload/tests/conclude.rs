//! From runs to tables and verdicts, on made-up runs whose figures are known.

use report::target::Outcome;
use report::{Machine, Report};
use workload::inversion::{AS_IS, BOOST, BOOSTED, GUARDED, HEADLINE, PAIR};
use workload::{guard, inversion};

fn add(report: &mut Report, case: &str, variant: &str, values: &[(&str, f64)]) {
    for round in 0..5 {
        let jitter = 1.0 + round as f64 / 1000.0;
        let values: Vec<_> = values.iter().map(|&(name, v)| (name, v * jitter)).collect();
        report.add(case, variant, round, &values);
    }
}

fn engine(report: &mut Report, case: &str, variant: &str, throughput: f64, p999_ms: f64, max_ms: f64) {
    let values = [
        ("throughput_per_s", throughput),
        ("mean_ns", 10e3),
        ("p50_ns", 7e3),
        ("p999_ns", p999_ms * 1e6),
        ("max_ns", max_ms * 1e6),
        ("slowest_of_mean", 0.9),
    ];
    add(report, case, variant, &values);
}

fn outcomes(report: &Report) -> Vec<(&str, Outcome)> {
    report.targets.iter().map(|target| (target.id.as_str(), target.verdict)).collect()
}

/// The figures that were found when the experiment was tried first.
fn found() -> Report {
    let mut report = Report::new("inversion", Machine::default(), 0);
    engine(&mut report, HEADLINE, AS_IS, 7_000.0, 700.0, 1000.0);
    engine(&mut report, PAIR, AS_IS, 400_000.0, 1.0, 5.0);
    engine(&mut report, HEADLINE, GUARDED, 90_000.0, 2.0, 20.0);
    engine(&mut report, PAIR, GUARDED, 399_000.0, 1.0, 5.0);
    engine(&mut report, BOOST, GUARDED, 55_000.0, 0.30, 2.0);
    engine(&mut report, BOOST, BOOSTED[1], 55_000.0, 0.40, 2.0);
    report
}

#[test]
fn targets_are_met_where_the_guard_repairs() {
    let mut report = found();
    inversion::conclude(&mut report);
    let expected =
        ["inversion-p999", "inversion-max", "inversion-throughput", "boost-p999", "pair-throughput"];
    assert_eq!(outcomes(&report), expected.map(|id| (id, Outcome::Met)));
    assert!((report.targets[0].measured.unwrap() - 2.0 / 700.0).abs() < 1e-9);
    assert_eq!(report.ratios.len(), 5);
    assert!(report.ratios.iter().all(|ratio| ratio.pairs.len() == 5 && ratio.half_width() < 1e-9));
    let text = report.to_string();
    for part in [
        HEADLINE,
        BOOST,
        PAIR,
        "Ratios of pairs",
        "95 % interval",
        "Targets",
        "worst max ms",
        "slowest thread of mean",
    ] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
}

#[test]
fn a_round_less_than_five_is_no_verdict() {
    let mut report = found();
    report.runs.retain(|run| run.round < 4);
    inversion::conclude(&mut report);
    assert!(report.targets.iter().all(|target| target.verdict == Outcome::NotMeasured));
    assert!(report.to_string().contains("no verdict: fewer than five pairs"));
}

#[test]
fn targets_fall_short_where_the_guard_does_not_repair() {
    let mut report = found();
    report.runs.retain(|run| !(run.case == HEADLINE && run.variant == GUARDED));
    engine(&mut report, HEADLINE, GUARDED, 7_000.0, 700.0, 1000.0);
    inversion::conclude(&mut report);
    assert_eq!(
        outcomes(&report)[..3].iter().filter(|(_, outcome)| *outcome == Outcome::FallsShort).count(),
        3
    );
}

#[test]
fn without_runs_nothing_is_judged_and_nothing_is_drawn() {
    for (name, conclude) in
        [("inversion", inversion::conclude as fn(&mut Report)), ("guard", guard::conclude)]
    {
        let mut report = Report::new(name, Machine::default(), 0);
        conclude(&mut report);
        assert!(report.tables.is_empty() && report.plots.is_empty() && report.ratios.is_empty());
        assert!(!report.targets.is_empty());
        assert!(report.targets.iter().all(|target| target.verdict == Outcome::NotMeasured));
    }
}

#[test]
fn the_guards_costs_come_from_differences() {
    let mut report = Report::new("guard", Machine::default(), 0);
    for (variant, wall) in [(guard::AS_IS, 1e6), (guard::GUARDED, 3e6)] {
        add(&mut report, guard::launch::CASE, variant, &[("wall_ns", wall)]);
    }
    let mib = f64::from(1 << 20);
    for (case, as_is, guarded) in
        [(guard::memory::CASES[0].0, 40.0 * mib, 46.0 * mib), (guard::memory::CASES[1].0, mib, 2.0 * mib)]
    {
        let sizes =
            |bytes| [("proportional_bytes", bytes), ("private_bytes", bytes), ("resident_bytes", bytes)];
        // The same in every round: sizes do not jitter.
        for (variant, bytes) in [(guard::AS_IS, as_is), (guard::GUARDED, guarded)] {
            report.add(case, variant, 0, &sizes(bytes));
        }
    }
    let search = [("text_bytes", 5e7), ("scan_ns", 40e6), ("second_scan_ns", 4e6), ("modules", 9.0)];
    add(&mut report, guard::scan::CASE, guard::GUARDED, &search);
    guard::conclude(&mut report);
    let measured = |id: &str| report.targets.iter().find(|target| target.id == id).unwrap().measured.unwrap();
    assert!((measured("launch") - 2.004).abs() < 1e-9);
    assert!((measured("memory-total") - 6.0).abs() < 1e-9);
    assert!((measured("memory-thread") - 5.0 * mib / 4990.0).abs() < 1e-9);
    assert!((measured("scan") - 8.0).abs() < 1e-9);
    assert!((measured("scan-again") - 0.8).abs() < 1e-9);
    assert_eq!(
        report.targets.iter().find(|target| target.id == "memory-thread").unwrap().verdict,
        Outcome::FallsShort
    );
}
