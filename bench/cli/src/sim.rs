//! `manx bench sim`: benches on a simulated machine.

use super::asl::{self, AslArgs};
use super::conduct::{Common, conduct, number};
use super::plots;
use clap::builder::PossibleValuesParser;
use command::failure::{Failure, USAGE, reason};
use command::sigpipe::print;
use command::table::Table;
use contention::jobs::Rules;
use contention::lock::Lock;
use contention::ranges::RangeLock;
use platform_sim::machine::Machine;
use report::Report;
use std::path::{Path, PathBuf};
use std::time::Duration;
use workload::constants::{self, Varied};
use workload::mutex::{self, LOCKS};
use workload::place::Place;
use workload::quota::{self, Waits};
use workload::ranges;
use workload::snapshots;
use workload::{Error, harness, jobs, schedule};

/// The measured time of a run, of virtual time; and that of a smoke check.
const TIME_MS: u64 = 100;
const QUICK_TIME_MS: u64 = 5;
/// The same for what the scheduler does: a turn of two threads takes some milliseconds.
const SCHEDULE_TIME: Duration = Duration::from_secs(1);
const SCHEDULE_QUICK_TIME: Duration = Duration::from_millis(50);
/// The same for pools, which look at neighbours some times a second.
const POOL_TIME_MS: u64 = 4_000;
const POOL_QUICK_TIME_MS: u64 = 100;
const POOL_ROUNDS: u32 = 3;
/// The same for programs under a quota, whose period is 100 ms.
const QUOTA_TIME_MS: u64 = 4_000;
const QUOTA_QUICK_TIME_MS: u64 = 200;
const QUOTA_ROUNDS: u32 = 3;
/// The same for paper 000's server.
const SNAPSHOTS_TIME_MS: u64 = 3_000;
const SNAPSHOTS_QUICK_TIME_MS: u64 = 150;
const SNAPSHOTS_ROUNDS: u32 = 3;
/// The same for range locks, which take millions of ranges a second.
const RANGE_TIME_MS: u64 = 2;
const RANGE_QUICK_TIME_MS: u64 = 1;
const RANGE_ROUNDS: u32 = 5;
/// The seed of the first run, unless another one is asked for: a simulation is the same each time.
const SEED: u64 = 1;
/// How many threads, unless it is said.
const THREADS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The most threads: each has a stack.
const THREADS_MAX: i64 = 1024;
/// The most processes of a run.
const PROCESSES_MAX: i64 = 64;
/// All machines.
const ALL: &str = "all";
/// The rounds and the measured time of a run that varies a constant, and those of a smoke check.
const CONSTANT_ROUNDS: u32 = 3;
const CONSTANT_TIME_MS: u64 = 10;
const CONSTANT_QUICK_TIME_MS: u64 = 1;
/// The largest value of a constant: 17 minutes, as a time.
const CONSTANT_MAX: u64 = 1_000_000_000_000;

#[derive(Debug, clap::Args)]
#[command(subcommand_precedence_over_arg = true)]
pub(super) struct SimArgs {
    /// The machine: a name, or a file that describes one; without it, the names are listed
    machine: Option<String>,
    #[command(subcommand)]
    bench: Option<Bench>,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// What locks make of a target for latency, on the machine's big and little cores: the
    /// experiments of `manx bench asl`
    Asl(AslArgs),
    /// One critical section and more and more threads: throughput, latency and fairness of locks
    Mutex(MutexArgs),
    /// Pools of threads that have jobs to do, in one process or in several: how many jobs they do,
    /// and how long these take
    Pool(PoolArgs),
    /// Threads that lock shuffled ranges, one or sixteen at a time: W1 and W2 of paper 004
    Range(RangeArgs),
    /// Programs that their quota stops, as they are and paced as `manx run` does it
    Quota(QuotaArgs),
    /// Updates of an engine whose snapshots wait for threads that take an id, beside boosted
    /// threads: paper 000 on its own server
    Snapshots(SnapshotsArgs),
    /// What each constant of Manx's default mutex costs and gains, with one of them varied at a
    /// time; here the machine may also be `all`
    Constants(ConstantsArgs),
    /// What the scheduler does to two threads, beside this machine's: how far the distributions of
    /// times are apart
    Schedule(ScheduleArgs),
}

