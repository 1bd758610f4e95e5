//! `manx bench doctor`: its options, and what they ask of the experiment.

use super::conduct::{self, Common};
use super::victims::names;
use clap::builder::{PossibleValue, PossibleValuesParser};
use command::failure::Failure;
use workload::doctor::{self, Setup, WIREDTIGER};
use workload::engine::Compiler;
use workload::machine;
use workload::victims::{Place, QUICK};

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    common: Common,
    /// Only these programs, with commas between [default: all; with --quick, those that need a C
    /// compiler only]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = patients())]
    only: Vec<String>,
}

/// The victims, and WiredTiger.
fn patients() -> PossibleValuesParser {
    let wiredtiger = PossibleValue::new(WIREDTIGER).help("transactions of 40 threads, 4 of them boosted");
    PossibleValuesParser::new(names().into_iter().chain([wiredtiger]))
}

pub(super) fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let names: Vec<&str> = match (args.only.is_empty(), common.quick) {
        (true, true) => QUICK.to_vec(),
        _ => args.only.iter().map(String::as_str).collect(),
    };
    let chosen = doctor::choose(&names).map_err(|error| conduct::failure("doctor", &error))?;
    conduct::conduct(
        "doctor",
        common,
        |bench| {
            let manx = conduct::manx_path()?;
            let compiler = Compiler::from_environment()?;
            let place = Place::find(&manx, compiler.clone())?;
            let cpus: Vec<usize> = machine::cpus().into_iter().take(2).collect();
            doctor::measure(&Setup::new(chosen, compiler, place, manx, cpus, common.quick), bench)
        },
        doctor::conclude,
    )
}
