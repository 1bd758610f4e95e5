//! From runs to tables and verdicts: each version beside the program as it is.

use super::{AS_IS, MANX, SUBJECTS, Subject};
use crate::verdict::{self, Figure};
use report::{Compared, Report, Sheet};

const TABLE: &str = "
    program = case | version = version | runs [] = count max_ns | throughput [op/s] = throughput_per_s
    of as it is [] = ratio throughput_per_s | 95 % [] = interval throughput_per_s
    p50 [µs] = p50_ns | p99 [µs] = p99_ns | p99.9 [µs] = p999_ns | max [ms] = max_ns
    worst max [ms] = worst max_ns | slowest thread [of mean] = slowest_of_mean";

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
        report.show(Sheet::new(TABLE).over(AS_IS).of(report, "Medians of the rounds", self.names));
        verdict::judge_or(report, |report, id| {
            let figure = self.figure(id).ok_or_else(|| NOT_ASKED.to_owned())?;
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
        verdict::watched(report, case, |_, id| self.figure(id))
    }

    /// What a target looks at: `NAME-FIGURE` is that of a program under `manx run` over the program
    /// as it is.
    fn figure(&self, id: &str) -> Option<Figure> {
        let (name, figure) = id.strip_prefix(self.prefix)?.rsplit_once('-')?;
        let name = self.names.iter().find(|known| **known == name)?;
        let (_, value) = FIGURES.iter().find(|(known, _)| *known == figure)?;
        Some(Figure::ratio(name, MANX, AS_IS, value))
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
