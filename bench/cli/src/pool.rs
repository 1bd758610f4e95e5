//! `manx bench pool`: its options, and what they ask of the experiment.

use super::conduct::{self, Common, number};
use super::plots;
use clap::builder::PossibleValuesParser;
use command::failure::{BROKEN, Failure};
use report::Report;
use report::target::Outcome;
use std::path::PathBuf;
use std::time::Duration;
use workload::pool::{self, Kind, Part, Setup, leader, process};

/// The time of a run in seconds, as in the paper, and that of a smoke check.
const SECONDS: f64 = 5.0;
const QUICK_SECONDS: f64 = 0.2;

#[derive(Debug, clap::Args)]
pub(super) struct PoolArgs {
    #[command(flatten)]
    common: Common,
    /// The parts to measure; several with commas between [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = PossibleValuesParser::new(Part::ALL.map(Part::name)))]
    part: Vec<String>,
    /// The kinds of pools to compare; several with commas between [default: all]
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.name())))]
    kind: Vec<String>,
    /// The time of each run [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = number("seconds", 0.05, 600.0))]
    time: Option<f64>,
    /// Requests come at random, as often, instead of at equal distances
    #[arg(long)]
    poisson: bool,
    /// Sessions of the processes of a run: one for all, or one for each
    ///
    /// The kernel divides the CPUs among sessions first, then among the threads of each. Processes
    /// that somebody starts from one shell share a session; services have one each.
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Sessions::One)]
    sessions: Sessions,
    /// End with an error if a figure to reach is missed
    #[arg(long)]
    check: bool,
    /// Write the pictures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Start these processes at one moment: what a run is, in a session of its own
    #[arg(long = leader::CROWD, value_name = "JSON", hide = true, exclusive = true)]
    crowd: Option<String>,
    /// Be one of them
    #[arg(long = leader::PROCESS, value_name = "JSON", hide = true, exclusive = true)]
    process: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sessions {
    /// One for all
    One,
    /// One for each
    Each,
}

pub(super) fn pool(args: &PoolArgs) -> Result<u8, Failure> {
    let failed = |error| conduct::failure("pool", &error);
    if let Some(crowd) = &args.crowd {
        return leader::lead(crowd).map(|()| 0).map_err(failed);
    }
    if let Some(one) = &args.process {
        return process::run(one).map(|()| 0).map_err(failed);
    }
    let common = &args.common;
    let named = |kind: &Kind| args.kind.is_empty() || args.kind.iter().any(|name| name == kind.name());
    let usual = if common.quick { QUICK_SECONDS } else { SECONDS };
    let mut missed = Vec::new();
    let ended = plots::drawn(
        "pool",
        common,
        args.plots.as_deref(),
        |bench| {
            let setup = Setup {
                kinds: Kind::ALL.iter().copied().filter(named).collect(),
                quick: common.quick,
                time: Duration::from_secs_f64(args.time.unwrap_or(usual)),
                poisson: args.poisson,
                sessions: args.sessions == Sessions::Each,
                manx: conduct::manx_path()?,
                own: conduct::own_path()?,
            };
            pool::measure(&Part::named(&args.part), setup, bench)
        },
        |report| {
            pool::conclude(report);
            missed = self::missed(report);
            plots::texts(pool::draw(report))
        },
    );
    match ended {
        Ok(0) if args.check && !missed.is_empty() => {
            let count = missed.len();
            let what = format!("bench pool: {count} figure{} missed", if count == 1 { "" } else { "s" });
            Err(Failure::new(BROKEN, what, missed.join("\n  ")))
        }
        other => other,
    }
}

/// The names of the targets that are missed.
fn missed(report: &Report) -> Vec<String> {
    let missed = report.targets.iter().filter(|target| target.verdict == Outcome::FallsShort);
    missed.map(|target| target.name.clone()).collect()
}
