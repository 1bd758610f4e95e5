//! `manx-bench`, which `manx bench` and `manx profile` become: what measures, and nothing that is
//! installed with `manx` depends on it.
//!
//! [`command()`] is the definition of its command line, [`main`] runs it. Each experiment compares
//! the versions it measures within one run; [`profile`] sweeps the latency target of a user's
//! program.
//!
//! Tables go to standard output, progress to standard error, everything to the file of `--json`. An
//! interrupted experiment shows and writes what it has measured, and exits with 130 as a shell
//! would.

mod asl;
mod calibrate;
mod conduct;
mod doctor;
mod engines;
mod harm;
mod papers;
mod plots;
mod pool;
pub mod profile;
mod progress;
mod range;
mod servers;
mod sim;
mod txn;
mod victims;

use clap::CommandFactory as _;
use command::failure::Failure;
use command::sigpipe::print;
use conduct::{Common, conduct};
use std::path::PathBuf;
use workload::engine::{Choice, Compiler, Engines, Kind, Libraries};
use workload::{guard, inversion, machine, waiting};

/// Run one of Manx's experiments on this machine
#[derive(Debug, clap::Parser)]
#[command(name = "manx-bench", bin_name = "manx bench", display_name = "manx-bench", version)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    experiment: Option<Experiment>,
}

#[derive(Debug, clap::Subcommand)]
enum Experiment {
    /// What threads of high priority do to an engine that busy-waits, and what the guard makes of
    /// it
    Inversion(InversionArgs),
    /// What the guard costs programs that need no repair
    Guard(GuardArgs),
    /// What Manx's locks make of databases that have more threads than CPUs
    Engines(engines::EnginesArgs),
    /// What `manx run` makes of servers that everybody runs: MariaDB, PostgreSQL, memcached
    Servers(servers::ServersArgs),
    /// The experiments of the papers that Manx stands on, with their numbers beside
    Paper(papers::PaperArgs),
    /// Programs that everybody runs and that wait badly: as they are, under `manx run`, and with
    /// their best setting
    Victims(victims::VictimsArgs),
    /// What `manx doctor` says of these programs, and what its looks cost them
    Doctor(doctor::DoctorArgs),
    /// Programs that need no repair, or wait well, as they are and under `manx run`
    Harm(harm::HarmArgs),
    /// How late each way of waiting notices that its wait is over, and the CPU it burns until then
    Wait(WaitArgs),
    /// The distances and costs of this machine, as a machine of the simulator
    Calibrate(calibrate::CalibrateArgs),
    /// What locks make of a target for latency, on cores of two speeds
    Asl(asl::AslArgs),
    /// Locks of ranges side by side: throughput, who waits for how long, memory
    Range(range::RangeArgs),
    /// Pools of threads beside each other and beside neighbours: queue, service and total latency
    Pool(pool::PoolArgs),
    /// Transactions: snapshots under three protocols, and beside other engines
    Txn(txn::TxnArgs),
    /// Locks on simulated machines: other cores, other sockets, the same each time
    Sim(sim::SimArgs),
    /// Sweep a program's latency target, draw what it costs and brings, and suggest one
    #[command(bin_name = "manx profile", display_name = "manx-profile")]
    Profile(profile::Args),
}

/// Which engine is measured.
#[derive(Debug, clap::Args)]
struct EngineArgs {
    /// The engine: the real one, or a small built-in one with the same protocol [default:
    /// wiredtiger, or snapshot where that is not installed]
    #[arg(long, value_enum, value_name = "NAME")]
    engine: Option<EngineName>,
    /// Measure this libwiredtiger.so instead of the machine's own
    #[arg(long, value_name = "LIB")]
    library: Option<PathBuf>,
    /// The folder of wiredtiger.h, if it does not lie near the library
    #[arg(long, value_name = "DIR")]
    include: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum EngineName {
    /// WiredTiger
    Wiredtiger,
    /// The built-in one
    Snapshot,
}

#[derive(Debug, clap::Args)]
struct InversionArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engine: EngineArgs,
    /// Compare with this libwiredtiger.so, whose source was repaired [default: the one that
    /// `cargo xtask setup wiredtiger` built, and its original]
    #[arg(long, value_name = "LIB")]
    fixed: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct GuardArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, clap::Args)]