#[derive(Debug, clap::Args)]
struct PoolArgs {
    #[command(flatten)]
    common: Common,
    /// Number of processes with a pool each; several with commas between
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=PROCESSES_MAX))]
    processes: Vec<u32>,
    /// How many workers a pool has; several with commas between [default: as many as CPUs]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Vec<u32>,
    /// Load of all processes together, of what the CPUs or the quota could do alone; several with
    /// commas between
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_value = "0.6,1.2", value_parser = number("times", 0.01, 100.0))]
    load: Vec<f64>,
    /// The pools; several with commas between [default: all]
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(Rules::ALL.map(Rules::name)))]
    kind: Vec<String>,
    /// How long a job takes on a CPU of speed 1
    #[arg(long, value_name = "US", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    job_us: u64,
    /// For how long jobs come [default: 4000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    time_ms: Option<u64>,
    /// Write the pictures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct SnapshotsArgs {
    #[command(flatten)]
    common: Common,
    /// Clients: of the timelines, and then of each step of figure 4
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "40,20,40,60,80", value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    clients: Vec<u32>,
    /// CPUs of a restricted server
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=256))]
    cpus: u16,
    /// Threads of the server that are boosted
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: u32,
    /// Time of the network for an update and its reply
    #[arg(long, value_name = "US", default_value_t = 650, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    network_us: u64,
    /// Mean time between a reply at the client and its next update
    #[arg(long, value_name = "US", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    think_us: u64,
    /// Mean CPU time of an update
    #[arg(long, value_name = "US", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    work_us: u64,
    /// For how long is counted [default: 3000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    time_ms: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct RangeArgs {
    #[command(flatten)]
    common: Common,
    /// How many threads; several with commas between
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Vec<u32>,
    /// The locks; several with commas between [default: all]
    #[arg(long, value_name = "LOCK", value_delimiter = ',', value_parser = PossibleValuesParser::new(RangeLock::ALL.map(RangeLock::name)))]
    lock: Vec<String>,
    /// How many ranges are dealt to the threads
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(16 * THREADS_MAX..=4_000_000))]
    ranges: u32,
    /// The time to write a range
    #[arg(long, value_name = "NS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    write_ns: u64,
    /// The measured time of a run [default: 2]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    time_ms: Option<u64>,
    /// Write the pictures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct QuotaArgs {
    #[command(flatten)]
    common: Common,
    /// The quotas, in CPUs; several with commas between
    #[arg(long, value_name = "CPUS", value_delimiter = ',', default_value = "2,8", value_parser = number("CPUs", 0.01, 256.0))]
    quota: Vec<f64>,
    /// Number of threads; several with commas between [default: as many as CPUs, and four times
    /// as many]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Vec<u32>,
    /// Kind of waiting; several with commas between [default: all]
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(Waits::ALL.map(Waits::name)))]
    kind: Vec<String>,
    /// Length of a piece of work on a CPU of speed 1
    #[arg(long, value_name = "US", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    work_us: u64,
    /// The measured time of a run [default: 4000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    time_ms: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct ScheduleArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct ConstantsArgs {
    #[command(flatten)]
    common: Common,
    /// How many threads; several with commas between [default: 2, 4, and half, once and twice the
    /// CPUs]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Vec<u32>,
    /// A constant and its values, with commas between; or several constants with a value each, and
    /// `+` between; may be repeated [default: some values of each]
    #[arg(long, value_name = "NAME=N,N", value_parser = varied)]
    vary: Vec<Values>,
    #[command(flatten)]
    sections: Sections,
    /// The measured time of a run [default: 10]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    time_ms: Option<u64>,
}

/// A constant with some values.
#[derive(Clone, Debug)]
struct Values(Vec<Varied>);

/// Several values of one constant, or one value of each of several.
fn varied(text: &str) -> Result<Values, String> {
    if text.contains('+') {
        let one = |text: &str| Ok(of_constant(text)?.remove(0));
        return Ok(Values(vec![text.split('+').map(one).collect::<Result<_, String>>()?]));
    }
    Ok(Values(of_constant(text)?.into_iter().map(|one| vec![one]).collect()))
}

