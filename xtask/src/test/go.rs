//! The programs in Go: formatted, and those of a module vetted and tested.
//!
//! Go is no package that `cargo xtask setup` installs, and the modules come from its registry, so
//! the step is skipped where either is not there. `go.sum` has the hash of each module.

use std::process::Command;
use std::time::Duration;

use crate::process::{capture, root, run as run_command};
use crate::setup::find;
use crate::steps::Verdict;
use crate::tidy;

/// The module.
const MODULE: &str = "bench/ycsb";

/// Checks them all.
pub fn check(limit: Duration) -> Verdict {
    let (Some(go), Some(gofmt)) = (find("go"), find("gofmt")) else {
        return Verdict::Skipped("go is not installed".into());
    };
    let files = match tidy::files("go") {
        Ok(files) => files,
        Err(why) => return Verdict::Failed(why),
    };
    match capture(Command::new(gofmt).arg("-l").args(files).current_dir(root())) {
        Ok(unformatted) if unformatted.is_empty() => (),
        Ok(unformatted) => {
            return Verdict::Failed(format!(
                "not formatted: gofmt -w {}",
                unformatted.trim().replace('\n', " ")
            ));
        }
        Err(why) => return Verdict::Failed(why),
    }
    let command = |words: &[&str]| {
        let mut command = Command::new(&go);
        command.args(words).current_dir(root().join(MODULE));
        command
    };
    if let Err(why) = run_command(&mut command(&["mod", "download"]), limit) {
        return Verdict::Skipped(format!("Go's modules cannot be fetched: {why}"));
    }
    let vetted = run_command(&mut command(&["vet", "./..."]), limit);
    vetted.and_then(|()| run_command(&mut command(&["test", "./..."]), limit)).into()
}
