//! Verdicts: met, falls short, undecided, not measured; and the file of targets itself.

use report::target::{Measured, NO_RUN, Outcome, Target, of_bench, parse, table};
use report::{Machine, Ratio, Report, Verdict};

fn ratio(limit: &str) -> Target {
    let text = format!(
        "[[target]]\nid = 'x'\nbenches = ['b']\nname = 'x'\nunit = 'ratio'\nrelative = true\n{limit}\n"
    );
    parse(&text).unwrap().remove(0)
}

/// As many pairs as there are ratios.
fn pairs(ratios: &[f64]) -> Measured {
    Measured::Ratio(Ratio::new("c", ("b", ratios), ("a", &vec![1.0; ratios.len()]), "m").unwrap())
}

/// The verdict on five pairs around `middle`, whose interval reaches from the smallest to the
/// largest.
fn judged(limit: &str, middle: f64, noise: f64) -> Outcome {
    let scattered = [middle / noise, middle / noise, middle, middle * noise, middle * noise];
    ratio(limit).judge(&pairs(&scattered)).verdict
}

#[test]
fn a_target_beyond_the_interval_is_met_or_missed() {
    assert_eq!(judged("at_most = 0.0333", 0.01, 1.3), Outcome::Met);
    assert_eq!(judged("at_most = 0.0333", 0.05, 1.3), Outcome::FallsShort);
    assert_eq!(judged("at_least = 4.0", 5.3, 1.3), Outcome::Met);
    assert_eq!(judged("at_least = 4.0", 3.0, 1.3), Outcome::FallsShort);
    assert_eq!(judged("at_least = 0.98", 1.5, 1.05), Outcome::Met);
    assert_eq!(judged("at_least = 0.98", 0.5, 1.05), Outcome::FallsShort);
}

#[test]
fn a_target_within_the_interval_is_open_on_whichever_side_the_median_lies() {
    for measured in [0.94, 0.97, 0.98, 0.99, 1.0, 1.02] {
        assert_eq!(judged("at_least = 0.98", measured, 1.05), Outcome::Open, "{measured}");
    }
    assert_eq!(judged("at_most = 1.5", 1.4, 2.0), Outcome::Open);
    assert_eq!(judged("at_most = 1.0", 1.1, 1.2), Outcome::Open);
    assert_eq!(judged("at_least = 4.0", 4.1, 1.3), Outcome::Open);
}

#[test]
fn an_end_of_the_interval_that_is_the_target_reaches_it() {
    assert_eq!(judged("at_least = 0.98", 0.98, 1.0), Outcome::Met);
    assert_eq!(judged("at_most = 1.0", 0.5, 2.0), Outcome::Met);
    assert_eq!(judged("at_least = 0.98", 0.979, 1.0), Outcome::FallsShort);
}

#[test]
fn fewer_than_five_pairs_have_a_figure_and_no_verdict() {
    let target = ratio("at_least = 0.98");
    for measured in [pairs(&[2.0; 4]), pairs(&[0.1]), Measured::Plain(2.0)] {
        let verdict = target.judge(&measured);
        assert_eq!((verdict.verdict, verdict.interval), (Outcome::NotMeasured, None), "{measured:?}");
        assert_eq!(verdict.reason.as_deref(), Some("fewer than five pairs"));
        assert!(table(&[verdict]).to_string().contains("no verdict: fewer than five pairs"));
    }
    assert_eq!(target.judge(&pairs(&[2.0; 5])).verdict, Outcome::Met);
}

#[test]
fn an_absolute_target_is_judged_by_the_figure_itself() {
    let text = "[[target]]\nid = 'x'\nbenches = ['b']\nname = 'x'\nunit = 'ms'\nat_most = 1.1\n";
    let target = parse(text).unwrap().remove(0);
    let verdict = target.judge(&Measured::Plain(1.2));
    assert_eq!((verdict.verdict, verdict.interval, verdict.pairs), (Outcome::FallsShort, None, None));
    assert_eq!(target.judge(&Measured::Plain(1.0)).verdict, Outcome::Met);
    assert_eq!(target.judge(&pairs(&[1.0, 1.2])).verdict, Outcome::Met);
}

