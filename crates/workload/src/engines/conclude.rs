//! From runs to tables and verdicts: each version beside the program as it is.

use super::{AS_IS, MANX, Subject};
use crate::verdict::{self, Figure, middle, over};
use report::figure::three_digits;
use report::target::Target;
use report::{Compared, Report, Table};

/// The figures that targets may ask for: the end of the target's id, and the name in a run.
const FIGURES: [(&str, &str); 3] =
    [("throughput", "throughput_per_s"), ("p999", "p999_ns"), ("max", "max_ns")];

/// Draws a table of what was measured, and judges the targets of `subjects`.
pub fn conclude(report: &mut Report, subjects: &[&'static Subject]) {
    let table = table(report, subjects);
    report.tables.extend((!table.rows.is_empty()).then_some(table));
    verdict::judge(report, |target, report| {
        let figure = figure(target, subjects).ok_or_else(|| NOT_ASKED.to_owned())?;
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
pub(super) fn watched(report: &Report, case: &'static str) -> Vec<Compared> {
    let subjects = super::SUBJECTS.each_ref();
    verdict::watched(report, case, |_, target| figure(target, &subjects))
}

/// What a target looks at: `NAME-FIGURE` is that of a program under `manx run` over the program as it is.
fn figure(target: &Target, subjects: &[&'static Subject]) -> Option<Figure> {
    let (name, figure) = target.id.rsplit_once('-')?;
    let subject = subjects.iter().find(|subject| subject.name == name)?;
    let (_, value) = FIGURES.iter().find(|(known, _)| *known == figure)?;
    Some(Figure::ratio(subject.name, MANX, AS_IS, value))
}

/// Why a target of another program than those that were asked for is not shown.
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

fn table(report: &Report, subjects: &[&'static Subject]) -> Table {
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
    for subject in subjects {
        let case = subject.name;
        for (row, version) in report.variants(case).iter().enumerate() {
            let shown = |value: &str, unit: f64| three_digits(middle(report, case, version, value) / unit);
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
