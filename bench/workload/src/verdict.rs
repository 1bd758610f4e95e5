//! From runs to verdicts: which ratio or figure each target of a bench is about, and what it means.
//!
//! The file of targets says what a target looks at, or else one function of its bench. That serves
//! twice: at the end for the verdict ([`judge`]), and while a case runs, so that the case goes on
//! until the ratios of its targets are known ([`watched`]).

use report::target::{self, Measured, Target};
use report::{Compared, Ratio, Report, Samples};

/// What a target looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// A figure in the target's unit; `NaN` if it was not measured
    Plain(f64),
    /// A ratio by pairs
    Ratio(Compared),
    /// A ratio whose pairs are not of two versions of one case
    Known(Ratio),
}

impl Figure {
    /// The ratio of one figure of two versions of a case.
    pub fn ratio(case: &str, over: &str, under: &str, figure: &str) -> Figure {
        Figure::Ratio(Compared::new(case, over, under, figure))
    }

    /// Returns the figure that stands for missing runs.
    pub fn missing() -> Figure {
        Figure::Plain(f64::NAN)
    }

    /// The figure, or the ratio's median; `NaN` without a run.
    #[cfg(test)]
    pub(crate) fn value(&self, report: &Report) -> f64 {
        match self {
            Figure::Plain(figure) => *figure,
            Figure::Ratio(compared) => report.ratio(compared).map_or(f64::NAN, |ratio| ratio.ratio),
            Figure::Known(ratio) => ratio.ratio,
        }
    }
}

/// The median of the ratios of two versions' pairs; `NaN` without a pair.
pub fn ratio(report: &Report, case: &str, over: &str, under: &str, value: &str) -> f64 {
    report.ratio(&Compared::new(case, over, under, value)).map_or(f64::NAN, |ratio| ratio.ratio)
}

/// What a target looks at by the file of targets.
fn of_file(report: &Report, target: &Target) -> Option<Figure> {
    let mut words = target.of.as_ref()?.split(" | ");
    let (case, version, figure) = (words.next()?, words.next()?, words.next()?);
    if let Some((over, under)) = version.split_once(" / ") {
        return Some(Figure::ratio(case, over, under, figure));
    }
    let value = report.middle(case, version, figure);
    Some(Figure::Plain(if target.unit == "ms" { value / 1e6 } else { value }))
}

/// The ratios of a case that targets of the report's bench are about.
pub fn watched(
    report: &Report,
    case: &str,
    mut figure: impl FnMut(&Report, &str) -> Option<Figure>,
) -> Vec<Compared> {
    let targets = target::of_bench(&report.bench).into_iter().filter(|target| target.relative);
    let ratio = |target: Target| match of_file(report, &target).or_else(|| figure(report, &target.id))? {
        Figure::Ratio(compared) => (compared.over.case == case).then_some(compared),
        Figure::Plain(_) | Figure::Known(_) => None,
    };
    targets.filter_map(ratio).collect()
}

/// Why there is no verdict on a target that a bench does not know.
pub fn unknown(id: &str) -> String {
    format!("this version does not know how to measure '{id}'")
}

/// Adds the verdict on each of the bench's targets, and the ratios that they are about. `figure`
/// says what a target looks at by its id.
pub fn judge(report: &mut Report, mut figure: impl FnMut(&Report, &str) -> Option<Figure>) {
    judge_or(report, |report, id| figure(report, id).ok_or_else(|| unknown(id)));
}

