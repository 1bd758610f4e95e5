//! Programs that stand between us and the loader, or leave its lock behind; children that nobody is
//! told of.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{finish, library, ours, preloaded, program, requests_library, run};
use std::process::Command;

/// Whether the C library has `_Fork` (2.34); the reason is printed if not.
fn has_bare_fork() -> bool {
    // SAFETY: looks a name up.
    let there = !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_Fork".as_ptr()) }.is_null();
    if !there {
        testing::skip("this C library has no _Fork");
    }
    there
}

#[test]
fn a_program_with_a_dl_iterate_phdr_of_its_own_is_repaired_and_left_alone() {
    run(Command::new(program("own_iterate")), "").succeeded().waited("wait_by_row");
    for (variable, value) in [("MANX", "off"), ("MANX_OPTIONS", "guard=always,lock=glibc")] {
        let mut command = Command::new(program("own_iterate"));
        command.env("LD_PRELOAD", library()).env(variable, value);
        finish(&mut command).succeeded();
    }
}

#[test]
fn no_library_comes_with_ours() {
    let mut command = preloaded("true", "");
    let outcome = finish(command.env("LD_TRACE_LOADED_OBJECTS", "1"));
    let names = outcome.stdout.lines().filter_map(|line| line.split_whitespace().next()?.rsplit('/').next());
    let mut others: Vec<_> = names.filter(|name| !preload_abi::is_left_alone(name.as_bytes())).collect();
    others.retain(|name| *name != preload_abi::LIBRARY_NAME);
    assert!(others.is_empty(), "{others:?}: each costs every process time at its start");
}

#[test]
fn children_do_not_want_the_loaders_lock() {
    let ours = library().into_os_string().into_string().expect("utf-8");
    let both = format!("{ours}:{}", requests_library().display());
    let reversed = format!("{}:{ours}", requests_library().display());
    for way in ["fork", "_Fork", "clone"] {
        for libraries in [&ours, &both, &reversed] {
            for options in ["", "slo=1000000:9900"] {
                let mut command = preloaded(program("loader_held"), options);
                let outcome = finish(command.arg(way).env("LD_PRELOAD", libraries));
                outcome.holds(&format!("{way}, {libraries}, {options}"));
            }
        }
    }
}

/// Runs a probe of `programs/unannounced.c` in these modes of locking.
#[track_caller]
fn unannounced(probe: &str, modes: &[&str]) {
    for way in ["_Fork", "clone"] {
        for mode in modes {
            let mut command = preloaded(program("unannounced"), &format!("lock={mode}"));
            finish(command.args([probe, way])).holds(&format!("{probe} by {way}, lock={mode}"));
        }
    }
}

#[test]
fn a_child_of_a_search_that_goes_on_asks_for_symbols_and_creates_threads() {
    if has_bare_fork() {
        unannounced("searching", &["manx"]);
    }
}

#[test]
fn a_child_owns_the_mutexes_that_it_locks_and_no_others() {
    if has_bare_fork() {
        unannounced("owner", &ours().collect::<Vec<_>>());
    }
}

#[test]
fn a_child_does_not_stand_in_its_parents_lines() {
    if has_bare_fork() {
        unannounced("waited_for", &ours().collect::<Vec<_>>());
    }
}
