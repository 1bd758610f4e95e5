//! `cargo xtask demo`: the main job, before and after, on the real engine.
//!
//! Sets up, then builds and becomes `manx bench inversion --demo`: 40 threads on two CPUs, four of
//! them boosted, as the program is and under `manx run`. Where the engine cannot be had, or nobody may
//! boost, the benchmark falls back to what it can show and says so.

use crate::setup::{self, For};
use crate::{Result, bench};

/// How to show it.
#[derive(clap::Args)]
pub struct Options {
    /// More options of `manx bench inversion`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Sets up, builds and shows.
///
/// # Errors
/// If the build or the demo fails.
pub fn run(options: &Options) -> Result {
    if let Some(missing) = setup::ensure(For::Demo) {
        println!("demo: goes on without: {missing}");
    }
    let mut arguments = vec!["inversion".to_string(), "--demo".to_string()];
    arguments.extend(options.arguments.iter().cloned());
    bench::run(&arguments)
}
