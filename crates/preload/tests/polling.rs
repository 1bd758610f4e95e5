//! Programs that wait by calling `opal_progress` of Open MPI again and again. The tests' own
//! library stands for Open MPI's.
//!
//! Whether CPUs are short is said by the option `short`, and whether a thread slept by the kernel's
//! count.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Outcome, folder, program, run, shared_library};
use std::process::Command;

/// Runs a probe of `programs/polls.c` with these options.
#[track_caller]
fn holds(probe: &str, options: &str) -> Outcome {
    holds_by("opal_progress", probe, options)
}

/// The same; the probe polls by this function of the library.
#[track_caller]
fn holds_by(function: &str, probe: &str, options: &str) -> Outcome {
    let library = shared_library("progress");
    let other = folder().join("libprogress-2.so");
    if !other.exists() {
        std::fs::copy(&library, &other).expect("a copy");
    }
    let mut command = Command::new(program("polls"));
    command.arg(probe).env("POLLED", format!("{}:{}", library.display(), other.display()));
    command.env("POLLED_BY", function);
    let outcome = run(command, options);
    outcome.holds(&format!("{probe} under {options}"));
    outcome
}

#[test]
fn a_thread_that_polls_beside_one_that_works_sleeps_while_cpus_are_short() {
    let outcome = holds("sleeps_beside_work", "short=always");
    outcome.waited("opal_progress");
    assert!(outcome.count("opal_progress", "sleeps") > 0 && outcome.count("opal_progress", "yields") > 0);
}

#[test]
fn a_function_that_the_user_names_is_polled() {
    for name in ["libprogress.so:advance", "libprog*.so:adv*", "libprogress*:advance+libother.so:advance"] {
        let outcome = holds_by("advance", "sleeps_beside_work", &format!("short=always,poll={name}"));
        assert!(outcome.count("advance", "sleeps") > 0, "{name}");
    }
    for options in ["", ",poll=libother.so:advance", ",poll=libprogress.so:opal_progress"] {
        holds_by("advance", "does_not_sleep", &format!("short=always{options}"));
    }
    // The known name stays.
    holds("sleeps_beside_work", "short=always,poll=libprogress.so:advance");
}

#[test]
fn a_function_that_polls_within_a_round_of_another_does_not_end_its_row() {
    let outcome = holds_by("other_worker_progress", "sleeps_beside_work", "short=always");
    let sleeps = |function| outcome.count(function, "sleeps");
    assert!(sleeps("other_worker_progress") + sleeps("opal_progress") > 0);
}

#[test]
fn polling_is_left_alone_while_there_is_room_or_without_the_guard() {
    for options in ["short=never", "guard=off", "short=always,guard=off"] {
        holds("does_not_sleep", options);
    }
}

#[test]
fn polling_is_left_alone_where_it_is_not_meant() {
    for filter in ["not=libprogress.so", "not=libprogress.so:opal_progress", "not=polls", "only=libother.so"]
    {
        holds("does_not_sleep", &format!("short=always,{filter}"));
    }
    holds("sleeps_beside_work", "short=always,only=libprogress.so:opal_progress");
}

#[test]
fn each_call_arrives_whatever_is_known_of_the_cpus() {
    holds("waits", "short=auto");
}

#[test]
fn a_library_that_is_opened_while_threads_run_is_cured() {
    holds("opened_later", "short=always");
}

#[test]
fn two_pollers_on_one_cpu_yield_to_each_other() {
    for options in ["short=always", "short=auto,trial=always-cure"] {
        holds("two_take_turns", options);
    }
}

#[test]
fn calls_that_work_are_no_wait() {
    holds("work_is_no_wait", "short=always");
}

#[test]
fn a_real_time_thread_that_polls_does_not_sleep() {
    holds("a_real_time_thread_does_not_sleep", "short=always");
}

#[test]
fn two_copies_of_the_library_stay_apart() {
    holds("copies_are_apart", "short=always");
}

#[test]
fn the_child_of_a_fork_polls() {
    holds("a_child_polls", "short=always");
}

#[test]
fn a_program_without_open_mpi_sees_no_such_function() {
    for options in ["short=always", "guard=always", "guard=off"] {
        holds("the_name_is_the_librarys", options);
    }
}

#[test]
fn a_loop_that_calls_a_function_which_finds_nothing_sleeps_while_cpus_are_short() {
    holds("a_loop_of_calls_sleeps", "short=always");
    for options in ["short=never", "short=always,not=polls", "guard=off"] {
        holds("a_loop_of_calls_does_not_sleep", options);
    }
}
