//! Each lock beneath a program's pthread mutexes: exclusion, conditions, forks, and what is the C
//! library's.
//!
//! `programs/stress.c` checks what its holders see, with more threads than CPUs. It passes on the C
//! library's mutexes, and then on each lock's.

mod common;

use std::process::Command;
use workload::engine::rival;

const PARTS: [&str; 5] = ["exclusion", "kinds", "conditions", "forks", "shared"];

/// Runs a part of the program with these variables.
fn passes(part: &str, lock: Option<&str>) {
    let mut command = Command::new(common::program());
    command.arg(part);
    if let Some(lock) = lock {
        command.env("LD_PRELOAD", common::library()).env(rival::VARIABLE, lock);
    }
    let ended = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{part} with {lock:?}: {:?}\n{said}", ended.status);
    assert_eq!(ended.stdout, b"well\n", "{part} with {lock:?}");
}

#[test]
fn the_c_librarys_own_mutexes_pass() {
    PARTS.iter().for_each(|part| passes(part, None));
}

#[test]
fn each_lock_excludes() {
    for lock in rival::LOCKS {
        PARTS.iter().for_each(|part| passes(part, Some(lock)));
    }
}

#[test]
fn a_lock_that_is_not_there_ends_the_program() {
    for lock in ["", "mcs ", "futex"] {
        let mut command = Command::new(common::program());
        let ended = command
            .arg("kinds")
            .env("LD_PRELOAD", common::library())
            .env(rival::VARIABLE, lock)
            .output()
            .expect("the program starts");
        assert_eq!(ended.status.code(), Some(127), "{lock:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("not the name of a lock"), "{lock:?}");
    }
}
