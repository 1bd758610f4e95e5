//! `manx bench servers`: its options, and what they ask of the experiment.

use super::conduct::{self, Common};
use super::engines::{locks, names_of_their_own};
use clap::builder::{PossibleValue, PossibleValuesParser};
use command::failure::Failure;
use workload::engines::Version;
use workload::servers::{self, CASES, Load, QUICK, Setup};

#[derive(Debug, clap::Args)]
pub(super) struct ServersArgs {
    #[command(flatten)]
    common: Common,
    /// The cases to measure [default: all; with --quick, one of each server]
    #[arg(value_name = "CASE", value_parser = cases())]
    cases: Vec<String>,
    /// Connections, each with one operation at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=512))]
    clients: u32,
    /// Threads of memcached
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Measured time of each run
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Compare with `manx run --lock=MODE` too; several with commas between
    #[arg(long, value_name = "MODE", value_delimiter = ',', value_parser = locks())]
    lock: Vec<String>,
}

fn cases() -> PossibleValuesParser {
    PossibleValuesParser::new(CASES.each_ref().map(|case| PossibleValue::new(case.name).help(case.words)))
}

pub(super) fn servers(args: &ServersArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let cases = match (args.cases.is_empty(), common.quick) {
        (true, true) => servers::choose(&QUICK),
        _ => servers::choose(&args.cases),
    };
    let mut versions = Version::always();
    versions.extend(args.lock.iter().map(|mode| Version::lock(mode)));
    names_of_their_own(&versions).map_err(|error| conduct::failure("servers", &error))?;
    conduct::conduct(
        "servers",
        common,
        |bench| {
            let load = Load {
                clients: args.clients as usize,
                seconds: args.seconds,
                threads: args.threads as usize,
            };
            let manx = conduct::manx_path()?;
            let setup = Setup { cases: cases.clone(), versions, manx, load, quick: common.quick };
            servers::measure(&setup, bench)
        },
        |report| servers::conclude(report, &cases),
    )
}
