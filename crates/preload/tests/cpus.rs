//! Programs that ask how many CPUs there are get the truth, and whatever they do with it still
//! works.
//!
//! Expected counts come from the machine: what the C library says, and what the affinity allows, of
//! this test's own process. Where that is one CPU, one is what all of them say.

mod common;
#[path = "../../manx/tests/common/groups.rs"]
mod groups;

use common::machine::{allowed, budget, online};
use common::{Outcome, compiled_as, finish, folder, preloaded, program, program_with, shared_library};
use groups::Group;
use manx::cpu::CpuSet;
use preload_abi::pacer::{PACER_VARIABLE, Pacer};
use std::path::Path;
use std::process::Command;
use testing::process::{Running, is_installed};

/// A program under the library with these options.
fn under(program: &Path, arguments: &[usize], options: &str) -> Command {
    let mut command = preloaded(program, options);
    command.args(arguments.iter().map(usize::to_string));
    // Those of whoever runs the test are not what is tested.
    for name in ["OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_DYNAMIC"] {
        command.env_remove(name);
    }
    command
}

fn run(name: &str, arguments: &[usize], options: &str) -> Outcome {
    finish(&mut under(&program(name), arguments, options))
}

#[test]
fn counts_are_told_and_everything_else_is_the_c_librarys() {
    let all = [0, 0, 0];
    for (options, wanted) in [
        ("cpus=keep", all),
        ("cpus=1", [1, 0, 0]),
        ("cpus=8192", all),
        ("cpus=1,cpus_also=configured", [1, 1, 0]),
        ("cpus=1,cpus_also=affinity", [1, 0, 1]),
        ("cpus=1,cpus_also=affinity+configured+java", [1, 1, 1]),
        ("cpus=keep,cpus_also=affinity+configured", all),
        ("cpus=1,guard=off,lock=glibc", [1, 0, 0]),
        ("cpus=1,guard=always", [1, 0, 0]),
        ("cpus=auto", [budget(), 0, 0]),
        ("", [budget(), 0, 0]),
        ("cpus=nonsense", [budget(), 0, 0]),
    ] {
        let outcome = run("cpus_told", &wanted, options);
        assert!(outcome.status.success(), "{options}: {}", outcome.stderr);
    }
}

#[test]
fn a_count_bounds_the_numbers_of_cpus_wherever_the_program_can_know_them() {
    if online() < 2 {
        return testing::skip("with one CPU there is nothing to lower");
    }
    let asks = shared_library("cpus_asks");
    let rpath = format!("-Wl,-rpath,{}", folder().display());
    let linked = ["-Wl,--no-as-needed", asks.to_str().expect("utf-8"), &rpath];
    const SET: &str = "BINDS(set)=sched_setaffinity(0, sizeof *set, set)";
    const SET_PTHREAD: &str = "BINDS(set)=pthread_setaffinity_np(pthread_self(), sizeof *set, set)";
    const BY_SYSCALL: &str = "BINDS(set)=(syscall(SYS_sched_setaffinity, 0, sizeof *set, set) < 0)";
    for (index, (count, current, binds)) in [
        ("sysconf(_SC_NPROCESSORS_ONLN)", "sched_getcpu()", SET),
        ("get_nprocs()", "sched_getcpu()", SET_PTHREAD),
        ("get_nprocs()", "by_syscall()", BY_SYSCALL),
        ("std::thread::hardware_concurrency()", "sched_getcpu()", SET),
        ("library_asks()", "sched_getcpu()", SET),
        // Worker number `cpu` is bound to that CPU.
        ("sysconf(_SC_NPROCESSORS_ONLN)", "cpu", SET_PTHREAD),
    ]
    .into_iter()
    .enumerate()
    {
        let defines = [("COUNT", count), ("CURRENT", current)].map(|(name, is)| format!("-D{name}={is}"));
        let binds = format!("-D{binds}");
        let flags = [&linked[..], &[&defines[0], &defines[1], &binds]].concat();
        let program = compiled_as("cpus_bound", &format!("cpus_bound-{index}"), &flags);
        for options in ["cpus=1", "cpus=auto", "cpus=1,cpus_also=affinity+configured"] {
            let outcome = finish(&mut under(&program, &[], options));
            assert!(outcome.status.success(), "{count}, {current}, {options}: {}", outcome.stderr);
        }
        let outcome = finish(&mut under(&program, &[], "cpus=1,cpus_also=online"));
        assert!(!outcome.status.success(), "{count}, {current}: the user said that it only counts");
    }
}

#[test]
fn a_program_with_manx_off_is_told_nothing_of_cpus() {
    let mut command = under(&program("cpus_told"), &[0, 0, 0], "cpus=1,cpus_also=affinity+configured");
    command.env("MANX", "off");
    finish(&mut command).succeeded();
}

#[test]
fn threads_can_be_bound_to_what_the_mask_has() {
    for (options, in_mask) in [
        ("cpus=auto", allowed()),
        ("cpus=1", allowed()),
        ("cpus=1,cpus_also=affinity", 1),
        ("cpus=8192,cpus_also=affinity", allowed()),
    ] {
        let outcome = run("cpus_pins", &[in_mask], options);
        assert!(outcome.status.success(), "{options}: {}", outcome.stderr);
    }
}

