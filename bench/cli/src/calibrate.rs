//! `manx bench calibrate`: its options, and where the machine file goes.

use super::conduct::{self, Common};
use command::failure::{BROKEN, Failure};
use command::sigpipe::print;
use std::fs;
use std::path::PathBuf;
use workload::calibrate::{self, Setup};

#[derive(Debug, clap::Args)]
pub(super) struct CalibrateArgs {
    #[command(flatten)]
    common: Common,
    /// Measure the distances of all pairs of the first N CPUs, and one pair of each other kind
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(2..=64))]
    cpus: u16,
    /// Write the machine to this file as TOML [default: print it behind the tables]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn calibrate(args: &CalibrateArgs) -> Result<u8, Failure> {
    // Before the measurement, so that an unwritable file is found before it.
    args.output.as_deref().map(|path| conduct::open("--output", path)).transpose()?;
    let setup = Setup::here(usize::from(args.cpus)).map_err(|error| conduct::failure("calibrate", &error))?;
    let mut machine = None;
    let code = conduct::conduct(
        "calibrate",
        &args.common,
        |bench| calibrate::measure(&setup, bench),
        |report| machine = Some(calibrate::conclude(report, &setup)),
    )?;
    // Without an end there is no machine, but all that was measured is in the tables.
    if code != 0 {
        return Ok(code);
    }
    let text = machine.unwrap_or_else(|| Err("nothing was measured".into())).map_err(|what| {
        let help = "measure again while no other program runs, and without --quick";
        Failure::new(BROKEN, format!("bench calibrate: no machine file: {what}"), help)
    })?;
    match &args.output {
        Some(path) => fs::write(path, text).map_err(|error| conduct::unwritable("--output", path, &error))?,
        None => print(&format!("\n{text}"))?,
    }
    Ok(code)
}
