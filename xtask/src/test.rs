//! `cargo xtask test`: all that CI runs, as a list of timed steps.
//!
//! A step that fails does not stop the others; the table at the end has every verdict, and the last
//! line the sums. A step that cannot run here is skipped with its reason, never silently. `--full`
//! runs the long proofs unabridged: model checking without a bound on preemptions, and many more
//! random cases. Tests of other crates learn of it by `MANX_FULL=1`.

mod features;
mod readme;
mod sanitizer;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::outcome::Result;
use crate::process::{capture, run as run_command, run_and_look};
use crate::setup::{self, For};
use crate::steps::{Steps, Verdict};
use crate::workspace::{Workspace, cargo, lacks, locked};
use crate::{bench, build, install, soak, tidy};

/// CI gives an hour; what is not begun by then would not end in it.
const ALL: Duration = Duration::from_secs(50 * 60);
/// Long proofs end when they end.
const ALL_FULL: Duration = Duration::from_secs(24 * 3600);
/// One step, so that one that hangs leaves time for the others.
const STEP: Duration = Duration::from_secs(15 * 60);
/// A benchmark with `--quick` takes 45 s at most; a busy machine gets some more.
const QUICK: Duration = Duration::from_secs(180);

/// The benchmarks that run as smoke checks.
const BENCHES: [&str; 7] = ["wait", "guard", "inversion", "range", "pool", "txn", "victims"];
/// The packages that are checked for the other architecture, as far as they can be without a C
/// compiler for it.
const PORTABLE: [&str; 7] =
    ["platform", "manx", "baselines", "spinloop", "preload-abi", "preload", "preload-requests"];

const OTHER: &str = "aarch64-unknown-linux-gnu";

/// What to test, and how long.
#[derive(clap::Args)]
pub struct Options {
    /// Run the long proofs in full
    #[arg(long)]
    full: bool,
    /// Name the steps and do nothing
    #[arg(long)]
    list: bool,
    /// Only these steps; without any, all
    #[arg(value_name = "STEP")]
    only: Vec<String>,
}

/// A step: its name, and what it does.
type Step<'w> = (String, Work<'w>);
type Work<'w> = Box<dyn FnOnce() -> Verdict + 'w>;

/// Runs the steps.
///
/// # Errors
/// If a step failed, or one is named that does not exist.
pub fn run(options: &Options) -> Result {
    let workspace = Workspace::load()?;
    let mut todo = all(&workspace, options.full);
    let names: Vec<String> = todo.iter().map(|step| step.0.clone()).collect();
    if let Some(unknown) = options.only.iter().find(|name| !names.contains(name)) {
        return Err(format!("there is no step `{unknown}`; `cargo xtask test --list` names them"));
    }
    if options.list {
        println!("{}", names.join("\n"));
        return Ok(());
    }
    if !options.only.is_empty() {
        todo.retain(|step| options.only.contains(&step.0));
    }
    let mut steps = Steps::new(if options.full { ALL_FULL } else { ALL });
    for (name, work) in todo {
        steps.step(&name, work);
    }
    steps.finish()
}

fn all<'w>(workspace: &'w Workspace, full: bool) -> Vec<Step<'w>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut add = |name: &str, work: Work<'w>| steps.push((name.into(), work));
    let limit = if full { ALL_FULL } else { STEP };

    add("setup", Box::new(set_up));
    add("fmt", Box::new(format));
    add("build", Box::new(|| build::run().into()));
    add("tidy", Box::new(|| tidy::run().into()));
    add("clippy", Box::new(clippy));
    add("features", Box::new(|| features::run(workspace, STEP)));
    for package in &workspace.packages {
        add(&format!("test-{}", package.name), Box::new(move || test(&package.name, full, limit)));
    }
    add("doc", Box::new(doc));
    add("tsan", Box::new(|| sanitizer::run(workspace, STEP)));
    add("aarch64", Box::new(other_architecture));
    add("install", Box::new(|| install::check(&workspace.target.join("install-check")).into()));
    add("readme", Box::new(|| readme::check(workspace).into()));
    for name in BENCHES {
        add(&format!("bench-{name}"), Box::new(move || bench::smoke(name, QUICK).into()));
    }
    add("bench-engines", Box::new(|| smoke_unless("engines", setup::without_databases())));
    add("bench-servers", Box::new(|| smoke_unless("servers", setup::without_servers())));
    add("soak", Box::new(soak::smoke));
    steps
}

/// A benchmark that measures nothing of its own, unless all of it is missing.
fn smoke_unless(name: &str, missing: Option<String>) -> Verdict {
    match missing {
        None => bench::smoke(name, QUICK).into(),
        Some(missing) => Verdict::Skipped(missing),
    }
}

