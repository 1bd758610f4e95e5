//! `manx bench range`: its options, and what they ask of the experiment.

use super::conduct::Common;
use super::plots;
use clap::builder::PossibleValuesParser;
use command::failure::{Failure, USAGE};
use std::path::PathBuf;
use std::time::Duration;
use workload::range::competitor::Competitor;
use workload::range::{self, Part, RANGES, RANGES_QUICK, Setup, THREADS, THREADS_MAX, counters};

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
    /// How many threads, up to 64; several with commas between [default: 1,2,8]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX as i64))]
    threads: Vec<u32>,
    /// How many ranges the part `shuffled` deals to the threads [default: a million, or 16384 with
    /// --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(THREADS_MAX as i64 * 16..=4_000_000))]
    ranges: Option<u32>,
    /// The locks to compare; several with commas between [default: all]
    #[arg(long, value_name = "LOCK", value_delimiter = ',', value_parser = PossibleValuesParser::new(Competitor::ALL.iter().map(|lock| lock.name())))]
    lock: Vec<String>,
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
    let setup = Setup {
        parts: Part::named(&args.part),
        check: args.check,
        locks: args.lock.clone(),
        ..setup(common.quick, &args.threads, args.ranges)
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

/// The settings of all parts, with these numbers of threads and of shuffled ranges.
pub(super) fn setup(quick: bool, threads: &[u32], ranges: Option<u32>) -> Setup {
    let mut threads: Vec<usize> = threads.iter().map(|&threads| threads as usize).collect();
    if threads.is_empty() {
        threads = THREADS.to_vec();
    }
    threads.sort_unstable();
    threads.dedup();
    Setup {
        parts: Part::ALL.to_vec(),
        quick,
        check: false,
        time: if quick { QUICK_TIME } else { TIME },
        threads,
        ranges: ranges.map_or(if quick { RANGES_QUICK } else { RANGES }, |ranges| ranges as usize),
        locks: Vec::new(),
        thesis: false,
    }
}
