//! `manx bench doctor`: its options, and what they ask of the experiment.

use super::conduct::{self, Common};
use super::victims::names;
use command::failure::Failure;
use workload::doctor::{self, Setup};
use workload::engine::Compiler;
use workload::machine;
use workload::victims::{self, Place, QUICK};

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    common: Common,
    /// Only these programs, with commas between [default: all; with --quick, those that need a C
    /// compiler only]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names())]
    only: Vec<String>,
}

pub(super) fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let names: Vec<&str> = match (args.only.is_empty(), common.quick) {
        (true, true) => QUICK.to_vec(),
        _ => args.only.iter().map(String::as_str).collect(),
    };
    let chosen = victims::choose(&names).map_err(|error| conduct::failure("doctor", &error))?;
    conduct::conduct(
        "doctor",
        common,
        |bench| {
            let manx = conduct::manx_path()?;
            let place = Place::find(&manx, Compiler::from_environment()?)?;
            let cpus: Vec<usize> = machine::cpus().into_iter().take(2).collect();
            doctor::measure(&Setup::new(chosen, place, manx, cpus, common.quick), bench)
        },
        doctor::conclude,
    )
}
