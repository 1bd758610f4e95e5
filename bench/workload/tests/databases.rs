//! The drivers of `manx bench engines`: they run, account for every update, and refuse to print a
//! figure when one is missing.
//!
//! A database that is not installed is skipped with a line that says so; `cargo xtask setup`
//! installs all of them.

mod support;

use std::path::Path;
use std::process::{Child, Command, Output as Ended, Stdio};
use workload::engine::{self, Load, Output, Program, Start};
use workload::engines::{SUBJECTS, Subject};

fn installed(name: &str) -> Option<Program> {
    let subject: &Subject = SUBJECTS.iter().find(|subject| subject.name == name).unwrap();
    let package = subject.package().map_or("a package of its own", |package| package.name);
    support::installed(subject.program(&support::compiler()), package)
}

fn load(more: &[&str]) -> Load {
    support::load(4, 0.3, more)
}

/// Runs it on so few records that threads meet at them all the time.
fn updates(name: &str) -> Option<u64> {
    let sample = engine::run(&installed(name)?, Start::AsIs, &load(&["--records=7"])).unwrap();
    let output = Output::parse(sample.output.unwrap().get()).unwrap();
    assert_eq!((output.errors, output.threads.len()), (0, 4), "{name}: {}", output.first_error);
    assert!(!output.version.is_empty());
    assert_eq!(sample.values["verified_updates"], output.verified_updates as f64);
    Some(output.verified_updates)
}

#[test]
fn sqlite_accounts_for_every_update_by_one_connection_by_two_and_by_many() {
    for mode in ["sqlite-shared", "sqlite-two", "sqlite-wal"] {
        assert_ne!(updates(mode), Some(0), "{mode}");
    }
}

#[test]
fn sqlite_accounts_for_every_insert_beside_its_scans() {
    let Some(program) = installed("sqlite-scan") else { return };
    // With this many scans and threads the engine refuses transactions, which begin again.
    let options = ["--records=500", "--scanned=2000", "--scan-every=5"];
    let sample = engine::run(&program, Start::AsIs, &load(&options)).unwrap();
    assert!(sample.values["verified_updates"] > 0.0, "{:?}", sample.values);
    let output = Output::parse(sample.output.unwrap().get()).unwrap();
    assert_eq!((output.engine.as_str(), output.errors), ("sqlite-mix", 0));
}

#[test]
fn leveldb_accounts_for_every_put_and_reads_what_was_loaded() {
    for mode in ["leveldb-read", "leveldb-get"] {
        assert!(matches!(updates(mode), None | Some(0)), "{mode}");
    }
    assert_ne!(updates("leveldb-mixed"), Some(0));
}

#[test]
fn rocksdb_accounts_for_every_put_and_reads_what_was_loaded() {
    assert!(matches!(updates("rocksdb-read"), None | Some(0)));
    assert_ne!(updates("rocksdb-mixed"), Some(0));
}

#[test]
fn kyoto_cabinet_accounts_for_every_set_in_a_file_and_in_memory() {
    for mode in ["kyoto-hash", "kyoto-cache"] {
        assert_ne!(updates(mode), Some(0), "{mode}");
    }
}

#[test]
fn wiredtiger_accounts_for_every_put_of_every_transaction() {
    assert_ne!(updates("wiredtiger"), Some(0));
    let Some(program) = installed("wiredtiger") else { return };
    let options = ["--records=50", "--updates=5", "--read-share=0.2", "--value-bytes=48"];
    let sample =
        engine::run(&Program { arguments: Vec::new(), ..program }, Start::AsIs, &load(&options)).unwrap();
    assert!(
        sample.values["verified_updates"] > 0.0 && sample.values["conflicts"] > 0.0,
        "{:?}",
        sample.values
    );
}

#[test]
fn lmdb_accounts_for_every_transaction_with_private_and_shared_mutexes() {
    for mode in ["lmdb", "lmdb-private"] {
        assert_ne!(updates(mode), Some(0), "{mode}");
    }
}

#[test]
fn the_pairs_of_a_ping_pong_account_for_every_turn() {
    let program = installed("ping-pong").unwrap();
    let sample = engine::run(&program, Start::AsIs, &load(&[])).unwrap();
    let output = Output::parse(sample.output.unwrap().get()).unwrap();
    assert!(output.version.starts_with("glibc ") && output.verified_updates > 0, "{output:?}");
    for pair in output.threads.chunks(2) {
        assert!(pair[0].operations.abs_diff(pair[1].operations) <= 1, "{pair:?}");
    }
}

/// One process on an LMDB database of seven records.
fn lmdb(program: &Program, home: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(&program.path);
    command.args(["--records=7", "--threads=3", "--warm-up=0", "--home"]).arg(home).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How many updates a process made and found again.
fn made(ended: &Ended) -> u64 {
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Output::parse(std::str::from_utf8(&ended.stdout).unwrap()).unwrap().verified_updates
}

#[test]
fn two_processes_that_write_the_same_lmdb_database_lose_nothing() {
    let Some(program) = installed("lmdb") else { return };
    let home = tempfile::tempdir().unwrap();
    let loaded = made(&lmdb(&program, home.path(), &["--seconds=0.1"]).output().unwrap());
    let start = || lmdb(&program, home.path(), &["--seconds=0.5", "--join"]).spawn().unwrap();
    let both: [Child; 2] = [start(), start()];
    let [first, second] = both.map(|child| made(&child.wait_with_output().unwrap()));
    assert!(first > 0 && second > 0, "{first} and {second} updates");
    let expect = |updates: u64| {
        let options = ["--seconds=0.1", "--join", &format!("--expect={updates}")];
        lmdb(&program, home.path(), &options).output().unwrap()
    };
    // One that is missing would be seen.
    let ended = expect(loaded + first + second + 1);
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0));
    let words = String::from_utf8(ended.stderr).unwrap();
    assert!(words.contains("self-check") && words.contains("--expect"), "{words}");
    made(&expect(loaded + first + second));
}

#[test]
fn an_option_that_a_database_needs_is_asked_for() {
    for (name, arguments, reason) in [
        ("lmdb", &["--expect=1", "--home=/tmp"][..], "--join is missing"),
        ("lmdb", &["--private", "--join", "--home=/tmp"], "--private: not with --join"),
        ("lmdb", &[], "--home is missing"),
        ("leveldb-read", &[], "--home is missing"),
        ("rocksdb-read", &["--mode=write", "--home=x"], "not one of read|get|mixed"),
        ("kyoto-hash", &["--mode=hash"], "--home is missing"),
        ("sqlite-wal", &["--mode=wal"], "--home is missing"),
        ("ping-pong", &["--threads=3"], "each thread needs a partner"),
        ("sqlite-scan", &["--records=99"], "is not a whole number from 100"),
        ("kyoto-cache", &["--mode=cache", "--value-bytes=8"], "is not a whole number from 48"),
    ] {
        let Some(program) = installed(name) else { continue };
        let ended = Command::new(&program.path).args(arguments).output().unwrap();
        let words = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(2), 0), "{name} {arguments:?}: {words}");
        assert!(words.contains(reason), "{name} {arguments:?}: {words}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_no_figure() {
    for name in ["leveldb-read", "rocksdb-read", "kyoto-hash", "lmdb", "sqlite-wal"] {
        let Some(program) = installed(name) else { continue };
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).args(["--seconds=0.1", "--home=/no/such/folder/below"]);
        let ended = command.output().unwrap();
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0), "{name}");
        let words = String::from_utf8(ended.stderr).unwrap();
        assert!(words.contains("/no/such/folder/below"), "{name}: {words}");
    }
}