fn of_constant(text: &str) -> Result<Vec<(String, u64)>, String> {
    let (name, values) = text.split_once('=').ok_or("not a name, `=` and numbers")?;
    if !constants::names().any(|known| known == name) {
        let names = constants::names().collect::<Vec<_>>().join(", ");
        return Err(format!("there is no constant `{name}`; there are {names}"));
    }
    let number = |value: &str| {
        let value = value.parse().ok().filter(|value| *value <= CONSTANT_MAX);
        value.map(|value| (name.to_owned(), value)).ok_or(format!("not numbers up to {CONSTANT_MAX}"))
    };
    values.split(',').map(number).collect()
}

/// How the threads of a run use the lock.
#[derive(Debug, clap::Args)]
struct Sections {
    /// The time of a section, beside its four cache lines
    #[arg(long, value_name = "NS", default_value = "500", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    hold_ns: u64,
    /// The time between two sections of a thread
    #[arg(long, value_name = "NS", default_value = "1000", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    think_ns: u64,
}

#[derive(Debug, clap::Args)]
struct MutexArgs {
    #[command(flatten)]
    common: Common,
    /// How many threads; several with commas between [default: 1,2,4,8,16,32]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Vec<u32>,
    /// The locks; several with commas between [default: manx,std,parking_lot,mcs,ticket,tas]
    #[arg(long, value_name = "LOCK", value_delimiter = ',', value_parser = PossibleValuesParser::new(Lock::ALL.iter().map(|lock| lock.name())))]
    lock: Vec<String>,
    #[command(flatten)]
    sections: Sections,
    /// The measured time of a run [default: 100]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    time_ms: Option<u64>,
    /// Write the timeline of the first run to this file, for Perfetto (ui.perfetto.dev): threads,
    /// CPUs, and which thread waits for the lock or holds it
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Make each run on this machine too, and compare
    #[arg(long)]
    beside: bool,
    /// Write the pictures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

pub(super) fn sim(args: &SimArgs) -> Result<u8, Failure> {
    let Some(name) = &args.machine else { return list() };
    if let Some(Bench::Constants(args)) = &args.bench {
        return constants(args, name);
    }
    let machine = machine(name)?;
    match &args.bench {
        None => Err(Failure::new(
            USAGE,
            format!("bench sim {name}: which bench?"),
            "name one: `asl`, `mutex`, `pool`, `range`, `quota`, `snapshots`, `constants` or `schedule`; `manx bench sim --help` says more",
        )),
        Some(Bench::Asl(args)) => {
            let (common, seed) = seeded(&args.common);
            let mut args = args.clone();
            args.common = common;
            asl::asl_at(&args, Place::simulated(name, machine, seed))
        }
        Some(Bench::Constants(args)) => constants(args, name),
        Some(Bench::Schedule(args)) => schedule(args, name, machine),
        Some(Bench::Mutex(args)) => mutex(args, name, machine),
        Some(Bench::Pool(args)) => pool(args, name, machine),
        Some(Bench::Range(args)) => range(args, name, machine),
        Some(Bench::Quota(args)) => quota(args, name, machine),
        Some(Bench::Snapshots(args)) => snapshots(args, name, machine),
    }
}

/// The machines that come with Manx.
fn list() -> Result<u8, Failure> {
    let mut table = Table::new("Simulated machines", &["name", "CPUs []", "source"]);
    for name in Machine::names() {
        let machine = machine(name)?;
        table.row([name.to_owned(), machine.cpus().len().to_string(), machine.source]);
    }
    print(&format!("{table}\n`manx bench sim MACHINE --help` lists the benches.\n"))?;
    Ok(0)
}

/// A machine by its name, or of a file.
fn machine(name: &str) -> Result<Machine, Failure> {
    if let Some(machine) = Machine::known(name) {
        return Ok(machine);
    }
    let names = Machine::names().collect::<Vec<_>>().join(", ");
    if Path::new(name).extension().is_none() {
        let help = format!("name one of {names}, or a file that ends in .toml");
        return Err(Failure::new(USAGE, format!("bench sim: there is no machine `{name}`"), help));
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        Failure::new(USAGE, format!("bench sim: {name}: {}", reason(&error)), "name a file that can be read")
    })?;
    Machine::parse(&text).map_err(|error| {
        Failure::new(
            USAGE,
            format!("bench sim: {name}: {}", error.trim_end()),
            "docs/sim.md says what a machine's file holds",
        )
    })
}

