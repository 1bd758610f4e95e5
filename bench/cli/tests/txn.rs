//! `manx bench txn` from end to end, too short to say anything about time: parts run, runs are
//! checked, what is missing is left out.

mod support;

use report::{Counts, Report};
use std::collections::BTreeMap;
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

/// Whether redis-server is here or not: then it is one of the versions, or a note says why it is
/// none.
#[test]
fn every_workload_is_done_through_the_server_and_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    for (letter, keys) in [("e", None), ("f", Some("latest"))] {
        let mut arguments = vec!["--part", "served", "--connections", "5", "--workload", letter];
        arguments.extend(keys.iter().flat_map(|keys| ["--keys", keys]));
        let report = bench(folder.path(), &arguments);
        let with = keys.map(|keys| format!(" with {keys} keys")).unwrap_or_default();
        let cases = [format!("YCSB {}", letter.to_uppercase()), "changes".into()]
            .map(|what| format!("{what}{with} through a server, 5 connections"));
        assert_eq!(report.cases(), cases);
        for case in cases {
            let versions = report.variants(&case);
            assert_eq!(versions[..2], ["manx", "manx, threads"]);
            let left_out = report.notes.iter().any(|note| note.starts_with("served: redis-server left out"));
            assert_eq!(versions.len() == 2, left_out, "{versions:?}");
            for version in &versions {
                let of = |figure: &str| report.values(&case, version, figure)[0];
                // Shares of 5 % need some operations before there is one.
                let writes = case.starts_with("changes") || of("throughput_per_s") > 5000.0;
                assert!(!writes || of("verified_updates") > 0.0, "{case}, {version}");
            }
        }
    }
}

/// Without redis-server there is nothing to compare with, and a note says what to install.
#[test]
fn a_client_of_one_thread_sets_each_key_once_and_has_a_ratio_for_each_figure() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["--part", "client", "--connections", "5,7"]);
    if report.notes.iter().any(|note| note.starts_with("client: left out: redis-server: ")) {
        assert!(report.runs.is_empty());
        return testing::skip("redis-server is not installed");
    }
    let case = "a client of one thread, 5 connections";
    assert_eq!(report.cases(), [case], "a smoke check has one number of connections");
    assert_eq!(report.variants(case), ["redis-server", "manx", "manx, threads"]);
    for run in &report.runs {
        let counts: BTreeMap<String, Counts> =
            serde_json::from_str(run.output.as_ref().unwrap().get()).unwrap();
        assert_eq!(counts["SET, new"].count, 10_000);
        for (phase, start) in [("SET, new", "new_"), ("SET", "set_"), ("GET", "get_")] {
            let of = |figure: &str| run.values[&format!("{start}{figure}")];
            assert!(of("per_s") > 0.0 && of("max_ns") >= of("p999_ns"), "{} {phase}", run.variant);
            assert_eq!(counts[phase].max_ns as f64, of("max_ns"), "{} {phase}", run.variant);
        }
    }
    let of_case = report.ratios.iter().filter(|ratio| ratio.case == case);
    assert_eq!(of_case.count(), 3 * 5, "{:?}", report.ratios);
}

/// Without redis-server there is nothing to compare with, and a note says what to install.
#[test]
fn messages_go_there_and_back_by_lists_and_by_channels() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["--part", "messages"]);
    if report.notes.iter().any(|note| note.starts_with("messages: left out: redis-server: ")) {
        assert!(report.runs.is_empty());
        return testing::skip("redis-server is not installed");
    }
    let alone = "messages between 25 pairs of clients";
    assert_eq!(report.cases(), [alone.to_owned(), format!("{alone}, beside 8 busy processes")]);
    for case in report.cases() {
        assert_eq!(report.variants(&case), ["redis-server", "manx", "manx, threads"]);
        let of_case = report.ratios.iter().filter(|ratio| ratio.case == case);
        assert_eq!(of_case.count(), 2 * 5, "{:?}", report.ratios);
    }
    for run in &report.runs {
        let counts: BTreeMap<String, Counts> =
            serde_json::from_str(run.output.as_ref().unwrap().get()).unwrap();
        for (phase, start) in [("BLPOP", "queue_"), ("PUBLISH", "publish_")] {
            let of = |figure: &str| run.values[&format!("{start}{figure}")];
            assert!(of("per_s") > 0.0 && of("max_ns") >= of("p999_ns"), "{} {phase}", run.variant);
            assert_eq!(counts[phase].max_ns as f64, of("max_ns"), "{} {phase}", run.variant);
        }
    }
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

#[test]
fn memory_of_servers_is_measured_at_its_peak_and_at_rest() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(folder.path(), &["--part", "memory"]);
    let cases = report.cases();
    assert_eq!(cases.len(), 2, "{cases:?}");
    for run in &report.runs {
        let of = |figure: &str| run.values.get(figure).copied().unwrap_or(f64::NAN);
        if run.case.contains("idle") {
            assert!(of("rest_bytes") > of("connection_bytes"), "{run:?}");
        } else {
            assert!(of("written_per_s") > 0.0 && of("peak_bytes") >= of("live_bytes"), "{run:?}");
            // The rest is there still: what lives is a part of it.
            assert!(of("rest_of_live") > 1.0, "{run:?}");
        }
    }
}
