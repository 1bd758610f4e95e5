//! `cargo xtask fuzz TARGET`: gives a target inputs that are drawn from a seed, in release mode, as
//! many as one likes. The targets are tests; in CI they get a few inputs each.

use crate::outcome::Result;
use crate::process::run as run_command;
use crate::workspace::release_cargo;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// By hand it takes as long as it takes.
const LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What is fuzzed.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Target {
    /// Records of the log
    Record,
    /// The log's two files
    Log,
    /// The marker of a folder
    Marker,
    /// The file of checkpoints
    Checkpoint,
    /// Programs of fifty functions with loops, as they are and under the guard
    Loops,
}

impl Target {
    /// The arguments of `cargo test` that choose the package and its tests, and the test's name.
    fn test(self) -> ([&'static str; 4], &'static str) {
        const PRELOAD: [&str; 4] = ["-p", "preload", "--test", "fuzz_loops"];
        const DURABLE: [&str; 4] = ["-p", "manx", "--lib", "--features=durable"];
        match self {
            Target::Record => (DURABLE, "txn::durable::fuzz::record"),
            Target::Log => (DURABLE, "txn::durable::fuzz::log"),
            Target::Marker => (DURABLE, "txn::durable::fuzz::marker"),
            Target::Checkpoint => (DURABLE, "txn::durable::fuzz::checkpoint"),
            Target::Loops => (PRELOAD, "random_functions"),
        }
    }
}

/// What to fuzz, and how long.
#[derive(clap::Args)]
pub struct Options {
    /// What is fuzzed
    target: Target,
    /// How many inputs
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    inputs: u64,
    /// What the inputs are drawn from [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The number of the first input, as a failure has named it
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
}

/// Builds the target, and runs it.
///
/// # Errors
/// If an input failed; what is printed replays it.
pub fn run(options: &Options) -> Result {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seed = options.seed.unwrap_or(now);
    let (which, name) = options.target.test();
    let mut command = release_cargo("test");
    command.args(which).args(["--", "--exact", name, "--nocapture"]);
    for (key, value) in
        [("MANX_FUZZ_INPUTS", options.inputs), ("MANX_FUZZ_FIRST", options.first), ("MANX_SEED", seed)]
    {
        command.env(key, value.to_string());
    }
    run_command(&mut command, LIMIT)
}
