//! Executes the program in place of this process.
//!
//! `execve` itself and not `std::process::Command`, which would empty the signal mask and reset
//! SIGPIPE; the program must find both as Manx's parent left them. Like `execvp`, a file that the
//! kernel does not know how to execute is given to `/bin/sh`.

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, USAGE, reason};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Replaces this process by `file`, with `command` as its arguments and `changes` made to the
/// environment. Returns only if it cannot.
pub fn exec(file: &Path, command: &[OsString], changes: &[(&'static str, OsString)]) -> Failure {
    let Some(path) = c_string(file.as_os_str()) else { return nul_byte() };
    let Some(arguments) = command.iter().map(|a| c_string(a)).collect::<Option<Vec<_>>>() else {
        return nul_byte();
    };
    let kept = std::env::vars_os().filter(|(name, _)| !changes.iter().any(|(changed, _)| name == changed));
    let added = changes.iter().map(|(name, value)| (OsString::from(name), value.clone()));
    let environment: Vec<CString> = kept
        .chain(added)
        .filter_map(|(name, value)| {
            let mut pair = name;
            pair.push("=");
            pair.push(value);
            c_string(&pair)
        })
        .collect();

    let mut error = execve(&path, &arguments, &environment);
    if error.raw_os_error() == Some(libc::ENOEXEC) {
        let mut with_shell = vec![c"sh".to_owned(), path.clone()];
        with_shell.extend_from_slice(&arguments[1..]);
        error = execve(c"/bin/sh", &with_shell, &environment);
    }
    explain(file, &error)
}

fn execve(path: &std::ffi::CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: all three are NUL-terminated strings or NULL-terminated arrays of them, and live
    // until the call returns, which it does only on failure.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

fn explain(file: &Path, error: &io::Error) -> Failure {
    let file = file.display();
    match error.raw_os_error() {
        Some(libc::ENOENT) => Failure::new(
            NOT_FOUND,
            format!("{file}: the program, or the interpreter that it names, is gone"),
            "it was there a moment ago: see who removes it",
        ),
        Some(libc::ELOOP) => Failure::new(
            NOT_EXECUTABLE,
            format!("{file}: too many scripts that interpret one another"),
            "see whether a `#!` line names its own script",
        ),
        Some(libc::E2BIG) => Failure::new(
            NOT_EXECUTABLE,
            format!("{file}: the arguments and the environment are too long"),
            "pass fewer arguments, or raise `ulimit -s`",
        ),
        _ => Failure::new(
            NOT_EXECUTABLE,
            format!("{file}: cannot be executed: {}", reason(error)),
            "see execve(2) for what the system asks of a program",
        ),
    }
}

fn c_string(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

fn nul_byte() -> Failure {
    Failure::new(USAGE, "an argument holds a NUL byte", "no program can be given one")
}
