//! What the commands `manx` and `manx-bench` share, so that a user cannot tell where
//! one ends.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`failure`] | errors as the user sees them, and the exit codes |
//! | [`sigpipe`] | a reader that goes away is no error |
//! | [`companion`] | one of the commands finds another and starts it |
//! | [`search`], [`exec`] | a program's file, and becoming that program |
//! | [`statistics`] | the median of repeats, and its interval |
//! | [`table`] | columns that align |
//! | [`machine`] | what decides how fast a program runs here |
//! | [`duration`], [`slo`], [`cores`] | options that more than one of the commands takes |
//!
//! [`main`] is the frame of every command, [`parsed`] the way from its definition to its arguments.

pub mod companion;
pub mod cores;
pub mod duration;
pub mod exec;
pub mod failure;
pub mod machine;
pub mod search;
pub mod sigpipe;
pub mod slo;
pub mod statistics;
pub mod table;

use failure::Failure;
use sigpipe::Inherited;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a command and exits with its code; a failure is written to standard error first.
///
/// To be called by the C `main`, not by Rust's: Rust's runtime ignores SIGPIPE and opens the
/// standard descriptors that are closed before `main` starts, and a program that the command
/// becomes would inherit both.
pub fn main(act: impl FnOnce(Inherited) -> Result<u8, Failure>) -> ! {
    let inherited = sigpipe::ignore();
    // Nothing of `act` is looked at after a panic: the process ends.
    let outcome = catch_unwind(AssertUnwindSafe(|| act(inherited)));
    std::process::exit(match outcome {
        Ok(Ok(code)) => i32::from(code),
        Ok(Err(failure)) => {
            // If standard error cannot be written, there is no place for the message.
            let _ = writeln!(std::io::stderr(), "{failure}");
            i32::from(failure.code)
        }
        // The panic hook has already said what happened; 101 is what Rust's own `main` would
        // return.
        Err(_) => 101,
    })
}

/// Gives `act` what the process's arguments say by this definition. Help goes to standard output
/// and a wrong command line to standard error; the exit code of either is returned.
///
/// # Errors
/// Those of `act`.
pub fn parsed<A: clap::FromArgMatches>(
    mut definition: clap::Command,
    act: impl FnOnce(A) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let matches = definition.try_get_matches_from_mut(std::env::args_os());
    let arguments =
        matches.and_then(|matches| A::from_arg_matches(&matches).map_err(|e| e.format(&mut definition)));
    match arguments {
        Ok(arguments) => act(arguments),
        Err(error) => {
            // As in `main`: there is no other place for the message.
            let _ = error.print();
            Ok(error.exit_code() as u8)
        }
    }
}
