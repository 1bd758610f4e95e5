//! Mutexes and condition variables behave as the C library's do, whichever lock they become.
//!
//! Each probe is a function of a program in `programs/lock_*`, and runs six times: without Manx,
//! where the C library must pass, which shows that the probe asks for nothing that it should not;
//! and under each `lock=`. What they look for is what interposers are known to break: see the
//! names.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{finish, folder, library, modes, preloaded, program, program_with, shared_library};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs one probe without Manx and in every mode.
fn probe(program: &Path, name: &str, arguments: &[PathBuf]) {
    let command = || {
        let mut command = Command::new(program);
        command
            .arg(name)
            .args(arguments)
            .env_remove("LD_PRELOAD")
            .env_remove("MANX_OPTIONS")
            .env_remove("MANX");
        command
    };
    finish(&mut command()).holds(&format!("{name} without Manx"));
    for mode in modes() {
        let mut command = command();
        command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", format!("lock={mode}"));
        // Threads on one of the CPUs let those on the others pass.
        command.env("MANX_CORES", "little:0");
        finish(&mut command).holds(&format!("{name} under lock={mode}"));
    }
}

/// A test for each probe of a program, and one that none is forgotten here.
macro_rules! probes {
    ($module:ident: $program:expr, $arguments:expr; $($name:ident),* $(,)?) => {
        mod $module {
            use super::*;

            #[test]
            fn every_probe_is_run() {
                let mut list = Command::new($program);
                list.arg("--list");
                let listed = finish(&mut list);
                assert_eq!(listed.stdout.split_whitespace().collect::<Vec<_>>(), [$(stringify!($name)),*]);
            }

            $(
                #[test]
                fn $name() {
                    let arguments: &[PathBuf] = &$arguments;
                    probe(&$program, stringify!($name), arguments);
                }
            )*
        }
    };
}

probes! { codes: program("lock_codes"), [];
    static_initialisers,
    zero_filled_memory,
    reinitialised_after_destroy,
    reinitialised_without_destroy,
    codes_normal_and_adaptive,
    codes_errorcheck,
    codes_recursive,
    recursion_overflows,
    destroy_while_locked,
    trylock_from_elsewhere,
    attribute_functions,
    errno_is_preserved,
}

probes! { times: program("lock_times"), [];
    timedlock_expires_not_early,
    timedlock_bad_nanoseconds,
    deadlines_in_the_past,
    clocklock_invalid_clock,
    timedlock_acquires_on_release,
    timeouts_race_with_releases,
    signals_do_not_end_a_wait,
}

probes! { exclusion: program("lock_exclusion"), [];
    exclusion_normal,
    exclusion_recursive,
    exclusion_errorcheck,
    exclusion_adaptive,
    holds_longer_than_the_window,
    recursion_under_contention,
    memory_of_every_kind,
    unlock_then_unmap_by_the_next_owner,
    rwlocks_spinlocks_and_barriers,
    five_thousand_threads,
    more_than_ten_thousand_threads_ever,
    with_a_realtime_thread,
}

probes! { steps: program("lock_steps"), Vec::new();
    unlock_while_somebody_tries,
    unlock_while_somebody_waits,
}

probes! { cond: program("lock_cond"), [];
    signal_wakes,
    broadcast_wakes_all,
    zero_filled_and_reinitialised,
    signals_are_not_remembered,
    timedwait_expires_with_the_mutex_held,
    attribute_clock_is_kept,
    clockwait_by_both_clocks,
    clockwait_releases_the_mutex_and_is_woken,
    any_kind_of_mutex,
    mutex_that_is_not_held,
    freed_right_after_broadcast,
    timeouts_race_with_signals,
    every_item_passes_once,
    signals_do_not_end_a_wait_with_an_error,
}

probes! { cancel: program("lock_cancel"), [];
    cancelled_in_wait,
    cancelled_in_timedwait,
    cancelled_in_clockwait,
    cancelled_before_the_wait,
    disabled_cancellation_waits,
    the_type_of_cancellation_is_kept,
    to_lock_is_no_cancellation_point,
    no_wake_up_is_lost,
}

probes! { stopped: program("lock_stopped"), [];
    trylock_while_a_waiter_is_stopped,
    short_limits_while_a_waiter_is_stopped,
    a_waiter_jumps_out_of_its_wait,
    a_waiter_is_cancelled_in_its_wait,
}

probes! { shared: program("lock_shared"), [];
    processes_lose_no_updates,
    condition_variable_across_processes,
    robust_owner_died,
    robust_across_processes,
    robust_in_a_wait,
    priority_inheritance,
    priority_ceiling,
    fork_while_others_hold,
    fork_by_the_holder_while_others_wait,
    fork_from_threads_among_locks,
}

