//! LMDB's writers take turns by a mutex that is process-shared and robust: processes with the
//! library and without it must lose nothing on one database, and survive one that is killed within
//! a transaction.
//!
//! The program is the driver of `manx bench engines`. Each of its transactions counts a record up,
//! so what the records hold together is what all processes made, or something was lost. Without
//! LMDB it is skipped, with the reason printed; `cargo xtask setup` installs it.

mod common;

use common::{Outcome, finish, folder, library};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The driver, compiled; `None` where LMDB is not installed.
fn driver(name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/engines/lmdb.c");
    let into = folder().join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-pthread", "-o"]).arg(&into).arg(&source).args(["-llmdb", "-lm"]);
    let made = cc.output().expect("a C compiler (cc)");
    if made.status.success() {
        return Some(into);
    }
    let words = String::from_utf8_lossy(&made.stderr);
    assert!(words.contains("lmdb.h: No such file") || words.contains("cannot find -llmdb"), "{words}");
    testing::skip("LMDB is not installed");
    None
}

/// One process on the database in `home`.
fn process(driver: &Path, home: &Path, guarded: bool, options: &[&str]) -> Command {
    let mut command = Command::new(driver);
    command.args(["--records=5", "--threads=4", "--warm-up=0", "--home"]).arg(home).args(options);
    command.env_remove("LD_PRELOAD").env_remove("MANX").env("MANX_OPTIONS", "guard=always");
    if guarded {
        command.env("LD_PRELOAD", library());
    }
    command
}

/// How many updates a process made, and found again.
fn made(outcome: &Outcome) -> u64 {
    outcome.succeeded();
    let result: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(result["errors"], 0, "{}", result["first_error"]);
    result["verified_updates"].as_u64().expect("a number")
}

/// Two processes at a time, each with the library or without it.
fn nothing_is_lost(name: &str, guarded: [bool; 2]) {
    let Some(driver) = driver(name) else { return };
    let home = tempfile::tempdir().expect("a folder");
    let run = |guarded: bool, options: &[&str]| finish(&mut process(&driver, home.path(), guarded, options));
    let loaded = made(&run(guarded[0], &["--seconds=0.1"]));
    let [first, second] = std::thread::scope(|scope| {
        let both =
            guarded.map(|guarded| scope.spawn(move || made(&run(guarded, &["--seconds=0.7", "--join"]))));
        both.map(|thread| thread.join().expect("no panic"))
    });
    assert!(first > 0 && second > 0, "{first} and {second} updates");
    let expect = format!("--expect={}", loaded + first + second);
    made(&run(guarded[1], &["--seconds=0.1", "--join", &expect]));
}

#[test]
fn two_processes_without_the_library_lose_nothing() {
    nothing_is_lost("lmdb-neither", [false, false]);
}

#[test]
fn two_processes_with_the_library_lose_nothing() {
    nothing_is_lost("lmdb-both", [true, true]);
}

#[test]
fn a_process_with_the_library_and_one_without_lose_nothing() {
    nothing_is_lost("lmdb-one", [true, false]);
}

#[test]
fn a_process_that_is_killed_leaves_a_lock_that_the_others_take_over() {
    let Some(driver) = driver("lmdb-killed") else { return };
    let home = tempfile::tempdir().expect("a folder");
    made(&finish(&mut process(&driver, home.path(), true, &["--seconds=0.1"])));
    for guarded in [true, false] {
        let mut command = process(&driver, home.path(), guarded, &["--seconds=60", "--join"]);
        let mut victim = command.stdout(Stdio::null()).spawn().expect("it starts");
        // While another process has run, the victim has run too; wherever it was killed, its lock
        // must be taken over.
        made(&finish(&mut process(&driver, home.path(), !guarded, &["--seconds=0.3", "--join"])));
        victim.kill().expect("it still runs");
        victim.wait().expect("it ended");
        made(&finish(&mut process(&driver, home.path(), true, &["--seconds=0.1", "--join"])));
    }
}
