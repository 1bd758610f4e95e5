//! Libraries that come and go, constructors that run before ours, processes that fork and execute.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{WAYS, folder, preloaded, program, run, shared_library, under_manx};
use std::process::Command;
use testing::process::{Running, compiler, succeed};

#[test]
fn a_library_is_opened_and_closed_a_thousand_times() {
    let library = shared_library("waiting");
    let outcome = under_manx("reopen", &[library.to_str().expect("utf-8")], "");
    outcome.succeeded();
    let sites = outcome.sites("wait_in_library");
    assert_eq!(sites.len(), 1, "one record, however often the library came: {sites:?}");
    assert!(sites[0]["visits"].as_u64() > Some(100), "{}", sites[0]);
}

#[test]
fn a_library_that_is_opened_while_threads_run_is_entered_in_each_way() {
    let library = shared_library("loops");
    for options in ["short=always", ""] {
        let outcome = under_manx("joins", &[library.to_str().expect("utf-8")], options);
        outcome.succeeded();
        let of_library = |site: &&serde_json::Value| site["module"] == "libloops.so";
        for way in WAYS {
            let sites = outcome.sites(&format!("wait_by_{way}"));
            let site = sites.into_iter().find(of_library).expect("a site");
            assert!(site["how"] == "jump" && site["visits"].as_u64() > Some(0), "{options}: {site}");
        }
    }
}

#[test]
fn a_library_is_found_if_a_search_came_between_the_call_and_the_load() {
    let (first, second) = (shared_library("constructs"), shared_library("waiting"));
    let arguments = [&first, &second].map(|library| library.to_str().expect("utf-8"));
    under_manx("between", &arguments, "").succeeded().waited("wait_in_library");
}

#[test]
fn a_copy_lives_as_long_as_its_module() {
    let (first, second) = (shared_library("loops"), shared_library("each"));
    let arguments = [&first, &second].map(|library| library.to_str().expect("utf-8"));
    let outcome = under_manx("touched", &arguments, "short=always");
    outcome.succeeded();
    let of_first = |site: &&serde_json::Value| site["module"] == "libloops.so";
    for function in ["wait_by_row", "wait_by_whole"] {
        let site = outcome.sites(function).into_iter().find(of_first).expect("a site");
        assert!(site["how"] == "jump" && site["visits"].as_u64() > Some(0), "{site}");
    }
}

#[test]
fn a_copy_lives_as_long_as_its_module_whatever_a_debugger_has_written() {
    let libraries = [shared_library("waiting"), shared_library("each")];
    for how in ["restored", "breakpoint"] {
        let [library, other] = libraries.each_ref().map(|path| path.to_str().expect("utf-8"));
        let outcome = under_manx("debugged", &[library, other, how], "short=always");
        outcome.succeeded().waited("wait_in_library");
    }
}

#[test]
fn a_library_whose_file_is_gone_or_is_another_is_left_alone() {
    let flags = ["-shared", "-fPIC", "-DBEFORE=64"];
    let libraries = [shared_library("waiting"), common::compiled_as("waiting", "libshifted.so", &flags)];
    for count in [1, 2] {
        let scratch = tempfile::tempdir_in(folder()).expect("a folder");
        let copies = libraries.each_ref().map(|library| {
            let copy = scratch.path().join(library.file_name().expect("a name"));
            std::fs::copy(library, &copy).expect("copied");
            copy
        });
        let arguments = copies.each_ref().map(|copy| copy.to_str().expect("utf-8"));
        let outcome = under_manx("replaced", &arguments[..count], "short=always");
        outcome.succeeded();
        assert!(outcome.sites("wait_in_library").is_empty());
    }
}

/// Fails unless one loop was repaired and the other was left alone, since a thread could stand
/// between the instructions that the jump would replace.
#[track_caller]
fn only_the_row_is_left(outcome: &common::Outcome) {
    outcome.succeeded().waited("wait_by_whole");
    let row = outcome.sites("wait_by_row")[0];
    assert_eq!((&row["how"], &row["reason"]), (&"left".into(), &"no jump fits while threads run".into()));
}

#[test]
fn a_child_that_shares_the_memory_is_not_alone() {
    only_the_row_is_left(&under_manx("vforks", &[], "short=always"));
}

#[test]
fn the_first_thread_is_created_by_a_handler_that_has_interrupted_a_wait() {
    for arguments in [&[][..], &["own stack"]] {
        only_the_row_is_left(&under_manx("interrupted", arguments, "short=always"));
    }
}

#[test]
fn threads_and_libraries_of_constructors_that_run_before_ours() {
    let library = shared_library("early");
    let program = folder().join("late-linked");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/late.c");
    succeed(compiler(source.as_ref()).arg(&library).arg("-o").arg(&program));
    run(Command::new(program), "").succeeded().waited("wait_early");
}

#[test]
fn the_search_path_of_the_caller_still_finds_its_libraries() {
    // dlopen judges by its caller's RUNPATH: if the caller were us, this would not be found.
    let library = shared_library("waiting");
    let folder = library.parent().expect("a folder");
    let source = folder.join("runpath.c");
    let text = "#include <dlfcn.h>\nint main(void) { return dlopen(\"libwaiting.so\", RTLD_NOW) == 0; }\n";
    std::fs::write(&source, text).expect("written");
    let into = folder.join("runpath");
    let flags = ["-Wl,--enable-new-dtags,-rpath,$ORIGIN", "-o"];
    succeed(compiler(&source).args(flags).arg(&into));
    run(Command::new(into), "guard=always").succeeded();
}

#[test]
fn processes_fork_and_execute_while_threads_wait() {
    under_manx("forks", &["row"], "short=always").succeeded().waited("wait_by_row");
}

#[test]
fn a_program_that_is_killed_has_lost_nothing() {
    let report = folder().join("killed.json");
    let mut running =
        Running::start(&mut preloaded(program("endless"), &format!("stats={}", report.display())));
    // The program says when it has waited for a while.
    running.line().expect("a line");
    let live_file = report.with_extension("json.live");
    let visits = || visits_in(&std::fs::read(&live_file).ok()?).filter(|&visits| visits > 0);
    let before = testing::eventually("a wait", visits);
    drop(running);
    assert!(!report.exists(), "the report is for a normal exit");
    let after = visits_in(&std::fs::read(&live_file).expect("the live file")).expect("a live file");
    assert!(after >= before, "the visits before the kill are there: {after}, {before}");
}

/// The visits that the bytes of a live file tell of.
fn visits_in(bytes: &[u8]) -> Option<u64> {
    // A live file wants the alignment that a mapping has.
    let mut words = vec![0u128; bytes.len().div_ceil(16) + 256];
    let start = words.as_ptr().addr().next_multiple_of(4096) - words.as_ptr().addr();
    // SAFETY: the buffer is a page longer than the file, ours alone, and bytes may be anything.
    let aligned = unsafe {
        let place = words.as_mut_ptr().cast::<u8>().add(start);
        place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        std::slice::from_raw_parts(place, bytes.len())
    };
    let live = preload_abi::live::Live::new(aligned).ok()?;
    Some(live.sites().iter().map(|site| site.visits.load(std::sync::atomic::Ordering::Relaxed)).sum())
}
