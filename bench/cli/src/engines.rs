//! `manx bench engines`: its options, and what they ask of the experiment.

use super::conduct::{self, Common, number};
use super::plots;
use clap::builder::{PossibleValue, PossibleValuesParser};
use command::cores::parse_dilation;
use command::duration::parse_ns;
use command::failure::Failure;
use preload_abi::options::Lock;
use std::path::{Path, PathBuf};
use workload::engine::{Compiler, Cores, Rival};
use workload::engines::{self, SUBJECTS, Setup, Version, unequal};
use workload::{Error, machine};

/// Measured seconds of a run: short, because what disturbs a machine for seconds then falls on both
/// runs of a pair.
const SECONDS: f64 = 0.3;
/// With --unequal, where windows first have to find their lengths, and 99 % of little threads'
/// operations are asked for.
const UNEQUAL_SECONDS: f64 = 3.0;
/// Those of a smoke check.
const QUICK_SECONDS: f64 = 0.2;
/// More threads than the two CPUs, and as many threads as CPUs.
const MANY: u32 = 8;
const PAIR: u32 = 2;

#[derive(Debug, clap::Args)]
pub(super) struct EnginesArgs {
    #[command(flatten)]
    common: Common,
    /// The programs to measure [default: all; with --unequal, five]
    #[arg(value_name = "PROGRAM", value_parser = programs())]
    programs: Vec<String>,
    /// Measured time of each run [default: 0.3; with --unequal, 3]
    #[arg(long, value_name = "SECONDS", value_parser = number("seconds", 0.1, 3600.0))]
    seconds: Option<f64>,
    /// Threads of each program, on 2 CPUs [default: 8; with --unequal, 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// Make one of the 2 CPUs RATIO times as slow as the other, and compare locks by class of
    /// threads
    ///
    /// Threads are pinned to the two in turn, and every version runs under `manx run --dilate`: the
    /// C library's locks, those of `manx run --lock`, those of --rival and, with a target, asl.
    #[arg(long, value_name = "RATIO", num_args = 0..=1, require_equals = true, default_missing_value = "3.75")]
    #[arg(value_parser = parse_dilation)]
    unequal: Option<u32>,
    /// Compare with `manx run --lock=MODE` too; several with commas between
    #[arg(long, value_name = "MODE", value_delimiter = ',', value_parser = locks())]
    lock: Vec<String>,
    /// Mark each operation as an epoch with this latency target at p99, for `manx run`
    ///
    /// With --unequal several with commas between. The default is the p99 of little threads with
    /// each lock of --rival, or 1.2, 2 and 4 times theirs with the C library's locks.
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = target)]
    slo: Vec<u64>,
    /// Write the pictures of --unequal to this folder, as SVG
    #[arg(long, value_name = "DIR", requires = "unequal")]
    plots: Option<PathBuf>,
    /// Compare with this library in LD_PRELOAD too, or with these locks of the baselines; may be
    /// given several times
    ///
    /// mcs, tas, ttas, ticket, shfl-pb10, mcs-park, libasl, libasl-blocking and asl-mcs are in a
    /// library beside this command, which `cargo build --release -p interposer` builds; several
    /// with commas between. All others are named by NAME=PATH.
    #[arg(long, value_name = "NAME[=PATH]")]
    rival: Vec<String>,
}

fn programs() -> PossibleValuesParser {
    PossibleValuesParser::new(SUBJECTS.each_ref().map(|s| PossibleValue::new(s.name).help(s.words)))
}

pub(super) fn locks() -> PossibleValuesParser {
    PossibleValuesParser::new(Lock::ALL.map(Lock::word))
}

fn target(text: &str) -> Result<u64, String> {
    match parse_ns(text)? {
        0 => Err("a target of no time at all: write for example 2ms".into()),
        ns => Ok(ns),
    }
}

fn refused(error: Error) -> Failure {
    conduct::failure("engines", &error)
}

pub(super) fn engines(args: &EnginesArgs) -> Result<u8, Failure> {
    match args.unequal {
        Some(dilation) => unequal(args, dilation),
        None => equal(args),
    }
}

