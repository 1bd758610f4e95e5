//! `cargo xtask demo`: the main job, before and after, on the real engine.
//!
//! Builds what it shows, then hands over to `manx bench inversion --demo`: 40 threads on two CPUs, four of
//! them boosted, as the program is and under `manx run`. Where the engine cannot be had, or nobody may
//! boost, the benchmark falls back to what it can show and says so.

use std::time::Duration;

use crate::bench::manx_bench;
use crate::setup::{self, For};
use crate::{Result, build};

/// It is meant to take less than three minutes; a busy machine gets some more.
const LIMIT: Duration = Duration::from_secs(10 * 60);

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
    build::run()?;
    let mut arguments = vec!["inversion".to_string(), "--demo".to_string()];
    arguments.extend(options.arguments.iter().cloned());
    manx_bench(&arguments, LIMIT)
}
