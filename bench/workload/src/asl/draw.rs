//! The pictures of the paper's figures 1, 4, 5 and 8, with what was measured here.

use super::conclude::{
    AGAINST_OPT, ALONE, BENCH_1, BENCH_2, BENCH_2_SLO, BENCH_4, BENCH_6, FIGURE_1, FIGURE_4, FIGURE_5, OPT,
    bench_3, bench_5, scaled, sweep,
};
use super::lengths::LONG_PERCENT;
use super::sample::Output;
use super::scaling::THINKS_NS;
use super::timeline::Slice;
use crate::drawing::{GREY, curve, dots, duration, line, per_cent, percent, whole};
use crate::engines::unequal::draw::CLASSES;
use crate::verdict::{middle, ratio};
use report::chart::{Chart, Panel, Series};
use report::{Histogram, Report, figure, median};

/// Colours of versions.
const COLOURS: [u32; 12] = [
    0x1f_77_b4, 0xd6_27_28, 0x2c_a0_2c, 0xe6_7e_00, 0x94_67_bd, 0x8c_56_4b, 0xe3_77_c2, 0x17_be_cf,
    0xbc_bd_22, 0x33_33_99, 0x00_66_66, 0x99_00_33,
];
/// Versions of Bench-1 whose latencies are drawn whole, beside the version of the sweep's middle.
const WHOLE: [&str; 5] = ["mcs", "tas", "std", "shfl-10", "asl max"];

/// The pictures of the parts that were measured, under names for their files.
pub fn draw(report: &Report) -> Vec<(String, Chart)> {
    let charts = [
        ("bench-1", targets(report)),
        ("bench-1-latency", cumulative(report)),
        ("bench-2", timeline(report)),
        ("bench-3", mixed(report)),
        ("figure-1", scaling(report, FIGURE_1, "figure 1: a lock and 4 cache lines")),
        ("figure-4", scaling(report, FIGURE_4, "figure 4: a lock and 64 cache lines")),
        ("bench-4", scaling(report, BENCH_4, "bench-4: a lock and 64 cache lines")),
        ("bench-5", contention(report)),
        ("bench-6", many(report)),
        ("figure-5", proportions(report)),
    ];
    charts.into_iter().filter_map(|(name, chart)| Some((name.into(), chart?))).collect()
}

fn plain(value: f64) -> String {
    figure::three_digits(value)
}

fn seconds(value: f64) -> String {
    format!("{value:.2} s")
}

fn times(value: f64) -> String {
    format!("{value:.1}x")
}

/// One dot.
fn dot(name: &str, colour: usize, point: (f64, f64)) -> Series {
    Series { line: false, ..dots(name, COLOURS[colour % COLOURS.len()], vec![point]) }
}

fn latencies(name: &str, series: Vec<Series>) -> Panel {
    Panel { name: name.into(), logarithmic: true, label: duration, series }
}

fn throughput(series: Vec<Series>) -> Panel {
    Panel { name: "epochs per second".into(), logarithmic: false, label: figure::rate, series }
}

/// Figure 8b: latency and throughput over the target; competitors at their own tail.
fn targets(report: &Report) -> Option<Chart> {
    let sweep = sweep(report);
    let own = || sweep.iter().filter(|(_, name)| !name.starts_with("slo of"));
    let over = |figure: &str| -> Vec<(f64, f64)> {
        own().map(|(slo_ns, name)| (*slo_ns, middle(report, BENCH_1, name, figure))).collect()
    };
    let mut tails = vec![line("y = x", GREY, own().map(|(slo_ns, _)| (*slo_ns, *slo_ns)).collect())];
    for (name, colour, _) in CLASSES {
        tails.push(Series { dots: true, ..line(name, colour, over(&format!("{name}_p99_ns"))) });
    }
    let mut rates = vec![dots("slo", COLOURS[0], over("epochs_per_s"))];
    for (at, name) in WHOLE.iter().enumerate() {
        let value = |figure: &str| middle(report, BENCH_1, name, figure);
        rates.push(dot(name, at + 1, (value("little_p99_ns"), value("epochs_per_s"))));
    }
    (!sweep.is_empty()).then(|| Chart {
        title: "bench-1: what a target costs and brings".into(),
        name: "target (others: at their little threads' own p99)".into(),
        logarithmic: true,
        label: duration,
        panels: vec![latencies("p99", tails), throughput(rates)],
    })
}

