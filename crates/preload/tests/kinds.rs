//! Small programs of each kind of wait, which end right whether CPUs are short or not.
//!
//! Each hands something between threads thousands of times and checks what it gets; a wake-up that
//! is lost, because a counter was moved too far or a sleep was missed, hangs, and the limit of a
//! run prints where. Each runs while CPUs count as short (`short=always`), while they never do, and
//! while the library finds out.
//!
//! Two spinning programs at once on two CPUs measure the scheduler's time slice, so one test runs
//! at a time.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Outcome, finish, folder, preloaded};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use testing::process::is_installed;

/// Whether CPUs count as short.
const SHORT: [&str; 3] = ["always", "auto", "never"];

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A compiler and its options, of those at hand.
fn builds() -> Vec<(&'static str, &'static str)> {
    let mut all = Vec::new();
    for compiler in ["cc", "clang"] {
        if is_installed(compiler, "--version") {
            all.extend(["-O0", "-O1", "-O2", "-O3"].map(|level| (compiler, level)));
        }
    }
    all
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/kinds").join(name)
}

/// Compiles a program of `tests/programs/kinds`.
fn build(name: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let marks: String = flags.concat().chars().filter(char::is_ascii_alphanumeric).collect();
    let into = folder().join(format!("{}-{compiler}-{marks}", name.replace('.', "-")));
    let mut command = Command::new(compiler);
    command.args(["-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic", "-D_GNU_SOURCE", "-o"]);
    testing::process::succeed(command.arg(&into).arg(source(name)).args(flags));
    into
}

/// Runs a program under the guard.
fn guarded(program: &Path, arguments: &[&str], short: &str, variables: &[(&str, &str)]) -> Outcome {
    let mut command = preloaded(program, &format!("guard=on,short={short}"));
    let outcome = finish(command.args(arguments).envs(variables.iter().copied()));
    outcome.succeeded();
    outcome
}

/// The numbers at the ends of the lines of a program.
fn numbers(outcome: &Outcome) -> Vec<u64> {
    let last = |line: &str| line.rsplit(' ').next().and_then(|word| word.parse().ok());
    outcome.stdout.lines().map(|line| last(line).expect("a number")).collect()
}

/// Two threads hand a word to each other in each loop of a program; in each loop they do so at
/// least once.
fn hand_over(program: &str) {
    let _alone = alone();
    let each_made_rounds = |built: &Path, arguments: &[&str], short: &str| {
        let rounds = numbers(&guarded(built, arguments, short, &[]));
        assert!(!rounds.is_empty() && !rounds.contains(&0), "{} {short}: {rounds:?}", built.display());
    };
    for (compiler, level) in builds() {
        let built = build(program, compiler, &[level]);
        for short in SHORT {
            let most_us = if short == "always" { "10000" } else { "4000" };
            each_made_rounds(&built, &["2000", most_us], short);
        }
    }
    for level in ["-O0", "-O2"] {
        each_made_rounds(&build(program, "cc", &[level]), &["50000", "100000"], "always");
    }
}

#[test]
fn counters_are_moved_on_to_where_they_would_have_counted() {
    hand_over("counters.c");
}

#[test]
fn waits_without_a_bound_and_by_a_clock_end() {
    hand_over("spins.c");
}

/// What the waits of one loop of a program did: visits, yields and sleeps.
fn waited(program: &str, level: &str, way: &str) -> [u64; 3] {
    waited_with(program, level, &["2000", "200000", way])
}

