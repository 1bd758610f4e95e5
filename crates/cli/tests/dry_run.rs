//! `manx run --dry-run` shows the busy-wait loops of a program and its libraries, and what would be
//! done.

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

/// A library with a loop of each kind: one that waits for memory, one that counts and sleeps, one
/// that counts and gives up, and a delay.
fn library(sandbox: &Sandbox) -> PathBuf {
    let source = format!(
        "#include <sched.h>
        {PAUSE}
        static volatile int ready;
        void wait_for_memory(void) {{ while (!ready) PAUSE(); }}
        void counts_and_yields(int n) {{
            for (int i = 0; i < n; i++) {{ if (ready) return; PAUSE(); }}
            sched_yield();
        }}
        void counts(int n) {{ for (int i = 0; i < n; i++) {{ if (ready) return; PAUSE(); }} }}
        void delay(int count) {{ for (int i = 0; i < count; i++) PAUSE(); }}
        static volatile long calls;
        void opal_progress(void) {{ calls++; }}
        void advance(void) {{ calls += 2; }}"
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
    assert!(fate[0].ends_with("; waits without a bound"), "{on}");
    if cfg!(target_arch = "x86_64") {
        for (function, kind) in [
            ("counts_and_yields", "; spins for a number of rounds"),
            ("counts", "; spins for a number of rounds"),
            ("opal_progress", "; its callers wait by polling"),
        ] {
            let fate = fates(&on, function);
            assert!(fate.len() == 1 && fate[0].starts_with("repaired by a "), "{on}");
            assert!(fate[0].ends_with(kind), "{on}");
        }
        assert_eq!(fates(&on, "advance"), [""; 0]);
        for named in ["libloops.so.1:advance", "libloops*:adv*"] {
            let named = plan(&["--poll", named]);
            let fate = fates(&named, "advance");
            assert!(fate.len() == 1 && fate[0].ends_with("; its callers wait by polling"), "{named}");
        }
    }
    let counted = format!("left alone: {}", spinloop::Reason::Counted);
    assert_eq!(fates(&on, "delay"), [counted], "{on}");
    // The loops of the C library, which would be left alone, are not worth a line.
    let candidates = if cfg!(target_arch = "x86_64") { 5 } else { 4 };
    assert!(on.contains(&format!("{candidates} busy-wait candidates in 2 files")), "{on}");

    assert!(plan(&["--guard=off"]).ends_with("no loop is repaired: the guard is off\n"));
}

#[test]
fn what_is_not_meant_is_shown_with_that_reason() {
    let sandbox = Sandbox::new();
    let program = program(&sandbox);
    let plan = |options: &[&str]| {
        let run = output(sandbox.manx().args(["run", "--dry-run"]).args(options).arg(&program));
        assert!(run.status.success(), "{}", stderr(&run));
        stdout(&run)
    };
    let repaired = |plan: &str| fates(plan, "wait_for_memory")[0].starts_with("repaired by a ");
    let verbose = plan(&["--only=libother.so.1,libloops.so*:wait*", "--not=libloops.so.1:delay"]);
    assert!(repaired(&verbose), "{verbose}");
    assert!(verbose.contains("not searched: program is not meant\n"), "{verbose}");
    assert!(
        verbose
            .contains("MANX_OPTIONS=guard=on,only=libother.so.1+libloops.so*:wait*,not=libloops.so.1:delay,")
    );

    let by_name = plan(&["--not", "libloops.so.1:wait_for_memory"]);
    assert_eq!(fates(&by_name, "wait_for_memory"), ["left alone: not meant"], "{by_name}");
    let library = plan(&["--not", "libother.so", "--not", "libloops.so.1"]);
    assert!(library.contains("not searched: libloops.so.1 is not meant\n"), "{library}");
    assert!(library.contains("0 busy-wait candidates in 1 file,"), "{library}");

    // Nothing is said of loops in a program that is not meant, and it is told no CPU count.
    for options in [["--not", "program"], ["--only", "other"]] {
        let text = plan(&options);
        let told = "runs unchanged: not meant; what it starts is judged by its own name\n";
        assert!(text.contains(told) && text.contains("MANX_OPTIONS=guard=on,"), "{text}");
        assert!(text.ends_with("CPUs         as without Manx\n"), "{text}");
    }
    assert!(repaired(&plan(&["--only", "program", "--not", "*.so.2"])));
}

#[test]
fn a_function_that_is_not_exported_is_shown_with_its_offset() {
    let sandbox = Sandbox::new();
    let source = format!(
        "{PAUSE}
        volatile int ready;
        static __attribute__((noinline)) void hidden(void) {{ while (!ready) PAUSE(); }}
        int main(void) {{ hidden(); return 0; }}"
    );
    let program = sandbox.compile("hides", &source, &["-O2"]).expect("a C compiler");
    let plan = |not: &str| {
        let run = output(sandbox.manx().args(["run", "--dry-run", "--not", not]).arg(&program));
        assert!(run.status.success(), "{}", stderr(&run));
        stdout(&run)
    };
    let line =
        |plan: &str| plan.lines().find(|line| line.contains("  hidden+0x")).expect("a line").to_owned();
    // The library will not know the name, so it does not count here either.
    let by_name = line(&plan("hides:hidden"));
    assert!(by_name.contains("repaired by a "), "{by_name}");
    let (_, rest) = by_name.split_once(" (").expect("an offset");
    let (offset, _) = rest.split_once(')').expect("an offset");
    let by_offset = line(&plan(&format!("hides:{offset}")));
    assert!(by_offset.ends_with("left alone: not meant"), "{by_offset}");
    // A link is a name of the program, but not of its file.
    let link = sandbox.path("link");
    std::os::unix::fs::symlink(&program, &link).expect("a link");
    for (not, meant) in [("link", false), ("hides", false), ("lib:link", true), ("other", true)] {
        let run = output(sandbox.manx().args(["run", "--dry-run", "--not", not]).arg(&link));
        assert_eq!(!stdout(&run).contains("runs unchanged"), meant, "{not}: {}", stdout(&run));
    }
}

#[test]
fn a_script_is_meant_by_its_own_name_or_its_interpreters() {
    let sandbox = Sandbox::new();
    let direct = sandbox.executable("direct", "#!/bin/sh\n");
    let through_env = sandbox.executable("through", "#!/usr/bin/env sh\n");
    // `env` executes the shell anew, so the kernel forgets the script.
    for (script, not, meant) in [
        (&direct, "direct", false),
        (&direct, "sh", true),
        (&through_env, "through", true),
        (&through_env, "sh", false),
    ] {
        let run = output(sandbox.manx().args(["run", "--dry-run", "--not", not]).arg(script));
        let plan = stdout(&run);
        // Where sh is no link, it is the interpreter's own name.
        let own = std::fs::canonicalize("/bin/sh").expect("a shell");
        let meant = meant && own.file_name().is_none_or(|name| name != not);
        assert_eq!(!plan.contains("runs unchanged"), meant, "{not}: {plan}");
    }
}

#[test]
fn a_library_that_is_missing_is_named() {
    let sandbox = Sandbox::new();
    let program = program(&sandbox);
    std::fs::remove_file(sandbox.path("libloops.so.1")).expect("removed");
    let run = output(sandbox.manx().args(["run", "--dry-run"]).arg(program));
    assert!(stdout(&run).contains("not searched: libloops.so.1 was not found\n"), "{}", stdout(&run));
}

#[test]
fn damaged_files_are_looked_at_without_a_panic() {
    /// The ELF header and the program headers, where damage does most.
    const HEADERS: usize = 64 + 13 * 56;
    let sandbox = Sandbox::new();
    let program = program(&sandbox);
    let library = sandbox.path("libloops.so.1");
    for (file, name) in [(&program, "damaged"), (&library, "libloops.so.1")] {
        let whole = std::fs::read(file).expect("readable");
        for seed in 0..100 {
            let mut numbers = fastrand::Rng::with_seed(seed);
            let mut bytes = whole.clone();
            // The first bytes stay, or it would be no ELF file.
            for _ in 0..1 + numbers.usize(..4) {
                let end = if numbers.usize(..4) == 0 { bytes.len() } else { HEADERS };
                let at = 4 + numbers.usize(..end - 4);
                bytes[at] = [0, 0xff, numbers.u8(..)][numbers.usize(..3)];
            }
            if numbers.usize(..8) == 0 {
                bytes.truncate(64 + numbers.usize(..whole.len() - 64));
            }
            let damaged = sandbox.executable(name, bytes);
            let asked = if file == &program { &damaged } else { &program };
            let run = output(sandbox.manx().args(["run", "--dry-run"]).arg(asked));
            let told = matches!(run.status.code(), Some(0 | 126 | 127)) && !stderr(&run).contains("panicked");
            assert!(told, "seed {seed} of {name}: {:?}: {}", run.status, stderr(&run));
        }
    }
}
