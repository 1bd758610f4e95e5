//! How threads wait at a repaired loop: in stages, for one wait at a time, as asked for.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{WAYS, finish, folder, library, program, under_manx};
use std::process::Command;

#[test]
fn thousands_of_short_waits_in_a_row_are_not_one_long_wait() {
    for options in ["short=always", ""] {
        let outcome = under_manx("turns", &["20000"], options);
        outcome.succeeded().waited("wait_by_row");
        let count = |name: &str| outcome.count("wait_by_row", name);
        // Each of the 40,000 turns is at most one wait. If rounds were counted across waits, the
        // thousandth turn would sleep, and all behind it.
        assert!(count("waits") > 100, "{options}: {:#?}", outcome.report);
        assert!(count("sleeps") < count("waits"), "{options}: {:#?}", outcome.report);
    }
}

#[test]
fn the_numbers_of_the_options_are_kept() {
    // Straight to sleep: no spin, no yield.
    let options = "short=always,spins=0,yields=0,sleep_step_us=50,sleep_max_us=200";
    let outcome = under_manx("masked", &["row"], options);
    outcome.succeeded().waited("wait_by_row");
    assert_eq!(outcome.count("wait_by_row", "yields"), 0, "{:#?}", outcome.report);
    assert!(outcome.count("wait_by_row", "sleeps") > 0, "{:#?}", outcome.report);
}

#[test]
fn each_way_leads_into_a_copy_alone_and_while_threads_run() {
    for (threads, options) in [("alone", "short=always"), ("crowded", "short=always"), ("crowded", "")] {
        let outcome = under_manx("ways", &[threads], options);
        outcome.succeeded().waited("wait_by_whole").waited("wait_by_short");
        let (row, none) = (outcome.sites("wait_by_row")[0], outcome.sites("wait_in_no_way")[0]);
        assert_eq!(
            (&row["how"], &none["how"]),
            (&["jump", "left"][usize::from(threads != "alone")].into(), &"left".into())
        );
    }
}

#[test]
fn waits_without_a_bound_yield_and_sleep_while_cpus_are_short() {
    // One CPU, and a thread that waits for one that sleeps: some hundred microseconds a wait.
    for way in WAYS {
        let function = format!("wait_by_{way}");
        // On a loaded machine the worker may get its CPU too late to wait for long, so there are
        // some runs.
        let yields_and_sleeps = (0..10).any(|_| {
            let outcome = under_manx("masked", &[way], "short=always,spins=0,yields=1");
            outcome.succeeded();
            ["yields", "sleeps"].iter().all(|counter| outcome.count(&function, counter) > 0)
        });
        assert!(yields_and_sleeps, "{way}");
    }
}

#[test]
fn while_they_are_not_nothing_yields_or_sleeps() {
    for way in WAYS {
        let function = format!("wait_by_{way}");
        let outcome = under_manx("masked", &[way], "short=never,spins=0,yields=0");
        outcome.succeeded().waited(&function);
        for counter in ["yields", "sleeps"] {
            assert_eq!(outcome.count(&function, counter), 0, "{counter}: {:#?}", outcome.report);
        }
    }
}

#[test]
fn off_means_that_nothing_is_touched() {
    for options in ["guard=off", "guard=off,verbose=1"] {
        let outcome = under_manx("turns", &[], options);
        outcome.succeeded();
        assert!(outcome.report.is_none() && outcome.stderr.is_empty(), "{}", outcome.stderr);
    }
    let mut off = Command::new(program("turns"));
    let report = folder().join("off.json");
    off.env("LD_PRELOAD", library()).env("MANX", "off");
    off.env("MANX_OPTIONS", format!("verbose=1,stats={}", report.display()));
    let off = finish(&mut off);
    assert_eq!((off.succeeded().stdout.as_str(), off.stderr.as_str()), ("200\n", ""));
    assert!(!report.exists());
}

#[test]
fn nothing_is_said_unless_asked() {
    let quiet = under_manx("turns", &[], "nonsense=1");
    quiet.succeeded();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("200\n", ""));
    let verbose = under_manx("turns", &[], "verbose=1,nonsense=1");
    assert!(verbose.succeeded().stderr.contains("nonsense=1"), "{}", verbose.stderr);
    assert_eq!(verbose.stdout, "200\n");
}

#[test]
fn a_real_time_thread_sleeps_instead_of_yielding() {
    let outcome = under_manx("realtime", &[], "short=always");
    if outcome.status.code() == Some(77) {
        testing::skip(format_args!("no right to a real-time class: {}", outcome.stderr));
        return;
    }
    outcome.succeeded().waited("wait_by_row");
    assert_eq!(outcome.count("wait_by_row", "yields"), 0, "{:#?}", outcome.report);
    assert!(outcome.count("wait_by_row", "sleeps") > 0, "{:#?}", outcome.report);
}

#[test]
fn a_loop_that_cannot_be_repaired_is_named_when_asked() {
    let quiet = under_manx("ways", &["alone"], "");
    assert!(quiet.succeeded().stderr.is_empty(), "{}", quiet.stderr);
    let verbose = under_manx("ways", &["alone"], "verbose=1");
    let stderr = &verbose.succeeded().stderr;
    assert!(
        stderr.contains("ways: the busy-wait loop at 0x") || stderr.contains("the program: "),
        "{stderr}"
    );
    let left = verbose.sites("wait_in_no_way")[0];
    assert_eq!(left["how"], "left", "{left}");
}
