//! Epochs of programs that cannot be linked with anything, and requests that nobody marked.

mod common;

use common::{Outcome, finish, library, manx, program, requests_library};
use std::path::PathBuf;
use std::process::Command;

/// Runs a program under the library, or without it.
fn run(name: &str, argument: &str, options: Option<&str>) -> Outcome {
    let alone = [library()];
    run_under(name, argument, options.map(|options| (&alone[..], options)))
}

/// Runs a program under these libraries, in this order, or without.
fn run_under(name: &str, argument: &str, under: Option<(&[PathBuf], &str)>) -> Outcome {
    let mut command = Command::new(program(name));
    command.arg(argument).env_remove("LD_PRELOAD").env_remove("MANX").env_remove("MANX_OPTIONS");
    if let Some((libraries, options)) = under {
        let preload = std::env::join_paths(libraries).expect("no colons");
        command.env("LD_PRELOAD", preload).env("MANX_OPTIONS", options);
    }
    let outcome = finish(&mut command);
    outcome.succeeded();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""), "nothing is said unasked");
    outcome
}

#[test]
fn without_the_library_epochs_are_nothing() {
    run("epochs", "alone", None);
}

#[test]
fn epochs_have_windows_whatever_the_locks() {
    for lock in ["manx", "asl", "fifo", "glibc"] {
        run("epochs", "windows", Some(&format!("lock={lock}")));
    }
}

#[test]
fn targets_of_the_options_replace_the_programs() {
    run("epochs", "overridden", Some("slo=7:0:9900+8:5:9900+8:1000000000:9000"));
}

#[test]
fn handlers_of_signals_that_begin_epochs_break_nothing() {
    run("epochs", "interrupted", Some("lock=asl"));
}

#[test]
fn threads_that_end_give_their_memory_back() {
    run("epochs", "threads", Some("lock=manx"));
}

#[test]
fn requests_are_seen_if_there_is_a_target() {
    let (ours, theirs) = (library(), requests_library());
    for libraries in [[ours.clone(), theirs.clone()], [theirs, ours]] {
        let run = |argument, options| run_under("requests", argument, Some((&libraries, options)));
        run("unseen", "lock=manx");
        run("unseen", "slo=7:1000000:9900");
        run("seen", "slo=1000000:9900");
        run("seen", "guard=off,lock=asl,slo=7:0:9900+1000000:5000");
    }
}

#[test]
fn without_the_second_library_nothing_of_reading_and_writing_is_ours() {
    run("requests", "unseen", None);
    run("requests", "unseen", Some("lock=manx"));
    run("requests", "unseen", Some("slo=1000000:9900"));
}

#[test]
fn manx_run_adds_the_second_library_if_there_is_a_target_for_requests() {
    let run = |options: &[&str], argument: &str| {
        let Some(mut command) = manx() else { return };
        command.arg("run").args(options).arg("--").arg(program("requests")).arg(argument);
        finish(&mut command).succeeded();
    };
    run(&["--slo", "1ms"], "seen");
    run(&["--slo", "7=1ms"], "unseen");
    run(&[], "unseen");
}
