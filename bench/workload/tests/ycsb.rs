//! YCSB's drivers: each workload runs on each database, everything is accounted for, and what is
//! lost or out of order is found.
//!
//! A database that is not installed is skipped with a line that says so; `cargo xtask setup`
//! installs all of them.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output as Ended};
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

/// A store of one mutex and one array in the order of keys, and the ways in which it can be broken.
const STORE: &str = r#"
#include "ycsb.h"
static const struct option_spec options[] = {YCSB_OPTIONS, {0}};
enum { ROOM = 1 << 20 };
static struct entry { uint64_t key; char *value; } entries[ROOM];
static size_t count;
static unsigned turns;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t at(uint64_t key) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (be64toh(entries[middle].key) < be64toh(key)) low = middle + 1; else high = middle;
    }
    return low;
}
static bool found(uint64_t key) { size_t i = at(key); return i < count && entries[i].key == key; }
static void set(uint64_t key, const char *value) {
    size_t i = at(key);
    if (!found(key)) {
        memmove(&entries[i + 1], &entries[i], (count++ - i) * sizeof *entries);
        entries[i] = (struct entry){key, malloc(option_value_bytes)};
    }
    memcpy(entries[i].value, value, option_value_bytes);
}
static void load(uint64_t first, uint64_t end) {
    char value[option_value_bytes];
    for (; first < end; first++) { ledger_load(value, first); set(ycsb_key(first), value); }
}
static enum tried read_record(struct worker *worker, uint64_t number, uint64_t key) {
    pthread_mutex_lock(&mutex);
    enum tried tried = ycsb_found(worker, number, found(key) ? entries[at(key)].value : NULL, option_value_bytes);
    pthread_mutex_unlock(&mutex);
    return tried;
}
static enum tried put_record(struct worker *worker, uint64_t key, const char *value) {
    (void)worker;
    pthread_mutex_lock(&mutex);
    enum tried tried = CONFLICTS && ++turns % 2 ? TRIED_CONFLICT : TRIED_DONE;
    if (tried == TRIED_DONE && !(LOSES && ++turns % 10 == 7)) set(key, value);
    pthread_mutex_unlock(&mutex);
    return tried;
}
static enum tried change_record(struct worker *worker, uint64_t number, uint64_t key, char *value) {
    pthread_mutex_lock(&mutex);
    enum tried tried = ycsb_changed(value, number, found(key) ? entries[at(key)].value : NULL, option_value_bytes);
    pthread_mutex_unlock(&mutex);
    return tried == TRIED_DONE ? put_record(worker, key, value) : tried;
}
static enum tried scan_records(struct worker *worker, uint64_t key, unsigned records) {
    enum tried tried = TRIED_DONE;
    pthread_mutex_lock(&mutex);
    for (size_t i = at(key); tried == TRIED_DONE && i < count && records--; i += 1 - (DISORDERS && i % 2))
        tried = ycsb_scanned(worker, entries[i].key, entries[i].value, option_value_bytes);
    pthread_mutex_unlock(&mutex);
    return tried;
}
static void settle(void) {
    for (uint64_t number = 1; number <= ycsb_records(); number++) {
        uint64_t key = ycsb_key(number);
        ycsb_settle(found(key) ? entries[at(key)].value : NULL, option_value_bytes, number);
    }
}
static void open_store(unsigned threads) {
    fprintf(stderr, "key %016llx\n", (unsigned long long)be64toh(ycsb_key(1)));
    ycsb_open(threads);
}
static void *session(struct worker *worker) { return ycsb_session(worker, NULL); }
int main(int argc, char **argv) {
    const struct engine engine = {.name = "array", .summary = "", .options = options, .open = open_store,
        .session = session, .operate = ycsb_operate, .verify = ycsb_verify};
    return engine_main(argc, argv, &engine);
}
"#;

/// Compiles the store, broken in one way or in none.
fn compile(folder: &Path, fault: &str) -> PathBuf {
    let (source, program) = (folder.join("store.c"), folder.join(format!("store-{fault}")));
    std::fs::write(&source, STORE).unwrap();
    let mut command = Command::new("cc");
    command
        .args(["-std=gnu11", "-O2", "-pthread", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines"));
    for name in ["LOSES", "CONFLICTS", "DISORDERS"] {
        command.arg(format!("-D{name}={}", i32::from(name == fault)));
    }
    let output = command.arg(&source).arg("-o").arg(&program).arg("-lm").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// One thread, so that nothing is lost but by the fault; long enough for whatever is to be found,
/// unless the machine is too busy.
fn run(program: &Path, workload: &str) -> Ended {
    Command::new(program).args(load(workload, 1, 0.5).arguments()).output().unwrap()
}

#[test]
fn a_sound_store_passes_and_conflicts_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (sound, conflicting) = (compile(folder.path(), "none"), compile(folder.path(), "CONFLICTS"));
    for workload in WORKLOADS {
        let ended = run(&sound, workload);
        assert!(ended.status.success(), "{workload}: {}", String::from_utf8_lossy(&ended.stderr));
        let output = Output::parse(&String::from_utf8_lossy(&ended.stdout)).unwrap();
        assert_eq!((output.errors, output.conflicts), (0, 0), "{workload}");
        // Records lie under the same keys in every version of the drivers.
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "key 5692161d100b05e5\n");
    }
    let ended = run(&conflicting, "a");
    assert!(Output::parse(&String::from_utf8_lossy(&ended.stdout)).unwrap().conflicts > 0);
}

#[test]
fn what_is_lost_or_out_of_order_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (losing, disordered) = (compile(folder.path(), "LOSES"), compile(folder.path(), "DISORDERS"));
    for (program, workload, words) in [
        (&losing, "change", "updates were lost"),
        (&losing, "d", "is gone"),
        (&disordered, "e", "do not ascend"),
    ] {
        let ended = run(program, workload);
        let said = [String::from_utf8_lossy(&ended.stderr), String::from_utf8_lossy(&ended.stdout)].concat();
        assert!(said.contains(words), "{workload}: {said:.500}");
        let is_figure =
            Output::sample(&String::from_utf8_lossy(&ended.stdout)).is_ok_and(|sample| sample.is_some());
        assert!(!(ended.status.success() && is_figure), "{workload}: a broken run has a figure");
    }
    // A thread that reads what it lost itself, or the end, whichever comes first.
    let ended = run(&losing, "a");
    let sample = Output::sample(&String::from_utf8_lossy(&ended.stdout));
    assert!(!ended.status.success() || sample.is_err(), "{sample:?}");
}
