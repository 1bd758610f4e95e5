//! Epochs of programs that cannot be linked with anything, and requests that nobody marked.

mod common;

use common::{Outcome, finish, library, program};
use std::process::Command;

/// Runs a program under the library, or without it.
fn run(name: &str, argument: &str, options: Option<&str>) -> Outcome {
    let mut command = Command::new(program(name));
    command.arg(argument).env_remove("LD_PRELOAD").env_remove("MANX").env_remove("MANX_OPTIONS");
    if let Some(options) = options {
        command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", options);
    }
    let outcome = finish(command);
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
    run("requests", "unseen", None);
    run("requests", "unseen", Some("lock=manx"));
    run("requests", "unseen", Some("slo=7:1000000:9900"));
    run("requests", "seen", Some("slo=1000000:9900"));
    run("requests", "seen", Some("guard=off,lock=asl,slo=7:0:9900+1000000:5000"));
}