#[test]
fn an_affinity_that_the_program_was_started_with_counts() {
    let mut command = preloaded("taskset", "cpus=auto");
    let first = CpuSet::of_this_thread().iter().next().expect("at least one");
    command.arg("-c").arg(first.to_string()).arg(program("cpus_told")).args(["1", "0", "1"]);
    if !is_installed("taskset", "-V") {
        return;
    }
    finish(&mut command).succeeded();
}

/// A process that sleeps stands for the helper that paces a quota.
#[test]
fn cpus_that_a_helper_has_taken_away_for_a_moment_are_told() {
    let all = CpuSet::of_this_thread();
    let cpus: Vec<usize> = all.iter().collect();
    let [first, .., last] = cpus[..] else { return testing::skip("with one CPU none is taken away") };
    let only = |cpu: usize| cpu.to_string().parse::<CpuSet>().expect("a CPU");
    let mut sleep = Command::new("sleep");
    let helper = Running::start(sleep.arg("600"));
    platform::cpu::bind_other(helper.child.id(), only(first).words()).expect("our own child");
    let pacer = Pacer { pid: helper.child.id(), allowed: *all.words() };
    let nproc = |cpu: usize, options: &str| {
        let mut command = preloaded("taskset", options);
        command.args(["-c", &cpu.to_string(), "nproc"]).env(PACER_VARIABLE, pacer.to_string());
        ["OMP_NUM_THREADS", "OMP_THREAD_LIMIT"].iter().for_each(|name| _ = command.env_remove(name));
        finish(&mut command).succeeded().stdout.trim().parse::<usize>().expect("a count")
    };
    assert_eq!(nproc(first, "cpus=keep"), all.len(), "the helper has the same");
    assert_eq!(nproc(last, "cpus=keep"), 1, "the user has bound it");
    platform::cpu::bind_other(helper.child.id(), all.words()).expect("our own child");
    assert_eq!(nproc(first, "cpus=keep"), 1, "the helper has all");
}

#[test]
fn programs_that_only_count_are_told_by_the_mask() {
    let program = program("cpus_counters");
    finish(&mut under(&program, &[1, allowed()], "cpus=1")).succeeded();
    finish(&mut under(&program, &[1, 1], "cpus=1,cpus_also=affinity")).succeeded();
    finish(&mut under(&program, &[allowed(), allowed()], "cpus=keep")).succeeded();
    finish(&mut under(&program, &[budget().min(allowed()), allowed()], "cpus=auto")).succeeded();
}

#[test]
fn anybody_may_ask_at_any_time() {
    let begin = shared_library("cpus_begin");
    let rpath = format!("-Wl,-rpath,{}", folder().display());
    let program = program_with("cpus_early", &[begin.to_str().expect("utf-8"), &rpath]);
    for (options, told) in [
        ("cpus=auto", budget()),
        ("cpus=auto,guard=always", budget()),
        ("cpus=auto,guard=off,lock=glibc", budget()),
        ("cpus=1", 1),
    ] {
        let outcome = finish(&mut under(&program, &[told], options));
        assert!(outcome.status.success(), "{options}: {}", outcome.stderr);
    }
}

#[test]
fn a_thousand_forks_while_others_ask() {
    for options in ["cpus=auto", "cpus=auto,guard=off,lock=glibc"] {
        let outcome = run("cpus_forks", &[budget()], options);
        assert!(outcome.status.success(), "{options}: {}", outcome.stderr);
    }
}

#[test]
fn asking_leaves_nothing_behind() {
    run("cpus_tidy", &[budget()], "cpus=auto").succeeded();
}

#[test]
fn cpp_and_openmp() {
    let program = program_with("cpus_cpp", &["-fopenmp"]);
    finish(&mut under(&program, &[1, allowed(), allowed()], "cpus=1")).succeeded();
    finish(&mut under(&program, &[1, 1, 1], "cpus=1,cpus_also=affinity")).succeeded();
    // What `manx run` adds.
    let mut told = under(&program, &[1, allowed(), 1], "cpus=1");
    told.env("OMP_NUM_THREADS", "1");
    finish(&mut told).succeeded();
}

#[test]
fn quotas_of_any_group_above_count() {
    let Some(group) = Group::or_skip("cpu") else { return };
    let child = group.child("child");
    let machine = online() as u64 * 1000;
    // The group's and its child's quotas, in thousandths of a CPU, and what is told of them.
    for (parent, own, told) in [
        (None, Some(500), 1),
        (None, Some(1000), 1),
        (None, Some(1500), 1),
        (Some(500), None, 1),
        (Some(1000), None, 1),
        (Some(1500), None, 1),
        (Some(1500), Some(1000), 1),
        (None, None, budget()),
        (Some(machine + 500), None, budget()),
    ] {
        // A child may have no more than its parent, at any moment.
        child.set_quota(None);
        group.set_quota(parent);
        child.set_quota(own);
        let mut command = under(&program("cpus_told"), &[told, 0, 0], "cpus=auto");
        child.hold(&mut command);
        let outcome = finish(&mut command);
        assert!(outcome.status.success(), "{parent:?}, {own:?}: {}", outcome.stderr);
    }
}

#[test]
fn a_quota_that_changes_is_seen() {
    let Some(group) = Group::or_skip("cpu") else { return };
    group.set_quota(Some(1000));
    let mut command = under(&program("cpus_change"), &[1, budget()], "cpus=auto");
    group.hold(&mut command);
    let mut running = Running::start(&mut command);
    assert_eq!(running.line().as_deref(), Some("ready"));
    group.set_quota(None);
    assert!(running.child.wait().expect("a child").success());
}
