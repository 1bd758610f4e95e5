//! The launcher and the library together: `manx run` and `manx stats` as a user would type them.
//!
//! The command is another package's, so this test does not build it; `cargo test -p cli` and `cargo
//! xtask test` do, in the same profile.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{finish, folder, manx, program};
use std::fs;
use testing::process::Running;

#[test]
fn a_table_on_standard_error_when_the_program_ends() {
    let Some(mut run) = manx() else { return };
    run.args(["run", "--stats", "--"]).arg(program("turns"));
    let outcome = finish(&mut run);
    assert_eq!(outcome.succeeded().stdout, "200\n");
    assert!(outcome.stderr.contains("wait_by_row+") && outcome.stderr.contains("jump"), "{}", outcome.stderr);
}

#[test]
fn json_in_a_file_that_manx_stats_shows() {
    let (Some(mut run), Some(mut stats)) = (manx(), manx()) else { return };
    let report = folder().join("launched.json");
    run.arg("run").arg(format!("--stats={}", report.display())).arg("--").arg(program("turns"));
    let outcome = finish(&mut run);
    assert_eq!((outcome.succeeded().stdout.as_str(), outcome.stderr.as_str()), ("200\n", ""));
    let text = std::fs::read(&report).expect("the report");
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!((&json["schema"], &json["state"]), (&"manx-stats".into(), &"ended".into()));
    assert!(!report.with_extension("json.live").exists(), "the live file goes when the report is there");
    stats.arg("stats").arg(&report);
    let shown = finish(&mut stats);
    assert!(shown.succeeded().stdout.contains("wait_by_row+"), "{}", shown.stdout);
}

#[test]
fn the_doctor_sees_waits_for_the_mutexes_of_manx() {
    let Some(mut doctor) = manx() else { return };
    doctor.args(["doctor", "--json", "--quiet", "--pairs=2", "--for=1s", "--"]).arg(program("held"));
    let outcome = finish(&mut doctor);
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let waiters =
        |run: &str| json["runs"][0][run]["lost_threads"]["a contended lock"].as_f64().unwrap_or(0.0);
    let as_it_is = waiters("as_it_is");
    if as_it_is < 1.0 {
        // A kernel that shows no system calls.
        assert_eq!(as_it_is, 0.0, "{json:#}");
        return testing::skip("the doctor sees no waits for locks here");
    }
    // Three threads wait at each moment, with whichever mutex.
    assert!(waiters("manx_run") > 1.5, "{:#}", json["runs"]);
}

