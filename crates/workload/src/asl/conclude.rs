//! What the runs mean: a table for each case, the picture of latency over its target, and the verdicts.

use crate::verdict::{self, against_itself, middle};
use report::figure::{duration, rate, three_digits};
use report::plot::{Series, plot};
use report::{Report, Spread, Table};

pub(super) const EPOCHS: &str = "an epoch's cost";
pub(super) const BENCH_1: &str = "bench-1, 2 threads";
pub(super) const FIGURE_5: &str = "figure 5, big threads' turns to a little one's";
pub(super) const BENCH_6: &str = "bench-6, 8 threads on 2 CPUs";
/// A big thread without a little one.
pub(super) const ALONE: &str = "big alone";
/// The best static window, and the feedback at the same target.
pub(super) const OPT: &str = "opt";
pub(super) const AGAINST_OPT: &str = "slo of opt";
/// What Bench-6 compares with.
const PEERS_6: [&str; 6] = ["std", "glibc", "parking_lot", "mcs-park", "futex-mutex", "manx"];
/// A little epoch's critical sections, without waiting.
const LITTLE_NS: f64 = super::run::SECTIONS as f64 * super::HOLD_NS as f64 * super::DILATION;

/// The name of a case of Bench-3.
pub(super) fn bench_3(long_percent: u64) -> String {
    format!("bench-3, {long_percent} % long epochs")
}

/// Draws tables and the picture, and judges the targets.
pub fn conclude(report: &mut Report) {
    let mut cases: Vec<String> = Vec::new();
    for run in &report.runs {
        if !cases.contains(&run.case) {
            cases.push(run.case.clone());
        }
    }
    let pair_ns = middle(report, EPOCHS, "start and end", "pair_ns");
    if pair_ns.is_finite() {
        let text = format!("an epoch's start and end cost {} ns, nobody else running", three_digits(pair_ns));
        report.notes.push(text);
    }
    for case in cases.iter().filter(|case| *case != EPOCHS) {
        let table = table(report, case);
        report.tables.push(table);
    }
    picture(report);
    let fifo = against_itself(report, BENCH_1, "mcs", "mcs, again", "epochs_per_s");
    let many = against_itself(report, BENCH_6, "std", "std, again", "epochs_per_s");
    let alone =
        middle(report, BENCH_1, ALONE, "epochs_per_s") / middle(report, BENCH_1, "mcs", "epochs_per_s");
    if alone.is_finite() {
        report.notes.push(format!(
            "{BENCH_1}: a big thread alone makes {alone:.2} times the epochs of both with mcs"
        ));
    }
    if let Some(ceiling) = ceiling(report) {
        let text =
            format!("{BENCH_1}: at shfl-10's tail throughput can be {ceiling:.2} times its own at most");
        report.notes.push(text);
    }
    verdict::judge(report, |target, report| {
        let (figure, spread) = figure(report, &target.id, &fifo, &many)
            .ok_or_else(|| format!("this version does not know how to measure '{}'", target.id))?;
        Ok((figure, spread.cloned()))
    });
}

fn variants(report: &Report, case: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in report.runs.iter().filter(|run| run.case == case) {
        if !names.contains(&run.variant) {
            names.push(run.variant.clone());
        }
    }
    names
}

fn table(report: &Report, case: &str) -> Table {
    let headers = [
        "version",
        "runs []",
        "epochs",
        "slowest [x]",
        "dilation [x]",
        "SLO",
        "missed [%]",
        "who",
        "p50",
        "p99",
        "p99.9",
        "max",
    ];
    let mut table = Table::new(case, &headers);
    for name in variants(report, case) {
        let value = |figure: &str| middle(report, case, &name, figure);
        let number = |value: f64| if value.is_finite() { three_digits(value) } else { "-".into() };
        let time = |value: f64| if value.is_finite() { duration(value as u64) } else { "-".into() };
        for who in ["little", "big", "all"] {
            let first = |text: String| if who == "little" { text } else { String::new() };
            table.row([
                first(name.clone()),
                first(report.values(case, &name, "epochs_per_s").len().to_string()),
                first(rate(value("epochs_per_s"))),
                first(number(value("slowest_share"))),
                first(number(value("dilation"))),
                first(time(value("slo_ns"))),
                first(number(100.0 * value("missed_share"))),
                who.into(),
                time(value(&format!("{who}_p50_ns"))),
                time(value(&format!("{who}_p99_ns"))),
                time(value(&format!("{who}_p999_ns"))),
                time(value(&format!("{who}_max_ns"))),
            ]);
        }
    }
    table
}

