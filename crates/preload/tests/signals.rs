//! Waits in programs that block, handle and send signals.
//!
//! Every test shows by the program's statistics that its threads really waited at sites that were
//! reached as the test says: a program in which nothing was repaired proves nothing.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{WAYS, finish, program, under_manx};
use std::process::Command;
use testing::process::is_installed;

/// Runs a program with loops that are reached in each way, while CPUs seem short and as the library
/// finds it.
#[track_caller]
fn each_way(name: &str) {
    for (way, options) in WAYS.iter().flat_map(|way| [(way, "short=always"), (way, "")]) {
        under_manx(name, &[way], options).succeeded().waited(&format!("wait_by_{way}"));
    }
}

#[test]
fn a_worker_that_blocks_every_signal_waits() {
    each_way("masked");
}

#[test]
fn handlers_that_block_everything_wait_in_threads_that_do() {
    each_way("waits");
}

#[test]
fn a_handler_leaves_a_wait_by_a_long_jump() {
    each_way("leaves");
}

#[test]
fn forked_children_wait_and_execute() {
    each_way("forks");
}

#[test]
fn small_stacks_are_enough() {
    each_way("stacks");
}

#[test]
fn a_debugger_sees_no_signal() {
    let program = program("masked");
    let mut debugger = Command::new("gdb");
    if !is_installed("gdb", "--version") {
        return;
    }
    debugger.args(["-nx", "-batch", "-ex", "set startup-with-shell off"]);
    // The debugger itself runs without the library.
    let environment = |name: &str, value: &str| format!("set environment {name} {value}");
    let report = common::folder().join("debugged.json");
    let options = format!("short=always,stats={}", report.display());
    debugger.args(["-ex", &environment("LD_PRELOAD", common::library().to_str().expect("a path"))]);
    debugger.args(["-ex", &environment("MANX_OPTIONS", &options)]);
    debugger.args(["-ex", "run row", "-ex", "info program"]).arg(&program);
    let mut outcome = finish(&mut debugger);
    assert!(outcome.stdout.contains("exited normally"), "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains("SIGTRAP"), "{}", outcome.stdout);
    let bytes = std::fs::read(&report).expect("statistics");
    outcome.report = Some(serde_json::from_slice(&bytes).expect("JSON"));
    outcome.waited("wait_by_row");
}
