//! `manx run --dry-run` shows the busy-wait loops of a program and its libraries, and what would be done.

mod support;

use std::path::PathBuf;
use support::{Sandbox, output, stderr, stdout};

/// The instruction that busy-wait loops hold, behind a name that both machines understand.
const PAUSE: &str = r#"
#if defined(__x86_64__)
#define PAUSE() __asm__ volatile("pause" ::: "memory")
#else
#define PAUSE() __asm__ volatile("yield" ::: "memory")
#endif
"#;

/// A library with one loop that waits for memory, and one that counts.
fn library(sandbox: &Sandbox) -> PathBuf {
    let source = format!(
        "{PAUSE}
        volatile int ready;
        void wait_for_memory(void) {{ while (!ready) PAUSE(); }}
        void delay(int count) {{ for (int i = 0; i < count; i++) PAUSE(); }}"
    );
    let options = ["-O2", "-shared", "-fPIC", "-Wl,-soname,libloops.so.1"];
    sandbox.compile("libloops.so.1", &source, &options).expect("a C compiler")
}

fn program(sandbox: &Sandbox) -> PathBuf {
    let library = library(sandbox);
    let source = "void wait_for_memory(void); int main(void) { wait_for_memory(); }";
    let options = [library.to_str().expect("text"), "-Wl,-rpath,$ORIGIN"];
    sandbox.compile("program", source, &options).expect("a C compiler")
}

/// The fates of the lines whose site starts with `function`.
fn fates(plan: &str, function: &str) -> Vec<String> {
    let site = format!("libloops.so.1  {function}+0x");
    plan.lines()
        .filter_map(|line| line.strip_prefix(&site)?.split_once("  "))
        .map(|(_, fate)| fate.trim().to_owned())
        .collect()
}

#[test]
fn loops_are_listed_with_what_would_be_done() {
    let sandbox = Sandbox::new();
    let program = program(&sandbox);
    let plan = |options: &[&str]| {
        let run = output(sandbox.manx().args(["run", "--dry-run"]).args(options).arg(&program));
        assert!(run.status.success(), "{}", stderr(&run));
        stdout(&run)
    };
    let on = plan(&[]);
    let fate = fates(&on, "wait_for_memory");
    assert!(fate.len() == 1 && fate[0].starts_with("repaired by a "), "{on}");
    let counted = format!("left alone: {}", spinloop::Reason::Counted);
    assert_eq!(fates(&on, "delay"), [counted], "{on}");
    // The loops of the C library, which would be left alone, are not worth a line.
    assert!(on.contains("2 busy-wait candidates in 2 files"), "{on}");

    assert_eq!(fates(&plan(&["--guard=sample"]), "wait_for_memory"), ["waited for when sampled"]);
    assert!(plan(&["--guard=off"]).ends_with("no loop is repaired: the guard is off\n"));
    let without = fates(&plan(&["--no-trap"]), "wait_for_memory");
    assert!(
        ["repaired by a jump", "left alone: no jump fits, and --no-trap is set"].contains(&&*without[0]),
        "{without:?}"
    );
}

#[test]
fn a_library_that_is_missing_is_named() {
    let sandbox = Sandbox::new();
    let program = program(&sandbox);
    std::fs::remove_file(sandbox.path("libloops.so.1")).expect("removed");
    let run = output(sandbox.manx().args(["run", "--dry-run"]).arg(program));
    assert!(stdout(&run).contains("not searched: libloops.so.1 was not found\n"), "{}", stdout(&run));
}
