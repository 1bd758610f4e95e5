//! From runs to tables and verdicts: each version beside the program as it is.

use super::{AS_IS, MANX, SUBJECTS, Subject};
use crate::cell::number;
use crate::verdict::{self, Figure, middle, over};
use report::figure::three_digits;
use report::target::Target;
use report::{Compared, Report, Table};

/// The figures that targets may ask for: the end of the target's id, and the name in a run.
const FIGURES: [(&str, &str); 3] =
    [("throughput", "throughput_per_s"), ("p999", "p999_ns"), ("max", "max_ns")];

/// The programs of a bench, by which its cases and its targets are named.
pub(crate) struct Programs<'a> {
    /// What the ids of targets begin with
    pub prefix: &'static str,
    /// The programs
    pub names: &'a [&'static str],
}

/// Draws a table of what was measured, and judges the targets of `subjects`.
pub fn conclude(report: &mut Report, subjects: &[&'static Subject]) {
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
    Programs { prefix: "", names: &names }.conclude(report);
}

/// The ratios that a program goes on for.
pub(super) fn watched(report: &Report, case: &'static str) -> Vec<Compared> {
    Programs { prefix: "", names: &SUBJECTS.each_ref().map(|subject| subject.name) }.watched(report, case)
}

impl Programs<'_> {
    /// Draws a table of what was measured, and judges the programs' targets.
    pub(crate) fn conclude(&self, report: &mut Report) {
        let table = self.table(report);
        report.tables.extend((!table.rows.is_empty()).then_some(table));
        verdict::judge(report, |target, report| {
            let figure = self.figure(target).ok_or_else(|| NOT_ASKED.to_owned())?;
            match &figure {
                Figure::Ratio(compared) if report.ratio(compared).is_none() => {
                    Err(absence(report, &compared.over.case))
                }
                _ => Ok(figure),
            }
        });
        report.targets.retain(|target| target.reason.as_deref() != Some(NOT_ASKED));
    }

    /// The ratios that a program goes on for.
    pub(crate) fn watched(&self, report: &Report, case: &str) -> Vec<Compared> {
        verdict::watched(report, case, |_, target| self.figure(target))
    }

    /// What a target looks at: `NAME-FIGURE` is that of a program under `manx run` over the program
    /// as it is.
    fn figure(&self, target: &Target) -> Option<Figure> {
        let (name, figure) = target.id.strip_prefix(self.prefix)?.rsplit_once('-')?;
        let name = self.names.iter().find(|known| **known == name)?;
        let (_, value) = FIGURES.iter().find(|(known, _)| *known == figure)?;
        Some(Figure::ratio(name, MANX, AS_IS, value))
    }

    fn table(&self, report: &Report) -> Table {
        let mut table = Table::new(
            "Medians of the rounds",
            &[
                "program",
                "version",
                "runs []",
                "throughput [op/s]",
                "of as it is []",
                "95 % []",
                "p50 [µs]",
                "p99 [µs]",
                "p99.9 [µs]",
                "max [ms]",
                "worst max [ms]",
                "slowest thread [of mean]",
            ],
        );
        for &case in self.names {
            for (row, version) in report.variants(case).iter().enumerate() {
                let shown = |value: &str, unit: f64| number(middle(report, case, version, value) / unit);
                let [of_as_is, interval] = match version.as_str() {
                    AS_IS => ["1".into(), "-".into()],
                    _ => over(report, case, version, AS_IS, "throughput_per_s"),
                };
                let maxima = report.values(case, version, "max_ns");
                table.row([
                    if row == 0 { case.into() } else { String::new() },
                    version.clone(),
                    maxima.len().to_string(),
                    format!("{:.0}", middle(report, case, version, "throughput_per_s")),
                    of_as_is,
                    interval,
                    shown("p50_ns", 1e3),
                    shown("p99_ns", 1e3),
                    shown("p999_ns", 1e3),
                    shown("max_ns", 1e6),
                    three_digits(maxima.into_iter().fold(0.0, f64::max) / 1e6),
                    shown("slowest_of_mean", 1.0),
                ]);
            }
        }
        table
    }
}

/// Why a target is not shown if its program was not asked for.
const NOT_ASKED: &str = "this program was not asked for";

/// Why there is no figure: what a note says about the program, if one does.
fn absence(report: &Report, case: &str) -> String {
    let about = |note: &&String| note.strip_prefix(case).is_some_and(|rest| rest.starts_with(": "));
    // What a rival did is not why Manx has no figure.
    let ours = |note: &&String| !note.contains(" failed: ") || note.contains(MANX) || note.contains(AS_IS);
    match report.notes.iter().filter(about).find(ours) {
        Some(note) => note[case.len() + 2..].to_owned(),
        None => "there are too few runs".into(),
    }
}