#[test]
fn a_time_that_is_short_enough_meets_a_ratio_that_is_missed_or_open() {
    let target = ratio("at_most = 1.0\nor_at_most_ns = 200_000");
    let judged = |ratios: &[f64], over_ns| target.or_by_time(target.judge(&pairs(ratios)), over_ns);
    for missed in [[1.5; 5], [0.8, 0.9, 1.1, 1.2, 1.3]] {
        let met = judged(&missed, 150_000.0);
        assert_eq!((met.verdict, met.to_reach.as_str()), (Outcome::Met, "≤ 1.00 or 200 µs"));
        assert!(table(&[met]).to_string().contains("met: 150 µs"));
        for long in [200_001.0, f64::NAN] {
            assert_eq!(judged(&missed, long), target.judge(&pairs(&missed)));
        }
    }
    assert_eq!(judged(&[0.5; 5], 150_000.0).reason, None, "the ratio itself is met");
    assert_eq!(judged(&[1.5; 4], 150_000.0).verdict, Outcome::NotMeasured, "four pairs");
    assert_eq!(ratio("at_most = 1.0").or_by_time(judged(&[1.5; 5], 3e5), 1.0).verdict, Outcome::FallsShort);
}

#[test]
fn the_table_shows_the_interval_and_the_pairs_beside_the_figure() {
    let open = ratio("at_least = 0.98").judge(&pairs(&[0.9, 0.95, 1.0, 1.05, 1.1]));
    let missed = ratio("at_least = 0.98").judge(&pairs(&[0.5; 6]));
    let table = table(&[open, missed]);
    assert_eq!(table.rows[0][2..], ["1.00", "0.900 to 1.10", "5", "≥ 0.980", "undecided: needs more pairs"]);
    assert_eq!(table.rows[1][2..], ["0.500", "0.500 to 0.500", "6", "≥ 0.980", "falls short"]);
}

#[test]
fn a_target_that_was_not_measured_says_why() {
    let verdict = ratio("at_most = 1.5").unmeasured("there is no boost without root");
    assert_eq!((verdict.verdict, verdict.measured), (Outcome::NotMeasured, None));
    assert!(table(&[verdict]).to_string().contains("not measured: there is no boost without root"));
    assert_eq!(ratio("at_most = 1.5").judge(&Measured::Plain(f64::NAN)).verdict, Outcome::NotMeasured);
}

#[test]
fn targets_of_parts_that_were_not_measured_are_only_counted() {
    let target = ratio("at_most = 1.5");
    let mut report = Report::new("b", Machine::default(), 0);
    report.targets =
        vec![target.unmeasured(NO_RUN), target.judge(&pairs(&[1.25; 5])), target.unmeasured(NO_RUN)];
    assert_eq!(table(&report.targets).rows.len(), 1);
    let text = report.to_string();
    assert!(text.contains("\nTargets of parts that were not measured: 2\n"), "{text}");
    report.targets.remove(1);
    let text = report.to_string();
    assert!(text.ends_with("\nTargets of parts that were not measured: 2\n"), "{text}");
    assert!(!text.contains("verdict"), "{text}");
}

#[test]
fn a_verdict_survives_json() {
    let verdict = ratio("at_most = 1.5").judge(&pairs(&[1.25; 5]));
    let text = serde_json::to_string(&verdict).unwrap();
    assert!(text.contains(r#""verdict":"met""#) && text.contains(r#""to_reach":"≤ 1.50""#), "{text}");
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
}

#[test]
fn the_file_can_be_read_and_every_bench_has_targets() {
    for bench in ["inversion", "guard"] {
        assert!(!of_bench(bench).is_empty(), "{bench}");
    }
    assert_eq!(of_bench("no such bench"), []);
}

#[test]
fn a_bad_file_is_refused_with_a_reason() {
    let with = |limits: &str| format!("[[target]]\nid='x'\nbenches=['b']\nname='n'\nunit='u'\n{limits}");
    for (text, reason) in [
        (with(""), "exactly one of"),
        (with("at_most=1\nat_least=1"), "exactly one of"),
        (with("at_most=0\nrelative=true"), "must be above 0"),
        (with("at_most=1\nmost=1"), "unknown field"),
        (with("at_most=1\nor_at_most_ns=1"), "or_at_most_ns belongs to"),
        (with("at_most=1\nof='c | a'"), "of is not a case"),
        (with("at_most=1\nof='c | b / a | f'"), "of is not a case"),
        (with("at_most=1\nrelative=true\nof='c | a | f'"), "of is not a case"),
        (with("at_least=1\nrelative=true\nor_at_most_ns=1"), "or_at_most_ns belongs to"),
        (with("at_most=1") + "\n" + &with("at_most=2"), "two of this id"),
        ("[[target]]\nid='x'\nbenches=[]\nname='n'\nunit='u'\nat_most=1".into(), "names no bench"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}