fn unequal(args: &EnginesArgs, dilation: u32) -> Result<u8, Failure> {
    let common = &args.common;
    let table = || unequal::TABLE.map(str::to_owned).to_vec();
    let names = if args.programs.is_empty() { table() } else { args.programs.clone() };
    let subjects = engines::choose(&names).map_err(refused)?;
    let rivals = rivals(args).map_err(refused)?;
    if let Some(taken) = rivals.iter().find(|rival| Lock::ALL.iter().any(|lock| lock.word() == rival.name)) {
        let what = format!("--rival {}: a lock of Manx's has this name", taken.name);
        return Err(refused(Error::request(what, "give it another one")));
    }
    names_of_their_own(&rivals.iter().cloned().map(Version::rival).collect::<Vec<_>>()).map_err(refused)?;
    let repeated = args.slo.iter().enumerate().find(|(at, slo)| args.slo[..*at].contains(slo));
    if let Some((_, slo)) = repeated {
        let what = format!("--slo: {} is there twice", report::figure::duration(*slo));
        return Err(refused(Error::request(what, "name each target once")));
    }
    let [big, little, ..] = machine::cpus()[..] else {
        let what = "--unequal: there is one CPU only";
        return Err(refused(Error::request(what, "run it where there are two, one to be slowed")));
    };
    plots::drawn(
        "engines",
        common,
        args.plots.as_deref(),
        |bench| {
            let setup = unequal::Setup {
                subjects: subjects.clone(),
                locks: args.lock.clone(),
                rivals,
                compiler: Compiler::from_environment()?,
                manx: conduct::manx_path()?,
                seconds: args.seconds.unwrap_or(if common.quick { QUICK_SECONDS } else { UNEQUAL_SECONDS }),
                threads: args.threads.unwrap_or(PAIR) as usize,
                cores: Cores { big, little, dilation },
                slos_ns: args.slo.clone(),
            };
            unequal::measure(&setup, bench)
        },
        |report| {
            unequal::conclude(report, &subjects);
            plots::texts(unequal::draw(report, &subjects))
        },
    )
}

fn equal(args: &EnginesArgs) -> Result<u8, Failure> {
    let common = &args.common;
    if let [_, second, ..] = args.slo[..] {
        let what = format!("--slo: a second target, {}", report::figure::duration(second));
        return Err(refused(Error::request(what, "give one, or add --unequal, which takes several")));
    }
    let subjects = engines::choose(&args.programs).map_err(refused)?;
    let versions = versions(args).map_err(refused)?;
    let seconds = args.seconds.unwrap_or(if common.quick { QUICK_SECONDS } else { SECONDS });
    conduct::conduct(
        "engines",
        common,
        |bench| {
            let setup = Setup {
                subjects: subjects.clone(),
                versions,
                compiler: Compiler::from_environment()?,
                manx: conduct::manx_path()?,
                seconds,
                threads: args.threads.unwrap_or(MANY) as usize,
                cpus: machine::cpu_list(2),
                slo_ns: args.slo.first().copied(),
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
    versions.extend(rivals(args)?.into_iter().map(Version::rival));
    names_of_their_own(&versions)?;
    Ok(versions)
}

/// The competitors that were asked for; the library of the baselines' locks lies beside this
/// command.
fn rivals(args: &EnginesArgs) -> Result<Vec<Rival>, Error> {
    let own = conduct::own_path()?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let mut rivals = Vec::new();
    for text in &args.rival {
        rivals.extend(Rival::parse(text, folder)?);
    }
    Ok(rivals)
}

/// Refuses two versions of one name.
pub(super) fn names_of_their_own(versions: &[Version]) -> Result<(), Error> {
    for (at, version) in versions.iter().enumerate() {
        if versions[..at].iter().any(|other| other.name == version.name) {
            return Err(Error::request(
                format!("'{}': two versions have this name", version.name),
                "give each a name of its own, and name each lock once",
            ));
        }
    }
    Ok(())
}
