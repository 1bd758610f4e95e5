//! `cargo xtask bench`: builds, then hands everything to `manx bench`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
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
    let workspace = Workspace::load()?;
    let mut command = Command::new(workspace.manx());
    let path = env::var_os(LIBRARY_PATH).unwrap_or_default();
    match without_cargo(&path, &workspace.target) {
        path if path.is_empty() => command.env_remove(LIBRARY_PATH),
        path => command.env(LIBRARY_PATH, path),
    };
    run_command(command.current_dir(root()).arg("bench").args(arguments), limit)
}

/// Where the loader looks for libraries first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The path without the folders that cargo put into it for us: what is measured should not search them.
fn without_cargo(path: &OsStr, target: &Path) -> OsString {
    let cargos = |folder: &Path| folder.starts_with(target) || folder.iter().any(|part| part == "rustlib");
    let others = env::split_paths(path).filter(|folder| !cargos(folder) && !folder.join("rustlib").is_dir());
    // What was split at colons joins again.
    env::join_paths(others).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cargos_folders_leave_the_path() {
        let toolchain = tempfile::tempdir().unwrap();
        std::fs::create_dir(toolchain.path().join("rustlib")).unwrap();
        let toolchain = toolchain.path().display();
        let path =
            format!("/opt/engine/lib:/w/target/debug/deps:{toolchain}:{toolchain}/rustlib/x/lib:/opt/b");
        assert_eq!(without_cargo(OsStr::new(&path), Path::new("/w/target")), "/opt/engine/lib:/opt/b");
    }
}
