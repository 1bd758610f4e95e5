//! From runs to verdicts: ratios of medians, A against A, and the targets of a bench.

use report::target::{self, Target};
use report::{Report, Spread, Verdict, median};

/// The median of a figure over the rounds; `NaN` without a run.
pub fn middle(report: &Report, case: &str, variant: &str, value: &str) -> f64 {
    median(&report.values(case, variant, value))
}

/// The ratio of two variants' medians.
pub fn ratio(report: &Report, case: &str, over: &str, under: &str, value: &str) -> f64 {
    middle(report, case, over, value) / middle(report, case, under, value)
}

/// Compares a variant with its own repetition, keeps the spread in the report, and returns it.
pub fn against_itself(
    report: &mut Report,
    case: &str,
    variant: &str,
    again: &str,
    value: &str,
) -> Option<Spread> {
    let (first, second) = (report.values(case, variant, value), report.values(case, again, value));
    let spread = Spread::new(case, &format!("{value}, {variant}"), &first, &second)?;
    report.spreads.push(spread.clone());
    Some(spread)
}

/// Adds the verdict on each of the bench's targets. `measured` returns the figure and its spread, or why
/// there is none.
pub fn judge(
    report: &mut Report,
    mut measured: impl FnMut(&Target, &mut Report) -> Result<(f64, Option<Spread>), String>,
) {
    for target in target::of_bench(&report.bench) {
        let verdict: Verdict = match measured(&target, report) {
            Ok((figure, spread)) if figure.is_finite() => target.judge(figure, spread.as_ref()),
            Ok(_) => target.unmeasured("there are too few runs"),
            Err(reason) => target.unmeasured(&reason),
        };
        report.targets.push(verdict);
    }
}
