//! What the demo runs, built while another process of this tool installs what the demo needs.
//!
//! `manx` is built without the commands that watch, and the libraries in the same call of cargo: in
//! the demo it does no harm that a dependency of a library has a feature more than where it is
//! installed, and each dependency is compiled once.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::progress::{Progress, tail};
use crate::outcome::Result;
use crate::process::capture;
use crate::workspace::{MANX, Workspace, cargo, locked};

/// What the demo runs.
const PACKAGES: [&str; 3] = ["cli", "preload", "preload-requests"];

/// Builds, and returns the folder of what was built.
///
/// # Errors
/// If it does not build; the text ends with what cargo said.
pub fn run(folder: &Path, progress: &Progress) -> Result<PathBuf> {
    progress.say("build of manx; packages that the demo needs are installed meanwhile");
    let setup = SetUp::begin(folder)?;
    let log = folder.join("build.log");
    let mut command = cargo();
    command
        .args(["build", "--message-format=json-render-diagnostics", "--no-default-features"])
        .args(locked());
    command.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(written(&log)?);
    let mut build = command.spawn().map_err(|error| format!("cargo could not be started: {error}"))?;
    let messages = BufReader::new(build.stdout.take().ok_or("cargo has no output")?);
    let artifacts = messages.lines().map_while(std::result::Result::ok).filter_map(|line| {
        let message: Value = serde_json::from_str(&line).ok()?;
        Some(
            message["target"]["name"]
                .as_str()
                .filter(|_| message["reason"] == "compiler-artifact")?
                .to_owned(),
        )
    });
    for (count, name) in artifacts.enumerate() {
        progress.update(&format!("build of manx: {} crates, {name}", count + 1));
    }
    let status = build.wait().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(format!("manx does not build; {} ends with:\n{}", log.display(), tail(&log, 20)));
    }
    setup.end(progress)?;
    let built = Workspace::load()?.target.join("debug");
    let manx = built.join(MANX);
    capture(Command::new(&manx).arg("--version")).map(|_| built)
}

/// `cargo xtask setup demo`, as a process of its own.
struct SetUp {
    child: Child,
    log: PathBuf,
}

impl SetUp {
    fn begin(folder: &Path) -> Result<SetUp> {
        let log = folder.join("setup.log");
        let own = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
        let mut command = Command::new(own);
        command.args(["setup", "demo"]).stdin(Stdio::null()).stdout(written(&log)?).stderr(written(&log)?);
        let child = command.spawn().map_err(|error| format!("`setup demo` could not be started: {error}"))?;
        Ok(SetUp { child, log })
    }

    /// Waits for its end. Programs that lack something are left out later, each with its reason.
    fn end(mut self, progress: &Progress) -> Result {
        progress.say("packages that the demo needs");
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("setup failed; {} ends with:\n{}", self.log.display(), tail(&self.log, 20))),
        }
    }
}

fn written(log: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(log);
    file.map_err(|error| format!("{}: {error}", log.display()))
}
