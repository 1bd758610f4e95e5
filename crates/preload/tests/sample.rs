//! Sampling: threads that spin are slept for, and no text is changed.
#![cfg(target_arch = "x86_64")]

mod common;

use common::under_manx;

#[test]
fn threads_that_spin_are_slept_for() {
    let outcome = under_manx("sampled", &[], "guard=sample");
    outcome.succeeded().waited("wait_by_trap", "sampled");
    let sites = outcome.sites("wait_by_trap");
    assert!(sites.iter().all(|site| site["sleeps"].as_u64() > Some(100)), "{:#?}", outcome.report);
    // Joinable and detached ones, and those of a forked child.
    assert_eq!(outcome.stdout.matches("threads used").count(), 3, "{}", outcome.stdout);
}

#[test]
fn a_program_that_wants_the_signal_gets_it() {
    let outcome = under_manx("sampled", &["takes the signals"], "guard=sample");
    outcome.succeeded().waited("wait_by_trap", "sampled");
}

#[test]
fn sampling_repairs_nothing() {
    let outcome = under_manx("masked", &["trap"], "guard=sample");
    outcome.succeeded();
    let report = outcome.report.as_ref().expect("statistics");
    let sites = report["sites"].as_array().expect("sites");
    assert!(sites.iter().all(|site| site["how"] == "sampled" || site["how"] == "left"), "{report:#?}");
    assert!(!outcome.sites("wait_by_trap").is_empty() && !outcome.sites("wait_by_jump").is_empty());
}
