//! From runs to tables and verdicts.

use super::{AS_IS, NONE, OTHERS, RIGHT, STEADY, WATCHED};
use crate::verdict::{Figure, judge};
use report::{Report, Sheet};
use serde_json::Value;
use std::collections::BTreeMap;

const VERDICTS: &str = "
    program = case | runs [] = count right | right [] = sum right | first verdict = @first
    severity [threads] = severity | looking [of a CPU] = looking_share";
const COST: &str = "
    program = case | pairs [] = count looking_share | rate [] = throughput_per_s
    of as it is [] = ratio throughput_per_s | 95 % [] = interval throughput_per_s
    looking [of a CPU] = looking_share";

/// Draws tables from the runs, and judges the targets.
pub fn conclude(report: &mut Report) {
    let (alone, short): (Vec<String>, Vec<String>) =
        report.cases().into_iter().partition(|case| STEADY.contains(&case.as_str()));
    if !short.is_empty() {
        let others: Vec<String> =
            OTHERS.iter().map(|(case, right)| format!("of \"{case}\" {right}")).collect();
        let title =
            format!("CPUs are short: the verdict that comes first should be {RIGHT}, {}", others.join(", "));
        report.show(Sheet::new(VERDICTS).own(&first).without(AS_IS).of(report, &title, &short));
    }
    if !alone.is_empty() {
        let title = "Alone: the program with the doctor beside it over the program as it is";
        report.show(Sheet::new(COST).over(AS_IS).without(AS_IS).of(report, title, &alone));
    }
    judge(report, figure);
}

/// How often each verdict came first.
fn first(report: &Report, case: &str, version: &str, _: &str) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for run in report.runs.iter().filter(|run| run.case == case && run.variant == version) {
        let said: Option<Value> = run.output.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let first = said.as_ref().and_then(|said| said["verdicts"][0].as_str()).unwrap_or(NONE);
        *counts.entry(first.to_owned()).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(title, count)| (std::cmp::Reverse(*count), title.clone()));
    if let [(only, _)] = &counts[..] {
        return only.clone();
    }
    counts.iter().map(|(title, count)| format!("{title}: {count}")).collect::<Vec<_>>().join(", ")
}

fn figure(report: &Report, id: &str) -> Option<Figure> {
    match id {
        "doctor-verdict" => {
            let of = |case: &String| {
                let right = report.values(case, WATCHED, "right");
                (!right.is_empty()).then(|| right.iter().sum::<f64>() / right.len() as f64)
            };
            let least = report.cases().iter().filter_map(of).reduce(f64::min);
            Some(least.map_or_else(Figure::missing, Figure::Plain))
        }
        "doctor-cost" => Some(Figure::ratio(STEADY[0], WATCHED, AS_IS, "throughput_per_s")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Machine, Run};

    #[test]
    fn one_wrong_verdict_misses_the_target_and_is_shown() {
        let mut report = Report::new("doctor", Machine::default(), 0);
        for (round, title) in [RIGHT, RIGHT, "neighbours"].into_iter().enumerate() {
            let text = serde_json::json!({ "verdicts": [title] }).to_string();
            report.runs.push(Run {
                case: "gang, pair".into(),
                variant: WATCHED.into(),
                round,
                values: [("right".to_owned(), f64::from(u8::from(title == RIGHT)))].into(),
                output: serde_json::value::RawValue::from_string(text).ok(),
            });
        }
        assert_eq!(first(&report, "gang, pair", WATCHED, ""), "busy waiting: 2, neighbours: 1");
        conclude(&mut report);
        let verdict = report.targets.iter().find(|verdict| verdict.id == "doctor-verdict").unwrap();
        assert_eq!(verdict.measured.map(|share| (share * 3.0).round()), Some(2.0), "{verdict:?}");
    }
}
