//! ThreadSanitizer over the tests that are written for it: each package's `tests/tsan.rs`.
//!
//! The standard library is not instrumented, so ThreadSanitizer does not see how its channels,
//! mutexes and scopes order memory, and does not know fences at all. Tests for it therefore
//! synchronise by atomics that are compiled with them and by joining threads, and have a file of
//! their own. What the test harness itself does is suppressed, by names narrow enough that no
//! test's own code can be meant.
//!
//! The flags are unstable ones of the compiler that is there; nothing else is downloaded. A
//! compiler that does not know them makes this a skipped step, not a failed one.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::skips::Skips;
use crate::process::{capture, run as run_command};
use crate::steps::Verdict;
use crate::workspace::{Workspace, cargo, locked};

/// The name of the test target.
const TARGET: &str = "tsan";
const HOST: &str = "x86_64-unknown-linux-gnu";
const FLAGS: [&str; 2] = ["-Zsanitizer=thread", "-Cunsafe-allow-abi-mismatch=sanitizer"];

/// A test's result on its way through the harness's channel, the test's closure on its way to its
/// thread, what the main thread frees of it, and the last owner of an `Arc`, which the standard
/// library orders by a fence. The main thread runs no test, and only its own frame has the name
/// `test::run_test` in whole.
const SUPPRESSIONS: &str = "\
race:test::event::CompletedTest
race:^test::run_test$
race:Option<test::run_test::{closure#0}>>::unwrap
race:<alloc::sync::Arc<*as core::ops::drop::Drop>::drop
";

/// Runs them.
pub fn run(workspace: &Workspace, skips: &Skips, limit: Duration) -> Verdict {
    let tests = workspace.packages.iter().flat_map(|package| {
        package.tests.iter().filter(|test| test.name == TARGET).map(|test| (&package.name, &test.features))
    });
    let tests: Vec<(&String, &Vec<String>)> = tests.collect();
    if tests.is_empty() {
        return Verdict::Skipped(format!("no package has tests for it (tests/{TARGET}.rs)"));
    }
    let folder = workspace.target.join("tsan");
    if let Err(why) = knows_flags(&folder) {
        return Verdict::Skipped(why);
    }
    let suppressions = folder.join("suppressions");
    if let Err(error) = fs::write(&suppressions, SUPPRESSIONS) {
        return Verdict::Failed(format!("{}: {error}", suppressions.display()));
    }
    let mut command = cargo();
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS.join(" "));
    command.env("TSAN_OPTIONS", format!("halt_on_error=1 suppressions={}", suppressions.display()));
    command.args(["test", "--no-fail-fast", "--target", HOST, "--test", TARGET]).args(locked());
    skips.tell(command.arg("--target-dir").arg(&folder));
    for (package, features) in tests {
        command.args(["-p", package]);
        // What other features need would be most of the build.
        features.iter().for_each(|feature| {
            command.args(["--features", &format!("{package}/{feature}")]);
        });
    }
    run_command(&mut command, limit).into()
}

/// Builds and runs the smallest program with ThreadSanitizer.
fn knows_flags(folder: &Path) -> Result<(), String> {
    let source = folder.join("probe.rs");
    let program = folder.join("probe");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&source, "fn main() {}\n"))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut rustc = Command::new("rustc");
    rustc.env("RUSTC_BOOTSTRAP", "1").args(FLAGS).args(["--target", HOST, "-o"]).arg(&program).arg(&source);
    capture(&mut rustc).map_err(|_| format!("this compiler cannot build for ThreadSanitizer on {HOST}"))?;
    capture(&mut Command::new(&program)).map(drop).map_err(|_| {
        "a program under ThreadSanitizer does not start here (vm.mmap_rnd_bits above 28?)".into()
    })
}
