//! Text that a debugger, or another tool, has changed before the guard looks at it: the program
//! behaves as without the guard, and nothing of the change is kept.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{WAYS, under_manx};

/// Why a loop is left alone whose text was changed.
const CHANGED: &str = "its text is not as its file has it";
/// How many instructions a round has, by the way into the copy.
const INSTRUCTIONS: [usize; 3] = [3, 4, 6];

#[test]
fn a_loop_with_a_breakpoint_is_left_alone_and_the_debugger_gets_its_trap() {
    for instruction in 0..6 {
        let outcome = under_manx("breakpoints", &[&instruction.to_string()], "short=always");
        outcome.succeeded();
        for (way, instructions) in WAYS.iter().zip(INSTRUCTIONS) {
            let function = format!("wait_by_{way}");
            if instruction >= instructions {
                outcome.waited(&function);
                continue;
            }
            let site = outcome.sites(&function)[0];
            assert_eq!((&site["how"], &site["reason"]), (&"left".into(), &CHANGED.into()), "{instruction}");
        }
    }
}

#[test]
fn a_breakpoint_hides_no_jump_into_the_middle_of_a_loop() {
    let [with, without] = ["jump", "nothing"].map(|how| {
        let outcome = under_manx("breakpoints", &[how], "short=always");
        outcome.succeeded().waited("wait_by_row");
        let site = outcome.sites("wait_entered")[0];
        [&site["how"], &site["reason"]].map(|value| value.to_string())
    });
    assert_eq!(with, without);
}

#[test]
fn what_another_tool_has_made_of_a_loop_stays() {
    let outcome = under_manx("breakpoints", &["patch"], "short=always");
    outcome.succeeded();
    assert_eq!(outcome.sites("wait_by_row")[0]["reason"], CHANGED);
}

#[test]
fn a_loop_with_a_probe_of_the_kernel_is_left_alone_and_the_probe_counts() {
    let outcome = under_manx("breakpoints", &["probe"], "short=always");
    if outcome.status.code() == Some(77) {
        testing::skip(outcome.stderr.trim());
        return;
    }
    outcome.succeeded().waited("wait_by_whole");
    assert_eq!(outcome.sites("wait_by_row")[0]["reason"], CHANGED);
}
