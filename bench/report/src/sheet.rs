//! Tables by description: which figure each column shows.
//!
//! A description names a column after the other, `HEADER = WHAT`, with `|` or the end of a line in
//! between. The header is as [`Table::new`] has it. How a figure is written follows from the end of
//! its name (`_ns`, `_per_s`, `_bytes`, `_share`) and from the unit in the header. A column whose
//! header begins with `?` is left out if there is nothing in it.
//!
//! | WHAT | the cell |
//! | --- | --- |
//! | `case` | the case, in the first of its rows; `every case`: in all of them. `?` with one case: left out |
//! | `version` | the version |
//! | `part` | the name of the part of the row |
//! | `rounds` | the number of the version's runs |
//! | FIGURE | the median over the rounds; after `whole`, without decimals |
//! | `worst`, `least`, `sum`, `count` FIGURE | the largest of all rounds, the smallest, all of them together, how many there are |
//! | FIGURE `/` FIGURE | the ratio of the two medians |
//! | `ratio`, `interval` FIGURE | over the reference by pairs, and its 95 % interval |
//! | `@NAME` | what the bench says by itself |
//!
//! A row can have several parts, such as classes of threads. A `*` in WHAT stands for the beginning
//! of a part's figures. Columns without one are empty but in the first part.

use crate::figure::{duration, interval, rate, three_digits};
use crate::{Compared, Report};
use command::table::Table;

/// What a bench says by itself: of a case and a version, by the name of the column.
pub type Own<'a> = &'a dyn Fn(&Report, &str, &str, &str) -> String;

/// A description, and what belongs to it.
pub struct Sheet<'a> {
    columns: Vec<(&'a str, &'a str)>,
    reference: &'a str,
    parts: &'a [(&'a str, &'a str)],
    without: &'a str,
    own: Own<'a>,
}

