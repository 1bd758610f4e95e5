//! `manx bench asl`: its options, and what they ask of the experiment.

use super::{Common, conduct};
use crate::failure::Failure;
use clap::builder::PossibleValuesParser;
use std::time::Duration;
use workload::asl::{self, Part, Setup};

/// Rounds, unless something else is asked for.
const REPEATS: u32 = 5;
/// The measured time of a run, and that of a smoke check.
const TIME: Duration = Duration::from_secs(1);
const QUICK_TIME: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(super) struct AslArgs {
    #[command(flatten)]
    common: Common,
    /// The parts to measure, named as in the paper; several with commas between [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = parts())]
    part: Vec<String>,
}

fn parts() -> PossibleValuesParser {
    PossibleValuesParser::new(Part::ALL.map(Part::name))
}

pub(super) fn asl(args: &AslArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let repeats = common.repeats.unwrap_or(if common.quick { 1 } else { REPEATS });
    let time = if common.quick { QUICK_TIME } else { TIME };
    let named = |part: &Part| args.part.is_empty() || args.part.iter().any(|name| name == part.name());
    let parts = Part::ALL.into_iter().filter(named).collect();
    let setup = Setup { parts, repeats: repeats as usize, quick: common.quick, time };
    conduct::conduct("asl", common, |bench| asl::measure(setup, bench), asl::conclude)
}
