//! The pictures of the paper's figures 1, 4, 5 and 8, with what was measured here.

use super::cases::{
    AGAINST_OPT, ALONE, BENCH_1, BENCH_2, BENCH_2_SLO, BENCH_4, BENCH_6, FIGURE_1, FIGURE_4, FIGURE_5,
    LONG_PERCENT, OPT, bench_3, bench_5, scaled,
};
use super::judge::sweep;
use super::paper;
use super::part::NOPS;
use super::plan::Output;
use crate::drawing::{
    CLASSES, Charts, GREY, LATENCY, chart, colour, diagonal, dot, dots, duration, line, lines, over, panels,
    per_cent, rates, shares, those, times, whole,
};
use crate::verdict::ratio;
use contention::run::WINDOW_NS_MAX;
use contention::timeline::Slice;
use report::chart::{Chart, Panel};
use report::figure::three_digits;
use report::{Histogram, Report, median};

/// Versions of Bench-1 whose latencies are drawn whole, beside the version of the sweep's middle.
const WHOLE: [&str; 5] = ["mcs", "tas", "std", "shfl-10", "asl max"];
const RATES: &str = "epochs per second";

/// The pictures of the parts that were measured, under names for their files.
pub fn draw(report: &Report) -> Charts {
    those([
        ("bench-1", slo_sweep(report)),
        ("bench-1-latency", cumulative(report)),
        ("bench-2", timeline(report)),
        ("bench-3", mixed(report)),
        ("figure-1", scaling(report, FIGURE_1, "figure 1: a lock and 4 cache lines")),
        ("figure-4", scaling(report, FIGURE_4, "figure 4: a lock and 64 cache lines")),
        ("bench-4", scaling(report, BENCH_4, "bench-4: a lock and 64 cache lines")),
        ("bench-5", contention(report)),
        ("bench-6", many(report)),
        ("figure-5", proportions(report)),
    ])
}

fn seconds(value: f64) -> String {
    format!("{value:.2} s")
}

/// A panel of ratios.
fn ratios(name: &str, series: Vec<report::chart::Series>) -> Panel {
    Panel { label: |value| format!("{value:.1}x"), ..rates(name, series) }
}

/// The SLOs of the sweep, with the names of their variants. Variants called `slo of …` take the p99
/// of another lock as their SLO: they only compare throughput, and are left out.
fn slos(report: &Report) -> Vec<(f64, String)> {
    let mut slos = sweep(report);
    slos.retain(|(_, name)| !name.starts_with("slo of"));
    slos
}

/// The little threads' p99; the longest window, if they waited for all of the run.
fn tail(report: &Report, case: &str, name: &str) -> f64 {
    let p99_ns = report.middle(case, name, "little_p99_ns");
    if p99_ns.is_finite() { p99_ns } else { WINDOW_NS_MAX as f64 }
}

/// Figure 8b: p99 and throughput as functions of the SLO. A lock without SLOs is one dot, at the
/// p99 of its little threads, and so is the paper's ring. `None` if no SLO was measured.
fn slo_sweep(report: &Report) -> Option<Chart> {
    let slos = slos(report);
    let value = |name: &str, figure: &str| report.middle(BENCH_1, name, figure);
    let over = |figure: &str| slos.iter().map(|(slo_ns, name)| (*slo_ns, value(name, figure))).collect();
    let tails = CLASSES.map(|(name, colour)| dots(name, colour, over(&format!("{name}_p99_ns"))));
    let others = WHOLE.iter().enumerate().map(|(at, name)| {
        dot(name, colour(at + 1), (tail(report, BENCH_1, name), value(name, "epochs_per_s")))
    });
    let named = paper::rings(report, "epochs_per_s", |case, name| {
        let at = WHOLE.iter().position(|other| *other == name).filter(|_| case == BENCH_1)?;
        Some((tail(report, BENCH_1, name), colour(at + 1)))
    });
    let slo = dots("slo", colour(0), over("epochs_per_s"));
    let epochs = [slo].into_iter().chain(others).chain(named).collect();
    let tails = [diagonal(slos.iter().map(|(slo_ns, _)| *slo_ns))].into_iter().chain(tails).collect();
    let axis = ("target (others: at their little threads' own p99)", true, duration as _);
    let panels = vec![times("p99", tails), rates(RATES, epochs)];
    chart("bench-1: what a target costs and brings", axis, panels).filter(|_| !sweep(report).is_empty())
}

