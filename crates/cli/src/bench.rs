//! `manx bench`: the experiments, each of which compares the versions it measures within one run.

use crate::failure::{Failure, USAGE};

/// The arguments of `manx bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The experiment; without one, the experiments are listed
    name: Option<String>,
}

/// Runs the experiment that was named and returns the exit code.
///
/// # Errors
/// If no experiment has this name.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.name {
        None => {
            println!("There are no experiments yet.");
            Ok(0)
        }
        Some(name) => Err(Failure::new(
            USAGE,
            format!("bench {name}: there is no such experiment"),
            "`manx bench` lists them",
        )),
    }
}