/// The same options with a seed, and that.
fn seeded(common: &Common) -> (Common, u64) {
    let seed = common.seed.unwrap_or(SEED);
    let mut common = common.clone();
    common.seed = Some(seed);
    (common, seed)
}

/// Makes an experiment, whose report says where.
fn at(
    place: &Place,
    common: &Common,
    measure: impl FnOnce(&mut harness::Bench) -> Result<(), Error>,
    conclude: impl FnOnce(&mut Report),
) -> Result<u8, Failure> {
    let measure = |bench: &mut harness::Bench| {
        place.describe(bench);
        measure(bench)
    };
    conduct("sim", common, measure, conclude)
}

/// The same with pictures, which `conclude` returns.
fn drawn_at(
    place: &Place,
    common: &Common,
    folder: Option<&Path>,
    measure: impl FnOnce(&mut harness::Bench) -> Result<(), Error>,
    conclude: impl FnOnce(&mut Report) -> Vec<(String, String)>,
) -> Result<u8, Failure> {
    let measure = |bench: &mut harness::Bench| {
        place.describe(bench);
        measure(bench)
    };
    plots::drawn("sim", common, folder, measure, conclude)
}

fn pool(args: &PoolArgs, name: &str, machine: Machine) -> Result<u8, Failure> {
    let (common, seed) = seeded(&args.common);
    let named: Vec<Rules> = args.kind.iter().filter_map(|name| Rules::named(name)).collect();
    let time_ms = args.time_ms.unwrap_or(if common.quick { POOL_QUICK_TIME_MS } else { POOL_TIME_MS });
    let setup = jobs::Setup {
        place: Place::simulated(name, machine, seed),
        processes: args.processes.iter().map(|processes| *processes as usize).collect(),
        workers: args.threads.iter().map(|threads| *threads as usize).collect(),
        loads: args.load.clone(),
        rules: if named.is_empty() { Rules::ALL.to_vec() } else { named },
        rounds: common.repeats.unwrap_or(POOL_ROUNDS) as usize,
        job_ns: args.job_us * 1_000,
        time: Duration::from_millis(time_ms),
    };
    let conclude = |report: &mut Report| {
        jobs::conclude(report);
        plots::texts(jobs::draw(report))
    };
    drawn_at(&setup.place, &common, args.plots.as_deref(), |bench| jobs::measure(&setup, bench), conclude)
}

fn range(args: &RangeArgs, name: &str, machine: Machine) -> Result<u8, Failure> {
    let (common, seed) = seeded(&args.common);
    let named: Vec<RangeLock> = args.lock.iter().filter_map(|name| RangeLock::named(name)).collect();
    let time_ms = args.time_ms.unwrap_or(if common.quick { RANGE_QUICK_TIME_MS } else { RANGE_TIME_MS });
    let setup = ranges::Setup {
        place: Place::simulated(name, machine, seed),
        threads: args.threads.iter().map(|threads| *threads as usize).collect(),
        locks: if named.is_empty() { RangeLock::ALL.to_vec() } else { named },
        rounds: common.repeats.unwrap_or(RANGE_ROUNDS) as usize,
        ranges: args.ranges as usize,
        write_ns: args.write_ns,
        time: Duration::from_millis(time_ms),
    };
    let conclude = |report: &mut Report| {
        ranges::conclude(report);
        plots::texts(ranges::draw(report))
    };
    drawn_at(&setup.place, &common, args.plots.as_deref(), |bench| ranges::measure(&setup, bench), conclude)
}

