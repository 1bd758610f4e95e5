//! `manx bench txn` from end to end, too short to say anything about time: parts run, runs are
//! checked, what is missing is left out.

mod support;

use report::Report;
use std::path::Path;

/// A smoke check of it.
fn bench(folder: &Path, arguments: &[&str]) -> Report {
    measured(folder, &[&["--quick", "--time", "0.4"], arguments].concat())
}

/// Runs it without a C compiler and without the preload library, as on a machine that has nothing
/// but Manx; figures come back.
fn measured(folder: &Path, arguments: &[&str]) -> Report {
    let json = folder.join("x.json");
    let mut command = support::manx_bench();
    command.arg("txn").args(arguments).arg("--json").arg(&json);
    command.env("CC", "/no/such/cc").env("XDG_CACHE_HOME", folder).env("TMPDIR", folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Report::from_json(&std::fs::read_to_string(json).unwrap()).unwrap()
}

#[test]
fn stores_that_are_not_installed_are_left_out_and_ours_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(
        folder.path(),
        &["--part", "allocation,ycsb,durable", "--threads", "4", "--workload", "a,d,e,f"],
    );
    for name in ["wiredtiger", "lmdb", "rocksdb", "sqlite"] {
        assert!(
            report.notes.iter().any(|note| note.starts_with(&format!("{name}: left out"))),
            "{:?}",
            report.notes
        );
    }
    let variants = report.variants("4 threads, think 300 µs");
    for name in ["spin", "wait", "help", "help, boosted"] {
        assert!(variants.iter().any(|variant| variant == name), "{name}: {variants:?}");
    }
    for letter in ["A", "D", "E", "F"] {
        assert_eq!(report.variants(&format!("YCSB {letter}, 4 threads")), ["manx"], "{letter}");
    }
    assert_eq!(report.variants("durable, 8 threads, an update and a sync each").len(), 2);
    for run in &report.runs {
        assert!(run.values["max_ns"] >= run.values["p999_ns"], "{} {}", run.case, run.variant);
        assert!(
            run.values["verified_updates"] > 0.0 || run.case.contains("YCSB"),
            "{} {}",
            run.case,
            run.variant
        );
    }
}

/// Three threads are more than the two CPUs that are used, so some versions also run with all three
/// boosted.
#[test]
fn where_threads_wait_for_a_cpu_the_protocols_are_measured_with_a_boost() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--part", "ycsb", "--workload", "c", "--threads", "3", "--value-bytes", "48"];
    let report = measured(folder.path(), &[&["--repeats", "1", "--time", "0.2"], &arguments[..]].concat());
    assert_eq!(
        report.variants("YCSB C, 3 threads"),
        ["manx", "manx, boosted", "wait, boosted", "spin, boosted"]
    );
    for run in &report.runs {
        let output = workload::engine::Output::parse(run.output.as_ref().unwrap().get()).unwrap();
        let boosted = output.threads.iter().filter(|thread| thread.boosted).count();
        assert_eq!(boosted, if run.variant.ends_with(", boosted") { 3 } else { 0 }, "{}", run.variant);
    }
}

#[test]
fn keys_are_drawn_as_the_user_says_and_the_case_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["--part", "ycsb", "--workload", "a,d", "--keys", "uniform"]);
    let cases = ["YCSB A with uniform keys, 2 threads", "YCSB D with uniform keys, 2 threads"];
    assert_eq!(report.cases(), cases);
}

#[test]
fn a_transaction_that_only_reads_is_measured_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["--part", "snapshot"]);
    assert_eq!(report.cases().len(), 7, "{:?}", report.cases());
    let all = report.values("read-only, 1000 idle sessions", "help", "empty_ns");
    assert!(all.len() == 1 && all[0] > 0.0, "{all:?}");
    let reason = |id: &str| {
        let target = report.targets.iter().find(|target| target.id == id).unwrap();
        (target.measured.is_some(), target.reason.clone().unwrap_or_default())
    };
    assert_eq!(reason("txn-read"), (true, String::new()));
    let (measured, why) = reason("txn-boost-spin");
    assert!(!measured && !why.contains("does not know"), "{why}");
}
