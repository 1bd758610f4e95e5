//! Statistics name the locks that a program waits for: by address, kind, and the function that
//! waited first.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Outcome, finish, modes, ours, preloaded, program, under_manx};
use serde_json::Value;
use testing::process::Running;

/// The addresses of the hot, the warm and the cold mutex.
fn addresses(stdout: &str) -> [u64; 3] {
    let numbers: Vec<u64> =
        stdout.split_whitespace().map(|number| number.parse().expect("an address")).collect();
    numbers.try_into().expect("three addresses")
}

fn locks(outcome: &Outcome) -> &[Value] {
    let report = outcome.report.as_ref().unwrap_or_else(|| panic!("no statistics\n{}", outcome.stderr));
    assert_eq!(report["lock_waits_dropped"], 0);
    report["locks"].as_array().expect("a list of locks")
}

#[track_caller]
fn by_address(locks: &[Value], address: u64) -> &Value {
    let mut found = locks.iter().filter(|lock| lock["address"] == address);
    let lock = found.next().unwrap_or_else(|| panic!("no lock at {address}: {locks:#?}"));
    assert!(found.next().is_none(), "two records of {address}: {locks:#?}");
    lock
}

#[track_caller]
fn is_named(lock: &Value, module: &str, kind: &str, function: &str) {
    assert_eq!((&lock["kind"], &lock["module"]), (&kind.into(), &module.into()), "{lock}");
    let symbol = lock["symbol"].as_str().unwrap_or_default();
    assert!(symbol.starts_with(&format!("{function}+0x")), "{lock}");
}

#[test]
fn the_hottest_lock_and_the_function_that_waits_for_it_come_first() {
    for mode in ours() {
        let outcome = under_manx("lock_hot", &[], &format!("lock={mode}"));
        let [hot, warm, cold] = addresses(&outcome.succeeded().stdout);
        let locks = locks(&outcome);
        assert_eq!(locks[0]["address"], hot, "lock={mode}: {locks:#?}");
        let lock = by_address(locks, hot);
        is_named(lock, "lock_hot", "recursive", "enter_hot_place");
        // Each of the four threads found it held when it came.
        assert!(lock["waits"].as_u64() >= Some(4) && lock["waits"].as_u64() <= Some(20), "{lock}");
        assert!(lock["waited_ns"].as_u64() >= lock["longest_ns"].as_u64(), "{lock}");
        assert!(lock["longest_ns"].as_u64() > Some(0), "{lock}");
        assert!(lock["hand_overs"].as_u64() <= lock["waits"].as_u64(), "{lock}");
        assert!(lock["overdue"].as_u64() <= lock["waits"].as_u64(), "{lock}");
        let buckets = lock["wait_histogram"].as_array().expect("a list of buckets");
        let counted: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().expect("a count")).sum();
        assert_eq!(lock["waits"], counted, "{lock}");
        let lock = by_address(locks, warm);
        is_named(lock, "lock_hot", "normal", "enter_warm_place");
        assert_eq!(lock["waits"], 1, "{lock}");
        assert!(locks.iter().all(|lock| lock["address"] != cold), "{locks:#?}");
    }
}

#[test]
fn the_default_counts_starving_waiters() {
    // The mutex was held for many windows while they waited.
    let outcome = under_manx("lock_hot", &[], "");
    let [hot, ..] = addresses(&outcome.succeeded().stdout);
    let lock = by_address(locks(&outcome), hot);
    assert!(lock["overdue"].as_u64() > Some(0) && lock["hand_overs"].as_u64() > Some(0), "{lock}");
}

#[test]
fn locks_of_the_c_library_are_not_counted() {
    let outcome = under_manx("lock_hot", &[], "lock=glibc");
    outcome.succeeded();
    assert!(locks(&outcome).is_empty(), "{:#?}", outcome.report);
}

#[test]
fn locks_are_counted_without_the_guard() {
    let outcome = under_manx("lock_hot", &[], "guard=off");
    let [hot, ..] = addresses(&outcome.succeeded().stdout);
    is_named(by_address(locks(&outcome), hot), "lock_hot", "recursive", "enter_hot_place");
    let report = outcome.report.as_ref().expect("statistics");
    assert_eq!((&report["scans"], &report["sites"]), (&0.into(), &serde_json::json!([])));
}

