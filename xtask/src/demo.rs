//! `cargo xtask demo`: the main job, before and after, on programs that everybody knows.
//!
//! Sets up, builds, and shows two things. First two copies of a program side by side on two CPUs,
//! as they are, under `manx run`, and with the setting of their own that helps most: ggml, numpy
//! and scikit-learn where `cargo xtask setup victims` has been, numpy alone where the registry can
//! be reached, and a C program with OpenMP in any case. Then WiredTiger with 40 threads, four of
//! them boosted, by `manx bench inversion --demo`. What cannot be had is left out, and said.

use crate::outcome::Result;
use crate::setup::{self, For, victims};
use crate::{bench, build};
use std::time::Duration;

/// The pairs are shown in less than a minute and a half.
const PAIRS: Duration = Duration::from_secs(180);

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
    let (folder, names) = match victims::numpy() {
        Ok(folder) if folder.join("ggml/made").exists() => (Some(folder), "ggml,numpy-150,scikit-learn"),
        Ok(folder) => (Some(folder), "gang,numpy-150"),
        Err(why) => {
            println!("demo: goes on without numpy: {why}");
            (None, "gang")
        }
    };
    if let Err(why) = bench::pairs(names, folder.as_deref(), PAIRS) {
        println!("demo: goes on without pairs: {why}");
    }
    let mut arguments = vec!["inversion".to_string(), "--demo".to_string()];
    arguments.extend(options.arguments.iter().cloned());
    bench::run(&arguments)
}