/// The sweep: `(slo_ns, name)`, in ascending order.
fn sweep(report: &Report) -> Vec<(f64, String)> {
    let of = |name: String| Some((middle(report, BENCH_1, &name, "slo_ns"), name));
    let mut sweep: Vec<(f64, String)> = variants(report, BENCH_1)
        .into_iter()
        .filter(|name| name.starts_with("slo "))
        .filter_map(of)
        .collect();
    sweep.sort_by(|one, other| one.0.total_cmp(&other.0));
    sweep
}

/// Little threads' p99 over their target, with the line on which both are the same.
fn picture(report: &mut Report) {
    let sweep = sweep(report);
    let (Some(first), Some(last)) = (sweep.first(), sweep.last()) else { return };
    let p99 = |name: &str| middle(report, BENCH_1, name, "little_p99_ns") as u64;
    let range = (first.0 / 2.0) as u64..(last.0 * 2.0) as u64;
    let series = [
        Series {
            mark: '.',
            name: "the SLO itself, y = x",
            values_ns: sweep.iter().map(|s| s.0 as u64).collect(),
        },
        Series {
            mark: 'o',
            name: "little threads' p99",
            values_ns: sweep.iter().map(|s| p99(&s.1)).collect(),
        },
    ];
    let slos: Vec<String> = sweep.iter().map(|s| duration(s.0 as u64)).collect();
    let title = format!("Little threads' p99 over the SLO; the columns are SLOs of {}", slos.join(", "));
    let picture = plot(&title, &series, 0..0, range);
    // The columns are targets here, not seconds.
    report.plots.push(picture.replace("  second", "     SLO"));
}

/// How many times its throughput can be reached at SHFL-PB10's tail: one little epoch in that time, and big ones in
/// what is left of it, each as long as if there were no little ones.
fn ceiling(report: &Report) -> Option<f64> {
    let tail_ns = middle(report, BENCH_1, "shfl-10", "little_p99_ns");
    let best = middle(report, BENCH_1, ALONE, "epochs_per_s");
    let peer = middle(report, BENCH_1, "shfl-10", "epochs_per_s");
    let big_ns = 1e9 / best;
    let epochs = 1.0 + ((tail_ns - LITTLE_NS) / big_ns).max(0.0);
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
    let rate = |case: &str, name: &str| middle(report, case, name, "epochs_per_s");
    let over = |mine: &str, peer: &str| rate(BENCH_1, mine) / rate(BENCH_1, peer);
    // Only the sweep's own points: those at others' tails are for comparing throughput.
    let points = || sweep(report).into_iter().filter(|(_, name)| !name.starts_with("slo of"));
    let missed = || points().map(|(_, name)| middle(report, BENCH_1, &name, "missed_over_allowed"));
    let p99 = || points().map(|(slo_ns, name)| middle(report, BENCH_1, &name, "little_p99_ns") / slo_ns);
    // `NaN` where there is no point: `fold` over none would give an infinity, which is no figure either.
    let opt = |case: &str| rate(case, AGAINST_OPT) / rate(case, OPT);
    let figure = match id {
        "asl-missed-least" => (missed().fold(f64::INFINITY, f64::min), None),
        "asl-missed-most" => (missed().fold(f64::NEG_INFINITY, f64::max), None),
        "asl-p99-least" => (p99().fold(f64::INFINITY, f64::min), None),
        "asl-p99-most" => (p99().fold(f64::NEG_INFINITY, f64::max), None),
        "asl-max-mcs" => (over("asl max", "mcs"), fifo.as_ref()),
        "asl-max-std" => (over("asl max", "std").min(over("asl max", "parking_lot")), fifo.as_ref()),
        "asl-shfl" => {
            (over("slo of shfl-10", "shfl-10") / ceiling(report).unwrap_or(f64::NAN), fifo.as_ref())
        }
        "asl-tas" => (over("slo of tas", "tas"), fifo.as_ref()),
        "asl-zero" => (over("asl 0", "mcs"), fifo.as_ref()),
        "asl-opt-1" => (opt(BENCH_1), fifo.as_ref()),
        "asl-opt-3" => {
            let all = super::LONG_PERCENT.map(|percent| opt(&bench_3(percent)));
            (all.into_iter().fold(f64::INFINITY, f64::min), fifo.as_ref())
        }
        "asl-epoch" => (middle(report, EPOCHS, "start and end", "pair_ns"), None),
        "asl-epoch-bytes" => (middle(report, EPOCHS, "start and end", "record_bytes"), None),
        "asl-many-throughput" => {
            let peers = PEERS_6.map(|name| rate(BENCH_6, name));
            (rate(BENCH_6, "asl(futex-mutex)") / peers.into_iter().fold(f64::NAN, f64::max), many.as_ref())
        }
        "asl-many-p999" => {
            let of = |figure: &str| middle(report, BENCH_6, "asl(futex-mutex)", figure);
            (of("little_p999_ns") / of("slo_ns"), None)
        }
        _ => return None,
    };
    Some(figure)
}