/// The same; `figure` says why if there is nothing to look at.
pub fn judge_or(report: &mut Report, mut figure: impl FnMut(&Report, &str) -> Result<Figure, String>) {
    for target in target::of_bench(&report.bench) {
        let mut over_ns = f64::NAN;
        let found = of_file(report, &target).map_or_else(|| figure(report, &target.id), Ok);
        let measured = found.and_then(|figure| {
            let mut reason = "there are too few runs".to_owned();
            let measured = match figure {
                Figure::Plain(figure) => figure.is_finite().then_some(Measured::Plain(figure)),
                Figure::Ratio(compared) => {
                    let Samples { case, version, figure } = &compared.over;
                    over_ns = report.middle(case, version, figure);
                    let cases = report.cases();
                    if !cases.contains(case) && !cases.contains(&compared.under.case) {
                        reason = target::NO_RUN.into();
                    } else if let Some(missing) = unmeasured(report, &compared) {
                        reason = format!("'{missing}' was left out");
                    }
                    report.ratio(&compared).map(Measured::Ratio)
                }
                Figure::Known(ratio) => Some(Measured::Ratio(ratio)),
            };
            measured.ok_or(reason)
        });
        let verdict = match &measured {
            Ok(measured) => target.or_by_time(target.judge(measured), over_ns),
            Err(reason) => target.unmeasured(reason),
        };
        report.targets.push(verdict);
        if let Ok(Measured::Ratio(ratio)) = measured
            && !report.ratios.contains(&ratio)
        {
            report.ratios.push(ratio);
        }
    }
}

/// The version of a ratio that was never run in its case, though others were.
fn unmeasured<'a>(report: &Report, compared: &'a Compared) -> Option<&'a str> {
    let is_missing = |samples: &&Samples| !report.variants(&samples.case).contains(&samples.version);
    [&compared.over, &compared.under].into_iter().find(is_missing).map(|samples| &*samples.version)
}

/// Checks that each target of a bench has a figure, by the file of one of these cases, and that no
/// other id has one.
#[cfg(test)]
pub(crate) fn check_ids(bench: &str, cases: &[String], figure: impl Fn(&Report, &str) -> Option<Figure>) {
    let report = Report::new(bench, report::Machine::default(), 0);
    let targets = target::of_bench(bench);
    assert!(!targets.is_empty());
    for target in targets {
        let by_file = target.of.as_ref().and_then(|of| of.split(" | ").next());
        let is_known = by_file.map_or_else(
            || figure(&report, &target.id).is_some(),
            |case| cases.iter().any(|known| known == case),
        );
        assert!(is_known, "{}", target.id);
    }
    assert!(figure(&report, &format!("{bench}-nothing")).is_none());
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Machine;
    use report::target::Outcome;

    /// A report with `rounds` rounds of both sides of one target of the bench `guard`.
    fn report(rounds: usize) -> Report {
        let mut report = Report::new("guard", Machine::default(), 0);
        for round in 0..rounds {
            for (variant, value) in [("as it is", 100.0), ("manx run", 99.5)] {
                report.add("c", variant, round, &[("x", value)]);
            }
        }
        report
    }

    fn figure(id: &str) -> Option<Figure> {
        match id {
            "pair-throughput" => Some(Figure::ratio("c", "manx run", "as it is", "x")),
            "plain-throughput" => Some(Figure::ratio("another case", "manx run", "as it is", "x")),
            "launch" => Some(Figure::Plain(1.0)),
            _ => None,
        }
    }

    #[test]
    fn ratios_that_are_judged_are_the_ones_that_are_watched() {
        for (rounds, expected) in [(5, Outcome::Met), (4, Outcome::NotMeasured)] {
            let mut report = report(rounds);
            judge_or(&mut report, |_, id| figure(id).ok_or_else(|| "not known".into()));
            let verdict = |id: &str| report.targets.iter().find(|verdict| verdict.id == id).unwrap();
            assert_eq!(verdict("pair-throughput").verdict, expected);
            assert_eq!(verdict("launch").verdict, Outcome::Met);
            assert_eq!(verdict("plain-throughput").reason.as_deref(), Some(target::NO_RUN));
            assert_eq!(verdict("scan").reason.as_deref(), Some("not known"));
            assert_eq!(report.ratios.len(), 1);
            let watched = watched(&report, "c", |_, id| figure(id));
            assert_eq!(watched, [Compared::new("c", "manx run", "as it is", "x")]);
        }
    }
}