/// As figures 9c and 9f: share of epochs over latency.
fn cumulative(report: &Report) -> Option<Chart> {
    let slos = slos(report);
    let middle_one = slos.get(slos.len() / 2).map(|(_, name)| name.as_str());
    let panels = WHOLE.into_iter().chain(middle_one).map(|name| {
        let outputs: Vec<Output> = report.outputs(BENCH_1, name).collect();
        let big: Histogram = outputs.iter().map(|output| output.big.clone()).sum();
        let little: Histogram = outputs.iter().map(|output| output.little.clone()).sum();
        let all = [big.clone(), little.clone()].into_iter().sum();
        let classes = CLASSES.into_iter().zip([big, little, all]);
        let slo_ns = report.middle(BENCH_1, name, "slo_ns");
        shares(name, classes.map(|((name, colour), histogram)| (name, colour, histogram)), slo_ns)
    });
    chart("bench-1: share of epochs that took at most so long", LATENCY, panels.collect())
}

/// A figure of each slice: `(end_s, the rounds' median of it)`. Slices for which it is none are
/// left out.
fn over_time(rounds: &[Output], figure: impl Fn(&Slice) -> Option<f64>) -> Vec<(f64, f64)> {
    let slices = rounds.iter().map(|round| round.slices.len()).min().unwrap_or(0);
    (0..slices)
        .map(|at| {
            let values: Vec<f64> = rounds.iter().filter_map(|round| figure(&round.slices[at])).collect();
            (rounds[0].slices[at].end_s, median(&values))
        })
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// Figure 8d: latency, throughput and the window over time.
fn timeline(report: &Report) -> Option<Chart> {
    let slo_ns = report.middle(BENCH_2, BENCH_2_SLO, "slo_ns");
    let (mut panels, mut epochs, mut windows) = (Vec::new(), Vec::new(), Vec::new());
    for (at, name) in report.variants(BENCH_2).iter().enumerate() {
        let rounds: Vec<Output> = report.outputs(BENCH_2, name).collect();
        let some = |count: u64, value: u64| (count > 0).then_some(value as f64);
        let little = over_time(&rounds, |slice| some(slice.little.count, slice.little.p99_ns));
        let big = over_time(&rounds, |slice| some(slice.big.count, slice.big.p99_ns));
        let ends = [little.first(), little.last()];
        let target = ends.into_iter().flatten().map(|point| (point.0, slo_ns)).collect();
        let series = vec![
            line("little", CLASSES[1].1, little),
            line("big", CLASSES[0].1, big),
            line("target", GREY, target),
        ];
        panels.push(times(&format!("{name}: p99"), series));
        epochs.push(line(name, colour(at), over_time(&rounds, |slice| Some(slice.epochs_per_s))));
        if name == BENCH_2_SLO {
            windows.push(line(name, colour(at), over_time(&rounds, |slice| Some(slice.window_ns))));
        }
    }
    panels.push(Panel { logarithmic: true, ..rates(RATES, epochs) });
    panels.push(times("window of little threads", windows));
    let title = "bench-2: epochs of 1, 128, 1, 1 to 255, and 1024 times the length";
    chart(title, ("time", false, seconds), panels)
}

/// Figure 8c: throughput over MCS's, by share of long epochs.
fn mixed(report: &Report) -> Option<Chart> {
    let of = |value: &dyn Fn(&str) -> f64| -> Vec<(f64, f64)> {
        let all = LONG_PERCENT.iter().map(|&long| (long as f64, value(&bench_3(long))));
        all.filter(|(_, value)| value.is_finite()).collect()
    };
    let gain = |name: &str| of(&|case| ratio(report, case, name, "mcs", "epochs_per_s"));
    let tail = |figure: &str, name: &str| of(&|case| report.middle(case, name, figure));
    let gains = [("slo", AGAINST_OPT), ("best static windows", OPT)];
    let gains = gains.into_iter().zip(0..).map(|((name, of), at)| dots(name, colour(at), gain(of)));
    let tails = [("slo", AGAINST_OPT), ("best static windows", OPT), ("mcs", "mcs")].into_iter().zip(0..);
    let tails = tails.map(|((name, of), at)| dots(name, colour(at), tail("little_p99_ns", of)));
    let tails = [line("target", GREY, tail("slo_ns", AGAINST_OPT))].into_iter().chain(tails);
    let named = paper::rings(report, "epochs_per_s", |case, _| {
        LONG_PERCENT.iter().find(|long| bench_3(**long) == case).map(|long| (*long as f64, colour(0)))
    });
    // The panel shows ratios to MCS.
    let named = named.into_iter().map(|mut ring| {
        let mcs = |long: f64| report.middle(&bench_3(long as u64), "mcs", "epochs_per_s");
        ring.points.iter_mut().for_each(|(long, rate)| *rate /= mcs(*long));
        ring
    });
    let gains = gains.chain(named).collect();
    let panels = vec![ratios("throughput / mcs", gains), times("little threads' p99", tails.collect())];
    let axis = ("long epochs", false, per_cent as _);
    chart("bench-3: short epochs and such of 100 times their length", axis, panels)
}

/// Figures 1, 4, 8e and 8f: throughput and latency over the number of threads.
fn scaling(report: &Report, case: &str, title: &str) -> Option<Chart> {
    let places: Vec<_> =
        (1..=report.cases().len()).map(|threads| (threads as f64, scaled(case, threads))).collect();
    let figures = "epochs per second = epochs_per_s | p99 of all epochs = all_p99_ns";
    let names = places.first().map_or(Vec::new(), |(_, case)| report.variants(case));
    let place = |case: &str, name: &str| {
        let (threads, _) = places.iter().find(|(_, its)| its == case)?;
        Some((*threads, colour(names.iter().position(|its| its == name)?)))
    };
    let panels = panels(figures, |figure| {
        let named = paper::rings(report, figure, place);
        over(report, &places, figure).into_iter().chain(named).collect()
    });
    chart(title, ("threads, big ones first", false, whole), panels)
}

/// Figure 8g: what the longest window makes of throughput, over the NOPs between epochs.
fn contention(report: &Report) -> Option<Chart> {
    let series = lines(&report.variants(&bench_5(NOPS[0])), |name| {
        let gain = |nops| ratio(report, &bench_5(nops), "asl max", name, "epochs_per_s");
        let points = NOPS.iter().map(|&nops| (nops as f64, gain(nops)));
        points.filter(|_| name != "asl max").collect()
    });
    let names = report.variants(&bench_5(NOPS[0]));
    let named = paper::ratio_rings(report, "asl max", |case, name| {
        let nops = NOPS.iter().find(|nops| bench_5(**nops) == case)?;
        Some((*nops as f64, colour(names.iter().position(|its| its == name)?)))
    });
    let series = series.into_iter().chain(named).collect();
    let title = format!("bench-5: a lock and 2 cache lines; '{ALONE}' is mcs without little threads");
    let axis = ("NOPs between epochs", true, whole as _);
    chart(&title, axis, vec![ratios("throughput of asl max / of", series)])
}

/// Figures 8h and 8i: throughput over latency.
fn many(report: &Report) -> Option<Chart> {
    let value = |name: &str, figure: &str| report.middle(BENCH_6, name, figure);
    let place = |name: &str| (tail(report, BENCH_6, name), value(name, "epochs_per_s"));
    let names = report.variants(BENCH_6);
    let series = names.iter().enumerate().map(|(at, name)| dot(name, colour(at), place(name)));
    let named = paper::rings(report, "epochs_per_s", |case, name| {
        let at = names.iter().position(|its| its == name).filter(|_| case == BENCH_6)?;
        Some((place(name).0, colour(at)))
    });
    let series = series.chain(named).collect();
    chart(BENCH_6, ("little threads' p99", true, duration), vec![rates(RATES, series)])
}

/// Figure 5: throughput and latency over the proportion.
fn proportions(report: &Report) -> Option<Chart> {
    let turns = |name: &str| name.strip_prefix("shfl-")?.parse::<f64>().ok();
    let panels = panels("epochs per second = epochs_per_s | little threads' p99 = little_p99_ns", |figure| {
        let of = |name: &String| Some((turns(name)?, report.middle(FIGURE_5, name, figure)));
        vec![dots("shfl", colour(0), report.variants(FIGURE_5).iter().filter_map(of).collect())]
    });
    chart(FIGURE_5, ("turns", false, three_digits), panels)
}
