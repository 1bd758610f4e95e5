//! From runs to the table of the suite and its verdicts.
//!
//! | the 95 % interval of the ratio of throughputs | the ratio | verdict |
//! | --- | --- | --- |
//! | above 0.95 | at least 0.98 | harmless |
//! | below 0.98 | any | harmed |
//! | anything else, or fewer than five pairs | any | unclear |

use super::suite::Row;
use crate::engines::{AS_IS, MANX};
use crate::verdict::{self, Figure, unknown};
use report::figure::{interval, three_digits};
use report::target::of_bench;
use report::{Compared, Ratio, Report, Table, Target};

/// The figure by which rows are judged.
const FIGURE: &str = "throughput_per_s";
/// No row's ratio may be below this
const LEAST: f64 = 0.98;
/// nor any part of its interval below this.
const LEAST_LOW: f64 = 0.95;

/// The verdict on a row's ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Harmed,
    Unclear,
    Harmless,
}

impl Verdict {
    fn of(ratio: &Ratio) -> Verdict {
        match ratio.interval() {
            Some((_, high)) if high < LEAST => Verdict::Harmed,
            Some((low, _)) if low > LEAST_LOW && ratio.ratio >= LEAST => Verdict::Harmless,
            _ => Verdict::Unclear,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Verdict::Harmed => "harmed",
            Verdict::Unclear => "unclear",
            Verdict::Harmless => "harmless",
        }
    }
}

/// The ratio by which a row is judged: of throughputs, under `manx run` over as it is.
pub(super) fn judged_by(case: &str) -> Compared {
    Compared::new(case, MANX, AS_IS, FIGURE)
}

/// A row's verdict, if it was measured.
fn judged(report: &Report, row: &Row) -> Option<(Verdict, Ratio)> {
    let ratio = report.ratio(&judged_by(&row.name))?;
    Some((Verdict::of(&ratio), ratio))
}

/// Adds the table, the worst rows first, and judges the targets of the rows.
pub fn conclude(report: &mut Report, rows: &[Row]) {
    let mut found: Vec<(&Row, Verdict, Ratio)> = rows
        .iter()
        .filter_map(|row| judged(report, row).map(|(verdict, ratio)| (row, verdict, ratio)))
        .collect();
    found
        .sort_by(|a, b| (a.1, a.2.ratio).partial_cmp(&(b.1, b.2.ratio)).unwrap_or(std::cmp::Ordering::Equal));
    let mut table = Table::new(
        "Throughput under `manx run` over that as it is, the worst rows first",
        &[
            "program",
            "as it is [/s]",
            "manx run [/s]",
            "ratio []",
            "95 % []",
            "pairs []",
            "p99 []",
            "max []",
            "verdict",
        ],
    );
    for (row, verdict, ratio) in &found {
        let middle = |version| three_digits(report.middle(&row.name, version, FIGURE));
        let over = |figure| report.over(&row.name, MANX, AS_IS, figure)[0].clone();
        table.row([
            row.name.clone(),
            middle(AS_IS),
            middle(MANX),
            three_digits(ratio.ratio),
            interval(ratio.interval()),
            ratio.pairs.len().to_string(),
            over("p99_ns"),
            over("max_ns"),
            verdict.name().into(),
        ]);
    }
    let count = |wanted| found.iter().filter(|(_, verdict, _)| *verdict == wanted).count();
    let sums = [Verdict::Harmed, Verdict::Unclear, Verdict::Harmless]
        .map(|verdict| format!("{} {}", count(verdict), verdict.name()));
    let open = found.len() - count(Verdict::Harmless);
    report.notes.push(format!("{} of {} rows measured: {}", found.len(), rows.len(), sums.join(", ")));
    report.ratios.extend(found.into_iter().map(|(_, _, ratio)| ratio));
    report.show(table);
    verdict::judge_or(report, |report, id| match STARTS.iter().find(|(known, ..)| *known == id) {
        Some((_, row, starts)) => Ok(Figure::Plain(longer_ms(report, row) / starts)),
        None if id == ROWS && report.runs.is_empty() => Err("no row was measured".into()),
        None if id == ROWS => Ok(Figure::Plain(open as f64)),
        None => Err(unknown(id)),
    });
    let is_asked =
        |target: &Target| row_of(target).is_none_or(|name| rows.iter().any(|row| row.name == name));
    let asked: Vec<Target> = of_bench("harm").into_iter().filter(is_asked).collect();
    report.targets.retain(|verdict| asked.iter().any(|target| target.id == verdict.id));
}

/// The target that counts rows that are harmed or unclear.
const ROWS: &str = "harm-rows";
/// Targets about the start of a process: the row, and how many processes it starts.
const STARTS: [(&str, &str, f64); 2] =
    [("harm-start", "ends-at-once", 500.0), ("harm-start-python", "python-one-thread", 20.0)];

