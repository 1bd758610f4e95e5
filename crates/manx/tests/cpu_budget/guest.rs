//! Budgets in groups that a kernel has made: a machine with 8 CPUs and cgroup v2, as `cargo xtask
//! guest --record` saw it.
//!
//! The record has each file that the process saw, so the machine is built again, case by case, and
//! the budget looked for in it.

use crate::tree::Tree;
use manx::cpu::{CpuBudget, CpuSet, Rounding};

const RECORD: &str = include_str!("guest.txt");

/// What every runtime of a certain table gets wrong somewhere: all of it was measured.
const COLUMNS: [(&str, f64, usize); 9] = [
    ("none", 8.0, 8),
    ("0.5", 0.5, 1),
    ("1", 1.0, 1),
    ("1.5", 1.5, 1),
    ("2.5", 2.5, 2),
    ("3.99", 3.99, 3),
    ("affinity 0-2", 3.0, 3),
    ("parent=2, child=max", 2.0, 2),
    ("cpuset 0-3 + 2.5", 2.5, 2),
];

/// A process in the guest, what it saw and what its budget was.
#[derive(Default)]
struct Case {
    name: String,
    expected: String,
    affinity: String,
    process: String,
    found: String,
    threads: String,
    why: String,
    files: Vec<(String, String)>,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in RECORD.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "case" {
            cases.push(Case { name: rest.into(), ..Case::default() });
        }
        let Some(case) = cases.last_mut() else { continue };
        match word {
            "expect" => case.expected = rest.into(),
            "affinity" => case.affinity = rest.into(),
            "process" => case.process = rest.into(),
            "found" => case.found = rest.into(),
            "threads" => case.threads = rest.into(),
            "why" => case.why = rest.into(),
            "file" => case.files.push((rest.into(), String::new())),
            "|" => {
                let text = &mut case.files.last_mut().expect("a file before its lines").1;
                text.push_str(rest);
                text.push('\n');
            }
            _ => {}
        }
    }
    cases
}

#[test]
fn every_column_was_measured() {
    let cases = cases();
    for (name, cpus, floor) in COLUMNS {
        let case = cases.iter().find(|case| case.name == name).expect(name);
        assert_eq!(case.found, cpus.to_string(), "{name}");
        assert!(case.threads.starts_with(&format!("{floor} ")), "{name}: {}", case.threads);
    }
}

#[test]
fn a_watched_process_sees_its_budget_change() {
    let cases = cases();
    let watched =
        cases.iter().find(|case| case.name.starts_with("watched")).expect("a process that was watched");
    assert_eq!((&*watched.expected, &*watched.found), ("1.5 2.5 0.5 3", "1.5 2.5 0.5 3"));
}

#[test]
fn the_same_budgets_are_found_in_what_the_processes_saw() {
    let mut looked_at = 0;
    for case in cases().iter().filter(|case| !case.files.is_empty()) {
        let own = std::process::id().to_string();
        let tree = case.files.iter().fold(Tree::new(), |tree, (path, text)| {
            // The process of the record is this one here.
            let lines: Vec<&str> =
                text.lines().map(|line| if line == case.process { &*own } else { line }).collect();
            let text = if path.ends_with("/cgroup.procs") { lines.join("\n") } else { text.clone() };
            tree.file(path, text)
        });
        let affinity: CpuSet = case.affinity.parse().expect("a list of CPUs");
        let budget = CpuBudget::detect(tree.root(), Some(&affinity));
        let counts = format!("{} {}", budget.count(Rounding::Floor), budget.count(Rounding::Ceil));
        let found = (budget.cpus().to_string(), counts, budget.why());
        assert_eq!(found, (case.expected.clone(), case.threads.clone(), case.why.clone()), "{}", case.name);
        looked_at += 1;
    }
    assert!(looked_at > 20, "{looked_at}");
}