probes! { c11: program("lock_c11"), [];
    plain,
    timed,
    recursive,
    results,
    conditions,
    recursive_in_a_wait,
    destroyed_right_after_broadcast,
    mixed_with_posix,
    cancelled,
    called_once,
}

probes! { cpp: program("lock_cpp"), [];
    mutex,
    condition_variable_wait_for,
    condition_variable_wait_until,
    timed_mutex,
    recursive_mutex,
    shared_mutex,
    any_lock_and_exceptions,
    futures_and_once,
}

probes! { loaded: loaded_program(), [shared_library("lock_deep"), shared_library("lock_plugin")];
    constructors_before_ours,
    destructors_after_ours,
    opened_library_locks,
    deep_binding_library_locks_the_same_mutex,
    every_symbol_version,
    old_condition_variables,
    looked_up_explicitly,
    signals_reach_waiters_of_a_deep_binding_library,
    conditions_looked_up_explicitly_are_the_same,
    locked_before_dlopen_unlocked_after,
    the_c_librarys_own_locks,
}

/// A program linked against a library whose constructor locks before any other's.
fn loaded_program() -> PathBuf {
    let early = shared_library("lock_early");
    let rpath = format!("-Wl,-rpath,{}", folder().display());
    program_with("lock_loaded", &[early.to_str().expect("utf-8"), &rpath, "-ldl"])
}

/// Runs a probe with `libraries` preloaded in this order; returns what it wrote.
fn preloaded_with(program: &Path, probe: &str, libraries: [PathBuf; 2], mode: &str) -> String {
    let mut command = Command::new(program);
    let list = libraries.map(|path| path.to_str().expect("utf-8").to_owned()).join(":");
    command.arg(probe).env("LD_PRELOAD", list).env("MANX_OPTIONS", format!("lock={mode}"));
    command.env("LOCK_WRAP_SAYS", "1").env_remove("MANX");
    let outcome = finish(&mut command);
    outcome.holds(&format!("{probe} preloaded with another library, lock={mode}"));
    outcome.stdout
}

#[test]
fn another_library_that_wraps_the_same_functions() {
    let wrap = || shared_library("lock_wrap");
    let times = |stdout: &str| -> u64 {
        let count = stdout.trim().strip_prefix("asked ").unwrap_or_else(|| panic!("{stdout}"));
        count.parse().expect("a number")
    };
    for mode in modes() {
        for (name, probe, least) in [
            ("lock_exclusion", "exclusion_recursive", 10_000),
            ("lock_cond", "every_item_passes_once", 30_000),
        ] {
            // In front of ours it is asked, and passes on to us.
            let front = preloaded_with(&program(name), probe, [wrap(), library()], mode);
            assert!(times(&front) > least, "{front}");
            // Behind ours it is not in the way: what is ours goes no further.
            preloaded_with(&program(name), probe, [library(), wrap()], mode);
        }
    }
}

#[test]
fn another_library_whose_constructor_locks_first() {
    let early = || shared_library("lock_early");
    for mode in modes() {
        for libraries in [[early(), library()], [library(), early()]] {
            preloaded_with(&program("lock_codes"), "reinitialised_after_destroy", libraries, mode);
        }
    }
}

#[test]
fn switched_off_or_misspelt_everything_still_works() {
    for (variable, value) in [("MANX", "off"), ("MANX_OPTIONS", "guard=off"), ("MANX_OPTIONS", "lock=mcs")] {
        for (name, probe) in [
            ("lock_codes", "static_initialisers"),
            ("lock_exclusion", "exclusion_normal"),
            ("lock_cond", "signal_wakes"),
        ] {
            let mut command = Command::new(program(name));
            command.arg(probe).env_remove("MANX").env_remove("MANX_OPTIONS").env("LD_PRELOAD", library());
            command.env(variable, value);
            finish(&mut command).holds(&format!("{probe} with {variable}={value}"));
        }
    }
}

#[test]
fn a_library_with_functions_of_c11s_names_keeps_them() {
    let other = shared_library("lock_tiny");
    let rpath = format!("-Wl,-rpath,{}", folder().display());
    let program = program_with("lock_other_c11", &[other.to_str().expect("utf-8"), &rpath]);
    for mode in modes() {
        let mut command = preloaded(&program, &format!("lock={mode}"));
        finish(&mut command).holds(&format!("lock_other_c11 under lock={mode}"));
    }
}

#[test]
fn the_functions_are_ours_in_every_mode() {
    for mode in modes() {
        let outcome = finish(&mut preloaded(program("lock_ours"), &format!("lock={mode}")));
        outcome.succeeded();
        for line in outcome.stdout.lines() {
            assert!(line.ends_with("libmanx_preload.so"), "lock={mode}: {line}");
        }
        assert!(outcome.stdout.lines().count() > 12, "{}", outcome.stdout);
    }
}
