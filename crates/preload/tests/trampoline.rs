//! What happens in a visit stays invisible: registers, flags and stack are as they were,
//! cancellation unwinds through it, signals may interrupt it. Only a counter is moved on.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{WAYS, under_manx};

#[test]
fn registers_flags_and_the_red_zone_survive_every_stage_of_a_wait() {
    for way in WAYS {
        let function = format!("wait_by_{way}");
        // Few rounds of each stage, so that all are reached in the time that the program gives. On
        // a loaded machine the waiter may come too late for that, so there are some runs.
        let reaches_all = (0..10).any(|_| {
            let outcome = under_manx("state", &[way], "short=always,spins=3,yields=2");
            if outcome.status.code() == Some(77) {
                testing::skip("the CPU has no AVX");
                return true;
            }
            outcome.succeeded().waited(&function);
            let count = |counter: &str| outcome.count(&function, counter);
            assert!(count("waits") <= 20, "at most one a round: {:#?}", outcome.report);
            count("yields") > 0 && count("sleeps") > 0
        });
        assert!(reaches_all, "{way}");
    }
}

#[test]
fn registers_flags_and_the_red_zone_survive_a_wait_while_there_is_room() {
    for way in WAYS {
        let outcome = under_manx("state", &[way], "short=never");
        if outcome.status.code() == Some(77) {
            testing::skip("the CPU has no AVX");
            return;
        }
        outcome.succeeded().waited(&format!("wait_by_{way}"));
    }
}

#[test]
fn a_counter_is_moved_on_wherever_it_is_and_nothing_else_changes() {
    // As it is, each loop takes days.
    let outcome = under_manx("counts", &[], "short=always");
    if outcome.status.code() == Some(77) {
        testing::skip("the CPU has no AVX");
        return;
    }
    outcome.succeeded().waited("down_rax").waited("up_to_r15").waited("down_slot").waited("up_to_memory");
}

#[test]
fn a_thread_that_is_cancelled_in_a_wait_cleans_up() {
    for (way, options) in WAYS.iter().flat_map(|way| [(way, "short=always"), (way, "short=never")]) {
        under_manx("cancel", &[way], options).succeeded().waited(&format!("wait_by_{way}"));
    }
}

#[test]
fn signals_interrupt_a_wait_and_their_handlers_may_wait_too() {
    for (way, options) in WAYS.iter().flat_map(|way| [(way, "short=always"), (way, "short=never")]) {
        under_manx("signals_meanwhile", &[way], options).succeeded().waited(&format!("wait_by_{way}"));
    }
}
