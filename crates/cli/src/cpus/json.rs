//! The CPUs as JSON.

use super::facts::Facts;
use super::probes::Answers;
use crate::run::cpus::ReportedCpus;
use crate::run::variables::{Fate, RULES, Rule};
use manx::cpu::{CpuBudget, Limit, Rounding, Weight};
use preload_abi::cpus::Cpus;
use serde_json::{Map, Value, json};

/// What the JSON calls itself, in its field `schema`.
const SCHEMA: &str = "manx-cpus";
/// The version of its fields. Fields may be added to a version.
const VERSION: u32 = 1;

/// Everything, in one object.
pub fn all(budget: &CpuBudget, facts: &Facts, answers: &Answers) -> String {
    let mut object = of_budget(budget);
    object.insert("limits".into(), budget.limits().iter().map(limit).collect());
    object.insert("weight".into(), budget.weight().map_or(Value::Null, weight));
    object.insert("doubts".into(), json!(budget.warnings()));
    object.insert(
        "machine".into(),
        json!({
            "big": facts.classes.big().to_string(),
            "little": facts.classes.little().to_string(),
            "classes_from": facts.classes.why(),
            "cpus": facts.cpus,
            "cores": facts.cores,
            "numa_nodes": facts.numa_nodes,
            "threads_runnable": facts.runnable,
        }),
    );
    let throttled = facts.throttled.map(|it| {
        let throttled_ns = it.throttled_time.as_nanos() as u64;
        json!({"periods": it.periods, "throttled": it.throttled, "throttled_ns": throttled_ns})
    });
    object.insert("throttled".into(), json!(throttled));
    let answer = |it: &super::probes::Answer| json!({"runtime": it.runtime, "asked": it.asks, "alone": it.without, "under_manx": it.with});
    object.insert("runtimes".into(), answers.answers.iter().map(answer).collect());
    let reported = ReportedCpus::of(Cpus::Auto, budget.clone());
    object.insert("variables".into(), RULES.iter().map(|rule| variable(rule, &reported)).collect());
    format!("{:#}\n", Value::Object(object))
}

/// What becomes of a runtime's variable. The field `told` is null if the variable is not set.
fn variable(rule: &Rule, reported: &ReportedCpus) -> Value {
    let fate = rule.fate(reported, &|name| std::env::var_os(name), false);
    let set = matches!(fate, Fate::Set(_)).then(|| rule.count(reported));
    let (yours, why_not) = match fate {
        Fate::Set(_) => (None, None),
        Fate::Yours(yours) => (Some(yours), Some("set already")),
        Fate::NotNeeded => (None, Some("not needed")),
        Fate::NotAsked(why) => (None, Some(why)),
    };
    json!({
        "runtime": rule.runtime,
        "variable": rule.name,
        "counts": rule.counts.words(),
        "alone": rule.alone(reported),
        "fraction": rule.rounds.words(),
        "told": set,
        "yours": yours,
        "why_not": why_not,
        "source": rule.source,
    })
}

/// The budget alone, on one line.
pub fn line(budget: &CpuBudget) -> String {
    format!("{}\n", Value::Object(of_budget(budget)))
}

fn of_budget(budget: &CpuBudget) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("schema".into(), SCHEMA.into());
    object.insert("version".into(), VERSION.into());
    object.insert("cpus".into(), budget.cpus().into());
    object.insert("count_floor".into(), budget.count(Rounding::Floor).into());
    object.insert("count_ceil".into(), budget.count(Rounding::Ceil).into());
    object.insert("source".into(), budget.source().name().into());
    object.insert("why".into(), budget.why().into());
    object
}

fn limit(limit: &Limit) -> Value {
    let group = limit.kind.group().map(|group| {
        json!({"path": group.path, "own": group.own, "levels_up": group.levels_up, "unified": group.unified})
    });
    let quota = limit.kind.quota().map(|quota| {
        let [quota_us, period_us, burst_us] =
            [quota.time, quota.period, quota.burst].map(|time| time.as_micros() as u64);
        json!({"quota_us": quota_us, "period_us": period_us, "burst_us": burst_us})
    });
    json!({
        "kind": limit.kind.name(),
        "cpus": limit.cpus,
        "binds": limit.binds,
        "list": limit.kind.cpus().map(ToString::to_string),
        "group": group,
        "quota": quota,
    })
}

fn weight(weight: Weight) -> Value {
    match weight {
        Weight::Shares(shares) => json!({"shares": shares}),
        Weight::Weight(weight) => json!({"weight": weight}),
        Weight::Idle => json!({"idle": true}),
        _ => json!({}),
    }
}
