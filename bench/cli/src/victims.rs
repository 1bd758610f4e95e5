//! `manx bench victims`: its options, and what they ask of the experiment.

use super::conduct::{self, Common};
use clap::builder::{PossibleValue, PossibleValuesParser};
use command::failure::Failure;
use std::time::Duration;
use workload::engine::Compiler;
use workload::victims::{self, Place, QUICK, Setup, VICTIMS};
use workload::{Error, machine};

/// Seconds after which a run is cut off, and those of a smoke check.
const LIMIT: u32 = 60;
const QUICK_LIMIT: u32 = 3;

#[derive(Debug, clap::Args)]
pub(super) struct VictimsArgs {
    #[command(flatten)]
    common: Common,
    /// Only these victims, with commas between [default: all; with --quick, those that need a C
    /// compiler only]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,
    /// The same as --repeats
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "repeats")]
    rounds: Option<u32>,
    /// Cut a run off after this time [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    limit: Option<u32>,
}

/// A parser of the names of victims.
pub(super) fn names() -> [PossibleValue; VICTIMS.len()] {
    VICTIMS.each_ref().map(|victim| PossibleValue::new(victim.name).help(victim.words))
}

pub(super) fn victims(args: &VictimsArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let names: Vec<&str> = match (args.only.is_empty(), common.quick) {
        (true, true) => QUICK.to_vec(),
        _ => args.only.iter().map(String::as_str).collect(),
    };
    let chosen = victims::choose(&names).map_err(refused)?;
    let cpus: Vec<usize> = machine::cpus().into_iter().take(2).collect();
    let limit = args.limit.unwrap_or(if common.quick { QUICK_LIMIT } else { LIMIT });
    conduct::conduct(
        "victims",
        common,
        |bench| {
            if let Some(rounds) = args.rounds {
                bench.resolution.pairs_max = Some(rounds as usize);
            }
            let manx = conduct::manx_path()?;
            let setup = Setup {
                victims: chosen.clone(),
                place: Place::find(&manx, Compiler::from_environment()?)?,
                manx,
                quick: common.quick,
                cpus,
                limit: Duration::from_secs(limit.into()),
            };
            victims::measure(&setup, bench)
        },
        |report| victims::conclude(report, &chosen),
    )
}

fn refused(error: Error) -> Failure {
    conduct::failure("victims", &error)
}
