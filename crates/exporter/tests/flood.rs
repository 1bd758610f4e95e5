//! A flood of real processes: many short ones, and many programs at once.

use exporter::registry::{Limits, OTHER};
use exporter::watch::{Scope, Watch};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use testing::process::{compiler, copy_program};

/// The CPU time that a pass may take, in nanoseconds.
const PASS_NS: u64 = 4_000_000;
/// Programs with an entry of their own, in these tests.
const PROGRAMS: usize = 20;

/// Both tests watch the children of this process.
static ALONE: Mutex<()> = Mutex::new(());

fn watch() -> Watch {
    Watch::new(Scope::Tree(std::process::id()), Limits { programs: PROGRAMS, locks: 2 })
}

/// The memory of this process that no file backs, in bytes.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line RssAnon");
    line.trim().strip_suffix(" kB").expect("in kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn thousands_of_short_processes_leave_nothing_behind() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut watch = watch();
    watch.pass(PASS_NS);
    let mut flood = |rounds: usize| {
        for round in 0..rounds {
            let mut child = Command::new("true").spawn().expect("true");
            if round % 10 == 0 {
                watch.pass(PASS_NS);
            }
            child.wait().expect("ended");
        }
        watch.pass(PASS_NS);
        watch.processes().count()
    };
    let (watched, before) = (flood(500), anonymous_bytes());
    let (after_all, after) = (flood(2_000), anonymous_bytes());
    assert!(watched <= 1 && after_all <= 1, "{watched} and {after_all} processes");
    let more = after.saturating_sub(before);
    assert!(more < 4 << 20, "{more} bytes more");
}

#[test]
fn many_programs_at_once_are_summed_in_other() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let (source, sleeper) = (folder.path().join("sleeper.c"), folder.path().join("sleeper"));
    std::fs::write(&source, "#include <unistd.h>\nint main(void) { return pause(); }\n").expect("written");
    assert!(compiler(&source).arg("-o").arg(&sleeper).status().expect("a C compiler").success());
    let start = |at: usize| {
        let program = folder.path().join(format!("program-{at}"));
        copy_program(&sleeper, &program);
        Command::new(program).spawn().expect("started")
    };
    let mut children: Vec<Child> = (0..3 * PROGRAMS).map(start).collect();
    let mut watch = watch();
    testing::until("all are seen", || {
        watch.pass(PASS_NS);
        watch.processes().count() == children.len()
    });
    let named = watch.registry().programs().filter(|(_, program)| program.name.starts_with("program-"));
    // Programs without Manx have at most half of the entries.
    assert!(named.count() <= PROGRAMS / 2);
    let other = watch.registry().programs().find(|(_, program)| program.name == OTHER);
    assert!(other.is_some_and(|(_, program)| program.references() >= 2 * PROGRAMS));
    for child in &mut children {
        child.kill().expect("it sleeps");
        child.wait().expect("ended");
    }
    testing::until("they are gone", || {
        watch.pass(PASS_NS);
        watch.processes().count() == 0
    });
}
