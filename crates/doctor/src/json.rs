//! A report as JSON: the verdicts, and all the evidence that they rest on.
//!
//! Times are in nanoseconds, rates in threads or CPUs on average, priorities as they are compared.

use crate::evidence::Evidence;
use crate::verdict::{Cause, Verdict};
use serde::Serialize;

/// What is written.
#[derive(Debug, Serialize)]
struct Report<'a> {
    verdicts: Vec<Finding<'a>>,
    evidence: &'a Evidence,
}

#[derive(Debug, Serialize)]
struct Finding<'a> {
    title: &'static str,
    curable: bool,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

fn finding(verdict: &Verdict) -> Finding<'_> {
    let cause: Cause = verdict.cause;
    Finding { title: cause.title(), curable: cause.is_curable(), verdict }
}

/// The report on one process.
///
/// ```
/// let evidence = doctor::Evidence { pid: 7, ..doctor::Evidence::default() };
/// let json = doctor::json::report(&evidence, &[]);
/// assert!(json.contains("\"verdicts\": []") && json.contains("\"pid\": 7"));
/// ```
pub fn report(evidence: &Evidence, verdicts: &[Verdict]) -> String {
    let report = Report { verdicts: verdicts.iter().map(finding).collect(), evidence };
    let mut text = serde_json::to_string_pretty(&report).expect("no map has keys that are no text");
    text.push('\n');
    text
}

/// The report on one process as a value, to be a part of another.
pub fn value(evidence: &Evidence, verdicts: &[Verdict]) -> serde_json::Value {
    let report = Report { verdicts: verdicts.iter().map(finding).collect(), evidence };
    serde_json::to_value(&report).expect("no map has keys that are no text")
}

/// The reports on several processes, as a list.
pub fn reports(all: &[(Evidence, Vec<Verdict>)]) -> String {
    let list: Vec<serde_json::Value> =
        all.iter().map(|(evidence, verdicts)| value(evidence, verdicts)).collect();
    let mut text = serde_json::to_string_pretty(&list).expect("it is a value");
    text.push('\n');
    text
}
