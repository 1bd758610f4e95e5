//! Verdicts: met, falls short, not resolvable here, not measured; and the file of targets itself.

use report::target::{Outcome, Target, of_bench, parse, table};
use report::{Spread, Verdict};

fn ratio(limit: &str) -> Target {
    let text = format!(
        "[[target]]\nid = 'x'\nbenches = ['b']\nname = 'x'\nunit = 'ratio'\nrelative = true\n{limit}\n"
    );
    parse(&text).unwrap().remove(0)
}

/// A against A within five pairs that scatter by this factor.
fn spread(factor: f64) -> Spread {
    Spread::new("a", "m", &[1.0; 5], &[factor; 5]).unwrap()
}

fn judged(limit: &str, measured: f64, noise: f64) -> Outcome {
    ratio(limit).judge(measured, Some(&spread(noise))).verdict
}

#[test]
fn a_target_far_from_one_is_met_or_missed() {
    assert_eq!(judged("at_most = 0.0333", 0.01, 1.3), Outcome::Met);
    assert_eq!(judged("at_most = 0.0333", 0.04, 1.3), Outcome::FallsShort);
    assert_eq!(judged("at_least = 4.0", 4.0, 1.3), Outcome::Met);
    assert_eq!(judged("at_least = 4.0", 3.9, 1.3), Outcome::FallsShort);
}

#[test]
fn a_target_within_the_spread_is_neither_met_nor_missed() {
    for measured in [0.97, 0.98, 0.99, 1.0, 1.04] {
        assert_eq!(judged("at_least = 0.98", measured, 1.05), Outcome::NotResolvable, "{measured}");
    }
    assert_eq!(judged("at_most = 1.5", 1.4, 2.0), Outcome::NotResolvable);
    assert_eq!(judged("at_most = 1.5", 0.6, 2.0), Outcome::NotResolvable);
    assert_eq!(judged("at_most = 1.0", 0.9, 1.2), Outcome::NotResolvable);
    assert_eq!(judged("at_least = 1.1", 1.15, 1.2), Outcome::NotResolvable);
}

#[test]
fn what_lies_beyond_the_spread_is_told_from_one() {
    assert_eq!(judged("at_least = 0.98", 1.5, 1.05), Outcome::Met);
    assert_eq!(judged("at_most = 1.5", 0.1, 2.0), Outcome::Met);
    assert_eq!(judged("at_most = 1.0", 0.2, 1.8), Outcome::Met);
    assert_eq!(judged("at_least = 1.1", 1.6, 1.2), Outcome::Met);
    assert_eq!(judged("at_most = 1.0", 4.0, 1.8), Outcome::FallsShort);
}

#[test]
fn noise_does_not_hide_a_miss_beyond_it() {
    assert_eq!(judged("at_least = 0.98", 0.5, 1.05), Outcome::FallsShort);
    assert_eq!(judged("at_most = 1.5", 40.0, 2.0), Outcome::FallsShort);
}

#[test]
fn without_noise_every_target_is_resolvable() {
    assert_eq!(judged("at_least = 0.98", 0.979, 1.0), Outcome::FallsShort);
    assert_eq!(judged("at_least = 0.98", 0.981, 1.0), Outcome::Met);
}

#[test]
fn noise_does_not_touch_an_absolute_target() {
    let text = "[[target]]\nid = 'x'\nbenches = ['b']\nname = 'x'\nunit = 'ms'\nat_most = 1.1\n";
    let target = parse(text).unwrap().remove(0);
    let verdict = target.judge(1.2, Some(&spread(3.0)));
    assert_eq!((verdict.verdict, verdict.spread), (Outcome::FallsShort, None));
    assert_eq!(target.judge(1.0, None).verdict, Outcome::Met);
}

#[test]
fn what_was_not_measured_says_why() {
    let verdict = ratio("at_most = 1.5").unmeasured("there is no boost without root");
    assert_eq!((verdict.verdict, verdict.measured), (Outcome::NotMeasured, None));
    assert!(table(&[verdict]).to_string().contains("not measured: there is no boost without root"));
    assert_eq!(ratio("at_most = 1.5").judge(f64::NAN, None).verdict, Outcome::NotMeasured);
}

#[test]
fn a_verdict_survives_json() {
    let verdict = ratio("at_most = 1.5").judge(1.25, Some(&spread(1.1)));
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
        (with("at_most=1") + "\n" + &with("at_most=2"), "two of this id"),
        ("[[target]]\nid='x'\nbenches=[]\nname='n'\nunit='u'\nat_most=1".into(), "names no bench"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}
