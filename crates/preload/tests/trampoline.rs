//! What happens between a PAUSE and the instruction behind it stays invisible: registers, flags and stack
//! are as they were, cancellation unwinds through it, signals may interrupt it.
#![cfg(target_arch = "x86_64")]

mod common;

use common::under_manx;

#[test]
fn registers_flags_and_the_red_zone_survive_every_stage_of_a_wait() {
    for how in ["jump", "trap"] {
        // Few rounds of each stage, so that all are reached in the time that the program gives.
        let outcome = under_manx("state", &[how], "spins=3,yields=2");
        if outcome.status.code() == Some(77) {
            println!("skipped: the CPU has no AVX");
            return;
        }
        let function = format!("wait_by_{how}");
        outcome.succeeded().waited(&function, how);
        let site = outcome.sites(&function)[0];
        assert!(site["yields"].as_u64() > Some(0) && site["sleeps"].as_u64() > Some(0), "{site}");
        assert!((1..=20).contains(&site["waits"].as_u64().expect("a number")), "at most one a round: {site}");
    }
}

#[test]
fn a_thread_that_is_cancelled_in_a_wait_cleans_up() {
    for how in ["jump", "trap"] {
        under_manx("cancel", &[how], "").succeeded().waited(&format!("wait_by_{how}"), how);
    }
}

#[test]
fn signals_interrupt_a_wait_and_their_handlers_may_wait_too() {
    for how in ["jump", "trap"] {
        under_manx("signals_meanwhile", &[how], "").succeeded().waited(&format!("wait_by_{how}"), how);
    }
}
