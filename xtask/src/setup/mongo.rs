//! `cargo xtask setup mongo`: MongoDB's own drivers, with which the server of `bench/mongo` is
//! tried, in exact versions by hash.
//!
//! | what | how | where |
//! | --- | --- | --- |
//! | pymongo | pip (`bench/mongo/tests/drivers/requirements.txt`) | `target/mongo/env` |
//! | mongodb | `npm ci` (`package-lock.json` beside it) | `target/mongo/node` |
//!
//! A test whose driver is not there says so.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{find, victims};
use crate::outcome::Result;
use crate::process::run as run_command;
use crate::workspace::{Workspace, root};

/// For a download of some 5 MB.
const LIMIT: Duration = Duration::from_secs(300);

/// Sets up what can be.
///
/// # Errors
/// None that the rest could not go on without: what is left out is printed.
pub fn run() -> Result {
    let (target, source) =
        (Workspace::load()?.target.join("mongo"), root().join("bench/mongo/tests/drivers"));
    if let Err(why) = victims::install_into(&target.join("env"), &source.join("requirements.txt")) {
        println!("setup: left out: pymongo: {why}");
    }
    if let Err(why) = node(&target.join("node"), &source) {
        println!("setup: left out: mongodb of npm: {why}");
    }
    println!("setup: MongoDB's drivers are in {}", target.display());
    Ok(())
}

fn node(folder: &Path, source: &Path) -> Result {
    let npm = find("npm").ok_or("npm is not installed")?;
    victims::made_from(folder, &victims::text(&source.join("package-lock.json"))?, || {
        for name in ["package.json", "package-lock.json"] {
            let from = source.join(name);
            fs::copy(&from, folder.join(name)).map_err(|why| format!("{}: {why}", from.display()))?;
        }
        // No script of a package runs.
        let mut install = Command::new(npm);
        install.args(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
        run_command(&mut install, LIMIT)
    })
}
