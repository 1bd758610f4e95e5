//! `manx bench engines`: its options, and what they ask of the experiment.

use super::{Common, conduct};
use crate::failure::Failure;
use clap::builder::{PossibleValue, PossibleValuesParser};
use preload_abi::options::Lock;
use workload::engine::Compiler;
use workload::engines::{self, SUBJECTS, Setup, Version};
use workload::{Error, machine};

/// Rounds, unless something else is asked for.
const REPEATS: u32 = 5;
/// Measured seconds of a run, and those of a smoke check.
const SECONDS: f64 = 3.0;
const QUICK_SECONDS: f64 = 0.2;

#[derive(Debug, clap::Args)]
pub(super) struct EnginesArgs {
    #[command(flatten)]
    common: Common,
    /// The programs to measure [default: all]
    #[arg(value_name = "PROGRAM", value_parser = programs())]
    programs: Vec<String>,
    /// Measured time of each run [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Threads of each program, on 2 CPUs
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Compare with `manx run --lock=MODE` too; several with commas between
    #[arg(long, value_name = "MODE", value_delimiter = ',', value_parser = locks())]
    lock: Vec<String>,
    /// Mark each operation as an epoch, 99 % of which are to take no longer: what `manx run` makes of it
    #[arg(long, value_name = "TIME", value_parser = crate::run::duration::parse_us)]
    slo: Option<u32>,
    /// Compare with this library in LD_PRELOAD too; may be given several times
    #[arg(long, value_name = "NAME=PATH")]
    rival: Vec<String>,
}

fn programs() -> PossibleValuesParser {
    PossibleValuesParser::new(SUBJECTS.each_ref().map(|s| PossibleValue::new(s.name).help(s.words)))
}

fn locks() -> PossibleValuesParser {
    PossibleValuesParser::new(Lock::ALL.map(Lock::word))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.1 to 3600".into()),
    }
}

pub(super) fn engines(args: &EnginesArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let refused = |error: Error| conduct::failure("engines", &error);
    let subjects = engines::choose(&args.programs).map_err(refused)?;
    let versions = versions(args).map_err(refused)?;
    let repeats = common.repeats.unwrap_or(if common.quick { 1 } else { REPEATS });
    let seconds = args.seconds.unwrap_or(if common.quick { QUICK_SECONDS } else { SECONDS });
    conduct::conduct(
        "engines",
        common,
        |bench| {
            let setup = Setup {
                subjects: subjects.clone(),
                versions,
                compiler: Compiler::from_environment()?,
                manx: conduct::own_path()?,
                repeats: repeats as usize,
                seconds,
                threads: args.threads as usize,
                cpus: machine::cpu_list(2),
                slo_us: args.slo.map(u64::from),
            };
            engines::measure(&setup, bench)
        },
        |report| engines::conclude(report, &subjects),
    )
}

/// The versions to compare, each under a name of its own.
fn versions(args: &EnginesArgs) -> Result<Vec<Version>, Error> {
    let mut versions = Version::always();
    versions.extend(args.lock.iter().map(|mode| Version::lock(mode)));
    for rival in &args.rival {
        versions.push(Version::rival(rival)?);
    }
    for (at, version) in versions.iter().enumerate() {
        if versions[..at].iter().any(|other| other.name == version.name) {
            return Err(Error::request(
                format!("'{}': two versions have this name", version.name),
                "give each a name of its own, and name each lock once",
            ));
        }
    }
    Ok(versions)
}