fn set_up() -> Verdict {
    match setup::ensure(For::Tests) {
        None => Verdict::Passed,
        Some(missing) => Verdict::Skipped(missing),
    }
}

/// Runs cargo with these words and this environment.
fn cargo_step(words: &[&str], environment: &[(&str, &str)]) -> Verdict {
    run_command(cargo().args(words).envs(environment.iter().copied()), STEP).into()
}

fn format() -> Verdict {
    match lacks("fmt", "rustfmt") {
        None => cargo_step(&["fmt", "--all", "--check"], &[]),
        Some(missing) => Verdict::Skipped(missing),
    }
}

fn clippy() -> Verdict {
    if let Some(missing) = lacks("clippy", "clippy") {
        return Verdict::Skipped(missing);
    }
    let words =
        [&["clippy", "--workspace", "--all-targets", "--keep-going"], locked(), &["--", "-D", "warnings"]];
    cargo_step(&words.concat(), &[])
}

fn doc() -> Verdict {
    let words = [&["doc", "--workspace", "--no-deps"], locked()];
    cargo_step(&words.concat(), &[("RUSTDOCFLAGS", "-D warnings")])
}

/// The tests of one package. Loom's are model checking, which only ends in a sensible time with
/// optimisation.
fn test(package: &str, full: bool, limit: Duration) -> Verdict {
    let mut command = cargo();
    // What is behind features is tested too; other packages must build without.
    command.args(["test", "--no-fail-fast", "--all-features", "-p", package]).args(locked());
    if package.ends_with("-loom") {
        command.arg("--release");
    }
    if full {
        command.env("MANX_FULL", "1").env("PROPTEST_CASES", "20000");
    }
    let failures = Arc::new(Mutex::new(Failures::default()));
    let seen = Arc::clone(&failures);
    let ran = run_and_look(&mut command, limit, move |line| seen.lock().unwrap().look(line));
    ran.map_err(|why| format!("{why}\n{}", failures.lock().unwrap().lines.join("\n"))).into()
}

/// What failing tests say, so that it stands beside the table at the end: CI may keep the end of
/// the output only.
#[derive(Default)]
struct Failures {
    inside: bool,
    lines: Vec<String>,
}

impl Failures {
    /// The most lines of a step.
    const LINES_MAX: usize = 60;

    /// Keeps what lies between `failures:` and `test result:`.
    fn look(&mut self, line: &str) {
        self.inside = match line {
            "failures:" => true,
            line if line.starts_with("test result:") => false,
            _ => self.inside,
        };
        if self.inside && !line.is_empty() && self.lines.len() < Self::LINES_MAX {
            self.lines.push(line.to_owned());
        }
    }
}

fn other_architecture() -> Verdict {
    if !installed(OTHER) {
        return Verdict::Skipped(format!("its standard library is not here (rustup target add {OTHER})"));
    }
    let mut words = vec!["check", "--all-features", "--target", OTHER];
    PORTABLE.iter().for_each(|package| words.extend(["-p", package]));
    words.extend(locked());
    cargo_step(&words, &[])
}

/// Whether the toolchain has the standard library of a target.
fn installed(target: &str) -> bool {
    let folder = capture(Command::new("rustc").args(["--print", "target-libdir", "--target", target]));
    folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let workspace = Workspace::load().unwrap();
        all(&workspace, false).into_iter().map(|step| step.0).collect()
    }

    #[test]
    fn what_failing_tests_say_is_kept_and_nothing_else() {
        let mut failures = Failures::default();
        let printed = "test one ... ok\ntest two ... FAILED\n\nfailures:\n\n---- two stdout ----\nleft: 4\n\nfailures:\n    two\n\n\
            test result: FAILED. 1 passed\n\nrunning 0 tests";
        printed.lines().for_each(|line| failures.look(line));
        assert_eq!(failures.lines, ["failures:", "---- two stdout ----", "left: 4", "failures:", "    two"]);
    }

    #[test]
    fn every_package_is_tested_and_every_step_has_a_name_of_its_own() {
        let mut names = names();
        for package in Workspace::load().unwrap().packages {
            assert!(names.contains(&format!("test-{}", package.name)), "{}", package.name);
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_is_built_comes_before_what_looks_at_it() {
        let names = names();
        let place = |name: &str| names.iter().position(|other| other == name).unwrap();
        for name in ["tidy", "install", "bench-inversion", "soak"] {
            assert!(place("build") < place(name), "{name}");
        }
    }

    #[test]
    fn a_step_that_does_not_exist_is_refused_before_anything_runs() {
        let options = Options { full: false, list: false, only: vec!["fmt".into(), "nonsense".into()] };
        let error = run(&options).unwrap_err();
        assert!(error.contains("`nonsense`") && error.contains("--list"), "{error}");
    }
}