#[test]
fn the_doctor_compares_a_program_as_it_is_and_under_manx_run() {
    let Some(mut doctor) = manx() else { return };
    // More turns than can be taken meanwhile.
    doctor.args(["doctor", "--json", "--quiet", "--pairs=2", "--for=1s", "--"]).arg(program("turns"));
    let temporary = folder().join("doctor");
    fs::create_dir_all(&temporary).expect("a folder");
    let outcome = finish(doctor.arg("2000000000").env("TMPDIR", &temporary));
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((&json["schema"], &json["version"]), (&"manx-doctor-pairs".into(), &1.into()));
    let runs = json["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 2);
    for pair in runs {
        let of = |run: &str| (&pair[run]["is_under_manx"], &pair[run]["failed"], &pair[run]["wall_s"]);
        let null = &serde_json::Value::Null;
        assert_eq!(of("as_it_is"), (&false.into(), null, null), "{pair:#}");
        assert_eq!(of("manx_run"), (&true.into(), null, null), "{pair:#}");
    }
    let figures: Vec<&str> =
        json["changes"].as_array().expect("a list").iter().filter_map(|it| it["figure"].as_str()).collect();
    assert!(figures.contains(&"CPU time") && !figures.contains(&"wall time"), "{figures:?}");
    assert!(json["as_it_is"]["machine"]["kernel"].as_str().is_some_and(|it| it.starts_with("Linux")));
    // One more run has counts, and leaves none behind.
    assert!(json["counts"]["repaired_loops"].as_u64() > Some(0), "{:#}", json["counts"]);
    assert!(json["counts"]["trials"].is_array(), "{:#}", json["counts"]);
    let mut left = fs::read_dir(&temporary).expect("a folder").flatten();
    assert!(left.all(|folder| fs::read_dir(folder.path()).expect("a folder").next().is_none()));
    assert_eq!(json["work"]["effect"], "unknown", "nothing says how much work it did");
    assert!(json["notes"][0].as_str().is_some_and(|it| it.contains("--figure") && it.contains("--rate")));
}

#[test]
fn the_doctor_says_first_that_manx_run_harms() {
    // It writes that it is 145 times slower, and burns nothing.
    let script = "test -n \"$LD_PRELOAD\" && echo step 290 ms || echo step 2 ms; exec sleep 0.3";
    let doctor = |options: &[&str]| {
        let mut doctor = manx()?;
        doctor.args(["doctor", "--quiet", "--for=20s"]).args(options).args(["--", "sh", "-c", script]);
        Some(finish(&mut doctor).stdout)
    };
    let Some(said) = doctor(&["--figure", r"step (\d+) ms"]) else { return };
    assert!(said.starts_with("`manx run` makes this program 145 times slower: "), "{said}");
    assert!(!said.contains("-0.00") && !said.contains("cures"), "{said}");
    let said = doctor(&["--json", "--rate", r"step (\d+) ms"]).expect("it is there");
    let json: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert!(matches!(json["work"]["effect"].as_str(), Some("helps" | "cures")), "{:#}", json["work"]);
    let figure = &json["changes"][0];
    assert_eq!((&figure["better"], &figure["change"]), (&"more".into(), &145.0.into()), "{figure:#}");
    assert_eq!(json["runs"][0]["as_it_is"]["found"]["median"], 2.0);
}

#[test]
fn a_running_program_and_then_a_killed_one() {
    let Some(mut run) = manx() else { return };
    let report = folder().join("running.json");
    run.arg("run").arg(format!("--stats={}", report.display())).arg("--").arg(program("endless"));
    let mut running = Running::start(&mut run);
    assert_eq!(running.line().as_deref(), Some("waiting"));
    let ask = |what: String| {
        let mut stats = manx().expect("it is there");
        stats.args(["stats", "--json"]).arg(what);
        let outcome = finish(&mut stats);
        let json: serde_json::Value = serde_json::from_str(&outcome.succeeded().stdout).expect("JSON");
        json["sites"][0]["visits"].as_u64().unwrap_or(0)
    };
    // `manx run` became the program, so its process id is the program's.
    // It may not have come to its loop yet.
    let live = testing::eventually("a wait", || {
        Some(ask(running.child.id().to_string())).filter(|&visits| visits > 0)
    });
    drop(running);
    assert!(ask(report.display().to_string()) >= live, "what was counted before the kill is there");
}

#[test]
fn the_metrics_of_a_program_have_its_locks_and_go_on_to_its_end() {
    let Some(mut run) = manx() else { return };
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("hot.prom");
    run.arg("run")
        .arg(format!("--metrics={}", file.display()))
        .arg("--")
        .arg(program("lock_hot"))
        .arg("stay");
    let mut running = Running::start(run.env("TMPDIR", place.path()));
    running.line().expect("a line");
    let metrics = || fs::read_to_string(&file).unwrap_or_default();
    let has_waits = |line: &str| {
        let place = "manx_lock_wait_seconds_count{program=\"lock_hot\",lock=\"lock_hot:enter_hot_place+0x";
        line.starts_with(place) && !line.ends_with(" 0")
    };
    testing::until("waits for the hot lock", || metrics().lines().any(has_waits));
    assert!(metrics().contains("manx_processes{program=\"lock_hot\",state=\"counted\"} 1\n"));
    drop(running);
    testing::until("the helper has seen its end", || {
        metrics().contains("manx_processes{program=\"lock_hot\",state=\"counted\"} 0\n")
    });
    assert!(metrics().lines().any(has_waits), "the counts stay");
}

#[test]
fn live_counts_leave_nothing_behind() {
    let Some(mut run) = manx() else { return };
    let place = tempfile::tempdir().expect("a folder");
    run.args(["run", "--stats=live", "--"]).arg(program("turns"));
    let outcome = finish(run.env("TMPDIR", place.path()));
    assert_eq!((outcome.succeeded().stdout.as_str(), outcome.stderr.as_str()), ("200\n", ""));
    let folders: Vec<_> = fs::read_dir(place.path()).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "the folder of live files: {folders:?}");
    assert_eq!(fs::read_dir(&folders[0]).expect("a folder").count(), 0);
}

#[test]
fn the_program_is_what_it_is_without() {
    let Some(mut run) = manx() else { return };
    run.args(["run", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    let outcome = finish(&mut run);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(outcome.status.code(), Some(7));
}

#[test]
fn top_and_the_list_of_stats_show_what_a_program_waits_for() {
    let Some(mut run) = manx() else { return };
    run.env("TMPDIR", folder()).args(["run", "--stats", "--"]).arg(program("contended"));
    let mut running = Running::start(&mut run);
    assert_eq!(running.line().as_deref(), Some("running"));
    let pid = running.child.id();
    let ask = |arguments: &[&str]| {
        let mut command = manx().expect("it is there");
        let outcome = finish(command.args(arguments));
        let json: serde_json::Value = serde_json::from_str(&outcome.succeeded().stdout).expect("JSON");
        let mut processes = json["processes"].as_array().expect("a list").iter();
        processes.find(|row| row["pid"] == pid).cloned()
    };
    // Rates may be of a moment in which a busy machine ran none of its threads.
    let row = testing::eventually("rates of the locks and the loops", || {
        let row = ask(&["top", "--json", "--manx", "--interval=500ms"])?;
        let has = |key: &str| row[key].as_f64() > Some(0.0);
        ["lock_waits_per_s", "p50_ns", "p99_ns", "max_ns", "lost"].iter().all(|key| has(key)).then_some(row)
    });
    assert_eq!((&row["manx"], &row["locks"], &row["threads"]), (&"counts".into(), &1.into(), &6.into()));
    assert!(row["sites"].as_u64() >= Some(1), "{row}");
    assert!(
        row["p50_ns"].as_u64() <= row["p99_ns"].as_u64() && row["p99_ns"].as_u64() <= row["max_ns"].as_u64(),
        "{row}"
    );

    let total = ask(&["stats", "--json"]).expect("it is listed");
    assert!(total["counts"]["lock_waits"].as_u64() > Some(0), "{total}");
}
