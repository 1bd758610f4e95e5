//! The paper's figures 2, 3, 5, 7 and 8, and latencies whole, with what was measured here.

use super::cases::{self, Amount};
use super::sample::Output;
use crate::drawing::{Charts, LATENCY, chart, lines, over, panels, those, version_shares};
use report::Report;
use report::chart::Chart;

/// Sweeps go no further.
const MOST: usize = 64;
/// What is drawn over something that differs from case to case.
const FIGURES: &str = "jobs per second = jobs_per_s | queue p99 = queue_p99_ns | \
    service p99 = service_p99_ns | service max = service_max_ns | total p50 = total_p50_ns | \
    total p99 = total_p99_ns | total max = total_max_ns";

/// The pictures of the parts that were measured, under names for their files.
pub fn draw(report: &Report) -> Charts {
    let over = |case: &dyn Fn(usize) -> String, step: f64, title: &str, name: &str| {
        let places: Vec<_> = (1..=MOST).map(|count| (count as f64 * step, case(count))).collect();
        let panels = panels(FIGURES, |figure| over(report, &places, figure));
        chart(title, (name, false, halves), panels)
    };
    let neighbours = |amount: Amount, title: &str| {
        over(&|count| cases::neighbours(amount, count), 1.0, title, "processes")
    };
    let threads = "threads, without and with a lock around the computation";
    let quota = "quota: more and less than there are threads";
    those([
        ("threads", over(&cases::threads, 1.0, threads, "threads")),
        ("quota", over(&|half| cases::quota(half as f64 / 2.0), 0.5, quota, "quota in CPUs")),
        ("overload", neighbours(Amount::Overload, "neighbours, each with more than the machine does")),
        ("room", neighbours(Amount::Room, "neighbours, together 60 % of what the machine does")),
        ("room-latency", cumulative(report, &cases::neighbours(Amount::Room, 2))),
        ("overcommit", factors(report)),
        ("burst", cumulative(report, cases::BURST)),
    ])
}

/// Between halves there is no label.
fn halves(value: f64) -> String {
    if (value * 2.0).fract() == 0.0 { format!("{value}") } else { String::new() }
}

/// Figure 8: over the factor, a line for each number of processes.
fn factors(report: &Report) -> Option<Chart> {
    let measured: Vec<String> =
        report.cases().into_iter().filter(|case| case.starts_with(cases::OVERCOMMIT)).collect();
    let panels = panels(FIGURES, |figure| {
        lines(&measured, |case| {
            let of = |name: &String| Some((cases::factor_of(name)?, report.middle(case, name, figure)));
            report.variants(case).iter().filter_map(of).collect()
        })
    });
    let title = "the friendlypool with more threads than its part of the CPUs";
    chart(title, ("factor", false, halves), panels)
}

/// The share of jobs that took at most a given time.
fn cumulative(report: &Report, case: &str) -> Option<Chart> {
    let panels = ["queue", "service", "total", "ramp"].map(|of| {
        let one = |mut output: Output| output.histograms.remove(of);
        version_shares(of, &report.variants(case), |name| report.outputs(case, name).filter_map(one).sum())
    });
    chart(&format!("{case}: share that took at most so long"), LATENCY, panels.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Machine;

    #[test]
    fn cases_that_were_measured_are_drawn_and_no_others() {
        let mut report = Report::new("pool", Machine::default(), 0);
        assert!(draw(&report).is_empty());
        for (case, variant) in [
            (cases::quota(0.5), "ignorant"),
            (cases::quota(1.5), "ignorant"),
            (cases::quota(1.5), "manx"),
            (cases::overcommit(2), "friendlypool x 1.5"),
        ] {
            report.add(&case, variant, 0, &[("jobs_per_s", 100.0)]);
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
