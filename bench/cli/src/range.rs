//! `manx bench range`: its options, and what they ask of the experiment.

use super::conduct::Common;
use super::plots;
use clap::builder::PossibleValuesParser;
use command::failure::{Failure, USAGE};
use std::path::PathBuf;
use std::time::Duration;
use workload::range::{self, Part, Setup, THREADS, THREADS_MAX, counters};

/// The measured time of a run, and that of a smoke check.
const TIME: Duration = Duration::from_millis(400);
const QUICK_TIME: Duration = Duration::from_millis(10);

#[derive(Debug, clap::Args)]
pub(super) struct RangeArgs {
    #[command(flatten)]
    common: Common,
    /// The parts to measure; several with commas between [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = PossibleValuesParser::new(Part::ALL.map(Part::name)))]
    part: Vec<String>,
    /// How many threads, up to 32; several with commas between [default: 1,2,8]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX as i64))]
    threads: Vec<u32>,
    /// Look for two who hold the same bytes instead of measuring; ends with an error if there are
    /// any
    #[arg(long)]
    check: bool,
    /// Write the pictures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Lock and unlock N ranges and do nothing else: callgrind counts the instructions of this
    #[arg(long = counters::OPTION, value_name = "LOCK:N", hide = true, exclusive = true)]
    operations: Option<String>,
}

pub(super) fn range(args: &RangeArgs) -> Result<u8, Failure> {
    if let Some(operations) = &args.operations {
        let failed = |what| Failure::new(USAGE, what, "name a lock of `manx bench range` and a number");
        return counters::run_child(operations).map(|()| 0).map_err(failed);
    }
    let common = &args.common;
    let mut threads: Vec<usize> = args.threads.iter().map(|&threads| threads as usize).collect();
    if threads.is_empty() {
        threads = THREADS.to_vec();
    }
    threads.sort_unstable();
    threads.dedup();
    let setup = Setup {
        parts: Part::named(&args.part),
        quick: common.quick,
        check: args.check,
        time: if common.quick { QUICK_TIME } else { TIME },
        threads,
    };
    plots::drawn(
        "range",
        common,
        args.plots.as_deref(),
        |bench| range::measure(setup, bench),
        |report| {
            range::conclude(report);
            let mut pictures = plots::texts(range::draw(report));
            pictures.extend(range::heat(report).map(|heat| ("grid".into(), heat.svg())));
            pictures
        },
    )
}
