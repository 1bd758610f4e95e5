//! Epochs of programs that cannot be linked with anything, and requests that nobody marked.

mod common;

use common::{Outcome, finish, library, manx, program, requests_library, under_manx};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Runs a program under the library, or without it.
fn run(name: &str, argument: &str, options: Option<&str>) -> Outcome {
    let alone = [library()];
    run_under(name, argument, options.map(|options| (&alone[..], options)))
}

/// Runs a program under these libraries, in this order, or without.
fn run_under(name: &str, argument: &str, under: Option<(&[PathBuf], &str)>) -> Outcome {
    let mut command = Command::new(program(name));
    command.arg(argument).env_remove("LD_PRELOAD").env_remove("MANX").env_remove("MANX_OPTIONS");
    if let Some((libraries, options)) = under {
        let preload = std::env::join_paths(libraries).expect("no colons");
        command.env("LD_PRELOAD", preload).env("MANX_OPTIONS", options);
    }
    let outcome = finish(&mut command);
    outcome.succeeded();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""), "nothing is said unasked");
    outcome
}

#[test]
fn without_the_library_epochs_are_nothing() {
    run("epochs", "alone", None);
}

#[test]
fn epochs_have_windows_whatever_the_locks() {
    for lock in ["manx", "asl", "fifo", "glibc"] {
        run("epochs", "windows", Some(&format!("lock={lock}")));
    }
}

#[test]
fn with_a_target_of_zero_threads_take_a_mutex_in_the_order_of_arrival() {
    // On big cores, and on little ones, where they would stand by for a window.
    for cores in ["big:0-1023", "little:0-1023"] {
        let mut command = Command::new(program("arrival"));
        command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", "lock=asl").env("MANX_CORES", cores);
        finish(&mut command).succeeded();
    }
}

#[test]
fn targets_of_the_options_replace_the_programs() {
    run("epochs", "overridden", Some("slo=7:0:9900+8:5:9900+8:60000000000:9000"));
}

#[test]
fn handlers_of_signals_that_begin_epochs_break_nothing() {
    run("epochs", "interrupted", Some("lock=asl"));
}

#[test]
fn threads_that_end_give_their_memory_back() {
    run("epochs", "threads", Some("lock=manx"));
}

#[test]
fn requests_are_seen_if_there_is_a_target() {
    let (ours, theirs) = (library(), requests_library());
    for libraries in [[ours.clone(), theirs.clone()], [theirs, ours]] {
        let run = |argument, options| run_under("requests", argument, Some((&libraries, options)));
        run("unseen", "lock=manx");
        run("unseen", "slo=7:1000000:9900");
        run("seen", "slo=1000000:9900");
        run("seen", "guard=off,lock=asl,slo=7:0:9900+1000000:5000");
    }
}

#[test]
fn without_the_second_library_nothing_of_reading_and_writing_is_ours() {
    run("requests", "unseen", None);
    run("requests", "unseen", Some("lock=manx"));
    run("requests", "unseen", Some("slo=1000000:9900"));
}

#[test]
fn manx_run_adds_the_second_library_if_there_is_a_target_for_requests() {
    let run = |options: &[&str], argument: &str| {
        let Some(mut command) = manx() else { return };
        command.arg("run").args(options).arg("--").arg(program("requests")).arg(argument);
        finish(&mut command).succeeded();
    };
    run(&["--slo", "1ms"], "seen");
    run(&["--slo", "7=1ms"], "unseen");
    run(&[], "unseen");
}

/// The record of the only epochs in these statistics, whose latencies add up.
#[track_caller]
fn only_epochs(report: &Value) -> &Value {
    let epochs = report["epochs"].as_array().expect("a list of epochs");
    assert_eq!(epochs.len(), 1, "{epochs:#?}");
    let buckets = epochs[0]["latency_histogram"].as_array().expect("a list of buckets");
    let counted: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().expect("a count")).sum();
    assert_eq!(epochs[0]["count"], counted, "{epochs:#?}");
    assert!(epochs[0]["total_ns"].as_u64() >= epochs[0]["longest_ns"].as_u64(), "{epochs:#?}");
    &epochs[0]
}

#[test]
fn statistics_have_the_epochs_that_ended() {
    for lock in ["manx", "glibc"] {
        let outcome = under_manx("epochs", &["threads"], &format!("lock={lock}"));
        let report = outcome.succeeded().report.as_ref().expect("statistics");
        let epochs = only_epochs(report);
        // 510 threads of ten requests each. What is abandoned is not counted.
        assert_eq!((&epochs["name"], &epochs["count"]), (&"7".into(), &5_100.into()));
        assert_eq!((&epochs["target_ns"], &epochs["percentile"]), (&60_000_000_000_u64.into(), &99.0.into()));
        assert!(epochs["span_ns"].as_u64() > Some(0), "{epochs}");
    }
}

#[test]
fn statistics_have_the_requests_that_were_answered() {
    let Some(mut command) = manx() else { return };
    let file = std::env::temp_dir().join(format!("manx-requests-{}.json", std::process::id()));
    command.args(["run", "--slo", "1ms"]).arg(format!("--stats={}", file.display()));
    command.arg("--").arg(program("requests")).arg("seen");
    finish(&mut command).succeeded();
    let report = std::fs::read(&file).expect("statistics");
    std::fs::remove_file(&file).expect("removed");
    let report = serde_json::from_slice(&report).expect("JSON");
    let requests = only_epochs(&report);
    // Six ways to read by seven ways to write, one whose first answer failed, and a socket with a
    // file's number. A request whose socket was closed has no answer.
    assert_eq!((&requests["name"], &requests["count"]), (&"requests".into(), &44.into()));
    assert_eq!(requests["target_ns"], 1_000_000);
}
