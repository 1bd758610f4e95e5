//! `manx profile` from outside: a whole sweep of a program that makes up its figures from its
//! target, resuming, and what happens when there is no result. Nothing here depends on how fast
//! anything is.

mod support;

use serde_json::Value;
use std::process::Output;
use support::{Sandbox, text};

/// Prints throughput and latency: 1000 and 40 µs without a target; with one, its latency is the
/// target and throughput rises with it up to 500 µs. Each run leaves a line in `runs`.
const PROGRAM: &str = r#"#!/bin/sh
echo run >> "$1/runs"
case "$MANX_OPTIONS" in
  *slo=*) slo=${MANX_OPTIONS##*slo=}; slo=${slo%%:*} ;;
  *) slo=0 ;;
esac
gain=$((slo / 500)); [ $gain -gt 1000 ] && gain=1000
[ $slo -eq 0 ] && slo=40000
echo "$((1000 + gain)) $slo"
"#;

fn profile(sandbox: &Sandbox, options: &[&str]) -> Output {
    let mut command = sandbox.manx_bench();
    command.arg("profile").args(["--repeats=2", "--steps=6"]).args(options);
    command.arg("--").arg(sandbox.path("program")).arg(sandbox.path(""));
    command.output().unwrap()
}

fn runs(sandbox: &Sandbox) -> usize {
    std::fs::read_to_string(sandbox.path("runs")).unwrap_or_default().lines().count()
}

