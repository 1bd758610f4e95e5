//! The paper's figures 2, 3, 5, 7 and 8, and latencies whole, with what was measured here.

use super::cases::{self, Amount};
use super::sample::Output;
use crate::drawing::{curve, dots, duration, line, percent};
use crate::verdict::middle;
use report::chart::{Chart, Panel, Series};
use report::{Histogram, Report, figure};

/// Colours of versions.
const COLOURS: [u32; 12] = [
    0xd6_27_28, 0x1f_77_b4, 0x2c_a0_2c, 0xe6_7e_00, 0x94_67_bd, 0x8c_56_4b, 0xe3_77_c2, 0x17_be_cf,
    0xbc_bd_22, 0x33_33_99, 0x00_66_66, 0x99_00_33,
];
/// Sweeps go no further.
const MOST: usize = 64;

/// The pictures of the parts that were measured, under names for their files.
pub fn draw(report: &Report) -> Vec<(String, Chart)> {
    let counts = |case: &dyn Fn(usize) -> String| -> Vec<(f64, String)> {
        (1..=MOST).map(|count| (count as f64, case(count))).collect()
    };
    let quotas: Vec<(f64, String)> =
        (1..=MOST).map(|half| half as f64 / 2.0).map(|cpus| (cpus, cases::quota(cpus))).collect();
    let neighbours = |amount: Amount| counts(&|count| cases::neighbours(amount, count));
    let room = cases::neighbours(Amount::Room, 2);
    let charts = [
        (
            "threads",
            over(
                report,
                &counts(&cases::threads),
                "threads, without and with a lock around the computation",
                "threads",
            ),
        ),
        ("quota", over(report, &quotas, "quota: more and less than there are threads", "quota in CPUs")),
        (
            "overload",
            over(
                report,
                &neighbours(Amount::Overload),
                "neighbours, each with more than the machine does",
                "processes",
            ),
        ),
        (
            "room",
            over(
                report,
                &neighbours(Amount::Room),
                "neighbours, together 60 % of what the machine does",
                "processes",
            ),
        ),
        ("room-latency", cumulative(report, &room)),
        ("overcommit", factors(report)),
        ("burst", cumulative(report, cases::BURST)),
    ];
    charts.into_iter().filter_map(|(name, chart)| Some((name.into(), chart?))).collect()
}

/// Between halves there is no label.
fn halves(value: f64) -> String {
    if (value * 2.0).fract() == 0.0 { format!("{value}") } else { String::new() }
}

/// What is drawn over something that differs from case to case.
const FIGURES: [(&str, &str); 7] = [
    ("jobs per second", "jobs_per_s"),
    ("queue p99", "queue_p99_ns"),
    ("service p99", "service_p99_ns"),
    ("service max", "service_max_ns"),
    ("total p50", "total_p50_ns"),
    ("total p99", "total_p99_ns"),
    ("total max", "total_max_ns"),
];

fn panel(name: &str, measure: &str, series: Vec<Series>) -> Panel {
    let rate = measure == "jobs_per_s";
    let label = if rate { figure::rate } else { duration };
    Panel { name: name.into(), logarithmic: !rate, label, series }
}

fn over(report: &Report, places: &[(f64, String)], title: &str, name: &str) -> Option<Chart> {
    let measured = report.cases();
    let places: Vec<_> = places.iter().filter(|(_, case)| measured.contains(case)).collect();
    let names = report.variants(&places.first()?.1);
    let panels = FIGURES.into_iter().map(|(title, measure)| {
        let series = names.iter().enumerate().map(|(at, name)| {
            let of = places.iter().map(|(x, case)| (*x, middle(report, case, name, measure)));
            dots(name, COLOURS[at % COLOURS.len()], of.filter(|(_, value)| value.is_finite()).collect())
        });
        panel(title, measure, series.collect())
    });
    Some(Chart {
        title: title.into(),
        name: name.into(),
        logarithmic: false,
        label: halves,
        panels: panels.collect(),
    })
}

/// Figure 8: over the factor, a line for each number of processes.
fn factors(report: &Report) -> Option<Chart> {
    let measured: Vec<String> =
        report.cases().into_iter().filter(|case| case.starts_with(cases::OVERCOMMIT)).collect();
    let panels = FIGURES.into_iter().map(|(title, measure)| {
        let series = measured.iter().enumerate().map(|(at, case)| {
            let of = |name: &String| Some((cases::factor_of(name)?, middle(report, case, name, measure)));
            dots(case, COLOURS[at % COLOURS.len()], report.variants(case).iter().filter_map(of).collect())
        });
        panel(title, measure, series.collect())
    });
    (!measured.is_empty()).then(|| Chart {
        title: "the friendlypool with more threads than its part of the CPUs".into(),
        name: "factor".into(),
        logarithmic: false,
        label: halves,
        panels: panels.collect(),
    })
}

/// The share of jobs that took at most a given time.
fn cumulative(report: &Report, case: &str) -> Option<Chart> {
    let names = report.variants(case);
    let merged = |name: &str, histogram: &str| -> Histogram {
        let mut all = Histogram::new();
        let runs = report.runs.iter().filter(|run| run.case == case && run.variant == name);
        for output in runs.filter_map(|run| serde_json::from_str::<Output>(run.output.as_ref()?.get()).ok()) {
            if let Some(one) = output.histograms.get(histogram) {
                all.merge(one);
            }
        }
        all
    };
    let panel = |histogram: &str| {
        let of = names.iter().enumerate().map(|(at, name)| (at, name, merged(name, histogram)));
        let series = of
            .filter(|(_, _, all)| all.count() > 0)
            .map(|(at, name, all)| line(name, COLOURS[at % COLOURS.len()], curve(&all)));
        Panel { name: histogram.into(), logarithmic: false, label: percent, series: series.collect() }
    };
    let mut panels: Vec<Panel> = ["queue", "service", "total", "ramp"].map(panel).into();
    panels.retain(|panel| !panel.series.is_empty());
    (!panels.is_empty()).then(|| Chart {
        title: format!("{case}: share that took at most so long"),
        name: "latency".into(),
        logarithmic: true,
        label: duration,
        panels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Machine, Run};

    #[test]
    fn what_was_measured_is_drawn_and_nothing_else() {
        let mut report = Report::new("pool", Machine::default(), 0);
        assert!(draw(&report).is_empty());
        for (case, variant) in [
            (cases::quota(0.5), "ignorant"),
            (cases::quota(1.5), "ignorant"),
            (cases::quota(1.5), "manx"),
            (cases::overcommit(2), "friendlypool x 1.5"),
        ] {
            let values = [("jobs_per_s".to_owned(), 100.0)].into();
            report.runs.push(Run { case, variant: variant.into(), round: 0, values, output: None });
        }
        let charts = draw(&report);
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["quota", "overcommit"]);
        let [quota, overcommit] = &charts[..] else { panic!() };
        assert_eq!(quota.1.panels[0].series.len(), 1, "what the first case lacks is not drawn");
        assert_eq!(quota.1.panels[0].series[0].points, [(0.5, 100.0), (1.5, 100.0)]);
        assert_eq!(overcommit.1.panels[0].series[0].points, [(1.5, 100.0)]);
    }
}
