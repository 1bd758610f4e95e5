//! From runs to tables and verdicts: each version beside the program as it is.

use super::{AGAIN, AS_IS, MANX, Subject};
use crate::verdict::{self, middle, ratio};
use report::figure::three_digits;
use report::{Report, Spread, Table};

/// The figures that targets may ask for: the end of the target's id, and the name in a run.
const FIGURES: [(&str, &str); 3] =
    [("throughput", "throughput_per_s"), ("p999", "p999_ns"), ("max", "max_ns")];

/// Draws a table of what was measured, and judges the targets of `subjects`.
pub fn conclude(report: &mut Report, subjects: &[&'static Subject]) {
    let table = table(report, subjects);
    report.tables.extend((!table.rows.is_empty()).then_some(table));
    let mut spreads: Vec<(String, Option<Spread>)> = Vec::new();
    for subject in subjects {
        for (figure, value) in FIGURES {
            let spread = verdict::against_itself(report, subject.name, AS_IS, AGAIN, value);
            spreads.push((format!("{}-{figure}", subject.name), spread));
        }
    }
    verdict::judge(report, |target, report| {
        let known = target.id.rsplit_once('-').and_then(|(name, figure)| {
            let subject = subjects.iter().find(|subject| subject.name == name)?;
            Some((subject.name, FIGURES.iter().find(|(known, _)| *known == figure)?.1))
        });
        let (case, value) = known.ok_or_else(|| NOT_ASKED.to_owned())?;
        let measured = ratio(report, case, MANX, AS_IS, value);
        if !measured.is_finite() {
            return Err(absence(report, case));
        }
        let spread = spreads.iter().find(|(id, _)| *id == target.id).and_then(|(_, spread)| spread.clone());
        Ok((measured, spread))
    });
    report.targets.retain(|target| target.reason.as_deref() != Some(NOT_ASKED));
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
        let mut versions: Vec<&str> = Vec::new();
        for run in report.runs.iter().filter(|run| run.case == case) {
            if !versions.contains(&run.variant.as_str()) {
                versions.push(&run.variant);
            }
        }
        for (row, version) in versions.into_iter().enumerate() {
            let shown = |value: &str, unit: f64| three_digits(middle(report, case, version, value) / unit);
            let of_as_is = ratio(report, case, version, AS_IS, "throughput_per_s");
            let maxima = report.values(case, version, "max_ns");
            table.row([
                if row == 0 { case.into() } else { String::new() },
                version.into(),
                maxima.len().to_string(),
                format!("{:.0}", middle(report, case, version, "throughput_per_s")),
                if of_as_is.is_finite() { format!("{of_as_is:.2}") } else { "-".into() },
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
