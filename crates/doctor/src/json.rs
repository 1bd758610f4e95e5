//! A report as JSON: the verdicts, and all the evidence that they rest on.
//!
//! Times are in nanoseconds, rates in threads or CPUs on average, priorities as they are compared.

use crate::evidence::Evidence;
use crate::verdict::Verdict;
use preload_abi::live::Asked;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

#[derive(Debug, Serialize)]
struct Report<'a, M> {
    schema: &'static str,
    version: u32,
    machine: &'a M,
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
    Finding { title: verdict.cause.title(), curable: verdict.cause.is_curable(), verdict }
}

/// The answers of the trial. Work is in a second, in ns of CPU time.
pub(crate) fn trials<S: Serializer>(asked: &[Asked], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(asked.iter().map(|it| {
        json!({
            "waits": it.cure.word(), "answer": it.answer.word(), "kept": it.kept, "dropped": it.dropped,
            "work_as_written_ns": it.as_written_ns, "work_cured_ns": it.cured_ns,
        })
    }))
}

/// The report on one process. `machine` describes where it runs.
///
/// ```
/// let evidence = doctor::Evidence { pid: 7, ..doctor::Evidence::default() };
/// let machine = serde_json::json!({ "cpus": 2 });
/// let report = doctor::json::value(&evidence, &[], &machine);
/// assert_eq!(report["schema"], "manx-doctor");
/// assert_eq!((&report["evidence"]["pid"], &report["machine"]), (&7.into(), &machine));
/// ```
pub fn value(evidence: &Evidence, verdicts: &[Verdict], machine: &impl Serialize) -> Value {
    let verdicts = verdicts.iter().map(finding).collect();
    let report = Report { schema: "manx-doctor", version: 1, machine, verdicts, evidence };
    serde_json::to_value(&report).expect("no map has keys that are no text")
}