struct WaitArgs {
    #[command(flatten)]
    common: Common,
}

/// The definition of the command line, for man pages and completions.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command with the process's own arguments, and exits.
pub fn main() -> ! {
    command::main(|_| command::parsed(command(), |args: Args| run(&args)))
}

/// Runs the experiment that was named, or lists them.
///
/// # Errors
/// What went wrong; tables of what had been measured until then are printed first.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match &args.experiment {
        None => list(),
        Some(Experiment::Inversion(args)) => inversion(args),
        Some(Experiment::Guard(args)) => guard(args),
        Some(Experiment::Engines(args)) => engines::engines(args),
        Some(Experiment::Paper(args)) => papers::paper(args),
        Some(Experiment::Servers(args)) => servers::servers(args),
        Some(Experiment::Victims(args)) => victims::victims(args),
        Some(Experiment::Doctor(args)) => doctor::doctor(args),
        Some(Experiment::Harm(args)) => harm::harm(args),
        Some(Experiment::Wait(args)) => wait(args),
        Some(Experiment::Calibrate(args)) => calibrate::calibrate(args),
        Some(Experiment::Asl(args)) => asl::asl(args),
        Some(Experiment::Range(args)) => range::range(args),
        Some(Experiment::Pool(args)) => pool::pool(args),
        Some(Experiment::Txn(args)) => txn::txn(args),
        Some(Experiment::Sim(args)) => sim::sim(args),
        Some(Experiment::Profile(args)) => profile::run(args),
    }
}

fn list() -> Result<u8, Failure> {
    let mut text = "The experiments:\n".to_owned();
    for experiment in command().get_subcommands().filter(|one| one.get_name() != "profile") {
        let about = experiment.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("  {:<10} {about}\n", experiment.get_name()));
    }
    text.push_str(
        "\n`manx bench NAME --help` shows an experiment's options; `--quick` is a smoke check of each.\n",
    );
    print(&text)?;
    Ok(0)
}

fn inversion(args: &InversionArgs) -> Result<u8, Failure> {
    let common = &args.common;
    conduct(
        "inversion",
        common,
        |bench| {
            let compiler = Compiler::from_environment()?;
            let (manx, cpus) = (conduct::manx_path()?, machine::cpu_list(2));
            let built = Libraries::built_beside(&manx);
            let choice = choice(&args.engine, args.fixed.clone(), built);
            let engines = Engines::prepare(&choice, &compiler)?;
            let setup = inversion::Setup { engines, manx, quick: common.quick, cpus };
            inversion::measure(&setup, bench)
        },
        inversion::conclude,
    )
}

fn guard(args: &GuardArgs) -> Result<u8, Failure> {
    let common = &args.common;
    conduct(
        "guard",
        common,
        |bench| {
            let compiler = Compiler::from_environment()?;
            let engines = Engines::prepare(&choice(&args.engine, None, None), &compiler)?;
            let setup = guard::Setup {
                engines,
                compiler,
                manx: conduct::manx_path()?,
                quick: common.quick,
                cpus: machine::cpu_list(2),
            };
            guard::measure(&setup, bench)
        },
        guard::conclude,
    )
}

fn wait(args: &WaitArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let setup = waiting::Setup { quick: common.quick };
    conduct("wait", common, |bench| waiting::measure(setup, bench), waiting::conclude)
}

fn choice(engine: &EngineArgs, fixed: Option<PathBuf>, built: Option<PathBuf>) -> Choice {
    let kind = engine.engine.map(|name| match name {
        EngineName::Wiredtiger => Kind::WiredTiger,
        EngineName::Snapshot => Kind::Snapshot,
    });
    let (library, include) = (engine.library.clone(), engine.include.clone());
    Choice { kind, libraries: Libraries { library, fixed, include, built } }
}
