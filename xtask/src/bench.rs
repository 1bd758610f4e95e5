//! `cargo xtask bench`: builds, then hands everything to `manx bench`.

use std::process::Command;
use std::time::Duration;

use crate::process::run as run_command;
use crate::workspace::{Workspace, root};
use crate::{Result, build};

/// Whoever starts a benchmark by hand ends it by hand; this only keeps a forgotten one from running on.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Runs `manx bench` with these arguments.
///
/// # Errors
/// If the build or the benchmark fails.
pub fn run(arguments: &[String]) -> Result {
    build::run()?;
    manx_bench(arguments, LIMIT)
}

/// Runs the built `manx bench`.
///
/// # Errors
/// If it fails or takes longer than `limit`.
pub fn manx_bench(arguments: &[String], limit: Duration) -> Result {
    let manx = Workspace::load()?.manx();
    run_command(Command::new(manx).current_dir(root()).arg("bench").args(arguments), limit)
}
