//! Which figure each target is about.
//!
//! A version with a target counts only if little threads made enough epochs in each run for the
//! percentile of the target.

use super::cases::{AGAINST_OPT, ALONE, BENCH_1, BENCH_6, HOLD_NS, LONG_PERCENT, OPT, SECTIONS, bench_3};
use crate::verdict::{self, Figure};
use report::{Compared, Report};

/// The versions that Bench-6 compares with.
const PEERS_6: [&str; 6] = ["std", "glibc", "parking_lot", "mcs-park", "futex-mutex", "manx"];

/// The name of throughput in a run.
const RATE: &str = "epochs_per_s";

/// The ratios that a case must measure precisely. Each case of Bench-3 measures its own ratio,
/// because only the end shows which case has the least.
pub(super) fn watched(report: &Report, case: &str) -> Vec<Compared> {
    let mut watched = verdict::watched(report, case, figure);
    let of_3 = LONG_PERCENT.iter().any(|percent| bench_3(*percent) == case);
    watched.extend(of_3.then(|| Compared::new(case, AGAINST_OPT, OPT, RATE)));
    watched
}

/// True if each run had enough little epochs.
pub(super) fn enough(report: &Report, case: &str, name: &str) -> bool {
    let figure = |run: &report::Run, figure: &str| run.values.get(figure).copied().unwrap_or(0.0);
    report.runs_of(case, name).all(|run| figure(run, "little_epochs") >= figure(run, "little_epochs_wanted"))
}

/// The sweep: `(slo_ns, name)`, in ascending order.
pub(super) fn sweep(report: &Report) -> Vec<(f64, String)> {
    let of = |name: String| Some((report.middle(BENCH_1, &name, "slo_ns"), name));
    let mut sweep: Vec<(f64, String)> =
        report.variants(BENCH_1).into_iter().filter(|name| name.starts_with("slo ")).filter_map(of).collect();
    sweep.sort_by(|one, other| one.0.total_cmp(&other.0));
    sweep
}

/// The largest possible throughput over SHFL-PB10's at SHFL-PB10's tail: in that time one little
/// epoch, and big epochs for the rest of it, each as short as without little threads.
pub(super) fn ceiling(report: &Report) -> Option<f64> {
    let tail_ns = report.middle(BENCH_1, "shfl-10", "little_p99_ns");
    let best = report.middle(BENCH_1, ALONE, "epochs_per_s");
    let peer = report.middle(BENCH_1, "shfl-10", "epochs_per_s");
    let big_ns = 1e9 / best;
    let little_ns = (SECTIONS as u64 * HOLD_NS) as f64 * report.middle(BENCH_1, "shfl-10", "dilation");
    let epochs = 1.0 + ((tail_ns - little_ns) / big_ns).max(0.0);
    let ceiling = (epochs / tail_ns * 1e9).min(best) / peer;
    ceiling.is_finite().then_some(ceiling)
}

/// What a target looks at by its id; `None` if there is no such figure.
pub(super) fn figure(report: &Report, id: &str) -> Option<Figure> {
    let value = |case: &str, name: &str, figure: &str| {
        if enough(report, case, name) { report.middle(case, name, figure) } else { f64::NAN }
    };
    let rate = |case: &str, name: &str| value(case, name, RATE);
    let over =
        |case: &str, mine: &str, peer: &str| match enough(report, case, mine) && enough(report, case, peer) {
            true => Figure::ratio(case, mine, peer, RATE),
            false => Figure::missing(),
        };
    // Only the sweep's own points: those at others' tails are for comparing throughput.
    let points = || {
        let own = |name: &str| !name.starts_with("slo of") && enough(report, BENCH_1, name);
        sweep(report).into_iter().filter(move |(_, name)| own(name))
    };
    let missed = || points().map(|(_, name)| report.middle(BENCH_1, &name, "missed_over_allowed"));
    let p99 = || points().map(|(slo_ns, name)| report.middle(BENCH_1, &name, "little_p99_ns") / slo_ns);
    // The fastest of some peers; nothing if one of them must be there and is not.
    let fastest = |case: &str, peers: &[&'static str], all: bool| {
        let rates = peers.iter().map(|&peer| (rate(case, peer), peer));
        let measured: Vec<_> = rates.filter(|(rate, _)| rate.is_finite()).collect();
        let complete = !all || measured.len() == peers.len();
        measured.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| complete).map(|(_, peer)| peer)
    };
    // A fold over no point gives an infinity, which is no figure.
    Some(match id {
        "asl-missed-least" => Figure::Plain(missed().fold(f64::INFINITY, f64::min)),
        "asl-missed-most" => Figure::Plain(missed().fold(f64::NEG_INFINITY, f64::max)),
        "asl-p99-least" => Figure::Plain(p99().fold(f64::INFINITY, f64::min)),
        "asl-p99-most" => Figure::Plain(p99().fold(f64::NEG_INFINITY, f64::max)),
        "asl-max-mcs" => over(BENCH_1, "asl max", "mcs"),
        "asl-max-std" => fastest(BENCH_1, &["std", "parking_lot"], true)
            .map_or(Figure::missing(), |peer| over(BENCH_1, "asl max", peer)),
        "asl-shfl" => match (over(BENCH_1, "slo of shfl-10", "shfl-10"), ceiling(report)) {
            (Figure::Ratio(compared), Some(ceiling)) => {
                Figure::Ratio(Compared { factor: 1.0 / ceiling, ..compared })
            }
            _ => Figure::missing(),
        },
        "asl-tas" => over(BENCH_1, "slo of tas", "tas"),
        "asl-zero" => over(BENCH_1, "asl 0", "mcs"),
        "asl-opt-1" => over(BENCH_1, AGAINST_OPT, OPT),
        "asl-opt-3" => {
            let ratio = |case: &String| rate(case, AGAINST_OPT) / rate(case, OPT);
            let cases = LONG_PERCENT.map(bench_3);
            // One case that was not measured could be the least.
            match cases.iter().all(|case| ratio(case).is_finite()) {
                true => cases
                    .iter()
                    .min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
                    .map_or(Figure::missing(), |case| over(case, AGAINST_OPT, OPT)),
                false => Figure::missing(),
            }
        }
        "asl-many-throughput" => fastest(BENCH_6, &PEERS_6, false)
            .map_or(Figure::missing(), |peer| over(BENCH_6, "asl(futex-mutex)", peer)),
        "asl-many-p999" => {
            let of = |figure: &str| value(BENCH_6, "asl(futex-mutex)", figure);
            Figure::Plain(of("little_p999_ns") / of("slo_ns"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Machine;

    /// Adds a round of a version of Bench-1.
    fn add(report: &mut Report, name: &str, values: &[(&str, f64)]) {
        let round = report.values(BENCH_1, name, "epochs_per_s").len();
        report.add(BENCH_1, name, round, values);
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
        figure(report, id).expect("a known target").value(report)
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
        verdict::check_ids("asl", &[super::super::cases::EPOCHS.to_owned()], figure);
    }
}
