//! The whole command, briefly: every lock works in a process of its own, and what it prints can be
//! read.

use std::process::{Command, Output};

use rivals::locks::competitor::COMPETITORS;
use serde_json::Value;

fn locks(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rivals"));
    command.args(["locks", "--cpus", "1", "--seconds", "0.05", "--repeats", "1", "--threads", "2"]);
    command.args(options).output().expect("the built program can be started")
}

#[test]
fn every_lock_does_work_in_every_round() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.json");
    let names: Vec<&str> = COMPETITORS.iter().map(|peer| peer.name).collect();
    let output = locks(&["--case", "scaling", "--lock", &names.join(","), "--json", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let rows = rows["rows"].as_array().unwrap();
    assert_eq!(rows.len(), names.len(), "{rows:?}");
    for (row, name) in rows.iter().zip(names) {
        assert_eq!((row["lock"].as_str(), row["threads"].as_u64()), (Some(name), Some(2)));
        let run = &row["runs"][0];
        assert!(run["epochs_per_s"].as_f64().unwrap() > 0.0, "{row}");
        let share = |which: &str| run[which].as_f64().unwrap();
        let (mean, fastest) = (share("slowest_over_mean"), share("slowest_over_fastest"));
        assert!((0.0..=1.0).contains(&fastest) && fastest <= mean && mean <= 1.0, "{row}");
        let latency = |which: &str| run["all"][which].as_f64().unwrap();
        let order = ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(latency);
        assert!(order[0] > 0.0 && order.is_sorted(), "{row}");
    }
}

#[test]
fn a_rival_that_ends_its_process_has_a_row_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("bad.c"), folder.path().join("bad.so"));
    std::fs::write(&source, "int pthread_mutex_lock(void *m) { (void)m; __builtin_trap(); }\n").unwrap();
    let mut cc = Command::new("cc");
    let built = cc.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
    assert!(built.success());
    let rival = format!("bad={}", library.display());
    let output = locks(&["--case", "scaling", "--lock", "std", "--rival", &rival]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(row(" bad ").contains("1 failed: signal"), "{text}");
    assert!(!row(" std ").contains("failed"), "the run went on: {text}");
}

#[test]
fn an_unknown_lock_or_case_is_named() {
    let complaints = [
        (["--lock", "no-such"], "no lock `no-such`; there are manx"),
        (["--case", "no-such"], "no case `no-such`; there are uncontended"),
        (["--rival", "nameless"], "NAME=PATH is wanted"),
    ];
    for (options, complaint) in complaints {
        let output = locks(&options);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(complaint), "{error}");
    }
}
