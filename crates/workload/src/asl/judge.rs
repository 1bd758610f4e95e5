//! Which figure each target is about.
//!
//! A version with a target counts only if little threads made as many epochs in each run as a percentile of them needs.

use super::conclude::{AGAINST_OPT, ALONE, BENCH_1, BENCH_6, EPOCHS, OPT, bench_3, sweep};
use super::lengths::LONG_PERCENT;
use crate::verdict::{self, middle};
use report::{Report, Spread};

/// What Bench-6 compares with.
const PEERS_6: [&str; 6] = ["std", "glibc", "parking_lot", "mcs-park", "futex-mutex", "manx"];

/// Adds the verdicts; `fifo` and `many` are the spreads of Bench-1 and of Bench-6.
pub(super) fn judge(report: &mut Report, fifo: Option<Spread>, many: Option<Spread>) {
    verdict::judge(report, |target, report| {
        let (figure, spread) = figure(report, &target.id, &fifo, &many)
            .ok_or_else(|| format!("this version does not know how to measure '{}'", target.id))?;
        Ok((figure, spread.cloned()))
    });
}

/// True if each run had the little epochs that it was to have.
pub(super) fn enough(report: &Report, case: &str, name: &str) -> bool {
    let runs = report.runs.iter().filter(|run| run.case == case && run.variant == name);
    let figure = |run: &report::Run, figure: &str| run.values.get(figure).copied().unwrap_or(0.0);
    runs.into_iter().all(|run| figure(run, "little_epochs") >= figure(run, "little_epochs_wanted"))
}

/// The least of them; `NaN` if one is missing.
fn least<const N: usize>(figures: [f64; N]) -> f64 {
    if figures.iter().any(|figure| figure.is_nan()) {
        return f64::NAN;
    }
    figures.into_iter().fold(f64::INFINITY, f64::min)
}

/// How many times its throughput can be reached at SHFL-PB10's tail: one little epoch in that time, and big ones in
/// what is left of it, each as long as if there were no little ones.
pub(super) fn ceiling(report: &Report) -> Option<f64> {
    let tail_ns = middle(report, BENCH_1, "shfl-10", "little_p99_ns");
    let best = middle(report, BENCH_1, ALONE, "epochs_per_s");
    let peer = middle(report, BENCH_1, "shfl-10", "epochs_per_s");
    let big_ns = 1e9 / best;
    let little_ns =
        (super::SECTIONS as u64 * super::HOLD_NS) as f64 * middle(report, BENCH_1, "shfl-10", "dilation");
    let epochs = 1.0 + ((tail_ns - little_ns) / big_ns).max(0.0);
    let ceiling = (epochs / tail_ns * 1e9).min(best) / peer;
    ceiling.is_finite().then_some(ceiling)
}

