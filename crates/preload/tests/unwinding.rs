//! A backtrace of a thread that waits in the copy of a loop shows the program's own functions.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Outcome, finish, library, program, under_manx};
use std::process::Command;

/// Runs a program under the library without statistics, so that copies spin rounds by themselves.
fn plainly(name: &str, arguments: &[&str], options: &str) -> Outcome {
    let mut command = Command::new(program(name));
    command.args(arguments);
    command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", options).env_remove("MANX");
    finish(&mut command)
}

/// What `backtraces` says of one shape.
struct Shape {
    name: String,
    seen: u64,
    in_copies: u64,
    in_library: u64,
    missing: u64,
    missing_outside: u64,
}

/// Each thread waits once. On its way to the copy it may pass dead padding, for which there are no
/// unwind data: one miss a thread.
const THREADS: u64 = 3;

fn shapes(outcome: &Outcome) -> Vec<Shape> {
    let line = |line: &str| {
        let (name, rest) = line.split_once(": ")?;
        let mut numbers = rest.split(' ').filter_map(|word| word.parse().ok());
        let mut next = || numbers.next();
        Some(Shape {
            name: name.to_owned(),
            seen: next()?,
            in_copies: next()?,
            in_library: next()?,
            missing: next()?,
            missing_outside: next()?,
        })
    };
    let all: Vec<_> = outcome.stdout.lines().filter_map(line).collect();
    assert_eq!(all.len(), 7, "{}", outcome.stdout);
    all
}

#[test]
fn a_profilers_signals_find_the_callers_of_every_wait() {
    for options in ["short=never", "short=always", ""] {
        for unwinder in ["libc", "libgcc"] {
            let outcome = plainly("backtraces", &["signals", unwinder], options);
            for shape in shapes(outcome.succeeded()) {
                assert_eq!(shape.missing, 0, "{} ({options}, {unwinder}): {}", shape.name, outcome.stdout);
                assert!(shape.missing_outside <= THREADS, "{}", outcome.stdout);
                assert!(shape.seen >= THREADS * 300, "{}", outcome.stdout);
                // Most of a round of calls is in the program.
                let most = if shape.name == "calls" { 40 } else { 400 };
                let enough = if options == "short=never" { most } else { 0 };
                assert!(shape.in_copies >= enough, "{}", outcome.stdout);
            }
        }
    }
}

#[test]
fn after_every_instruction_of_a_wait_the_callers_are_found() {
    for options in ["short=never", "short=always", "short=always,spins=0,yields=1"] {
        let outcome = plainly("backtraces", &["steps", "libgcc"], options);
        for shape in shapes(outcome.succeeded()) {
            assert_eq!(shape.missing, 0, "{} ({options}): {}", shape.name, outcome.stdout);
            assert!(shape.missing_outside <= THREADS, "{}", outcome.stdout);
            let reached = shape.in_copies >= 100 && shape.in_library >= 100;
            assert!(reached, "{} ({options}): {}", shape.name, outcome.stdout);
        }
    }
}

#[test]
fn exceptions_arrive_while_others_wait() {
    for options in ["short=never", "short=always"] {
        plainly("throws", &[], options).succeeded();
    }
    under_manx("throws", &[], "short=never").succeeded().waited("wait_here");
}

#[test]
fn a_handler_in_a_cold_part_comes_back_behind_a_wait() {
    for options in ["short=never", "short=always", "short=always,guard=always"] {
        plainly("cold", &[], options).succeeded();
    }
}

#[test]
fn a_thread_that_is_cancelled_in_a_copy_cleans_up() {
    for options in ["short=never", "short=never,spins=100000"] {
        plainly("throws", &["cancel"], options).succeeded();
        plainly("cancel", &["row"], options).succeeded();
    }
}

#[test]
fn perf_is_told_of_copies_if_it_is_asked_for() {
    for (options, expected) in [("perf_map=on,short=never", true), ("short=never", false)] {
        let mut command = Command::new(program("throws"));
        command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", options).env_remove("MANX");
        let child = command.spawn().expect("a program");
        let map = std::path::PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
        assert!(child.wait_with_output().expect("its end").status.success());
        let lines = std::fs::read_to_string(&map).unwrap_or_default();
        let _ = std::fs::remove_file(&map);
        let named = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            let numbers = words.iter().take(2).all(|word| usize::from_str_radix(word, 16).is_ok());
            words.len() == 3 && numbers && words[2].starts_with("manx:program+0x")
        };
        assert_eq!(lines.lines().any(named), expected, "{options}: {lines}");
        assert!(expected || lines.is_empty(), "{options}: {lines}");
    }
}
