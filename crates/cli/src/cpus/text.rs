//! The CPUs as tables.

use super::facts::Facts;
use super::probes::Answers;
use crate::run::cpus::ReportedCpus;
use crate::run::variables::{Fate, RULES};
use command::table::Table;
use manx::cpu::{CpuBudget, LimitKind, Rounding};
use preload_abi::cpus::Cpus;
use std::ffi::OsString;
use std::fmt::Write as _;

/// Everything.
pub fn all(budget: &CpuBudget, facts: &Facts, answers: &Answers) -> String {
    let mut text = String::new();
    write(budget, facts, answers, &mut text).expect("writing to a String");
    text
}

fn write(budget: &CpuBudget, facts: &Facts, answers: &Answers, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}", limits(budget))?;
    let (floor, ceil) = (budget.count(Rounding::Floor), budget.count(Rounding::Ceil));
    if floor == ceil {
        writeln!(out, "threads   {floor}")?;
    } else {
        writeln!(
            out,
            "threads   {floor}, rounded down as programs are told under `manx run`; {ceil} rounded up"
        )?;
    }
    if let Some(weight) = budget.weight() {
        writeln!(out, "weight    {weight}: no limit, and no number of CPUs")?;
    }
    for doubt in budget.warnings() {
        writeln!(out, "unknown   {doubt}")?;
    }
    writeln!(out, "cores     {}", cores(facts))?;
    if let Some(threads) = facts.runnable {
        writeln!(
            out,
            "running   {threads} {} run or wish to, on the whole machine",
            plural(threads, "thread")
        )?;
    }
    if let Some(throttled) = facts.throttled {
        let (times, periods) = (throttled.throttled, throttled.periods);
        writeln!(out, "throttled in {times} of {periods} periods since the group was made")?;
    }
    if !answers.answers.is_empty() {
        writeln!(out, "\n{}", runtimes(answers))?;
        if let Some(problem) = &answers.problem {
            writeln!(out, "not asked under `manx run`: {problem}")?;
        }
    }
    writeln!(
        out,
        "\n{}",
        variables(&ReportedCpus::of(Cpus::Auto, budget.clone()), &|name| std::env::var_os(name))
    )?;
    // Whatever came last has ended its line.
    out.truncate(out.trim_end().len());
    writeln!(out)
}

/// All limits of the number of CPUs that were found. The title says which one decides, and why; in
/// the table it has a `*`.
fn limits(budget: &CpuBudget) -> Table {
    let mut table = Table::new(&budget.why(), &["limit", "CPUs []", "by"]);
    for limit in budget.limits() {
        let by = match &limit.kind {
            LimitKind::Online { cpus } | LimitKind::Affinity { cpus } => cpus.to_string(),
            LimitKind::Cpuset { cpus, group } => format!("{cpus}, {group}"),
            LimitKind::Quota { quota, group } => format!("{quota} us, {group}"),
            _ => limit.kind.to_string(),
        };
        let mark = if limit.binds { " *" } else { "" };
        table.row([format!("{}{mark}", limit.kind.name()), fraction(limit.cpus), by]);
    }
    table
}

fn cores(facts: &Facts) -> String {
    let (big, little) = (facts.classes.big(), facts.classes.little());
    let classes = if little.is_empty() {
        "alike".to_owned()
    } else {
        format!("big {big}, little {little} ({})", facts.classes.why())
    };
    let (cpus, cores, nodes) = (facts.cpus, facts.cores, facts.numa_nodes);
    let count = |count: usize, noun| format!("{count} {}", plural(count as u32, noun));
    format!("{} for {}, {classes}; {}", count(cores, "core"), count(cpus, "CPU"), count(nodes, "NUMA node"))
}

fn runtimes(answers: &Answers) -> Table {
    let title = "What they say there are";
    let mut table = Table::new(title, &["runtime", "asked", "alone []", "under manx run []"]);
    let cell = |count: Option<usize>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    for answer in &answers.answers {
        table.row([answer.runtime.into(), answer.asks.into(), cell(answer.without), cell(answer.with)]);
    }
    table
}

fn variables(reported: &ReportedCpus, present: &dyn Fn(&str) -> Option<OsString>) -> Table {
    let title = "What `manx run` tells runtimes by variables";
    let header = ["runtime", "counts", "alone []", "a fraction", "told []", "by"];
    let mut table = Table::new(title, &header);
    for rule in &RULES {
        let (count, by) = match rule.fate(reported, present, false) {
            Fate::Set(_) => (rule.count(reported).to_string(), rule.name.to_owned()),
            Fate::Yours(yours) => ("-".to_owned(), format!("your {yours}")),
            Fate::NotNeeded => ("-".to_owned(), format!("{} is not needed", rule.name)),
            Fate::NotAsked(why) => ("-".to_owned(), format!("{} {why}", rule.name)),
        };
        let alone = rule.alone(reported).to_string();
        table.row([
            rule.runtime.into(),
            rule.counts.words().into(),
            alone,
            rule.rounds.words().into(),
            count,
            by,
        ]);
    }
    table
}

fn plural(count: u32, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

/// A number of CPUs, with three digits behind the point at most.
pub fn fraction(cpus: f64) -> String {
    let text = format!("{cpus:.3}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "0" { format!("{cpus:e}") } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runtime_has_a_line_with_its_rounding_and_its_variable() {
        let reported = ReportedCpus::of(Cpus::Count(1), CpuBudget::now());
        let text = variables(&reported, &|name| (name == "OMP_NUM_THREADS").then(|| "3".into())).to_string();
        let line = |runtime: &str| {
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            text.lines().map(words).find(|line| line.starts_with(runtime)).expect(runtime)
        };
        assert!(RULES.iter().all(|rule| line(rule.runtime).contains(rule.rounds.words())), "{text}");
        assert!(line("OpenBLAS").ends_with("- your OMP_NUM_THREADS"), "{text}");
        assert!(line("Julia").ends_with("- JULIA_NUM_THREADS only where it is set to auto"), "{text}");
        assert!(line("Java").ends_with("up - JAVA_TOOL_OPTIONS only with --cpus-also=java"), "{text}");
        let go = line("Go");
        let expected = if reported.count < crate::run::cpus::allowed(reported.budget()) {
            "1 GOMAXPROCS"
        } else {
            "not needed"
        };
        assert!(go.contains("up, at least 2") && go.ends_with(expected), "{text}");
    }

    #[test]
    fn fractions_are_short_and_never_0() {
        for (cpus, text) in
            [(1.0, "1"), (1.5, "1.5"), (0.25, "0.25"), (10.0, "10"), (1.0 / 3.0, "0.333"), (1e-5, "1e-5")]
        {
            assert_eq!(fraction(cpus), text);
        }
    }
}
