//! MongoDB's own drivers against the server: pymongo and npm's `mongodb`, where `cargo xtask setup
//! mongo` has put them, on WiredTiger if it is installed, and on Manx's store.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use testing::process::{Running, is_installed, succeed};
use testing::skip;

/// Where the setup puts the drivers.
fn drivers() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").join("mongo")
}

/// Runs a driver's script against a server on each engine; it has to say this version.
fn smoke(version: &str, script: impl Fn(&str, &str) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let shim = common::shim(folder.path());
    let wiredtiger =
        shim.as_ref().map(|shim| vec!["--engine", "wiredtiger", "--library", shim.to_str().unwrap()]);
    for arguments in wiredtiger.into_iter().chain([vec!["--engine", "manx"]]) {
        let database = tempfile::tempdir().unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_manx-mongod"));
        server.args(["--port", "0", "--dbpath"]).arg(database.path()).args(arguments);
        let mut running = Running::start(&mut server);
        let said: serde_json::Value = serde_json::from_str(&running.line().expect("it listens")).unwrap();
        println!("{said}");
        assert_eq!(succeed(&mut script(&said["port"].to_string(), "drivers")).trim(), version);
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers").join(name)
}

#[test]
fn the_driver_of_python_is_served() {
    let python = drivers().join("env/bin/python");
    if !python.exists() {
        return skip("pymongo is not set up");
    }
    smoke("pymongo 4.20.1", |port, database| {
        let mut command = Command::new(&python);
        command.arg(source("smoke.py")).args([port, database]);
        command
    });
}

#[test]
fn the_driver_of_node_is_served() {
    let node = drivers().join("node");
    if !node.join("node_modules/mongodb").exists() {
        return skip("mongodb of npm is not set up");
    }
    if !is_installed("node", "--version") {
        return;
    }
    smoke("mongodb 7.9.0", |port, database| {
        let mut command = Command::new("node");
        command.arg(source("smoke.js")).args([port, database]).arg(&node);
        command
    });
}
