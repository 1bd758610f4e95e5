//! What the runs mean: a table for each case, and the targets.

use super::cases::pair;
use super::cases::{self, Amount, BURST, IDLE, MIXED, SHARING, SUBMIT_INSIDE, SUBMIT_OUTSIDE};
use super::spec::Kind;
use super::spec::Output;
use crate::drawing::{Charts, LATENCY, chart, lines, over, panels, those, version_shares};
use crate::verdict::{self, Figure};
use report::chart::Chart;
use report::{Compared, Report, Samples, Sheet};

/// An open loop: medians over the rounds, and the worst maximum of all of them.
const SERVED: &str = "
    pool = version | runs [] = rounds | jobs = jobs_per_s | least served [x] = slowest_share
    queue p99 = queue_p99_ns | max = queue_max_ns
    service p50 = service_p50_ns | p99 = service_p99_ns | max = service_max_ns
    total p50 = total_p50_ns | p99 = total_p99_ns | max = total_max_ns | worst max = worst total_max_ns
    left [%] = unfinished_share | late p99 = late_p99_ns | max = late_max_ns
    CPU [%] = cpu_share | control [%] = control_percent | throttled [%] = throttled_share";
/// Two processes that are not alike.
const APART: &str = "
    pools = version | first = first_per_s | second = second_per_s
    first / second [x] = first_over_second
    first: service p99 = first_service_p99_ns | max = first_service_max_ns
    total p99 = first_total_p99_ns | max = first_total_max_ns
    second: service p99 = second_service_p99_ns | max = second_service_max_ns
    total p99 = second_total_p99_ns | max = second_total_max_ns";
const RAMP: &str = "
    pool = version | runs [] = rounds | p50 = ramp_p50_ns | p99 = ramp_p99_ns | max = ramp_max_ns
    worst max = worst ramp_max_ns | never [bursts] = sum incomplete";
const REST: &str = "
    pool = version | runs [] = rounds
    of one CPU [%] = idle_cpu_percent | worst [%] = worst idle_cpu_percent
    wake-ups [/s] = idle_wakeups_per_s | worst [/s] = worst idle_wakeups_per_s";
/// Jobs that do nothing.
const NOTHING: &str = "pool = version | runs [] = rounds | a job = ns_per_job | worst = worst ns_per_job";

/// Draws tables and judges the targets.
pub fn conclude(report: &mut Report) {
    tables(report);
    verdict::judge(report, figure);
}

/// Adds a table for each case.
pub(crate) fn tables(report: &mut Report) {
    for case in report.cases() {
        let (title, columns) = match case.as_str() {
            BURST => ("burst: after a rest, from the first submission until all workers run", RAMP),
            IDLE => ("idle: a pool that has nothing to do", REST),
            SUBMIT_OUTSIDE | SUBMIT_INSIDE => (case.as_str(), NOTHING),
            _ => (case.as_str(), SERVED),
        };
        report.show(Sheet::new(columns).of(report, title, &[&case]));
        if [MIXED, SHARING].contains(&case.as_str()) {
            let title = format!("{case}: each of the two");
            report.show(Sheet::new(APART).of(report, &title, &[&case]));
        }
    }
}

/// What a target looks at by its id. Of two processes of one run the ratio is the first's to the
/// second's: each run is a pair.
pub(super) fn figure(_: &Report, id: &str) -> Option<Figure> {
    let version = pair(Kind::Manx, Kind::Ignorant);
    let of = |figure: &str| Samples { case: MIXED.into(), version: version.clone(), figure: figure.into() };
    let compared = Compared { over: of("first_per_s"), under: of("second_per_s"), factor: 1.0 };
    (id == "pool-mixed").then_some(Figure::Ratio(compared))
}

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
    use crate::pool::cases::{Amount, neighbours};
    use report::Machine;

    #[test]
    fn every_case_has_its_table_and_targets_have_their_ratios() {
        let mut report = Report::new("pool", Machine::default(), 0);
        let overload = neighbours(Amount::Overload, 2);
        let mut add = |case: &str, variant: &str, figure: &str, value: f64| {
            report.add(case, variant, 0, &[(figure, value)]);
        };
        add(&overload, "ignorant", "jobs_per_s", 1000.0);
        add(&overload, "manx", "jobs_per_s", 1100.0);
        add(BURST, "manx", "ramp_max_ns", 5e5);
        add(IDLE, "manx", "idle_cpu_percent", 0.5);
        add(SUBMIT_INSIDE, "manx", "ns_per_job", 200.0);
        report.add(MIXED, "manx + ignorant", 0, &[("first_per_s", 75.0), ("second_per_s", 100.0)]);
        conclude(&mut report);
        assert_eq!(report.tables.len(), 6, "a mixed case has two");
        assert_eq!(report.tables[0].rows[0][2], "1.00k/s");
        let measured =
            |id: &str| report.targets.iter().find(|verdict| verdict.id == id).unwrap().measured.unwrap();
        assert_eq!(report.ratios.len(), 2);
        assert!((measured("pool-overload-2-throughput-ignorant") - 1.1).abs() < 1e-9);
        assert_eq!((measured("pool-mixed"), measured("pool-idle")), (0.75, 0.5));
    }

    #[test]
    fn every_target_is_about_a_case_that_is_measured() {
        let sweeps = (1..=8).flat_map(|n| {
            [neighbours(Amount::Overload, n), neighbours(Amount::Room, n), cases::quota(n as f64 / 2.0)]
        });
        let single = [BURST, IDLE, SUBMIT_OUTSIDE, SUBMIT_INSIDE].map(str::to_owned);
        verdict::check_ids("pool", &sweeps.chain(single).collect::<Vec<_>>(), figure);
    }

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
