//! `manx run` under a quota of CPU time: what the helper does to a program, and what the program
//! sees of the helper.

#[path = "../../manx/tests/common/groups.rs"]
mod groups;
mod support;

use groups::Group;
use manx::cpu::CpuSet;
use preload_abi::pacer::{PACER_VARIABLE, Pacer};
use std::fs;
use std::process::{Child, Stdio};
use support::{Sandbox, output, stdout};
use testing::until;

/// Ends the processes of a test, however it ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // SAFETY: the test's own process group.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// So little of a CPU, in thousandths, that busy programs are stopped also beside neighbours.
const LITTLE: Option<u64> = Some(250);

/// A group with little of a CPU, on a machine with more than one.
fn group_with_little() -> Option<Group> {
    if CpuSet::of_this_thread().len() < 2 {
        testing::skip("there is one CPU: a program cannot be kept to fewer");
        return None;
    }
    let group = Group::or_skip("cpu")?;
    group.set_quota(LITTLE);
    Some(group)
}

/// The numbers of the shells that a program has started, and its own.
fn family(program: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{program}/task/{program}/children"));
    let children = children.expect("a kernel that lists children");
    let is_shell = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() != "manx-quota")
    };
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    children.filter(is_shell).chain([program]).collect()
}

/// Whether a program and its three shells have this number of CPUs each.
fn have(program: &Killed, cpus: usize) -> bool {
    let family = family(program.0.id());
    family.len() == 4 && family.iter().all(|&pid| affinity(pid).len() == cpus)
}

fn affinity(process: u32) -> CpuSet {
    platform::cpu::allowed_of(process).map_or(CpuSet::EMPTY, CpuSet::from_words)
}

/// Starts a program with three busy processes in the group, in a process group of its own.
fn busy(sandbox: &Sandbox, group: &Group, options: &[&str], more: &str) -> Killed {
    use std::os::unix::process::CommandExt as _;
    let loops = "for i in 1 2 3; do while :; do :; done & done";
    let mut command = sandbox.manx();
    command.arg("run").args(options).args(["--", "sh", "-c", &format!("{loops}; {more} wait")]);
    group.hold(&mut command);
    Killed(command.process_group(0).stdin(Stdio::null()).spawn().expect("manx"))
}

#[test]
fn a_program_that_its_quota_stops_is_kept_to_as_many_cpus_as_it_pays_for() {
    let Some(group) = group_with_little() else { return };
    let sandbox = Sandbox::new();
    let all = CpuSet::of_this_thread();
    let program = busy(&sandbox, &group, &[], "");
    until("four processes on one CPU", || have(&program, 1));
    let chosen = affinity(program.0.id());
    assert!(family(program.0.id()).iter().all(|&pid| affinity(pid) == chosen), "all on the same CPU");
    group.set_quota(None);
    until("the CPUs are as before, without a quota", || have(&program, all.len()));
    group.set_quota(LITTLE);
    until("one CPU again", || have(&program, 1));
    drop(program);
    group.remove();
}

#[test]
fn programs_of_one_group_are_on_the_same_cpus_also_when_one_of_them_ends() {
    let Some(group) = group_with_little() else { return };
    let sandbox = Sandbox::new();
    let first = busy(&sandbox, &group, &[], "");
    until("four processes on one CPU", || have(&first, 1));
    let second = busy(&sandbox, &group, &[], "");
    until("eight processes on the same CPU", || {
        let both = [family(first.0.id()), family(second.0.id())].concat();
        let chosen = affinity(first.0.id());
        both.len() == 8 && chosen.len() == 1 && both.iter().all(|&pid| affinity(pid) == chosen)
    });
    drop(first);
    until("the others have one CPU, by another helper", || have(&second, 1));
    drop(second);
    group.remove();
}

