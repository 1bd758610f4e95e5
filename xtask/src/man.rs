//! `cargo xtask man`: the manual pages and the completions of shells, from the definition that the
//! command itself parses by.
//!
//! The definitions are in the crates of the commands. So that this tool does not have to build the
//! commands before it can do anything, a small package of its own, `xtask/man`, links them and
//! writes them.

use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;
use std::time::Duration;

use crate::outcome::Result;
use crate::process::run as run_command;
use crate::workspace::{Workspace, release_cargo};

const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Writes `manx.1` and a page for each subcommand into `folder`, and the completions into
/// `folder/bash`, `folder/zsh` and `folder/fish`. Creates the folders.
///
/// # Errors
/// If the command does not build, or a file cannot be written.
pub fn run(folder: &Path) -> Result {
    let folder = absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    run_command(release_cargo("run").args(["--quiet", "-p", "xtask-man", "--"]).arg(&folder), LIMIT)
}

/// Writes all of them into a fresh folder below the target folder, and returns it.
///
/// # Errors
/// Those of [`run`].
pub fn made(workspace: &Workspace) -> Result<PathBuf> {
    let folder = fresh(workspace)?;
    run(&folder)?;
    Ok(folder)
}

/// As [`made`], by the package's program as the build of all tests has left it: no crate is
/// compiled for it once more.
///
/// # Errors
/// If it is not there, or a file cannot be written.
pub fn built(workspace: &Workspace) -> Result<PathBuf> {
    let folder = fresh(workspace)?;
    run_command(Command::new(workspace.target.join("debug/xtask-man")).arg(&folder), LIMIT)?;
    Ok(folder)
}

/// A folder without pages: one of a subcommand that is gone must not be installed.
fn fresh(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("man");
    match fs::remove_dir_all(&folder) {
        Err(error) if folder.exists() => Err(format!("{}: {error}", folder.display())),
        _ => Ok(folder),
    }
}