fn quota(args: &QuotaArgs, name: &str, machine: Machine) -> Result<u8, Failure> {
    let (common, seed) = seeded(&args.common);
    let is_named = |waits: &Waits| args.kind.is_empty() || args.kind.iter().any(|it| it == waits.name());
    let time_ms = args.time_ms.unwrap_or(if common.quick { QUOTA_QUICK_TIME_MS } else { QUOTA_TIME_MS });
    let setup = quota::Setup {
        place: Place::simulated(name, machine, seed),
        quotas: args.quota.clone(),
        threads: args.threads.clone(),
        waits: Waits::ALL.into_iter().filter(is_named).collect(),
        rounds: common.repeats.unwrap_or(QUOTA_ROUNDS) as usize,
        work_ns: args.work_us * 1_000,
        time: Duration::from_millis(time_ms),
    };
    at(&setup.place, &common, |bench| quota::measure(&setup, bench), quota::conclude)
}

fn snapshots(args: &SnapshotsArgs, name: &str, machine: Machine) -> Result<u8, Failure> {
    let (common, seed) = seeded(&args.common);
    let time_ms =
        args.time_ms.unwrap_or(if common.quick { SNAPSHOTS_QUICK_TIME_MS } else { SNAPSHOTS_TIME_MS });
    let setup = snapshots::Setup {
        place: Place::simulated(name, machine, seed),
        clients: args.clients.clone(),
        cpus: usize::from(args.cpus),
        boosted: args.threads,
        network_ns: args.network_us * 1_000,
        think_ns: args.think_us * 1_000,
        work_ns: args.work_us * 1_000,
        rounds: common.repeats.unwrap_or(SNAPSHOTS_ROUNDS) as usize,
        time: Duration::from_millis(time_ms),
    };
    at(&setup.place, &common, |bench| snapshots::measure(&setup, bench), snapshots::conclude)
}

fn schedule(args: &ScheduleArgs, name: &str, machine: Machine) -> Result<u8, Failure> {
    let (common, seed) = seeded(&args.common);
    let setup = schedule::Setup {
        place: Place::simulated(name, machine, seed),
        time: if common.quick { SCHEDULE_QUICK_TIME } else { SCHEDULE_TIME },
    };
    at(&setup.place, &common, |bench| schedule::measure(&setup, bench), schedule::conclude)
}

fn constants(args: &ConstantsArgs, name: &str) -> Result<u8, Failure> {
    let (common, seed) = seeded(&args.common);
    let names = if name == ALL { Machine::names().collect() } else { vec![name] };
    let machines = names.into_iter().map(|name| Ok((name.to_owned(), machine(name)?)));
    let time_ms = if common.quick { CONSTANT_QUICK_TIME_MS } else { CONSTANT_TIME_MS };
    let varied: Vec<Varied> = args.vary.iter().flat_map(|values| values.0.clone()).collect();
    let setup = constants::Setup {
        machines: machines.collect::<Result<_, Failure>>()?,
        seed,
        threads: args.threads.iter().map(|threads| *threads as usize).collect(),
        varied: if varied.is_empty() { constants::usual() } else { varied },
        rounds: common.repeats.unwrap_or(CONSTANT_ROUNDS) as usize,
        time: Duration::from_millis(args.time_ms.unwrap_or(time_ms)),
        hold_ns: args.sections.hold_ns,
        think_ns: args.sections.think_ns,
    };
    conduct("sim", &common, |bench| constants::measure(&setup, bench), constants::conclude)
}

fn mutex(args: &MutexArgs, name: &str, machine: Machine) -> Result<u8, Failure> {
    let (common, seed) = seeded(&args.common);
    let named = args.lock.iter().filter_map(|name| Lock::named(name)).collect::<Vec<_>>();
    let threads = if args.threads.is_empty() { THREADS.to_vec() } else { args.threads.clone() };
    let time_ms = args.time_ms.unwrap_or(if common.quick { QUICK_TIME_MS } else { TIME_MS });
    let setup = mutex::Setup {
        place: Place::simulated(name, machine, seed).traced(args.trace.clone()),
        beside: args.beside,
        threads: threads.into_iter().map(|threads| threads as usize).collect(),
        locks: if named.is_empty() { LOCKS.to_vec() } else { named },
        time: Duration::from_millis(time_ms),
        hold_ns: args.sections.hold_ns,
        think_ns: args.sections.think_ns,
    };
    let conclude = |report: &mut Report| {
        mutex::conclude(report);
        plots::texts(mutex::draw(report))
    };
    drawn_at(&setup.place, &common, args.plots.as_deref(), |bench| mutex::measure(&setup, bench), conclude)
}
