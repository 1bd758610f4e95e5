//! Functions of the C library in which threads wait busily: `pthread_spin_lock` and `sched_yield`.
//! And when a release yields.
//!
//! Whether CPUs are short is said by the option `short`, and whether a thread slept by the kernel's
//! count, so nothing is decided by how long something took.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{finish, preloaded, program};

/// Runs a probe of a program with these options.
#[track_caller]
fn holds(name: &str, probe: &str, options: &str) {
    let mut command = preloaded(program(name), options);
    finish(command.arg(probe)).holds(&format!("{probe} under {options}"));
}

/// Every answer to whether CPUs are short, and the guard off.
const ANSWERS: [&str; 4] = ["short=auto", "short=always", "short=never", "guard=off"];

#[test]
fn spin_locks_exclude_all_threads() {
    for answer in ANSWERS {
        holds("spin_locks", "both_exclude_each_other", answer);
        holds("spin_locks", "codes", answer);
        holds("spin_locks", "processes_share_a_lock", answer);
    }
}

#[test]
fn a_waiter_for_a_spin_lock_sleeps_while_cpus_are_short() {
    holds("spin_locks", "a_waiter_sleeps", "short=always");
}

#[test]
fn a_waiter_for_a_spin_lock_spins_while_there_is_room() {
    for options in ["short=never", "guard=off", "short=always,guard=off"] {
        holds("spin_locks", "a_waiter_spins", options);
    }
}

#[test]
fn a_real_time_waiter_for_a_spin_lock_lets_its_holder_run() {
    holds("spin_locks", "a_real_time_waiter_lets_the_holder_run", "short=always");
}

#[test]
fn no_thread_is_kept_out_of_a_spin_lock() {
    for answer in ["short=auto", "short=always"] {
        holds("spin_locks", "nobody_is_kept_out", answer);
    }
}

#[test]
fn a_loop_of_yields_sleeps_while_cpus_are_short() {
    holds("yields", "a_loop_of_yields_sleeps", "short=always");
    holds("yields", "the_other_names_sleep", "short=always");
}

#[test]
fn a_loop_of_yields_is_left_alone_while_there_is_room() {
    for options in ["short=never", "guard=off", "short=always,guard=off"] {
        holds("yields", "a_loop_of_yields_does_not_sleep", options);
    }
}

#[test]
fn yields_with_a_lock_in_between_do_not_sleep() {
    for lock in ["manx", "asl", "glibc"] {
        let options = format!("short=always,lock={lock}");
        holds("yields", "a_lock_in_between_is_work", &options);
    }
    for probe in ["two_places_are_no_loop", "work_in_between_is_work", "a_real_time_thread_does_not_sleep"] {
        holds("yields", probe, "short=always");
    }
}

#[test]
fn a_release_does_not_yield_while_its_thread_holds_another_lock() {
    for lock in ["manx", "asl"] {
        for probe in ["with_a_mutex", "with_a_spin_lock"] {
            holds("held_yields", probe, &format!("guard=off,lock={lock}"));
        }
    }
}