#[test]
fn what_the_program_binds_itself_stays() {
    let Some(group) = group_with_little() else { return };
    let all: Vec<usize> = CpuSet::of_this_thread().iter().collect();
    let sandbox = Sandbox::new();
    let last = all[all.len() - 1];
    let bound = format!("taskset -c {last} sh -c 'while :; do :; done' &");
    let program = busy(&sandbox, &group, &[], &bound);
    let own: CpuSet = last.to_string().parse().expect("a CPU");
    let kept = || family(program.0.id()).iter().filter(|&&pid| affinity(pid).len() == 1).count();
    until("five processes on one CPU each", || kept() == 5);
    let is_own = |pid: &&u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("sh\0-c\0while") && affinity(**pid) == own
    };
    assert!(family(program.0.id()).iter().any(|pid| is_own(&pid)), "bound by `taskset`");
    drop(program);
    group.remove();
}

/// What the library tells the program rests on that (`preload/src/cpus/paced.rs`).
#[test]
fn the_program_knows_its_helper_and_each_helper_has_the_cpus_of_the_group() {
    let Some(group) = group_with_little() else { return };
    let sandbox = Sandbox::new();
    let all = CpuSet::of_this_thread();
    let programs = [busy(&sandbox, &group, &[], ""), busy(&sandbox, &group, &[], "")];
    let helper = |program: &Killed| {
        let environment = fs::read(format!("/proc/{}/environ", program.0.id())).expect("a running program");
        let mut values = environment.split(|&byte| byte == 0);
        let value = values.find_map(|it| it.strip_prefix(PACER_VARIABLE.as_bytes())?.strip_prefix(b"="));
        Pacer::parse(value?)
    };
    until("both are kept to one CPU", || programs.iter().all(|program| have(program, 1)));
    for program in &programs {
        let Pacer { pid, allowed } = helper(program).expect("a helper");
        assert_eq!(CpuSet::from_words(allowed), all);
        until("the helper has that CPU", || affinity(pid) == affinity(program.0.id()));
    }
    group.set_quota(None);
    for program in &programs {
        let pid = helper(program).expect("a helper").pid;
        until("it has all again", || affinity(pid) == all && have(program, all.len()));
    }
    drop(programs);
    group.remove();
}

#[test]
fn what_is_not_meant_keeps_its_cpus() {
    let Some(group) = group_with_little() else { return };
    let sandbox = Sandbox::new();
    let all = CpuSet::of_this_thread();
    let loose = "env MANX=off sh -c 'while :; do :; done' &";
    let program = busy(&sandbox, &group, &[], loose);
    until("four processes on one CPU, and one on all", || {
        let family = family(program.0.id());
        let kept = |cpus: usize| family.iter().filter(|&&pid| affinity(pid).len() == cpus).count();
        family.len() == 5 && kept(1) >= 4 && kept(1) + kept(all.len()) == 5
    });
    drop(program);
    group.remove();
}

#[test]
fn there_is_a_helper_only_under_a_quota_that_may_be_paced() {
    let Some(group) = group_with_little() else { return };
    let sandbox = Sandbox::new();
    let children = |options: &[&str]| {
        let mut command = sandbox.manx();
        let script = "cat /proc/$$/task/$$/children; true";
        command.arg("run").args(options).args(["--", "sh", "-c", script]);
        group.hold(&mut command);
        stdout(&output(&mut command)).split_whitespace().count()
    };
    assert_eq!([children(&[]), children(&["--quota=leave"])], [2, 1], "`cat`, and the helper");
    group.set_quota(None);
    assert_eq!(children(&[]), 1);
    group.remove();
}

#[test]
fn the_program_sees_no_child_and_keeps_its_own_streams() {
    let Some(group) = group_with_little() else { return };
    let sandbox = Sandbox::new();
    let source = r#"
        #include <errno.h>
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            if (wait(NULL) != -1 || errno != ECHILD) return 1;
            if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) return 2;
            printf("%d", (int)getpgrp() == (int)getpgid(getpid()));
            return 0;
        }
    "#;
    let program = sandbox.compile("childless", source, &[]).expect("a C compiler");
    let mut command = sandbox.manx();
    command.arg("run").arg("--").arg(&program);
    group.hold(&mut command);
    // This returns when no process holds the streams any more.
    let run = output(&mut command);
    assert_eq!((run.status.code(), stdout(&run).as_str()), (Some(0), "1"));
    group.remove();
}
