//! `--dry-run`: writes the plan to standard output, and does nothing else.

use super::libraries;
use super::plan::{Plan, Why};
use super::program::Program;
use preload_abi::SWITCH_VARIABLE;
use preload_abi::options::Options;
use std::fmt::Write as _;

/// What would be done, as text.
pub(super) fn describe(plan: &Plan, options: &Options<'_>, program: &Program) -> String {
    let mut text = String::new();
    write(plan, options, program, &mut text).expect("writing to a String");
    text
}

fn write(plan: &Plan, options: &Options<'_>, program: &Program, out: &mut String) -> std::fmt::Result {
    writeln!(out, "program      {}", program.image().display())?;
    let (_, before) = program.chain.split_last().expect("a chain holds at least the program");
    for script in before {
        writeln!(out, "  through    {}", script.display())?;
    }
    if let Some(loader) = program.elf.as_ref().and_then(|elf| elf.loader.as_ref()) {
        writeln!(out, "loader       {}", loader.display())?;
    }
    match plan {
        Plan::Unchanged(Why::SwitchedOff) => {
            return writeln!(out, "runs unchanged: {SWITCH_VARIABLE}=off is set");
        }
        Plan::Unchanged(Why::Obstacle(obstacle)) => {
            return writeln!(out, "runs unchanged: it {obstacle}");
        }
        Plan::Environment { obstacle, .. } => writeln!(out, "runs unchanged: it {obstacle}")?,
        Plan::Pass { .. } => {
            writeln!(out, "runs unchanged: not meant; what it starts is judged by its own name")?;
        }
        Plan::Preload { .. } => {}
    }
    for library in plan.libraries() {
        writeln!(out, "library      {}", library.display())?;
    }
    for (index, (name, value)) in plan.changes().iter().enumerate() {
        let head = if index == 0 { "environment" } else { "" };
        writeln!(out, "{head:11}  {name}={}", value.display())?;
    }
    match plan.reported() {
        Some(reported) => {
            writeln!(out, "CPUs         {}", reported.why())?;
            if let Some(warning) = reported.warning() {
                writeln!(out, "             {warning}")?;
            }
        }
        None => writeln!(out, "CPUs         as without Manx")?,
    }
    if matches!(plan, Plan::Environment { .. } | Plan::Pass { .. }) {
        return Ok(());
    }
    writeln!(out, "locks        {}", options.lock.word())?;
    if let Some(elf) = &program.elf {
        let preloaded = std::env::var_os(super::environment::PRELOAD_VARIABLE).unwrap_or_default();
        let found = libraries::find(program.image(), elf, &preloaded);
        writeln!(out)?;
        super::loops::describe(&found, options, out)?;
    }
    Ok(())
}
