//! Instructions, counted by Valgrind's callgrind where the processor counts none for us.
//!
//! Callgrind runs a program's machine code one instruction after the other on a processor of its
//! own and counts them: the same number in every run, as long as the program does the same. It runs
//! one thread at a time, so only a program of one is asked about. What a start costs is the same
//! whatever the program then does, so a longer run's instructions less a shorter run's are those of
//! the operations between ([`per_operation`]).

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::reason;

/// Whether there is a Valgrind in PATH.
pub(super) fn is_there() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// How many instructions an operation takes, by running `program` with the arguments for two
/// numbers of operations.
///
/// # Errors
/// In words: the program failed below callgrind, or the longer run did not take more instructions.
pub(super) fn per_operation(
    program: &Path,
    arguments: impl Fn(u64) -> Vec<OsString>,
    few: u64,
    many: u64,
) -> Result<f64, String> {
    assert!(few < many);
    let (less, more) = (total(program, &arguments(few))?, total(program, &arguments(many))?);
    match more.checked_sub(less) {
        Some(instructions) => Ok(instructions as f64 / (many - few) as f64),
        None => Err(format!("{many} operations took {more} instructions, and {few} took {less}")),
    }
}

/// The instructions of one run.
fn total(program: &Path, arguments: &[OsString]) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| reason(&error))?;
    let file = folder.path().join("callgrind.out");
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(&file);
    let mut command = Command::new("valgrind");
    command.args(["-q", "--tool=callgrind"]).arg(out).arg(program).args(arguments).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("valgrind: {}", reason(&error)))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().next_back().unwrap_or_default();
        return Err(format!("{} below callgrind: {}: {last}", program.display(), output.status));
    }
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("callgrind's result: {}", reason(&error)))?;
    instructions(&text).ok_or_else(|| "callgrind's result has no number of instructions".into())
}

/// The number in callgrind's file: the first column of the totals, if that is of instructions.
fn instructions(text: &str) -> Option<u64> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    if value("events:")?.split_whitespace().next() != Some("Ir") {
        return None;
    }
    value("totals:").or_else(|| value("summary:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_that_of_instructions_or_there_is_none() {
        let text = "version: 1\nevents: Ir Dr\nfn=(1) main\n1 5 2\nsummary: 12 3\ntotals: 1234 5\n";
        assert_eq!(instructions(text), Some(1234));
        assert_eq!(instructions("events: Ir\nsummary: 77\n"), Some(77));
        assert_eq!(instructions("events: Dr Ir\ntotals: 5 6\n"), None);
        assert_eq!(instructions("events: Ir\n"), None);
        assert_eq!(instructions("events: Ir\ntotals: many\n"), None);
        assert_eq!(instructions(""), None);
    }

    #[test]
    fn more_work_takes_more_instructions_and_a_failure_says_so() {
        if !is_there() {
            assert!(total(Path::new("/bin/true"), &[]).is_err());
            return testing::skip("in part: valgrind is not installed");
        }
        // A shell that counts.
        let shell = Path::new("/bin/sh");
        let counts = |operations: u64| {
            let script = format!("i=0; while [ $i -lt {operations} ]; do i=$((i+1)); done");
            vec!["-c".into(), script.into()]
        };
        let one = per_operation(shell, counts, 10, 110).unwrap();
        assert!(one > 10.0, "{one} instructions for a round of a shell's loop");
        let words = total(shell, &["-c".into(), "exit 3".into()]).unwrap_err();
        assert!(words.contains("/bin/sh") && words.contains('3'), "{words}");
    }
}