/// The same of a program with these arguments.
fn waited_with(program: &str, level: &str, arguments: &[&str]) -> [u64; 3] {
    let built = build(program, "cc", &[level]);
    let report = folder().join(format!("{}{level}.json", arguments.concat()));
    let mut command = preloaded(&built, &format!("guard=on,short=always,stats={}", report.display()));
    finish(command.args(arguments)).succeeded();
    let report = std::fs::read(&report).expect("the report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("a report");
    assert!(report["modules"].as_u64() > Some(0), "the guard has looked");
    let sites = report["sites"].as_array().expect("the sites");
    ["visits", "yields", "sleeps"].map(|counter| sites.iter().filter_map(|site| site[counter].as_u64()).sum())
}

#[test]
fn loops_without_a_hint_are_found() {
    let _alone = alone();
    for level in ["-O1", "-O2", "-O3"] {
        for way in ["no_hint", "no_hint_down", "comes_back", "table_in_a_round"] {
            let [visits, ..] = waited("counters.c", level, way);
            assert!(visits > 0, "{way} {level}");
        }
        let [_, yields, sleeps] = waited("spins.c", level, "sum_of_others");
        assert!(yields + sleeps > 0, "{level}");
    }
}

#[test]
fn a_counter_whose_step_keeps_a_flag_is_moved_on() {
    let _alone = alone();
    // The smallest step is DEC, which leaves the carry flag as it is.
    let loops = ["up", "down", "global_bound", "argument", "four_pauses", "nested"];
    for way in loops {
        let [visits, ..] = waited("counters.c", "-Os", way);
        assert!(visits > 0, "{way}");
    }
    let built = build("counters.c", "cc", &["-Os"]);
    let rounds = numbers(&guarded(&built, &["50000", "100000"], "always", &[]));
    assert!(!rounds.is_empty() && !rounds.contains(&0), "{rounds:?}");
}

#[test]
fn loops_that_do_not_wait_are_left_alone() {
    let _alone = alone();
    for level in ["-O1", "-O2", "-O3"] {
        for (program, way) in [("counters.c", "searches"), ("spins.c", "sum_of_rounds")] {
            assert_eq!(waited(program, level, way), [0; 3], "{way} {level}");
        }
    }
}

#[test]
fn a_wait_that_should_block_and_does_not_takes_its_authors_time() {
    let _alone = alone();
    for level in ["-O1", "-O2", "-O3"] {
        let [_, yields, sleeps] = waited("counters.c", level, "comes_back");
        assert!(yields + sleeps > 0, "{level}");
    }
}

#[test]
fn work_at_a_hint_hardly_sleeps() {
    let _alone = alone();
    for way in ["delays", "messages"] {
        // On a busy machine the thread may be away for long, and sleeps for as long, but not each
        // time.
        let few_sleeps = || {
            let [visits, _, sleeps] = waited_with("hints.c", "-O2", &[way]);
            // Those before its last yield or sleep are counted.
            assert!(visits > 100, "{way}");
            sleeps < visits / 8
        };
        assert!((0..10).any(|_| few_sleeps()), "{way}");
    }
}

/// How long each wait of `timeouts.c` takes without the guard, in microseconds: the least of
/// several runs, because a busy machine makes all waits of a run longer.
fn authors_times_us(built: &Path) -> Vec<u64> {
    let runs = (0..5).map(|_| {
        let measured = finish(Command::new(built).arg("measure"));
        let lines = measured.succeeded().stdout.lines();
        lines.map(|line| line.parse().expect("microseconds")).collect::<Vec<u64>>()
    });
    let least = |one: Vec<u64>, other: Vec<u64>| one.into_iter().zip(other).map(|(a, b)| a.min(b)).collect();
    runs.reduce(least).expect("several runs")
}

#[test]
fn a_timeout_is_kept() {
    let _alone = alone();
    for (compiler, level) in builds().into_iter().filter(|(_, level)| matches!(*level, "-O0" | "-O2")) {
        let built = build("timeouts.c", compiler, &[level, "-mavx"]);
        for short in SHORT {
            let times = authors_times_us(&built);
            let times: Vec<String> = times.iter().map(u64::to_string).collect();
            let arguments: Vec<&str> =
                ["check"].into_iter().chain(times.iter().map(String::as_str)).collect();
            guarded(&built, &arguments, short, &[]);
        }
    }
}

#[test]
fn locks_barriers_and_pools_keep_their_promises() {
    let _alone = alone();
    for (compiler, level) in builds().into_iter().filter(|(_, level)| matches!(*level, "-O0" | "-O2")) {
        let built = build("locks.c", compiler, &[level]);
        for short in SHORT {
            for threads in ["2", "4", "16"] {
                guarded(&built, &[threads, "20"], short, &[]);
            }
        }
    }
}

#[test]
fn openmp_computes_what_it_should() {
    let _alone = alone();
    let built = build("openmp.c", "cc", &["-O2", "-fopenmp"]);
    let waits: [&[(&str, &str)]; 4] = [
        &[],
        &[("GOMP_SPINCOUNT", "1000000")],
        &[("OMP_WAIT_POLICY", "active")],
        &[("OMP_WAIT_POLICY", "passive")],
    ];
    for variables in waits {
        guarded(&built, &["60"], "always", variables);
        guarded(&built, &["20"], "auto", variables);
    }
    // Spinning for a thread that does not run takes a time slice each time.
    guarded(&built, &["10"], "never", &[]);
}

#[test]
fn openblas_computes_the_same_bits() {
    let _alone = alone();
    // The one whose threads wait busily, whichever the system prefers.
    let (header, library) =
        ("/usr/include/x86_64-linux-gnu/openblas-pthread", "/usr/lib/x86_64-linux-gnu/openblas-pthread");
    if !Path::new(library).join("libopenblas.so").exists() {
        testing::skip("libopenblas-pthread-dev is not installed");
        return;
    }
    let flags = [format!("-I{header}"), format!("-L{library}"), format!("-Wl,-rpath={library}")];
    let flags: Vec<&str> = ["-O2"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let built = build("blas.c", "cc", &[&flags[..], &["-lopenblas"]].concat());
    let mut command = Command::new(&built);
    command.arg("2000");
    let expected = finish(&mut command);
    for short in SHORT {
        let computed = guarded(&built, &["2000"], short, &[]);
        assert_eq!(computed.stdout, expected.succeeded().stdout, "short={short}");
    }
}

#[test]
fn cancelled_waiters_clean_up() {
    let _alone = alone();
    for level in ["-O0", "-O2"] {
        let built = build("cancelled.c", "cc", &[level]);
        for short in SHORT {
            guarded(&built, &["300"], short, &[]);
        }
    }
}

fn cpp(what: &str, plugin: Option<&[&str]>) {
    let _alone = alone();
    for level in ["-O0", "-O2"] {
        let built = build("cpp.cpp", "c++", &["-std=c++17", level]);
        let plugin = plugin.map(|flags| {
            let flags = [&["-std=c++17", "-shared", "-fPIC", "-O2"], flags].concat();
            build("plugin.cpp", "c++", &flags)
        });
        let plugin = plugin.as_deref().and_then(Path::to_str).unwrap_or_default();
        for short in SHORT {
            guarded(&built, &[what, "400", plugin], short, &[]);
        }
    }
}

#[test]
fn exceptions_pass_through_waits() {
    cpp("exceptions", None);
}

#[test]
fn children_of_a_fork_wait_as_well() {
    cpp("forks", None);
}

#[test]
fn signals_in_the_middle_of_waits() {
    cpp("signals", None);
}

#[test]
fn libraries_with_waits_come_and_go() {
    cpp("libraries", Some(&[]));
}

#[test]
fn a_thread_waits_in_a_library_that_is_just_being_loaded() {
    cpp("constructors", Some(&["-DGIVES_WORK=wait_for"]));
    cpp("constructors", Some(&["-DGIVES_WORK=wait_tightly"]));
}
