//! `cargo xtask setup mongo`: all that `manx bench paper 000` needs, and MongoDB's own drivers,
//! with which its server is tried, in exact versions by hash.
//!
//! | what | how | where |
//! | --- | --- | --- |
//! | the server of `bench/mongo` | cargo | `target/release/manx-mongod` |
//! | the client of `bench/ycsb` | go (`go.sum`) | `target/ycsb/ycsb` |
//! | WiredTiger | `wiredtiger.rs` | `target/wiredtiger` |
//! | pymongo | pip (`bench/mongo/tests/drivers/requirements.txt`) | `target/mongo/env` |
//! | mongodb | `npm ci` (`package-lock.json` beside it) | `target/mongo/node` |
//!
//! A test whose driver is not there says so, and so does the bench.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{find, victims, wiredtiger};
use crate::outcome::Result;
use crate::process::run as run_command;
use crate::workspace::{Workspace, root};

/// For a download of some 5 MB.
const LIMIT: Duration = Duration::from_secs(300);
/// For a build of the server or the client.
const BUILD_LIMIT: Duration = Duration::from_secs(1200);

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
    built(wiredtiger::run);
    Ok(())
}

/// Sets up what a smoke check of `manx bench paper 000` needs, unless it is there.
///
/// # Errors
/// The workspace cannot be read.
pub fn for_smoke() -> Result {
    if missing()?.is_some() {
        built(wiredtiger::for_smoke);
    }
    Ok(())
}

/// Builds the programs, and says what could not be built.
fn built(wiredtiger: fn() -> Result) {
    for (what, built) in [("the server", server()), ("the client", client()), ("WiredTiger", wiredtiger())] {
        if let Err(why) = built {
            println!("setup: left out: {what}: {why}");
        }
    }
}

/// Returns the first file that `manx bench paper 000` needs and that is not there.
///
/// # Errors
/// The workspace cannot be read.
pub fn missing() -> Result<Option<String>> {
    let target = Workspace::load()?.target;
    let needed = [
        "release/manx-mongod",
        "ycsb/ycsb",
        "wiredtiger/original/libwiredtiger.so",
        "wiredtiger/repaired-adaptive/libwiredtiger.so",
    ];
    Ok(needed.into_iter().find(|name| !target.join(name).is_file()).map(|name| format!("target/{name}")))
}

/// Builds the server.
///
/// # Errors
/// It cannot be built.
fn server() -> Result {
    let mut build = crate::workspace::cargo();
    build.args(["build", "--release", "--locked", "-p", "mongo", "--bin", "manx-mongod"]);
    run_command(&mut build, BUILD_LIMIT)
}

/// Builds the client.
///
/// # Errors
/// Go is not there, or the client cannot be built.
fn client() -> Result {
    let go = find("go").ok_or("go is not installed")?;
    let path = Workspace::load()?.target.join("ycsb/ycsb");
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(path).arg(".").current_dir(root().join("bench/ycsb"));
    run_command(&mut build, BUILD_LIMIT)
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