/// The figure of a target by its id, and the spread that belongs to it; `None` if there is no such figure.
fn figure<'a>(
    report: &Report,
    id: &str,
    fifo: &'a Option<Spread>,
    many: &'a Option<Spread>,
) -> Option<(f64, Option<&'a Spread>)> {
    let value = |case: &str, name: &str, figure: &str| {
        if enough(report, case, name) { middle(report, case, name, figure) } else { f64::NAN }
    };
    let rate = |case: &str, name: &str| value(case, name, "epochs_per_s");
    let over = |mine: &str, peer: &str| rate(BENCH_1, mine) / rate(BENCH_1, peer);
    // Only the sweep's own points: those at others' tails are for comparing throughput.
    let points = || {
        let own = |name: &str| !name.starts_with("slo of") && enough(report, BENCH_1, name);
        sweep(report).into_iter().filter(move |(_, name)| own(name))
    };
    let missed = || points().map(|(_, name)| middle(report, BENCH_1, &name, "missed_over_allowed"));
    let p99 = || points().map(|(slo_ns, name)| middle(report, BENCH_1, &name, "little_p99_ns") / slo_ns);
    // A fold over no point gives an infinity, which is no figure.
    let opt = |case: &str| rate(case, AGAINST_OPT) / rate(case, OPT);
    let figure = match id {
        "asl-missed-least" => (missed().fold(f64::INFINITY, f64::min), None),
        "asl-missed-most" => (missed().fold(f64::NEG_INFINITY, f64::max), None),
        "asl-p99-least" => (p99().fold(f64::INFINITY, f64::min), None),
        "asl-p99-most" => (p99().fold(f64::NEG_INFINITY, f64::max), None),
        "asl-max-mcs" => (over("asl max", "mcs"), fifo.as_ref()),
        "asl-max-std" => (least([over("asl max", "std"), over("asl max", "parking_lot")]), fifo.as_ref()),
        "asl-shfl" => {
            (over("slo of shfl-10", "shfl-10") / ceiling(report).unwrap_or(f64::NAN), fifo.as_ref())
        }
        "asl-tas" => (over("slo of tas", "tas"), fifo.as_ref()),
        "asl-zero" => (over("asl 0", "mcs"), fifo.as_ref()),
        "asl-opt-1" => (opt(BENCH_1), fifo.as_ref()),
        "asl-opt-3" => (least(LONG_PERCENT.map(|percent| opt(&bench_3(percent)))), fifo.as_ref()),
        "asl-epoch" => (middle(report, EPOCHS, "start and end", "pair_ns"), None),
        "asl-epoch-bytes" => (middle(report, EPOCHS, "start and end", "record_bytes"), None),
        "asl-many-throughput" => {
            let peers = PEERS_6.map(|name| rate(BENCH_6, name));
            (rate(BENCH_6, "asl(futex-mutex)") / peers.into_iter().fold(f64::NAN, f64::max), many.as_ref())
        }
        "asl-many-p999" => {
            let of = |figure: &str| value(BENCH_6, "asl(futex-mutex)", figure);
            (of("little_p999_ns") / of("slo_ns"), None)
        }
        _ => return None,
    };
    Some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Machine, Run};

    /// Adds a round of a version of Bench-1.
    fn add(report: &mut Report, name: &str, values: &[(&str, f64)]) {
        let round = report.values(BENCH_1, name, "epochs_per_s").len();
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        report.runs.push(Run { case: BENCH_1.into(), variant: name.into(), round, values, output: None });
    }

    fn point(slo_ns: f64, missed: f64, little_epochs: f64) -> [(&'static str, f64); 6] {
        [
            ("epochs_per_s", 100.0),
            ("slo_ns", slo_ns),
            ("missed_over_allowed", missed),
            ("little_p99_ns", slo_ns),
            ("little_epochs", little_epochs),
            ("little_epochs_wanted", 20_000.0),
        ]
    }

    fn measured(report: &Report, id: &str) -> f64 {
        figure(report, id, &None, &None).expect("a known target").0
    }

    #[test]
    fn a_point_with_one_short_run_counts_for_no_target() {
        let mut report = Report::new("asl", Machine::default(), 0);
        for (name, slo_ns, missed, fewest) in [("slo 1", 1e4, 1.0, 20_000.0), ("slo 2", 1e6, 7.0, 19_999.0)] {
            add(&mut report, name, &point(slo_ns, missed, 30_000.0));
            add(&mut report, name, &point(slo_ns, missed, fewest));
        }
        assert!(enough(&report, BENCH_1, "slo 1") && !enough(&report, BENCH_1, "slo 2"));
        assert_eq!(measured(&report, "asl-missed-most"), 1.0);
        add(&mut report, "slo 1", &point(1e4, 1.0, 10.0));
        assert!(!measured(&report, "asl-missed-most").is_finite(), "no point is left");
        super::super::conclude(&mut report);
        let noted = "fewer than 20000 little epochs in a run of slo 1, slo 2";
        assert!(report.notes.iter().any(|note| note.contains(noted)), "{:?}", report.notes);
        let verdict = report.targets.iter().find(|verdict| verdict.id == "asl-missed-most").unwrap();
        assert_eq!(verdict.measured, None);
    }

    #[test]
    fn the_longest_window_is_compared_with_the_faster_of_two_peers_or_not_at_all() {
        let mut report = Report::new("asl", Machine::default(), 0);
        add(&mut report, "asl max", &[("epochs_per_s", 300.0)]);
        add(&mut report, "std", &[("epochs_per_s", 100.0)]);
        assert!(measured(&report, "asl-max-std").is_nan());
        add(&mut report, "parking_lot", &[("epochs_per_s", 150.0)]);
        assert_eq!(measured(&report, "asl-max-std"), 2.0);
    }

    #[test]
    fn every_target_has_a_figure_and_others_have_none() {
        let report = Report::new("asl", Machine::default(), 0);
        for target in report::target::of_bench("asl") {
            assert!(figure(&report, &target.id, &None, &None).is_some(), "{}", target.id);
        }
        assert!(figure(&report, "asl-nothing", &None, &None).is_none());
    }
}