/// As figures 9c and 9f: share of epochs over latency.
fn cumulative(report: &Report) -> Option<Chart> {
    let sweep = sweep(report);
    let own: Vec<&str> =
        sweep.iter().map(|(_, name)| name.as_str()).filter(|name| !name.starts_with("slo of")).collect();
    let middle_one = own.get(own.len() / 2).copied();
    let mut panels = Vec::new();
    for name in WHOLE.into_iter().chain(middle_one) {
        let (mut big, mut little) = (Histogram::new(), Histogram::new());
        for output in outputs(report, BENCH_1, name) {
            big.merge(&output.big);
            little.merge(&output.little);
        }
        let mut all = big.clone();
        all.merge(&little);
        let mut series: Vec<Series> = CLASSES
            .iter()
            .zip([&big, &little, &all])
            .filter(|(_, histogram)| histogram.count() > 0)
            .map(|((name, colour, _), histogram)| line(name, *colour, curve(histogram)))
            .collect();
        if series.is_empty() {
            continue;
        }
        let slo_ns = middle(report, BENCH_1, name, "slo_ns");
        if slo_ns.is_finite() {
            series.push(line("target", GREY, vec![(slo_ns, 0.0), (slo_ns, 1.0)]));
        }
        panels.push(Panel { name: name.into(), logarithmic: false, label: percent, series });
    }
    (!panels.is_empty()).then(|| Chart {
        title: "bench-1: share of epochs that took at most so long".into(),
        name: "latency".into(),
        logarithmic: true,
        label: duration,
        panels,
    })
}

fn outputs(report: &Report, case: &str, name: &str) -> Vec<Output> {
    let runs = report.runs.iter().filter(|run| run.case == case && run.variant == name);
    runs.filter_map(|run| serde_json::from_str(run.output.as_ref()?.get()).ok()).collect()
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
    let slo_ns = middle(report, BENCH_2, BENCH_2_SLO, "slo_ns");
    let (mut panels, mut rates, mut windows) = (Vec::new(), Vec::new(), Vec::new());
    for (at, name) in report.variants(BENCH_2).iter().enumerate() {
        let rounds = outputs(report, BENCH_2, name);
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
        panels.push(latencies(&format!("{name}: p99"), series));
        rates.push(line(name, COLOURS[at], over_time(&rounds, |slice| Some(slice.epochs_per_s))));
        if name == BENCH_2_SLO {
            windows.push(line(name, COLOURS[at], over_time(&rounds, |slice| Some(slice.window_ns))));
        }
    }
    if panels.is_empty() {
        return None;
    }
    panels.push(Panel { logarithmic: true, ..throughput(rates) });
    panels.push(latencies("window of little threads", windows));
    Some(Chart {
        title: "bench-2: epochs of 1, 128, 1, 1 to 255, and 1024 times the length".into(),
        name: "time".into(),
        logarithmic: false,
        label: seconds,
        panels,
    })
}

/// Figure 8c: throughput over MCS's, by share of long epochs.
fn mixed(report: &Report) -> Option<Chart> {
    let over = |name: &str| -> Vec<(f64, f64)> {
        let of = |long: &u64| (*long as f64, ratio(report, &bench_3(*long), name, "mcs", "epochs_per_s"));
        LONG_PERCENT.iter().map(of).filter(|(_, ratio)| ratio.is_finite()).collect()
    };
    let tail = |figure: &str, name: &str| -> Vec<(f64, f64)> {
        LONG_PERCENT.iter().map(|&long| (long as f64, middle(report, &bench_3(long), name, figure))).collect()
    };
    let rates =
        vec![dots("slo", COLOURS[0], over(AGAINST_OPT)), dots("best static windows", COLOURS[1], over(OPT))];
    let tails = vec![
        line("target", GREY, tail("slo_ns", AGAINST_OPT)),
        dots("slo", COLOURS[0], tail("little_p99_ns", AGAINST_OPT)),
        dots("best static windows", COLOURS[1], tail("little_p99_ns", OPT)),
        dots("mcs", COLOURS[2], tail("little_p99_ns", "mcs")),
    ];
    LONG_PERCENT.iter().any(|long| report.cases().contains(&bench_3(*long))).then(|| Chart {
        title: "bench-3: short epochs and such of 100 times their length".into(),
        name: "long epochs".into(),
        logarithmic: false,
        label: per_cent,
        panels: vec![
            Panel { name: "throughput / mcs".into(), logarithmic: false, label: times, series: rates },
            latencies("little threads' p99", tails),
        ],
    })
}

