//! Breakpoints, and jumps, in programs that block, ignore, handle and send signals.
//!
//! Every test shows by the program's statistics that its threads really waited at sites that were reached
//! as the test says: a program in which nothing was repaired proves nothing.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{finish, program, shared_library, under_manx};
use preload_abi::live::How;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Runs a program once with a loop that a jump fits beside, and once with one that needs a breakpoint.
#[track_caller]
fn both_ways(name: &str) {
    for how in ["trap", "jump"] {
        under_manx(name, &[how], "").succeeded().waited(&format!("wait_by_{how}"), how);
    }
}

#[test]
fn a_worker_that_blocks_every_signal_waits() {
    both_ways("masked");
}

#[test]
fn system_calls_by_number_block_no_breakpoint() {
    finish({
        let mut plain = Command::new(program("numbers"));
        plain.arg("trap");
        plain
    })
    .succeeded();
    both_ways("numbers");
}

#[test]
fn handlers_that_block_everything_wait_in_threads_that_do() {
    both_ways("waits");
}

#[test]
fn a_handler_leaves_a_wait_by_a_long_jump() {
    both_ways("leaves");
}

#[test]
fn forked_children_wait_and_execute() {
    both_ways("forks");
}

#[test]
fn small_stacks_are_enough() {
    both_ways("stacks");
}

#[test]
fn the_program_sees_what_it_asked_for() {
    for argument in ["late", "early"] {
        let mut plain = Command::new(program("views"));
        plain.arg(argument);
        let expected = finish(plain);
        let seen = under_manx("views", &[argument], "");
        seen.succeeded().waited("wait_by_trap", "trap");
        let differs = expected.stdout.lines().zip(seen.stdout.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "{argument}: as it is, and under Manx");
        assert!(expected.stdout == seen.stdout && expected.stdout.lines().count() > 300, "{argument}");
    }
}

#[test]
fn a_handler_for_sigtrap_gets_what_is_its_own() {
    finish(Command::new(program("handles"))).succeeded();
    under_manx("handles", &[], "").succeeded().waited("wait_by_trap", "trap");
}

#[test]
fn a_program_that_sigtrap_ends_is_ended_by_it() {
    for way in ["int3", "raise", "kill", "ignored", "blocked", "unblocked"] {
        let mut plain = Command::new(program("dies"));
        plain.arg(way);
        let plain = finish(plain);
        let under = under_manx("dies", &[way], "");
        // It did not end in order, so its statistics are where they were kept while it ran.
        assert!(under.live.contains(&("wait_by_trap".to_owned(), How::Trap)), "{way}: {:?}", under.live);
        assert_eq!(plain.status.signal(), Some(libc::SIGTRAP), "{way}, as it is");
        assert_eq!(under.status.signal(), Some(libc::SIGTRAP), "{way}: {}", under.stderr);
        assert_eq!(under.stdout, plain.stdout, "{way}");
    }
}

#[test]
fn a_module_that_masks_signals_by_itself_gets_no_breakpoints() {
    let outcome = under_manx("raw", &[], "");
    outcome.succeeded().waited("wait_by_jump", "jump");
    let sites = outcome.sites("wait_by_trap");
    assert!(sites.iter().all(|site| site["how"] == "left") && !sites.is_empty(), "{:#?}", outcome.report);
}

#[test]
fn breakpoints_come_late_unless_a_thread_has_them_blocked() {
    let library = shared_library("loops");
    let library = library.to_str().expect("a path");
    let open = under_manx("arms", &["open", library], "");
    open.succeeded().waited("wait_by_trap", "trap");
    let blocked = under_manx("arms", &["blocked", library], "");
    blocked.succeeded();
    let sites = blocked.sites("wait_by_trap");
    assert!(sites.iter().all(|site| site["how"] == "left") && !sites.is_empty(), "{:#?}", blocked.report);
    assert!(blocked.sites("wait_by_jump").iter().any(|site| site["how"] == "jump"), "{:#?}", blocked.report);
}

#[test]
fn breakpoints_can_be_forbidden() {
    let outcome = under_manx("masked", &["jump"], "trap=off");
    outcome.succeeded().waited("wait_by_jump", "jump");
    assert!(outcome.sites("wait_by_trap").iter().all(|site| site["how"] == "left"), "{:#?}", outcome.report);
}

#[test]
fn a_site_with_short_waits_is_let_go_until_there_are_more_threads() {
    under_manx("short", &[], "").succeeded().waited("wait_by_trap", "trap");
}

#[test]
fn under_a_debugger_there_are_jumps_only() {
    let program = program("masked");
    let mut debugger = Command::new("gdb");
    debugger.args(["-nx", "-batch", "-ex", "set startup-with-shell off"]);
    // The debugger itself runs without the library.
    let environment = |name: &str, value: &str| format!("set environment {name} {value}");
    let report = common::folder().join("debugged.json");
    debugger.args(["-ex", &environment("LD_PRELOAD", common::library().to_str().expect("a path"))]);
    debugger.args(["-ex", &environment("MANX_OPTIONS", &format!("stats={}", report.display()))]);
    debugger.args(["-ex", "run jump", "-ex", "info program"]).arg(&program);
    let mut outcome = finish(debugger);
    assert!(outcome.stdout.contains("exited normally"), "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains("SIGTRAP"), "{}", outcome.stdout);
    let bytes = std::fs::read(&report).expect("statistics");
    outcome.report = Some(serde_json::from_slice(&bytes).expect("JSON"));
    outcome.waited("wait_by_jump", "jump");
    assert!(outcome.sites("wait_by_trap").iter().all(|site| site["how"] == "left"), "{:#?}", outcome.report);
}

#[test]
fn the_library_off_changes_nothing() {
    let mut command = Command::new(program("views"));
    command.arg("early").env("LD_PRELOAD", common::library()).env("MANX", "off");
    let off = finish(command);
    let mut plain = Command::new(program("views"));
    plain.arg("early");
    assert_eq!(off.succeeded().stdout, finish(plain).stdout);
}
