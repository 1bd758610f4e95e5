//! Figures to reach, and the verdict on a measured one.
//!
//! The figures are in `targets.toml`, one file for all benches, apart from the measured code: a
//! figure beside that code would be changed together with it. A target is a ratio (`relative`:
//! measured against what it is compared with, so 1 means "the same") or an absolute figure.
//!
//! An absolute figure is judged as it is. A ratio is judged by its interval
//! ([`crate::Ratio::interval`]), because a median alone does not tell a miss from noise. The *worse
//! end* of the interval is the upper one if the figure must not be above the target, and else the
//! lower one.
//!
//! | the target | the measured figure | verdict |
//! | --- | --- | --- |
//! | any | there is none | not measured |
//! | absolute | reaches it, misses it | met, falls short |
//! | relative | has fewer than five pairs | not measured: the figure is shown, and no verdict |
//! | relative | the interval's worse end reaches it | met |
//! | relative | the interval's better end misses it | falls short |
//! | relative | the target lies within the interval | undecided: needs more pairs |
//! | relative, with `or_at_most_ns` | has an interval, and the numerator is at most this | met |

use crate::figure::{duration, interval, three_digits};
use crate::ratio::Ratio;
use command::table::Table;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The file of all targets.
const TARGETS: &str = include_str!("../targets.toml");

/// A figure to reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// By which a bench finds it
    pub id: String,
    /// The benches that end with it
    pub benches: Vec<String>,
    /// What is measured, in words
    pub name: String,
    /// The figure's unit
    pub unit: String,
    /// Which figure it is: `CASE | VERSION | FIGURE`, or the ratio `CASE | OVER / UNDER | FIGURE`;
    /// none if only the bench can say it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The measured figure must not be above this
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The measured figure must not be below this
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// A ratio to what it is compared with
    #[serde(default)]
    pub relative: bool,
    /// The target of a ratio of times is met, too, if the ratio's numerator is at most this
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub or_at_most_ns: Option<u64>,
}

/// The verdict on a measured figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is reached; of a ratio, by the whole interval
    Met,
    /// It is missed; of a ratio, by the whole interval
    FallsShort,
    /// The target lies within the interval: there are too few pairs to tell
    #[serde(alias = "not-resolvable")]
    Open,
    /// Nothing was measured, or fewer than five pairs
    NotMeasured,
}

/// The measured quantity.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// A figure in the target's unit
    Plain(f64),
    /// A ratio by pairs
    Ratio(Ratio),
}

/// A target, what was measured, and what that means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The target's `id`
    pub id: String,
    /// What is measured
    pub name: String,
    /// The unit of both figures
    pub unit: String,
    /// The figure, if there is one
    pub measured: Option<f64>,
    /// `≤ 1.5`, `≥ 0.98` or `≤ 1.0 or 200 µs`
    pub to_reach: String,
    /// The interval of a ratio, if there are pairs enough
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The pairs of a ratio
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// Met or not
    pub verdict: Outcome,
    /// Why nothing was measured, why there is no verdict, or the short time by which a target is
    /// met whose ratio is not
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    target: Vec<Target>,
}

/// Reads a file of targets.
///
/// # Errors
/// What is wrong, with the line where the TOML itself is.
pub fn parse(text: &str) -> Result<Vec<Target>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for (at, target) in file.target.iter().enumerate() {
        let limit = match (target.at_most, target.at_least) {
            (Some(limit), None) | (None, Some(limit)) => limit,
            _ => return Err(format!("{}: exactly one of at_most and at_least", target.id)),
        };
        if target.relative && limit <= 0.0 {
            return Err(format!("{}: a ratio to reach must be above 0", target.id));
        }
        if target.or_at_most_ns.is_some() && !(target.relative && target.at_most.is_some()) {
            return Err(format!("{}: or_at_most_ns belongs to a relative target with at_most", target.id));
        }
        let is_wrong = |of: &String| of.split(" | ").count() != 3 || of.contains(" / ") != target.relative;
        if target.of.as_ref().is_some_and(is_wrong) {
            return Err(format!("{}: of is not a case, a version or two, and a figure", target.id));
        }
        if target.benches.is_empty() {
            return Err(format!("{}: names no bench", target.id));
        }
        if file.target[..at].iter().any(|other| other.id == target.id) {
            return Err(format!("{}: there are two of this id", target.id));
        }
    }
    Ok(file.target)
}

/// The targets of one bench, in the file's order.
pub fn of_bench(bench: &str) -> Vec<Target> {
    let mut targets = parse(TARGETS).expect("the built-in file is checked by a test");
    targets.retain(|target| target.benches.iter().any(|name| name == bench));
    targets
}