impl<'a> Sheet<'a> {
    /// The sheet of these columns.
    ///
    /// ```
    /// use report::{Machine, Report, Sheet};
    /// let mut report = Report::new("b", Machine::default(), 0);
    /// for (version, rate) in [("a", 1500.0), ("b", 3000.0)] {
    ///     report.add("c", version, 0, &[("ops_per_s", rate), ("max_ns", 2e6)]);
    /// }
    /// let sheet = Sheet::new("version = version | rate = ops_per_s | of a [] = ratio ops_per_s | max [ms] = worst max_ns");
    /// let table = sheet.over("a").of(&report, "c", &["c".to_owned()]);
    /// assert_eq!(table.rows, [["a", "1.50k/s", "1", "2.00"], ["b", "3.00k/s", "2.00", "2.00"]]);
    /// ```
    pub fn new(columns: &'a str) -> Sheet<'a> {
        let columns = columns.split(['|', '\n']).filter(|column| !column.trim().is_empty());
        let two = |column: &'a str| column.split_once('=').expect("a column is HEADER = WHAT");
        let columns = columns.map(two).map(|(header, what)| (header.trim(), what.trim())).collect();
        Sheet { columns, reference: "", parts: &[("", "")], without: "", own: &|_, _, _, _| String::new() }
    }

    /// Ratios are over this version.
    #[must_use]
    pub fn over(self, reference: &'a str) -> Sheet<'a> {
        Sheet { reference, ..self }
    }

    /// The parts of a row: their names, and how their figures begin. A part whose name begins with
    /// `?` is left out where it has no figure.
    #[must_use]
    pub fn parts(self, parts: &'a [(&'a str, &'a str)]) -> Sheet<'a> {
        Sheet { parts, ..self }
    }

    /// This version has no row.
    #[must_use]
    pub fn without(self, version: &'a str) -> Sheet<'a> {
        Sheet { without: version, ..self }
    }

    /// What the bench says by itself.
    #[must_use]
    pub fn own(self, own: Own<'a>) -> Sheet<'a> {
        Sheet { own, ..self }
    }

    /// The table of some cases: a row for each version, or for each of its parts.
    pub fn of<S: AsRef<str>>(&self, report: &Report, title: &str, cases: &[S]) -> Table {
        let headers: Vec<&str> =
            self.columns.iter().map(|(header, _)| header.trim_start_matches('?')).collect();
        let mut table = Table::new(title, &headers);
        for case in cases.iter().map(AsRef::as_ref) {
            let (versions, mut new) = (report.variants(case), true);
            for version in versions.iter().filter(|version| *version != self.without) {
                let mut first = true;
                for (part, start) in self.parts {
                    let row = Row { report, sheet: self, case, version, start };
                    if part.starts_with('?') && !row.is_there() {
                        continue;
                    }
                    let cells =
                        self.columns.iter().zip(&table.columns).map(|((header, what), column)| match *what {
                            "case" if !new || header.starts_with('?') && cases.len() == 1 => String::new(),
                            "every case" | "case" => case.into(),
                            "part" => part.trim_start_matches('?').into(),
                            what if !first && !what.contains('*') => String::new(),
                            what => row.cell(what, &column.unit),
                        });
                    let cells: Vec<String> = cells.collect();
                    table.row(cells);
                    (first, new) = (false, false);
                }
            }
        }
        self.drop_empty(&mut table);
        table
    }

    fn drop_empty(&self, table: &mut Table) {
        for at in (0..self.columns.len()).rev().filter(|at| self.columns[*at].0.starts_with('?')) {
            if table.rows.iter().all(|row| ["", "-"].contains(&row[at].as_str())) {
                table.columns.remove(at);
                table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
        }
    }
}

/// A part of a version's row.
struct Row<'a> {
    report: &'a Report,
    sheet: &'a Sheet<'a>,
    case: &'a str,
    version: &'a str,
    start: &'a str,
}

impl Row<'_> {
    fn values(&self, figure: &str) -> Vec<f64> {
        self.report.values(self.case, self.version, figure)
    }

    /// Whether a part has a figure.
    fn is_there(&self) -> bool {
        let figures =
            self.sheet.columns.iter().filter_map(|(_, what)| what.split(' ').find(|word| word.contains('*')));
        figures.map(|figure| figure.replace('*', self.start)).any(|figure| !self.values(&figure).is_empty())
    }

    fn cell(&self, what: &str, unit: &str) -> String {
        let what = what.replace('*', self.start);
        let middle = |figure: &str| self.report.middle(self.case, self.version, figure);
        if let Some(name) = what.strip_prefix('@') {
            return (self.sheet.own)(self.report, self.case, self.version, name);
        }
        if let Some((above, below)) = what.split_once(" / ") {
            return number(middle(above) / middle(below));
        }
        let (kind, figure) = match what.split_once(' ') {
            Some((kind @ ("worst" | "least" | "sum" | "count" | "ratio" | "interval"), figure)) => {
                (kind, figure)
            }
            _ => ("", what.as_str()),
        };
        let (figure, whole) = figure.strip_prefix("whole ").map_or((figure, false), |figure| (figure, true));
        let ends = |of: fn(f64, f64) -> f64| self.values(figure).into_iter().fold(f64::NAN, of);
        let value = match kind {
            "worst" => ends(f64::max),
            "least" => ends(f64::min),
            "sum" => self.values(figure).iter().sum(),
            "count" => return self.values(figure).len().to_string(),
            "ratio" | "interval" => {
                let [ratio, interval] = match self.version == self.sheet.reference {
                    true => ["1".into(), "-".into()],
                    false => self.report.over(self.case, self.version, self.sheet.reference, figure),
                };
                return if kind == "ratio" { ratio } else { interval };
            }
            _ => match figure {
                "version" => return self.version.into(),
                "rounds" => return self.report.runs_of(self.case, self.version).count().to_string(),
                _ => middle(figure),
            },
        };
        if whole && value.is_finite() { format!("{value:.0}") } else { written(value, figure, unit) }
    }
}

/// A figure in a column of this unit.
fn written(value: f64, figure: &str, unit: &str) -> String {
    let is = |end: &str| figure.ends_with(end);
    match unit {
        "" if is("_ns") || figure.starts_with("ns_per_") => time(value),
        "" if is("bytes_per_s") && value.is_finite() => format!("{}/s", size(value)),
        "" if is("_per_s") => throughput(value),
        "" if is("_bytes") => size(value),
        "op/s" if value.is_finite() => format!("{value:.0}"),
        "KiB" if value.is_finite() => format!("{:.0}", value / 1024.0),
        "MB" | "ms" => number(value / 1e6),
        "µs" => number(value / 1e3),
        "%" if is("_share") => number(value * 100.0),
        _ => number(value),
    }
}

impl Report {
    /// The median of a figure over the rounds; `NaN` without a run.
    pub fn middle(&self, case: &str, version: &str, figure: &str) -> f64 {
        crate::median(&self.values(case, version, figure))
    }

    /// The largest of a figure in all rounds; `NaN` without a run.
    pub fn worst(&self, case: &str, version: &str, figure: &str) -> f64 {
        self.values(case, version, figure).into_iter().fold(f64::NAN, f64::max)
    }

    /// Two cells of a table: the ratio of two versions, and its interval.
    pub fn over(&self, case: &str, over: &str, under: &str, figure: &str) -> [String; 2] {
        match self.ratio(&Compared::new(case, over, under, figure)) {
            Some(ratio) => [number(ratio.ratio), interval(ratio.interval())],
            None => ["-".into(), "-".into()],
        }
    }
}

fn or_dash(value: f64, write: impl FnOnce(f64) -> String) -> String {
    if value.is_finite() { write(value) } else { "-".into() }
}

/// A number.
pub fn number(value: f64) -> String {
    or_dash(value, three_digits)
}

/// A time in nanoseconds.
pub fn time(ns: f64) -> String {
    or_dash(ns, |ns| duration(ns as u64))
}

/// A rate per second.
pub fn throughput(per_second: f64) -> String {
    or_dash(per_second, rate)
}

/// A number of bytes.
pub fn size(bytes: f64) -> String {
    or_dash(bytes, |bytes| match bytes {
        v if v < 1024.0 => format!("{v:.0} B"),
        v if v < 1024.0 * 1024.0 => format!("{} KiB", three_digits(v / 1024.0)),
        v => format!("{} MiB", three_digits(v / 1024.0 / 1024.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    fn report() -> Report {
        let mut report = Report::new("b", Machine::default(), 0);
        for round in 0..2 {
            let more = round as f64;
            report.add("c", "x", round, &[("big_max_ns", 1e6 + more), ("little_max_ns", 4e6), ("n", 3.25)]);
            report.add("c", "y", round, &[("big_max_ns", 2e6), ("cpu_share", 0.5), ("n", 1.0 + more)]);
            report.add("d", "x", round, &[("big_max_ns", 7.0)]);
        }
        report
    }

    #[test]
    fn cases_and_versions_stand_once_and_parts_without_a_figure_have_no_row() {
        let sheet = Sheet::new(
            "case = case | version = version | who = part | max [ms] = worst *max_ns | n [] = whole n",
        );
        let sheet = sheet.parts(&[("?big", "big_"), ("?little", "little_")]);
        let rows = sheet.of(&report(), "t", &["c", "d"]).rows;
        let expected = [
            ["c", "x", "big", "1.00", "3"],
            ["", "", "little", "4.00", ""],
            ["", "y", "big", "2.00", "2"],
            ["d", "x", "big", "0.000007", "-"],
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn columns_without_a_figure_are_left_out_if_they_may_be() {
        let sheet = Sheet::new(
            "?case = case | v = version | ?a = none_ns | b = none_ns | CPU [%] = cpu_share | runs [] = rounds",
        );
        let table = sheet.without("x").of(&report(), "t", &["c"]);
        assert_eq!(table.rows, [["y", "-", "50.0", "2"]]);
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["v", "b", "CPU", "runs"]);
    }

    #[test]
    fn a_cell_is_a_ratio_a_sum_or_what_the_bench_says() {
        let own =
            |_: &Report, case: &str, version: &str, name: &str| format!("{name} of {version} in {case}");
        let sheet = Sheet::new(
            "of x [] = ratio big_max_ns | 95 % [] = interval big_max_ns | sum [] = sum n | n [] = count n
             of little [] = big_max_ns / little_max_ns | least [] = least n | own = @it",
        );
        let rows = sheet.over("x").own(&own).of(&report(), "t", &["c"]).rows;
        assert_eq!(rows[0], ["1", "-", "6.50", "2", "0.250", "3.25", "it of x in c"]);
        assert_eq!(rows[1], ["2.00", "-", "3.00", "2", "-", "1.00", "it of y in c"]);
    }

    #[test]
    fn a_figure_is_written_by_its_name_and_its_unit() {
        for (value, figure, unit, expected) in [
            (1500.0, "p50_ns", "", "1.50 µs"),
            (1500.0, "p50_ns", "µs", "1.50"),
            (1500.0, "ns_per_job", "", "1.50 µs"),
            (2048.0, "bytes_per_s", "", "2.00 KiB/s"),
            (2048.0, "rest_bytes", "", "2.00 KiB"),
            (2048.0, "rest_bytes", "KiB", "2"),
            (12.34, "ops_per_s", "op/s", "12"),
            (12.34, "wakeups_per_s", "/s", "12.3"),
            (0.5, "slowest_share", "x", "0.500"),
            (f64::NAN, "ops_per_s", "op/s", "-"),
        ] {
            assert_eq!(written(value, figure, unit), expected, "{figure} {unit}");
        }
    }

    #[test]
    fn sizes_have_their_unit() {
        assert_eq!(
            (size(40.0), size(2048.0), size(3.5e6)),
            ("40 B".into(), "2.00 KiB".into(), "3.34 MiB".into())
        );
    }

    #[test]
    fn a_value_that_was_not_measured_is_a_dash() {
        for cell in [number(f64::NAN), time(f64::NAN), throughput(f64::NAN), size(f64::INFINITY)] {
            assert_eq!(cell, "-");
        }
    }
}
