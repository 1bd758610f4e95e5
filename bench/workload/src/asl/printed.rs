//! Ours beside LibASL as it is printed: each version that has a window or a target has a second one
//! with the paper's own Algorithms 1 to 3, and a table compares them.

use contention::lock::Lock;
use report::figure::{duration, three_digits};
use report::{Compared, Report, Table};

/// The paper's lock in place of ours.
pub(super) fn lock(ours: Lock) -> Option<Lock> {
    match ours {
        Lock::AslMcs => Some(Lock::Libasl),
        Lock::AslFutex => Some(Lock::LibaslBlocking),
        _ => None,
    }
}

/// The name of the printed version: that of the lock, and what ours has beside its own lock's.
pub(super) fn name(printed: Lock, ours: &str) -> String {
    let beside = if ours.starts_with("asl(") { "" } else { ours.strip_prefix("asl ").unwrap_or(ours) };
    format!("{} {beside}", printed.name()).trim_end().to_owned()
}

/// The printed version beside this one, if it was measured.
pub(super) fn of(report: &Report, case: &str, ours: &str) -> Option<String> {
    let measured = report.variants(case);
    [Lock::Libasl, Lock::LibaslBlocking]
        .map(|lock| name(lock, ours))
        .into_iter()
        .find(|name| !ours.starts_with(Lock::Libasl.name()) && measured.contains(name))
}

/// Throughput by pairs, and little threads' latency and maximum of both; `None` if no printed
/// version was measured.
pub(super) fn table(report: &Report) -> Option<Table> {
    let headers = [
        "case",
        "version",
        "SLO",
        "epochs, ours / printed []",
        "95 % from []",
        "to []",
        "little p99, ours",
        "printed",
        "little max, ours",
        "printed max",
        "missed, ours [%]",
        "printed [%]",
    ];
    let mut table = Table::new("Beside LibASL as it is printed", &headers);
    for case in report.cases() {
        for ours in report.variants(&case) {
            let Some(printed) = of(report, &case, &ours) else { continue };
            let Some(ratio) = report.ratio(&Compared::new(&case, &ours, &printed, "epochs_per_s")) else {
                continue;
            };
            let figure = |version: &str, figure: &str| report.middle(&case, version, figure);
            let time = |version: &str, name: &str| match figure(version, name) {
                ns if ns.is_finite() => duration(ns as u64),
                _ => String::new(),
            };
            let share = |version: &str| match figure(version, "missed_share") {
                share if share.is_finite() => three_digits(share * 100.0),
                _ => String::new(),
            };
            table.row([
                case.clone(),
                ours.clone(),
                time(&ours, "slo_ns"),
                three_digits(ratio.ratio),
                ratio.low.map_or_else(String::new, three_digits),
                ratio.high.map_or_else(String::new, three_digits),
                time(&ours, "little_p99_ns"),
                time(&printed, "little_p99_ns"),
                time(&ours, "little_max_ns"),
                time(&printed, "little_max_ns"),
                share(&ours),
                share(&printed),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Variant, with_printed};
    use super::*;
    use contention::run::Window;
    use report::Machine;

    #[test]
    fn each_version_of_ours_has_a_printed_one_behind_it() {
        let ours = [
            ("mcs", Lock::Mcs),
            ("asl max", Lock::AslMcs),
            ("slo of tas", Lock::AslMcs),
            ("asl(futex-mutex)", Lock::AslFutex),
            ("asl max", Lock::AslFutex),
        ];
        let variants = ours.map(|(name, lock)| Variant::named(name, lock, Window::Fixed(1)));
        let all: Vec<_> =
            with_printed(&variants).into_iter().map(|it| (it.name().to_owned(), it.lock())).collect();
        let all: Vec<_> = all.iter().map(|(name, lock)| (name.as_str(), *lock)).collect();
        assert_eq!(
            all,
            [
                ours[0],
                ours[1],
                ("libasl max", Lock::Libasl),
                ours[2],
                ("libasl slo of tas", Lock::Libasl),
                ours[3],
                ("libasl-blocking", Lock::LibaslBlocking),
                ours[4],
                ("libasl-blocking max", Lock::LibaslBlocking),
            ]
        );
    }

    #[test]
    fn the_table_has_the_ratio_of_the_pairs_and_both_maxima() {
        let mut report = Report::new("asl", Machine::default(), 0);
        assert_eq!(table(&report), None);
        for (name, rate, max_ns) in [("asl max", 30.0, 4e6), ("libasl max", 20.0, 5e6)] {
            report.add("bench-1", name, 0, &[("epochs_per_s", rate), ("little_max_ns", max_ns)]);
        }
        let table = table(&report).expect("one pair");
        assert_eq!(table.rows.len(), 1, "{table}");
        assert_eq!(table.rows[0][..4], ["bench-1", "asl max", "", "1.50"]);
        assert_eq!(table.rows[0][8..10], ["4.00 ms", "5.00 ms"]);
    }
}