impl Target {
    fn limit(&self) -> f64 {
        self.at_most.or(self.at_least).expect("checked when the file was read")
    }

    fn reached_by(&self, measured: f64) -> bool {
        self.at_most.is_some_and(|limit| measured <= limit)
            || self.at_least.is_some_and(|limit| measured >= limit)
    }

    /// What a measured figure means.
    pub fn judge(&self, measured: &Measured) -> Verdict {
        let (figure, ratio) = match measured {
            Measured::Plain(figure) => (*figure, None),
            Measured::Ratio(ratio) => (ratio.ratio, Some(ratio)),
        };
        if !figure.is_finite() {
            return self.unmeasured("there are too few samples");
        }
        let ratio = ratio.filter(|_| self.relative);
        let verdict = Verdict {
            measured: Some(figure),
            interval: ratio.and_then(Ratio::interval),
            pairs: ratio.map(|ratio| ratio.pairs.len()),
            ..self.unmeasured(FEW)
        };
        let outcome = match (self.relative, verdict.interval) {
            (true, None) => return verdict,
            (true, Some((low, high))) => match (self.reached_by(low), self.reached_by(high)) {
                (true, true) => Outcome::Met,
                (false, false) => Outcome::FallsShort,
                _ => Outcome::Open,
            },
            (false, _) if self.reached_by(figure) => Outcome::Met,
            (false, _) => Outcome::FallsShort,
        };
        Verdict { verdict: outcome, reason: None, ..verdict }
    }

    /// The verdict on a ratio of times whose numerator is `over_ns`.
    #[must_use]
    pub fn or_by_time(&self, verdict: Verdict, over_ns: f64) -> Verdict {
        let is_short = self.or_at_most_ns.is_some_and(|most_ns| over_ns <= most_ns as f64);
        if !is_short || verdict.interval.is_none() || verdict.verdict == Outcome::Met {
            return verdict;
        }
        Verdict { verdict: Outcome::Met, reason: Some(duration(over_ns as u64)), ..verdict }
    }

    /// A verdict without an outcome, and the reason why there is none. [`judge`](Target::judge)
    /// starts from it, and fills in what was measured.
    pub fn unmeasured(&self, reason: &str) -> Verdict {
        let sign = if self.at_most.is_some() { "≤" } else { "≥" };
        let or = self.or_at_most_ns.map_or(String::new(), |most_ns| format!(" or {}", duration(most_ns)));
        Verdict {
            id: self.id.clone(),
            name: self.name.clone(),
            unit: self.unit.clone(),
            measured: None,
            to_reach: format!("{sign} {}{or}", three_digits(self.limit())),
            interval: None,
            pairs: None,
            verdict: Outcome::NotMeasured,
            reason: Some(reason.into()),
        }
    }
}

/// Why a ratio has no verdict.
const FEW: &str = "fewer than five pairs";

impl Verdict {
    pub(crate) fn has_no_run(&self) -> bool {
        self.reason.as_deref() == Some(NO_RUN)
    }

    /// The last cell of its row.
    fn words(&self) -> String {
        // With a figure beside it, "not measured" would be wrong.
        let outcome = match (self.verdict, self.measured) {
            (Outcome::NotMeasured, Some(_)) => "no verdict".to_owned(),
            (outcome, _) => outcome.to_string(),
        };
        self.reason.as_ref().map_or(outcome.clone(), |reason| format!("{outcome}: {reason}"))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Met => "met",
            Outcome::FallsShort => "falls short",
            Outcome::Open => "undecided: needs more pairs",
            Outcome::NotMeasured => "not measured",
        })
    }
}

/// Why a target is not measured if no run was made that it is about: another part was asked for.
pub const NO_RUN: &str = "no run was made that it is about";

/// The table that a bench ends with, of the targets that have a run.
pub fn table(verdicts: &[Verdict]) -> Table {
    let headers = ["target", "unit", "measured []", "95 % interval []", "pairs []", "to reach []", "verdict"];
    let mut table = Table::new("Targets", &headers);
    for verdict in verdicts.iter().filter(|verdict| !verdict.has_no_run()) {
        table.row([
            verdict.name.clone(),
            verdict.unit.clone(),
            verdict.measured.map_or("-".into(), three_digits),
            interval(verdict.interval),
            verdict.pairs.map_or("-".into(), |pairs| pairs.to_string()),
            verdict.to_reach.clone(),
            verdict.words(),
        ]);
    }
    table
}
