//! `manx run`: becomes the program, with the preload library in front of it.
//!
//! Order of what happens, and of what is complained about first: the options are put together
//! ([`settings`]), the program is found and looked at ([`program`]), the library is found and looked at
//! ([`library`]), the environment is composed ([`environment`]), and the process executes the program
//! ([`exec`]). Nothing is forked and nothing stays behind, so signals, exit status, terminal and standard
//! streams are the program's own.

pub mod environment;
pub mod exec;
pub mod library;
pub mod program;
pub mod settings;

use crate::failure::Failure;
use crate::sigpipe::Inherited;
use std::ffi::OsString;

/// The arguments of `manx run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: settings::Flags,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]")]
    command: Vec<OsString>,
}

/// Becomes the program.
///
/// # Errors
/// Whatever keeps the program from being run, with its exit code.
pub fn run(args: &Args, inherited: Inherited) -> Result<u8, Failure> {
    let settings = settings::Settings::gather(&args.flags)?;
    let program = program::find(&args.command[0])?;
    let library = library::find()?;
    let changes = environment::compose(&settings, &library)?;
    inherited.restore();
    Err(exec::exec(&program, &args.command, &changes))
}
