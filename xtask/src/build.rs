//! `cargo xtask build`: the command, the libraries that it preloads, and libmanx, side by side.
//!
//! Each library is built in an invocation of its own, because cargo unites the features of all packages
//! that it builds together, and what a program of others gets loaded must not grow by what the command
//! uses. The command never depends on the libraries and looks for them beside itself.

use std::time::Duration;

use crate::process::run as run_command;
use crate::workspace::{Workspace, cargo, locked};
use crate::{Result, libmanx};

const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Builds all of them in release mode.
///
/// # Errors
/// If one does not build, or what was built is not where the command looks for it.
pub fn run() -> Result {
    for package in ["cli", "preload", "preload-requests", "capi"] {
        run_command(cargo().args(["build", "--release", "-p", package]).args(locked()), LIMIT)?;
    }
    let workspace = Workspace::load()?;
    for file in [workspace.manx()].into_iter().chain(workspace.libraries()) {
        if !file.is_file() {
            return Err(format!("{} was not built: is `build.target` set for cargo?", file.display()));
        }
        println!("built {}", file.display());
    }
    println!("built {}", libmanx::link(&workspace)?.display());
    Ok(())
}