/// Runs a program whose statistics go to standard error.
fn with_a_table(name: &str) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let outcome = finish(preloaded(program(name), "stats=stderr").env("TMPDIR", folder.path()));
    outcome.succeeded();
    outcome
}

#[test]
fn the_table_shows_them() {
    let outcome = with_a_table("lock_hot");
    let [hot, ..] = addresses(&outcome.stdout);
    let line = outcome.stderr.lines().find(|line| line.starts_with(&format!("{hot:#x} ")));
    let line = line.unwrap_or_else(|| panic!("no line for {hot:#x}:\n{}", outcome.stderr));
    assert!(line.contains(" recursive ") && line.contains(" enter_hot_place+0x"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\nLOCK "), "{}", outcome.stderr);
}

#[test]
fn a_program_that_is_killed_has_lost_no_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("killed.json");
    let options = format!("stats={}", report.display());
    let mut running = Running::start(preloaded(program("lock_hot"), &options).arg("stay"));
    let line = running.line().expect("a line");
    drop(running);
    let [hot, ..] = addresses(&line);
    let bytes = std::fs::read(report.with_extension("json.live")).expect("the live file");
    // A live file wants the alignment that a mapping has.
    let mut room = vec![0; bytes.len() + 4096];
    let start = room.as_ptr().align_offset(4096);
    room[start..start + bytes.len()].copy_from_slice(&bytes);
    let live = preload_abi::live::Live::new(&room[start..]).expect("a live file");
    let mut text = String::new();
    preload_abi::render::json(&live, &mut text).expect("writing to a String");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    is_named(
        by_address(json["locks"].as_array().expect("locks"), hot),
        "lock_hot",
        "recursive",
        "enter_hot_place",
    );
}

#[test]
fn mutexes_of_c11_are_counted_as_what_they_are() {
    for mode in ours() {
        let outcome = under_manx("lock_hot_c11", &[], &format!("lock={mode}"));
        let [plain, recursive, condition] = addresses(&outcome.succeeded().stdout);
        let locks = locks(&outcome);
        for (address, kind, function) in [
            (plain, "normal", "enter_plain"),
            (recursive, "recursive", "enter_recursive"),
            (condition, "normal", "wait_for_a_signal"),
        ] {
            is_named(by_address(locks, address), "lock_hot_c11", kind, function);
        }
    }
}

#[test]
fn mutexes_that_keep_the_c_librarys_waiting_are_counted() {
    for (mode, ours) in modes().map(|mode| (mode, mode != "glibc")) {
        let outcome = under_manx("lock_kept", &[], &format!("lock={mode}"));
        let kept: u64 = outcome.succeeded().stdout.trim().parse().expect("a number");
        assert!(kept > 4);
        let report = outcome.report.as_ref().expect("statistics");
        assert_eq!(report["mutexes_passed_on"], if ours { kept } else { 0 }, "lock={mode}: {report:#?}");
    }
    let outcome = with_a_table("lock_kept");
    let line = format!("{} mutexes are shared between processes, robust, or have", outcome.stdout.trim());
    assert!(outcome.stderr.contains(&line), "{}", outcome.stderr);
    let outcome = with_a_table("lock_hot");
    assert!(!outcome.stderr.contains("shared between processes"), "{}", outcome.stderr);
}

#[test]
fn waits_for_more_locks_than_the_file_holds_are_counted() {
    let outcome = under_manx("lock_many", &[], "");
    outcome.succeeded();
    let report = outcome.report.as_ref().expect("statistics");
    let locks = report["locks"].as_array().expect("a list of locks");
    let counted: u64 = locks.iter().map(|lock| lock["waits"].as_u64().expect("a number")).sum();
    let dropped = report["lock_waits_dropped"].as_u64().expect("a number");
    // Each of the 1500 mutexes was waited for once, in the file or beyond it.
    assert!(locks.len() > 900 && locks.len() <= 1024, "{}", locks.len());
    assert!(counted + dropped >= 1500 && dropped >= 1500 - 1024, "{counted} and {dropped}");
}