#[test]
fn a_sweep_is_drawn_kept_and_resumed() {
    let sandbox = Sandbox::new();
    sandbox.executable("program", PROGRAM);
    let file = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let output = profile(&sandbox, &["--json", &file("p.json"), "--svg", &file("p.svg")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("knee") && table.contains("Suggested SLO: "), "{table}");
    assert_eq!(runs(&sandbox), 16);
    assert!(std::fs::read_to_string(file("p.svg")).unwrap().starts_with("<svg"));
    let read = || serde_json::from_str::<Value>(&std::fs::read_to_string(file("p.json")).unwrap()).unwrap();
    let mut whole = read();
    assert_eq!(whole["runs"].as_array().unwrap().len(), 16);
    assert_eq!(whole["conclusion"]["points"][2][1]["tail_ns"], 50_000.0);

    // Five runs are lost: only these are repeated, and the conclusion is the same.
    whole["runs"].as_array_mut().unwrap().truncate(11);
    std::fs::write(file("p.json"), whole.to_string()).unwrap();
    let output = profile(&sandbox, &["--resume", &file("p.json")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(runs(&sandbox), 21);
    assert_eq!(read()["conclusion"], whole["conclusion"]);

    // Another sweep is refused, and nothing runs.
    let output = profile(&sandbox, &["--resume", &file("p.json"), "--to", "6ms"]);
    assert_eq!((output.status.code(), runs(&sandbox)), (Some(2), 21));
    assert!(text(&output.stderr).contains("of another sweep: its to_ns is 5000000, not 6000000"));
}

/// Prints nothing. In place of the library it writes the statistics: 1000 requests in a second,
/// whose latency is the target.
const SILENT: &str = r#"#!/bin/sh
echo run >> "$1/runs"
case "$MANX_OPTIONS" in *stats=*) ;; *) exit ;; esac
stats=${MANX_OPTIONS##*stats=}; stats=${stats%%,*}
slo=${MANX_OPTIONS##*slo=}; slo=${slo%%:*}
cat > "$stats" <<END
{"schema": "manx-stats", "version": 1, "program": "p", "pid": 1, "state": "ended", "started_unix_ms": 0,
 "modules": 0, "text_bytes": 0, "scans": 0, "scan_ns": 0, "sites_dropped": 0, "sites": [], "epochs": [
 {"name": "requests", "missed": 0, "target_ns": $slo, "percentile": 99, "total_ns": 0, "longest_ns": $slo,
  "span_ns": 1000000000, "latency_histogram": [[$slo, $EPOCHS]]}]}
END
"#;

#[test]
fn a_program_that_prints_nothing_is_measured_by_what_manx_counts() {
    let sandbox = Sandbox::new();
    sandbox.executable("program", &SILENT.replace("$EPOCHS", "1000"));
    let json = sandbox.path("p.json");
    let output = profile(&sandbox, &["--json", json.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    // The first run is repeated: it told that nothing is printed.
    assert_eq!((kept["runs"].as_array().unwrap().len(), runs(&sandbox)), (16, 17));
    for run in kept["runs"].as_array().unwrap() {
        assert_eq!(run["throughput_per_s"], 1000.0, "{run}");
        // Without a target of its own, a run counts with the longest one.
        let slo_ns = run["variant"]["slo_ns"].as_f64().unwrap_or(5_000_000.0);
        let tail_ns = run["tail_ns"].as_f64().unwrap();
        assert!((0.9 * slo_ns..=slo_ns).contains(&tail_ns), "{run}");
    }
}

#[test]
fn a_program_without_requests_is_told_what_can_be_measured() {
    let sandbox = Sandbox::new();
    sandbox.executable("program", &SILENT.replace("$EPOCHS", "0"));
    let output = profile(&sandbox, &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("it printed no result, and Manx counted no requests: reads from sockets"),
        "{said}"
    );
}

#[test]
fn a_program_without_a_result_is_shown_and_what_was_measured_stays() {
    let sandbox = Sandbox::new();
    // The fourth run gives no result.
    let broken = PROGRAM.replace("case ", "[ $(wc -l < \"$1/runs\") -ge 4 ] && { echo hello; exit; }\ncase ");
    sandbox.executable("program", &broken);
    let json = sandbox.path("p.json");
    let output = profile(&sandbox, &["--json", json.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the first line is `hello`"), "{}", text(&output.stderr));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(kept["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn a_command_measures_the_program_while_it_runs() {
    let sandbox = Sandbox::new();
    // The program would never end: it writes its figures where the command finds them.
    let endless = PROGRAM.replace("echo \"$((", "cd \"$1\"; echo \"$((") + "sleep 1000\n";
    let endless = endless.replace("$slo\"\nsleep", "$slo\" > figures.$$\nmv figures.$$ $$\nexec sleep");
    sandbox.executable("program", &endless);
    let measure = format!(
        "cd {}; until [ -e $MANX_PROFILE_PID ]; do sleep 0.01; done; cat $MANX_PROFILE_PID",
        sandbox.path("").display()
    );
    let json = sandbox.path("p.json");
    let output = profile(&sandbox, &["--json", json.to_str().unwrap(), "--measure", &measure]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!((kept["runs"].as_array().unwrap().len(), runs(&sandbox)), (16, 16));
    let of_the_longest = kept["runs"].as_array().unwrap().iter().map(|run| run["tail_ns"].as_f64().unwrap());
    assert_eq!(of_the_longest.fold(0.0, f64::max), 5_000_000.0);
    // Each was ended with its measuring. If one lived on, this would not end; a zombie is gone when
    // its new parent looks.
    for entry in std::fs::read_dir(sandbox.path("")).unwrap() {
        if let Ok(pid) = entry.unwrap().file_name().to_str().unwrap().parse::<u32>() {
            let command = format!("/proc/{pid}/cmdline");
            while std::fs::read_to_string(&command).is_ok_and(|words| words.contains("sleep")) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let sandbox = Sandbox::new();
    // The fourth run is interrupted. `manx run` becomes the program, so its parent is always `manx
    // profile`.
    let interrupting = PROGRAM
        .replace("case ", "[ $(wc -l < \"$1/runs\") -ge 4 ] && { kill -INT $PPID; sleep 1000; }\ncase ");
    sandbox.executable("program", &interrupting);
    let json = sandbox.path("p.json");
    let output = profile(&sandbox, &["--json", json.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!((kept["runs"].as_array().unwrap().len(), runs(&sandbox)), (3, 4));
}
