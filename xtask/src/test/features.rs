//! The features of the crate `manx`, each alone: a room compiles without the others (with `--full`
//! its tests, too) and without a warning, and a program that wants a mutex compiles no skip list.
//! And the command without the parts that watch, as the demo builds it.

use std::time::Duration;

use crate::outcome::Result;
use crate::process::run as run_command;
use crate::steps::Verdict;
use crate::workspace::{Workspace, cargo, lacks, linked, locked};

const PACKAGE: &str = "manx";
/// All that the default feature may link.
const SLIM: [&str; 5] = ["libc", "lock_api", "manx", "manx-platform", "scopeguard"];

/// Checks what the default links, then each feature.
pub fn run(workspace: &Workspace, full: bool, limit: Duration) -> Verdict {
    if let Err(why) = linked(PACKAGE).and_then(|tree| is_slim(&tree)) {
        return Verdict::Failed(why);
    }
    if let Some(missing) = lacks("clippy", "clippy") {
        return Verdict::Skipped(missing);
    }
    let features = workspace.packages.iter().find(|package| package.name == PACKAGE);
    let features = features.iter().flat_map(|package| &package.features).map(String::as_str);
    // A room's tests without the other rooms are most of the work, and users never compile them.
    let targets = if full { "--all-targets" } else { "--lib" };
    let features = features.chain([""]).try_for_each(|feature| check(PACKAGE, targets, feature, limit));
    // Its tests are about all that it has.
    features.and_then(|()| check("cli", "--bins", "", limit)).into()
}

/// Checks one feature of a package without the default, or none.
fn check(package: &str, targets: &str, feature: &str, limit: Duration) -> Result {
    let mut command = cargo();
    command.args(["clippy", "-p", package, targets, "--no-default-features", "--features", feature]);
    command.args(locked()).args(["--", "-D", "warnings"]);
    run_command(&mut command, limit).map_err(|why| format!("{package} --features '{feature}': {why}"))
}

/// Whether these lines of `cargo tree` name the packages of [`SLIM`], and no others.
fn is_slim(tree: &str) -> Result {
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    names.dedup();
    if names == SLIM {
        return Ok(());
    }
    Err(format!("the default feature of {PACKAGE} links {}, not {}", names.join(", "), SLIM.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_links_what_a_mutex_needs() {
        assert_eq!(is_slim(&linked(PACKAGE).unwrap()), Ok(()));
    }

    #[test]
    fn a_crate_that_must_not_be_linked_is_named() {
        let tree = "manx v1.0.0\nlibc v0.2.0\nlock_api v0.5.0\nscopeguard v1.2.0\nmanx-platform v1.0.0\nlibc v0.2.0 (*)\n";
        assert_eq!(is_slim(tree), Ok(()));
        assert!(is_slim(&format!("{tree}papaya v0.2.0\n")).unwrap_err().contains("papaya"));
    }
}