/// Figures 1, 4, 8e and 8f: throughput and latency over the number of threads.
fn scaling(report: &Report, case: &str, title: &str) -> Option<Chart> {
    let measured = report.cases();
    let counts: Vec<usize> =
        (1..=measured.len()).filter(|&threads| measured.contains(&scaled(case, threads))).collect();
    let names = report.variants(&scaled(case, *counts.first()?));
    let over = |figure: &str| -> Vec<Series> {
        let of = |name: &str| {
            let of =
                |&threads: &usize| (threads as f64, middle(report, &scaled(case, threads), name, figure));
            counts.iter().map(of).collect()
        };
        names.iter().enumerate().map(|(at, name)| dots(name, COLOURS[at % COLOURS.len()], of(name))).collect()
    };
    Some(Chart {
        title: title.into(),
        name: "threads, big ones first".into(),
        logarithmic: false,
        label: whole,
        panels: vec![throughput(over("epochs_per_s")), latencies("p99 of all epochs", over("all_p99_ns"))],
    })
}

/// Figure 8g: what the longest window makes of throughput, over the time between epochs.
fn contention(report: &Report) -> Option<Chart> {
    let names = report.variants(&bench_5(THINKS_NS[0]));
    let over = |name: &str| -> Vec<(f64, f64)> {
        let of = |&ns: &u64| (ns as f64, ratio(report, &bench_5(ns), "asl max", name, "epochs_per_s"));
        THINKS_NS.iter().map(of).collect()
    };
    let others = || names.iter().enumerate().filter(|(_, name)| *name != "asl max");
    (!names.is_empty()).then(|| Chart {
        title: format!("bench-5: a lock and 2 cache lines; '{ALONE}' is mcs without little threads"),
        name: "time between epochs".into(),
        logarithmic: true,
        label: duration,
        panels: vec![Panel {
            name: "throughput of asl max / of".into(),
            logarithmic: false,
            label: times,
            series: others().map(|(at, name)| dots(name, COLOURS[at % COLOURS.len()], over(name))).collect(),
        }],
    })
}

/// Figures 8h and 8i: throughput over latency.
fn many(report: &Report) -> Option<Chart> {
    let value = |name: &str, figure: &str| middle(report, BENCH_6, name, figure);
    let names = report.variants(BENCH_6);
    let place = |name: &str| (value(name, "little_p999_ns"), value(name, "epochs_per_s"));
    (!names.is_empty()).then(|| Chart {
        title: BENCH_6.into(),
        name: "little threads' p99.9".into(),
        logarithmic: true,
        label: duration,
        panels: vec![throughput(
            names.iter().enumerate().map(|(at, name)| dot(name, at, place(name))).collect(),
        )],
    })
}

/// Figure 5: throughput and latency over the proportion.
fn proportions(report: &Report) -> Option<Chart> {
    let over = |figure: &str| -> Vec<(f64, f64)> {
        let turns = |name: &str| name.strip_prefix("shfl-")?.parse::<f64>().ok();
        let of = |name: &String| Some((turns(name)?, middle(report, FIGURE_5, name, figure)));
        report.variants(FIGURE_5).iter().filter_map(of).collect()
    };
    let rates = over("epochs_per_s");
    (!rates.is_empty()).then(|| Chart {
        title: FIGURE_5.into(),
        name: "turns".into(),
        logarithmic: false,
        label: plain,
        panels: vec![
            throughput(vec![dots("shfl", COLOURS[0], rates)]),
            latencies("little threads' p99", vec![dots("shfl", COLOURS[0], over("little_p99_ns"))]),
        ],
    })
}