/// The time by which a run of a row takes longer under `manx run`, in milliseconds.
fn longer_ms(report: &Report, row: &str) -> f64 {
    let time = |version| 1e3 / report.middle(row, version, FIGURE);
    time(MANX) - time(AS_IS)
}

/// The row that a target is about; `None`: all of them.
fn row_of(target: &Target) -> Option<String> {
    let by_file = target.of.as_ref().and_then(|of| of.split(" | ").next());
    let by_id = || STARTS.iter().find(|(id, ..)| *id == target.id).map(|(_, row, _)| *row);
    by_file.or_else(by_id).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::suite;
    use super::*;
    use report::Machine;
    use report::target::Outcome;

    /// A report of these rows, with the ratio of each pair.
    fn report(rows: &[(&str, &[f64])]) -> Report {
        let mut report = Report::new("harm", Machine::default(), 0);
        for (name, pairs) in rows {
            for (round, ratio) in pairs.iter().enumerate() {
                report.add(name, AS_IS, round, &[(FIGURE, 1000.0), ("max_ns", 2e6)]);
                report.add(name, MANX, round, &[(FIGURE, 1000.0 * ratio), ("max_ns", 1e6)]);
            }
        }
        report
    }

    fn verdict(pairs: &[f64]) -> Verdict {
        Verdict::of(&report(&[("a", pairs)]).ratio(&judged_by("a")).unwrap())
    }

    #[test]
    fn the_interval_and_the_ratio_decide_together() {
        for (pairs, expected) in [
            (&[1.0; 5], Verdict::Harmless),
            (&[0.96, 0.97, 0.99, 1.0, 1.1], Verdict::Harmless),
            (&[1.5; 5], Verdict::Harmless),
            (&[0.98; 5], Verdict::Harmless),
            // The interval is fine, and the ratio is not.
            (&[0.96, 0.96, 0.97, 1.0, 1.0], Verdict::Unclear),
            // The ratio is fine, and the interval is not.
            (&[0.94, 0.94, 1.0, 1.0, 1.0], Verdict::Unclear),
            (&[0.97; 5], Verdict::Harmed),
            (&[0.5, 0.6, 0.7, 0.8, 0.97], Verdict::Harmed),
            (&[0.5, 0.6, 0.7, 0.8, 0.99], Verdict::Unclear),
        ] {
            assert_eq!(verdict(pairs), expected, "{pairs:?}");
        }
        assert_eq!(verdict(&[0.1; 4]), Verdict::Unclear, "four pairs have no interval");
    }

    fn rows(names: &[&str]) -> Vec<Row> {
        let row = |name: &&str| format!("[[row]]\nname = '{name}'\ncommand = 'true'\nthreads = 1\n");
        suite::parse(&names.iter().map(row).collect::<String>()).unwrap()
    }

    #[test]
    fn the_worst_rows_come_first_and_all_but_harmless_ones_are_counted() {
        let mut found =
            report(&[("good", &[1.0; 5]), ("bad", &[0.9; 5]), ("worse", &[0.1; 5]), ("open", &[0.5; 3])]);
        conclude(&mut found, &rows(&["good", "bad", "worse", "open", "absent"]));
        let names: Vec<&str> = found.tables[0].rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names, ["worse", "bad", "open", "good"]);
        assert_eq!(found.tables[0].rows[0][3..], ["0.100", "0.100 to 0.100", "5", "-", "0.500", "harmed"]);
        assert!(found.notes.contains(&"4 of 5 rows measured: 2 harmed, 1 unclear, 1 harmless".into()));
        let targets: Vec<_> = found.targets.iter().map(|one| (&*one.id, one.measured, one.verdict)).collect();
        assert_eq!(targets, [(ROWS, Some(3.0), Outcome::FallsShort)], "others are of rows not asked for");
    }

    #[test]
    fn starts_are_told_in_milliseconds_each() {
        let mut found = report(&[("ends-at-once", &[0.5; 5])]);
        conclude(&mut found, &rows(&["ends-at-once"]));
        let start = found.targets.iter().find(|target| target.id == "harm-start").unwrap();
        assert_eq!(start.measured, Some(1.0 / 500.0));
    }

    #[test]
    fn every_target_is_about_a_row_of_the_suite() {
        let names: Vec<String> = suite::built_in().into_iter().map(|row| row.name).collect();
        for target in of_bench("harm") {
            let row = row_of(&target);
            assert!(row.is_some() || target.id == ROWS, "{}", target.id);
            assert!(row.is_none_or(|row| names.contains(&row)), "{}", target.id);
        }
    }
}
