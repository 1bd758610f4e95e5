//! How threads wait at a repaired loop: in stages, for one wait at a time, as asked for.
#![cfg(target_arch = "x86_64")]

mod common;

use common::under_manx;

#[test]
fn thousands_of_short_waits_in_a_row_are_not_one_long_wait() {
    let outcome = under_manx("turns", &[], "");
    outcome.succeeded().waited("wait_by_jump", "jump");
    let site = outcome.sites("wait_by_jump")[0];
    let count = |name: &str| site[name].as_u64().expect("a number");
    // Each of the 40,000 turns is at most one wait. If rounds were counted across waits, the thousandth
    // turn would sleep, and all behind it.
    assert!(count("waits") > 100, "{site}");
    assert!(count("sleeps") < count("waits"), "{site}");
}

#[test]
fn the_numbers_of_the_options_are_kept() {
    // Straight to sleep: no spin, no yield.
    let outcome = under_manx("masked", &["jump"], "spins=0,yields=0,step_us=50,ceiling_us=200");
    outcome.succeeded().waited("wait_by_jump", "jump");
    let site = outcome.sites("wait_by_jump")[0];
    assert_eq!(site["yields"], 0, "{site}");
    assert!(site["sleeps"].as_u64() > Some(0), "{site}");
}

#[test]
fn off_means_that_nothing_is_touched() {
    for options in ["guard=off", "guard=off,verbose=1"] {
        let outcome = under_manx("turns", &[], options);
        outcome.succeeded();
        assert!(outcome.report.is_none() && outcome.stderr.is_empty(), "{}", outcome.stderr);
    }
}

#[test]
fn nothing_is_said_unless_asked() {
    let quiet = under_manx("turns", &[], "nonsense=1");
    quiet.succeeded();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("40000\n", ""));
    let verbose = under_manx("turns", &[], "verbose=1,nonsense=1");
    assert!(verbose.succeeded().stderr.contains("nonsense=1"), "{}", verbose.stderr);
    assert_eq!(verbose.stdout, "40000\n");
}

#[test]
fn a_real_time_thread_sleeps_instead_of_yielding() {
    let outcome = under_manx("realtime", &[], "");
    if outcome.status.code() == Some(77) {
        println!("skipped: no right to a real-time class: {}", outcome.stderr);
        return;
    }
    outcome.succeeded().waited("wait_by_jump", "jump");
    let site = outcome.sites("wait_by_jump")[0];
    assert_eq!(site["yields"], 0, "{site}");
    assert!(site["sleeps"].as_u64() > Some(0), "{site}");
}

#[test]
fn a_loop_that_cannot_be_repaired_is_named_when_asked() {
    // This loop has no room for a jump, and breakpoints are forbidden.
    let quiet = under_manx("masked", &["jump"], "trap=off");
    assert!(quiet.succeeded().stderr.is_empty(), "{}", quiet.stderr);
    let verbose = under_manx("masked", &["jump"], "trap=off,verbose=1");
    let stderr = &verbose.succeeded().stderr;
    assert!(
        stderr.contains("masked: the busy-wait loop at 0x") || stderr.contains("the program: "),
        "{stderr}"
    );
    let left = verbose.sites("wait_by_trap")[0];
    assert_eq!(left["how"], "left", "{left}");
}
