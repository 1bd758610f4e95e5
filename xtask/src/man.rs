//! `cargo xtask man`: the manual pages, from the definition that the command itself parses by.
//!
//! The definitions are in the crates of the commands. So that this tool does not have to build the
//! commands before it can do anything, a small package of its own, `xtask/man`, links them and
//! writes the pages.

use std::path::{Path, absolute};
use std::time::Duration;

use crate::outcome::Result;
use crate::process::run as run_command;
use crate::workspace::{cargo, locked};

const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Writes `manx.1` and a page for each subcommand into `folder`, which is created if need be.
///
/// # Errors
/// If the command does not build, or a page cannot be written.
pub fn run(folder: &Path) -> Result {
    let folder = absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "-p", "xtask-man"]).args(locked()).arg("--").arg(&folder);
    run_command(&mut command, LIMIT)
}
