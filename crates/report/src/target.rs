//! Figures to reach, and the verdict on a measured one.
//!
//! The figures stand in `targets.toml`, one file for all benches, because a figure that can be changed
//! beside the code that misses it will be. A target is a ratio (`relative`: measured against what it is
//! compared with, so 1 means "the same") or an absolute figure.
//!
//! | the target | the measured figure | verdict |
//! | --- | --- | --- |
//! | - | there is none | not measured |
//! | relative, and nearer to 1 than A is to A | is nearer to 1 than A is to A, too | not resolvable here |
//! | any other, or with any other figure | reaches it | met |
//! | any other, or with any other figure | misses it | falls short |
//!
//! A figure beyond the spread is told from 1, and with it from every target within the spread: it is better
//! than all of them or worse than all of them.

use crate::figure::three_digits;
use crate::statistics::Spread;
use crate::table::Table;
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
    /// The measured figure must not be above this
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The measured figure must not be below this
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// A ratio to what it is compared with
    #[serde(default)]
    pub relative: bool,
}

/// How a measured figure stands to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is reached
    Met,
    /// It is missed
    FallsShort,
    /// The target is nearer to 1 than this machine compares a version with itself
    NotResolvable,
    /// Nothing was measured
    NotMeasured,
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
    /// `≤ 1.5` or `≥ 0.98`
    pub to_reach: String,
    /// A against A, for a ratio
    pub spread: Option<f64>,
    /// Met or not
    pub verdict: Outcome,
    /// Why nothing was measured, if so
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

    /// What a measured figure means. `spread` is A against A, for a relative target.
    pub fn judge(&self, measured: f64, spread: Option<&Spread>) -> Verdict {
        if !measured.is_finite() {
            return self.unmeasured("there are too few samples");
        }
        let near = spread.filter(|spread| self.relative && spread.covers(self.limit()));
        let reached = self.reached_by(measured);
        let outcome = match near {
            Some(spread) if spread.covers(measured) => Outcome::NotResolvable,
            _ if reached => Outcome::Met,
            _ => Outcome::FallsShort,
        };
        Verdict {
            measured: Some(measured),
            spread: spread.filter(|_| self.relative).map(|spread| spread.factor),
            verdict: outcome,
            ..self.unmeasured("")
        }
        .without_reason()
    }

    /// The verdict on a target that could not be measured.
    pub fn unmeasured(&self, reason: &str) -> Verdict {
        let sign = if self.at_most.is_some() { "≤" } else { "≥" };
        Verdict {
            id: self.id.clone(),
            name: self.name.clone(),
            unit: self.unit.clone(),
            measured: None,
            to_reach: format!("{sign} {}", three_digits(self.limit())),
            spread: None,
            verdict: Outcome::NotMeasured,
            reason: Some(reason.into()),
        }
    }
}

impl Verdict {
    fn without_reason(self) -> Verdict {
        Verdict { reason: None, ..self }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Met => "met",
            Outcome::FallsShort => "falls short",
            Outcome::NotResolvable => "not resolvable here",
            Outcome::NotMeasured => "not measured",
        })
    }
}

/// The table that a bench ends with.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table =
        Table::new("Targets", &["target", "unit", "measured []", "to reach []", "A against A []", "verdict"]);
    for verdict in verdicts {
        let reason = verdict.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        table.row([
            verdict.name.clone(),
            verdict.unit.clone(),
            verdict.measured.map_or("-".into(), three_digits),
            verdict.to_reach.clone(),
            verdict.spread.map_or("-".into(), |factor| {
                format!("±{}", crate::figure::change(factor).trim_start_matches('+'))
            }),
            format!("{}{reason}", verdict.verdict),
        ]);
    }
    table
}
