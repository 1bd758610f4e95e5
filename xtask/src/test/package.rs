//! The packages that a user's program depends on: cargo makes them, and a program outside of the
//! workspace is built from what they contain, and runs. It depends on them by the lines that the
//! README shows.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::readme;
use crate::outcome::Result;
use crate::process::run as run_command;
use crate::workspace::{Workspace, cargo, locked};

/// What is published, each after what it depends on.
const PACKAGES: [&str; 2] = ["manx-platform", "manx"];
/// What comes before the README's lines.
const MANIFEST: &str = include_str!("dependent/Cargo.toml.in");
/// The features that the README shows, and those that the program uses.
const FEATURES: [&str; 2] = ["features = [\"range\"]", "features = [\"cpu\", \"pool\", \"range\"]"];
const MAIN: &str = include_str!("dependent/main.rs");

/// Makes the packages, and builds and runs the program with them.
///
/// # Errors
/// If a package cannot be made, or the program does not build or fails.
pub fn check(workspace: &Workspace, limit: Duration) -> Result {
    let mut package = cargo();
    // What they contain is built below, with one set of features. A change need not be committed.
    package.args(["package", "--no-verify", "--allow-dirty"]).args(locked());
    PACKAGES.iter().for_each(|name| _ = package.args(["-p", name]));
    run_command(&mut package, limit)?;

    let folder = workspace.target.join("package-check");
    let program = folder.join("dependent");
    let _ = fs::remove_dir_all(&folder);
    write(&program.join("Cargo.toml"), &manifest()?)?;
    write(&program.join("src/main.rs"), MAIN)?;
    for name in PACKAGES {
        unpack(&workspace.target.join("package"), name, &folder)?;
    }
    // The versions that the workspace is tested with.
    let lock = crate::process::root().join("Cargo.lock");
    fs::copy(&lock, program.join("Cargo.lock")).map_err(|error| format!("{}: {error}", lock.display()))?;
    let mut build = cargo();
    build.current_dir(&program).arg("run").env("CARGO_TARGET_DIR", folder.join("target"));
    run_command(&mut build, limit)
}

/// The program's manifest.
fn manifest() -> Result<String> {
    let lines = readme::block(&readme::read("README.md")?, "toml").map(str::to_owned);
    let lines = lines.filter(|lines| lines.contains(FEATURES[0]));
    let lines = lines.ok_or_else(|| format!("README.md has no `toml` block with {}", FEATURES[0]))?;
    Ok(format!("{MANIFEST}\n{}", lines.replace(FEATURES[0], FEATURES[1])))
}

/// Unpacks a package.
fn unpack(from: &Path, name: &str, folder: &Path) -> Result {
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(from.join(format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"))));
    run_command(tar.arg("-C").arg(folder), Duration::from_secs(60))
}

fn write(path: &Path, text: &str) -> Result {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}
