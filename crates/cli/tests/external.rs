//! Subcommands that are programs of their own: which file is started, what it is given, and what
//! comes back. Shell scripts stand in for the programs, and a copy of `manx` in a folder of its own
//! starts them.

mod support;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{MANX, Sandbox, bare, fails, output, stdout};
use testing::process::copy_program;

/// The subcommands, the program of each, and the arguments that it gets before all others.
const ALL: [(&str, &str, &[&str]); 2] =
    [("bench", "manx-bench", &[]), ("profile", "manx-bench", &["profile"])];

/// Prints its arguments, each between brackets.
const ECHO: &str = "#!/bin/sh\nprintf '[%s]' \"$@\"\n";

/// A sandbox, while no other test of this file writes programs: a process that another thread is
/// just starting would have such a file open, and a file that is open for writing cannot be
/// executed.
fn alone() -> (MutexGuard<'static, ()>, Sandbox) {
    static ALONE: Mutex<()> = Mutex::new(());
    (ALONE.lock().unwrap_or_else(PoisonError::into_inner), Sandbox::new())
}

/// A copy of `manx` in the sandbox's folder `bin`.
fn installed(sandbox: &Sandbox) -> PathBuf {
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    let manx = sandbox.path("bin/manx");
    copy_program(MANX, &manx);
    manx
}

/// That copy, with a PATH of these folders of the sandbox.
fn manx(sandbox: &Sandbox, folders: &[&str]) -> Command {
    let path = sandbox.path("bin/manx");
    let mut command = bare(if path.exists() { path } else { installed(sandbox) });
    command.env("PATH", std::env::join_paths(folders.iter().map(|name| sandbox.path(name))).unwrap());
    command
}

#[test]
fn a_program_that_is_missing_is_told_with_what_installs_it() {
    let (_alone, sandbox) = alone();
    for (subcommand, program, _) in ALL {
        let bin = sandbox.path("bin").display().to_string();
        let parts =
            [&format!("manx: {program} is neither in {bin} nor in the folders of PATH")[..], "xtask install"];
        fails(manx(&sandbox, &[]).args([subcommand, "--help"]), 127, &parts);
        fails(manx(&sandbox, &[]).args(["help", subcommand]), 127, &parts);
    }
}

#[test]
fn a_program_that_may_not_be_executed_is_told() {
    let (_alone, sandbox) = alone();
    for (subcommand, program, _) in ALL {
        installed_program(&sandbox, &format!("bin/{program}"), ECHO, 0o644);
        fails(manx(&sandbox, &[]).arg(subcommand), 126, &[program, "you may not execute it", "chmod +x"]);
    }
}

#[test]
fn the_program_beside_manx_comes_before_those_in_path() {
    let (_alone, sandbox) = alone();
    std::fs::create_dir(sandbox.path("first")).unwrap();
    std::fs::create_dir(sandbox.path("second")).unwrap();
    for (subcommand, program, _) in ALL {
        let mut said = Vec::new();
        // Each is nearer than those before.
        for place in ["second", "first", "bin"] {
            installed_program(
                &sandbox,
                &format!("{place}/{program}"),
                &format!("#!/bin/sh\necho {place}\n"),
                0o755,
            );
            let output = output(manx(&sandbox, &["first", "second"]).arg(subcommand));
            said.push(stdout(&output));
        }
        assert_eq!(said, ["second\n", "first\n", "bin\n"], "{subcommand}");
        // Another subcommand may start the same program.
        for place in ["second", "first", "bin"] {
            std::fs::remove_file(sandbox.path(place).join(program)).unwrap();
        }
    }
}

#[test]
fn arguments_are_passed_on_as_they_are() {
    let (_alone, sandbox) = alone();
    for (subcommand, program, before) in ALL {
        installed_program(&sandbox, &format!("bin/{program}"), ECHO, 0o755);
        let shown = |rest: &str| before.iter().map(|word| format!("[{word}]")).collect::<String>() + rest;
        for (rest, expected) in [
            (&["--help"][..], "[--help]"),
            (&["-h"], "[-h]"),
            (&["--version"], "[--version]"),
            (&["help", "x"], "[help][x]"),
            (&["--", "a b", "", "--", "*"], "[--][a b][][--][*]"),
            (&["bench", "--seed=1"], "[bench][--seed=1]"),
        ] {
            let output = output(manx(&sandbox, &[]).arg(subcommand).args(rest));
            assert_eq!(stdout(&output), shown(expected), "{subcommand} {rest:?}");
        }
        let strange = OsString::from_vec(b"x\xffy".to_vec());
        let output = output(manx(&sandbox, &[]).arg(subcommand).arg(strange));
        assert_eq!(output.stdout, [shown("[x").as_bytes(), b"\xffy]"].concat());
    }
}

#[test]
fn help_of_a_subcommand_is_the_programs_own() {
    let (_alone, sandbox) = alone();
    for (subcommand, program, before) in ALL {
        installed_program(&sandbox, &format!("bin/{program}"), ECHO, 0o755);
        let before: String = before.iter().map(|word| format!("[{word}]")).collect();
        let asked = output(manx(&sandbox, &[]).args(["help", subcommand]));
        assert_eq!(stdout(&asked), format!("{before}[--help]"));
        let asked = output(manx(&sandbox, &[]).args(["help", subcommand, "range"]));
        assert_eq!(stdout(&asked), format!("{before}[range][--help]"));
    }
}

#[test]
fn the_exit_status_is_the_programs_own_and_so_is_its_death_by_a_signal() {
    let (_alone, sandbox) = alone();
    for (subcommand, program, _) in ALL {
        for (script, code, signal) in [
            ("exit 0", Some(0), None),
            ("exit 7", Some(7), None),
            ("exit 130", Some(130), None),
            ("kill -TERM $$", None, Some(libc::SIGTERM)),
            ("kill -KILL $$", None, Some(libc::SIGKILL)),
        ] {
            installed_program(&sandbox, &format!("bin/{program}"), &format!("#!/bin/sh\n{script}\n"), 0o755);
            let status = output(manx(&sandbox, &[]).arg(subcommand)).status;
            assert_eq!((status.code(), status.signal()), (code, signal), "{subcommand}: {script}");
        }
    }
}

#[test]
fn the_program_has_the_process_and_its_signals() {
    let (_alone, sandbox) = alone();
    const PROGRAM: &str = "#!/bin/sh\necho $$\nwhile read -r key value; do [ $key = SigIgn: ] && echo $value; done < /proc/$$/status\n";
    for (subcommand, program, _) in ALL {
        installed_program(&sandbox, &format!("bin/{program}"), PROGRAM, 0o755);
        let mut command = manx(&sandbox, &[]);
        let child = command.arg(subcommand).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let id = child.id();
        let said = stdout(&child.wait_with_output().unwrap());
        let (process, ignored) = said.trim().split_once('\n').unwrap();
        assert_eq!(process, id.to_string(), "nothing is forked");
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        assert_eq!(ignored >> (libc::SIGPIPE - 1) & 1, 0, "SIGPIPE is ignored, and was not before");
    }
}

/// A program of the sandbox; `installed` makes the folder `bin` first.
fn installed_program(sandbox: &Sandbox, name: &str, text: &str, mode: u32) {
    if !sandbox.path("bin").exists() {
        installed(sandbox);
    }
    sandbox.write(name, text);
    support::chmod(&sandbox.path(name), mode);
}
