//! What each kind of lock promises beyond what all mutexes do: who comes next, and what its object
//! says meanwhile.
//!
//! Conformance is looked for in `locks.rs`. Here a probe runs in the modes that make its promise,
//! and nothing is decided by how long something took: a probe looks into `/proc` and into the mutex
//! to see who waits, and how.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{finish, preloaded, program};

/// Runs a probe of `programs/interpose_order.c` in these modes.
#[track_caller]
fn holds(probe: &str, modes: &[&str]) {
    for mode in modes {
        let mut command = preloaded(program("interpose_order"), &format!("lock={mode}"));
        finish(command.arg(probe)).holds(&format!("{probe} under lock={mode}"));
    }
}

#[test]
fn a_queue_serves_in_the_order_of_arrival() {
    holds("in_the_order_of_arrival", &["fifo"]);
}

#[test]
fn no_thread_overtakes_a_waiter_whose_window_is_over() {
    holds("nobody_overtakes_the_starving", &["manx"]);
}

#[test]
fn without_a_bound_nobody_is_starving() {
    holds("nobody_is_ever_starving", &["adaptive", "fifo", "glibc"]);
}

#[test]
fn owners_stand_where_the_c_library_has_them() {
    holds("owners_have_the_kernels_numbers", &["manx", "adaptive", "fifo", "glibc"]);
}

#[test]
fn a_child_does_not_wait_for_its_parents_threads() {
    holds("nobody_waits_for_ghosts", &["manx", "adaptive", "fifo", "glibc"]);
}
