//! YCSB's drivers: each workload runs on each database, and everything is accounted for. What is
//! lost or out of order is found: `tests/headers.rs` and the tests of `src/txn/drive.rs` show it.
//!
//! A database that is not installed is skipped with a line that says so; `cargo xtask setup`
//! installs all of them.

mod support;

use workload::engine::{self, Load, Output, Program, Start};

const WORKLOADS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "change", "put"];

fn load(workload: &str, threads: usize, seconds: f64) -> Load {
    // So few that threads meet at them all the time.
    let more = [&format!("--workload={workload}")[..], "--records=100", "--value-bytes=100"];
    Load { warm_up: 0.0, ..support::load(threads, seconds, &more) }
}

/// Each workload, on the driver's database.
fn all(source: &str, flag: &str, home: bool) {
    let made = support::compiler().program(source, &[flag.into()], "");
    let Some(path) = support::installed(made, "apt-get install") else { return };
    let program = Program { home, ..Program::new(path) };
    for workload in WORKLOADS {
        let sample = engine::run(&program, Start::AsIs, &load(workload, 4, 0.2)).unwrap();
        let output = Output::parse(sample.output.unwrap().get()).unwrap();
        assert_eq!(
            (output.errors, output.threads.len()),
            (0, 4),
            "{source} {workload}: {}",
            output.first_error
        );
        assert!(!output.version.is_empty());
        // Shares of 5 % need some operations before there is one.
        let surely = matches!(workload, "a" | "f" | "change" | "put") || output.all.count > 1000;
        assert!(!surely || (output.verified_updates > 0) == (workload != "c"), "{source} {workload}");
    }
}

#[test]
fn wiredtiger_accounts_for_everything() {
    all("ycsb_wiredtiger", "-lwiredtiger", true);
}

#[test]
fn lmdb_accounts_for_everything() {
    all("ycsb_lmdb", "-llmdb", true);
}

#[test]
fn rocksdb_accounts_for_everything() {
    all("ycsb_rocksdb", "-lrocksdb", false);
}

#[test]
fn sqlite_accounts_for_everything() {
    all("ycsb_sqlite", "-lsqlite3", true);
}
