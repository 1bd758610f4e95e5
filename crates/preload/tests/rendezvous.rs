//! Libraries that are opened while threads run: searched before any of their code runs.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{WAYS, compiled_as, folder, program, run, shared_library, under_manx};
use std::path::PathBuf;
use std::process::Command;

/// Runs a probe of `programs/rendezvous.c` with these libraries.
#[track_caller]
fn probe(name: &str, libraries: &[PathBuf], options: &str) -> common::Outcome {
    let mut command = Command::new(program("rendezvous"));
    command.arg(name).args(libraries);
    let outcome = run(command, options);
    outcome.succeeded();
    outcome
}

/// Libraries of different names with the same loops.
fn copies(name: &str, count: usize) -> Vec<PathBuf> {
    let library = shared_library("gives");
    let copy = |number| {
        let path = folder().join(format!("lib{name}-{number}.so"));
        std::fs::copy(&library, &path).expect("a copy");
        path
    };
    (0..count).map(copy).collect()
}

#[test]
fn threads_that_a_constructor_gives_work_to_wait_in_repaired_loops() {
    for options in ["short=always", ""] {
        let outcome = probe("gives", &[shared_library("gives")], options);
        for way in WAYS {
            outcome.waited(&format!("wait_by_{way}"));
        }
    }
}

#[test]
fn libraries_are_opened_at_once_while_threads_are_created() {
    probe("many", &copies("many", 6), "short=always").waited("wait_by_row");
}

#[test]
fn a_constructor_opens_a_library() {
    probe("nested", &[shared_library("nests"), shared_library("gives")], "");
}

#[test]
fn a_library_that_cannot_be_opened_leaves_nothing_behind() {
    probe("fails", &[shared_library("lacks")], "");
}

#[test]
fn a_library_in_a_namespace_of_its_own_is_left_alone() {
    probe("namespace", &[shared_library("gives")], "");
}

#[test]
fn processes_fork_while_libraries_are_opened() {
    probe("forks", &copies("forks", 3), "");
}

#[test]
fn libraries_are_opened_while_the_loaders_list_is_held() {
    probe("callback", &copies("callback", 2), "");
}

#[test]
fn a_thread_with_a_small_stack_opens_a_library() {
    probe("small", &[shared_library("gives")], "");
}

#[test]
fn a_coroutine_with_a_small_stack_creates_the_first_thread() {
    run(Command::new(program("coroutine")), "short=always").succeeded().waited("wait_by_row");
}

#[test]
fn libraries_are_found_where_the_loader_no_longer_calls() {
    probe("traced", &[shared_library("gives")], "short=always").waited("wait_by_whole");
}

#[test]
fn words_that_the_loader_will_write_are_known() {
    for (name, flags) in [("tables", &[][..]), ("text", &["-DTEXT", "-Wl,-z,notext"])] {
        let flags = [&["-O0", "-shared", "-fPIC"], flags].concat();
        let into = compiled_as("relocated", &format!("librelocated-{name}.so"), &flags);
        under_manx("enters", &[into.to_str().expect("utf-8")], "short=always").succeeded();
    }
}
