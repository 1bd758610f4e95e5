//! `manx bench asl`: its options, and what they ask of the experiment.

use super::conduct::Common;
use super::plots;
use clap::builder::PossibleValuesParser;
use command::cores::parse_dilation;
use command::failure::Failure;
use std::path::PathBuf;
use std::time::Duration;
use workload::asl::{self, Part, Setup};
use workload::place::Place;

/// The measured time of a run: here, on a simulated machine; in a smoke check here, and there.
const TIME: Duration = Duration::from_secs(1);
const SIMULATED_TIME: Duration = Duration::from_millis(100);
const QUICK_TIME: Duration = Duration::from_millis(20);
const SIMULATED_QUICK_TIME: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, clap::Args)]
pub(super) struct AslArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// The parts to measure, named as in the paper; several with commas between [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = PossibleValuesParser::new(Part::ALL.map(Part::name)))]
    part: Vec<String>,
    /// Measure only epochs within epochs whose targets compete: the part `competing`
    #[arg(long, conflicts_with = "part")]
    epochs: bool,
    /// Little threads take RATIO times as long [default: what the machine's cores are, or 3.75 if
    /// they are alike]
    #[arg(long, value_name = "RATIO", value_parser = parse_dilation)]
    dilate: Option<u32>,
    /// Do not bind threads to CPUs: each is big or little wherever it runs
    #[arg(long)]
    unpinned: bool,
    /// Write the pictures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

pub(super) fn asl(args: &AslArgs) -> Result<u8, Failure> {
    asl_at(args, Place::here())
}

/// The experiment with its runs at a place.
pub(super) fn asl_at(args: &AslArgs, place: Place) -> Result<u8, Failure> {
    let common = &args.common;
    let time = match place.machine() {
        Some(_) if common.quick => SIMULATED_QUICK_TIME,
        None if common.quick => QUICK_TIME,
        Some(_) => SIMULATED_TIME,
        None => TIME,
    };
    let setup = Setup {
        parts: if args.epochs { vec![Part::Competing] } else { Part::named(&args.part) },
        quick: common.quick,
        time,
        dilation: args.dilate.map(|thousandths| f64::from(thousandths) / 1000.0),
        pinned: !args.unpinned,
        place,
    };
    plots::drawn(
        "asl",
        common,
        args.plots.as_deref(),
        |bench| {
            setup.place.describe(bench);
            asl::measure(setup, bench)
        },
        |report| {
            asl::conclude(report);
            plots::texts(asl::draw(report))
        },
    )
}
