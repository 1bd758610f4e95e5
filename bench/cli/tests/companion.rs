//! `manx-bench` and the `manx` that it measures with: the one beside it, and what it does where
//! there is none.

mod support;

use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{Sandbox, text};

/// A sandbox in which `manx-bench` lies in the folder `bin`, linked, not copied; while no other
/// test of this file writes programs: a file that is open for writing, here or in a process that is
/// just being started, cannot be executed.
fn installed() -> (MutexGuard<'static, ()>, Sandbox) {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let sandbox = Sandbox::within(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    std::fs::hard_link(env!("CARGO_BIN_EXE_manx-bench"), sandbox.path("bin/manx-bench")).unwrap();
    (alone, sandbox)
}

/// Profiles a program there; PATH has the folder `other` alone.
fn profile(sandbox: &Sandbox) -> Output {
    let mut command = Command::new(sandbox.path("bin/manx-bench"));
    command.args(["profile", "--", "program"]).env("PATH", sandbox.path("other")).output().unwrap()
}

#[test]
fn without_manx_nothing_is_measured_and_the_error_says_where_it_was_sought() {
    let (_alone, sandbox) = installed();
    let output = profile(&sandbox);
    assert_eq!(output.status.code(), Some(125));
    let (bin, said) = (sandbox.path("bin"), text(&output.stderr));
    let expected =
        format!("manx: profile: manx is neither in {} nor in the folders of PATH\n", bin.display());
    assert!(said.starts_with(&expected) && said.contains("`cargo xtask install`"), "{said}");
}

#[test]
fn what_manx_refuses_is_refused_in_its_words_and_the_one_beside_is_asked() {
    let (_alone, sandbox) = installed();
    std::fs::create_dir(sandbox.path("other")).unwrap();
    let manx = |what: &str| {
        format!("#!/bin/sh\necho \"manx: {what}: $*\" >&2\necho '  look\n  twice' >&2\nexit 126\n")
    };
    for place in ["other", "bin"] {
        sandbox.executable(&format!("{place}/manx"), &manx(place));
        let output = profile(&sandbox);
        assert_eq!(output.status.code(), Some(126), "{place}");
        let expected = format!("manx: {place}: run --dry-run --slo 1s -- program\n  look\n  twice\n");
        assert_eq!(text(&output.stderr), expected);
    }
}
