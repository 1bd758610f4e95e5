//! What the runs mean: a table for each case, and the targets.

use super::cases::{BURST, IDLE, MIXED, SHARING, SUBMIT_INSIDE, SUBMIT_OUTSIDE};
use super::judge::figure;
use crate::verdict;
use report::{Report, Sheet};

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
    verdict::judge(report, figure);
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
        add(MIXED, "manx + ignorant", "first_over_second", 0.9);
        conclude(&mut report);
        assert_eq!(report.tables.len(), 6, "a mixed case has two");
        assert_eq!(report.tables[0].rows[0][2], "1.00k/s");
        assert_eq!(report.ratios.len(), 1);
        assert!((report.ratios[0].ratio - 1.1).abs() < 1e-9);
        assert!(!report.targets.is_empty());
    }
}
