//! Programs that do what few do, and are not to be harmed: by limits, full disks, pipes that nobody
//! reads, memory that is given back early, handlers that run in the middle of a fork.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{WAYS, finish, folder, library, program, run, shared_library, under_manx};
use std::process::Command;
use testing::process::is_installed;

#[test]
fn handlers_ask_for_themselves_again_while_the_process_forks() {
    under_manx("renews", &[], "guard=always").succeeded();
    under_manx("renews", &[], "").succeeded();
}

#[test]
fn handlers_fork_while_libraries_are_searched() {
    let library = shared_library("each");
    under_manx("forking", &[library.to_str().expect("utf-8")], "").succeeded();
}

#[test]
fn the_memory_of_a_threads_name_is_given_back_before_its_creator_is_done() {
    under_manx("unnamed", &[], "").succeeded();
}

#[test]
fn a_library_returns_to_its_old_place_between_two_looks() {
    let library = shared_library("each");
    for way in WAYS {
        let function = format!("wait_by_{way}");
        let outcome = under_manx("returns", &[library.to_str().expect("utf-8"), &function], "short=always");
        outcome.succeeded().waited(&function);
    }
}

/// Runs a program with statistics in a file, after `limit` in a shell.
fn limited(limit: &str, report: &std::path::Path) -> common::Outcome {
    let mut command = Command::new("sh");
    let options = format!("stats={}", report.display());
    command
        .arg("-c")
        .arg(format!("{limit} && exec env LD_PRELOAD=\"$1\" MANX_OPTIONS=\"$2\" \"$3\""))
        .arg("sh");
    command.arg(library()).arg(options).arg(program("each"));
    finish(&mut command)
}

#[test]
fn statistics_keep_to_the_limit_on_the_size_of_files() {
    let report = folder().join("limited.json");
    limited("ulimit -f 8", &report).succeeded();
    assert!(!report.with_extension("json.live").exists(), "what could not be made is gone");
}

#[test]
fn few_descriptors_and_little_memory() {
    let report = folder().join("few.json");
    limited("ulimit -n 4", &report).succeeded();
    limited("ulimit -v 30000", &report).succeeded();
}

#[test]
fn a_full_disk_costs_the_statistics_and_not_the_program() {
    let place = folder().join("full");
    std::fs::create_dir_all(&place).expect("a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&place).output();
    if !mounted.is_ok_and(|made| made.status.success()) {
        testing::skip("no right to mount a small file system");
        return;
    }
    let outcome = limited("true", &place.join("stats.json"));
    let unmounted = Command::new("umount").arg(&place).status().expect("umount");
    outcome.succeeded();
    assert!(unmounted.success());
}

#[test]
fn a_table_that_nobody_reads_leaves_the_exit_status_alone() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    // A shell's child has SIGPIPE at its default, which Rust's own would not.
    let mut command = Command::new("env");
    command.arg("--default-signal=PIPE").arg(program("each"));
    command.env("LD_PRELOAD", library()).env("MANX_OPTIONS", "stats=stderr").env("TMPDIR", folder());
    let status = command.stderr(writer).status().expect("started");
    assert!(status.success(), "{status}");
}

#[test]
fn threads_with_the_smallest_stacks_wait_in_each_way() {
    for (way, options) in WAYS.iter().flat_map(|way| [(way, "short=always"), (way, "")]) {
        under_manx("smallest", &[way], options).succeeded().waited(&format!("wait_by_{way}"));
    }
}

#[test]
fn text_that_the_program_writes_keeps_its_rights() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/counting.c");
    let into = folder().join("libcounting.so");
    let flags = ["-O2", "-shared", "-fPIC", "-Wl,--omagic,-Bdynamic", "-nostdlib", "-o"];
    let made = Command::new("cc").args(flags).arg(&into).arg(source).output().expect("a C compiler (cc)");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = Command::new(program("returns"));
    command.arg(into).arg("wait_and_count");
    run(command, "").succeeded();
}

#[test]
fn a_program_whose_sanitizer_begins_with_a_call_of_ours() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/each.c");
    let into = folder().join("sanitized");
    let flags = ["-O2", "-pthread", "-D_GNU_SOURCE", "-fsanitize=address", "-static-libasan", "-o"];
    let made = Command::new("cc").args(flags).arg(&into).arg(source).output().expect("a C compiler (cc)");
    if !made.status.success() {
        testing::skip("the compiler has no static AddressSanitizer");
        return;
    }
    run(Command::new(into), "").succeeded();
}

#[test]
fn a_program_in_an_emulator() {
    let mut command = Command::new("valgrind");
    command.args(["-q", "--tool=none"]).arg(program("each"));
    if !is_installed("valgrind", "--version") {
        return;
    }
    run(command, "").succeeded();
}

#[test]
fn a_program_that_locks_itself_in() {
    // Seccomp, chroot and dropped rights need no root where they are refused: the program goes on.
    for what in
        ["nothing", "membarrier", "files", "trapped-files", "text", "yields", "rights", "text-for-good"]
    {
        for when in ["early", "late"] {
            let mut command = Command::new(program("locked_in"));
            command.args([what, when]).arg(shared_library("each"));
            run(command, "short=always").succeeded();
        }
    }
}
