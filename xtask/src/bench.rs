//! `cargo xtask bench`: builds, then becomes `manx bench` with the given arguments; `cargo xtask
//! bench locks` becomes `rivals locks`, because other people's locks are in that package and
//! nothing else depends on it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::build;
use crate::outcome::Result;
use crate::process::{run as run_command, show};
use crate::workspace::{Workspace, release_cargo, root};

/// Builds, and becomes `manx bench` with these arguments: whoever interrupts a benchmark interrupts
/// that one, which then shows what it has.
///
/// # Errors
/// If the build fails or the benchmark cannot be started.
pub fn run(arguments: &[String]) -> Result {
    build::run()?;
    let mut command = match arguments.split_first() {
        Some((name, options)) if name == "locks" => {
            run_command(release_cargo("build").args(["-p", "rivals"]), RIVALS_LIMIT)?;
            let mut command = outside_cargo("rivals")?;
            command.arg("locks").args(options);
            command
        }
        _ => manx_bench(arguments)?,
    };
    println!("$ {}", show(&command));
    let error = command.exec();
    Err(format!("`{}` could not be started: {error}", show(&command)))
}

/// Runs a benchmark briefly, with these options.
///
/// # Errors
/// If it fails or takes longer than `limit`.
pub fn smoke(name: &str, options: &[&str], limit: Duration) -> Result {
    run_command(manx_bench(&[name.into()])?.args(options).arg("--quick"), limit)
}

/// The built `manx bench`.
fn manx_bench(arguments: &[String]) -> Result<Command> {
    let mut command = outside_cargo("manx")?;
    command.arg("bench").args(arguments);
    Ok(command)
}

/// A built program, to be run as if cargo had not started us.
fn outside_cargo(program: &str) -> Result<Command> {
    let workspace = Workspace::load()?;
    let mut command = Command::new(workspace.manx().with_file_name(program));
    command.current_dir(root());
    let path = env::var_os(LIBRARY_PATH).unwrap_or_default();
    match without_cargo(&path, &workspace.target) {
        path if path.is_empty() => command.env_remove(LIBRARY_PATH),
        path => command.env(LIBRARY_PATH, path),
    };
    Ok(command)
}

/// For building the peers.
const RIVALS_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Where the loader looks for libraries first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The path without the folders that cargo put into it for us: what is measured should not search
/// them.
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
