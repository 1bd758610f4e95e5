//! axe-core, which finds what keeps people with a screen reader or a keyboard from using a page:
//! into `target/axe/package`, from npm, in one exact version.
//!
//! Only a test of `page` uses it; nothing that is installed does. Debian has no package of it, and
//! Debian's npm brings some hundred others, so npm is not installed for it: without npm it is left
//! out, and the test says so.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::outcome::Result;
use crate::process::{capture, run as run_command};
use crate::workspace::Workspace;

/// The package with its version.
const PACKAGE: &str = "axe-core@4.14.1";
/// The SHA-256 of its archive.
const SUM: &str = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745";
/// For a download of 700 kB.
const LIMIT: Duration = Duration::from_secs(120);

/// Puts it there, unless it is there already.
///
/// # Errors
/// If there is no npm, the registry cannot be reached, or the archive is another one.
pub fn run(npm: Option<PathBuf>) -> Result {
    let folder = Workspace::load()?.target.join("axe");
    if folder.join("package/axe.min.js").is_file() {
        return Ok(());
    }
    let npm = npm.ok_or("npm is not installed")?;
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let packed = capture(Command::new(npm).args(["pack", "--silent", PACKAGE]).current_dir(&folder))?;
    let archive = folder.join(packed.lines().last().unwrap_or_default().trim());
    let sum = capture(Command::new("sha256sum").arg(&archive))?;
    if sum.split_whitespace().next() != Some(SUM) {
        return Err(format!("{}: its SHA-256 is not {SUM}", archive.display()));
    }
    run_command(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder), LIMIT)
}
