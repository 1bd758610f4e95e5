//! `manx bench paper`: its options, and what they ask of the experiments.

use super::conduct::{self, Common, number};
use super::plots;
use clap::ValueEnum;
use command::failure::Failure;
use std::path::PathBuf;
use std::time::Duration;
use workload::engine::Compiler;
use workload::harness::Bench;
use workload::papers::{mongodb, pools, ranges};
use workload::range;
use workload::{Error, machine, pool};

/// The time of a run in seconds, and in a smoke check: of paper 000's timelines, and of paper 003,
/// where it is the paper's.
const TIMELINE_S: (f64, f64) = (15.0, 3.0);
const POOL_S: (f64, f64) = (5.0, 1.0);
/// The same for paper 004: the runs of its author, a million ranges, last as long.
const RANGE_S: (f64, f64) = (0.4, 0.02);

#[derive(Debug, clap::Args)]
pub(super) struct PaperArgs {
    /// The paper
    #[arg(value_enum, value_name = "PAPER")]
    paper: Paper,
    #[command(flatten)]
    common: Common,
    /// CPUs of a restricted server, such as 2-11 [default: a quarter of the clients, of those CPUs
    /// that the clients leave]
    #[arg(long, value_name = "LIST", value_parser = list)]
    cpus: Option<List>,
    /// CPUs of the clients [default: the first half of all]
    #[arg(long, value_name = "LIST", value_parser = list)]
    client_cpus: Option<List>,
    /// Clients: of the timelines and repairs, and then of each step of figure 4
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "40,20,40,60,80", value_parser = clap::value_parser!(u16).range(1..=4096))]
    clients: Vec<u16>,
    /// Threads of the server that are boosted
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: u16,
    /// Mean think time of a client
    #[arg(long, value_name = "MICROSECONDS", default_value = "0", value_parser = number("microseconds", 0.0, 1e6))]
    think: f64,
    /// Records in the database
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    records: u64,
    /// Threads of 004; several with commas between [default: 1,2,8]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=range::THREADS_MAX as i64))]
    workers: Vec<u32>,
    /// Ranges that 004 deals to the threads [default: a million, or 16384 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(range::THREADS_MAX as i64 * 16..=4_000_000))]
    ranges: Option<u32>,
    /// Time of a run of 003 and 004, and of a timeline of 000, whose other runs take a third of it
    /// [default: 5, 0.4 and 15]
    #[arg(long, value_name = "SECONDS", value_parser = number("seconds", 0.01, 3600.0))]
    time: Option<f64>,
    /// Write the pictures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

impl PaperArgs {
    /// The time of a run.
    fn seconds(&self, (usual, quick): (f64, f64)) -> f64 {
        self.time.unwrap_or(if self.common.quick { quick } else { usual })
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Paper {
    /// Inducing Huge Tail Latency on a MongoDB deployment
    #[value(name = "000")]
    MongoDb,
    /// Reducing Tail Latencies Through Environment- and Neighbour-aware Thread Management
    #[value(name = "003")]
    Pools,
    /// Concurrent Range Locking
    #[value(name = "004")]
    Ranges,
}

/// A list of CPUs.
#[derive(Debug, Clone)]
struct List(Vec<usize>);

fn list(text: &str) -> Result<List, String> {
    let wrong = || format!("{text}: not a list of CPUs such as 0,2-5");
    let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
    let mut cpus = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => cpus.extend(number(first)?..=number(last)?),
            None => cpus.push(number(part)?),
        }
    }
    let allowed = machine::cpus();
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        _ if cpus.is_empty() => Err(wrong()),
        Some(cpu) => Err(format!("this process may not use CPU {cpu}; it may use {allowed:?}")),
        None => Ok(List(cpus)),
    }
}

pub(super) fn paper(args: &PaperArgs) -> Result<u8, Failure> {
    match args.paper {
        Paper::MongoDb => mongodb(args),
        Paper::Pools => pools(args),
        Paper::Ranges => ranges(args),
    }
}

fn mongodb(args: &PaperArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let measure = |bench: &mut Bench| -> Result<(), Error> {
        let (clients, sweep) = args.clients.split_first().unwrap_or((&40, &[]));
        let headline_clients = usize::from(*clients);
        let all = machine::cpus();
        let client_cpus = args
            .client_cpus
            .as_ref()
            .map_or_else(|| all[..all.len().div_ceil(2)].to_vec(), |list| list.0.clone());
        let left: Vec<usize> = all.iter().copied().filter(|cpu| !client_cpus.contains(cpu)).collect();
        let left = if left.is_empty() { all } else { left };
        let some = (headline_clients / 4).clamp(1, left.len());
        let cpus = args.cpus.as_ref().map_or_else(|| left[..some].to_vec(), |list| list.0.clone());
        let setup = mongodb::Setup {
            place: mongodb::Place::beside(conduct::manx_path()?, Compiler::from_environment()?),
            quick: common.quick,
            cpus,
            client_cpus,
            headline_clients,
            clients: sweep.iter().map(|&clients| usize::from(clients)).collect(),
            boosted: usize::from(args.threads),
            think_us: args.think,
            records: args.records,
            time_s: args.seconds(TIMELINE_S),
        };
        bench.without_budget();
        mongodb::measure(&setup, bench)
    };
    plots::drawn("paper-000", common, args.plots.as_deref(), measure, |report| {
        mongodb::conclude(report);
        plots::texts(mongodb::draw(report))
    })
}

fn pools(args: &PaperArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let measure = |bench: &mut Bench| -> Result<(), Error> {
        bench.without_budget();
        let setup = pool::Setup {
            kinds: pools::KINDS.to_vec(),
            // The sweeps are the paper's also in a smoke check: only the runs are short.
            quick: false,
            time: Duration::from_secs_f64(args.seconds(POOL_S)),
            poisson: false,
            sessions: false,
            manx: conduct::manx_path()?,
            own: conduct::own_path()?,
        };
        pools::measure(setup, bench)
    };
    plots::drawn("paper-003", common, args.plots.as_deref(), measure, |report| {
        pools::conclude(report);
        plots::texts(pool::draw(report))
    })
}

fn ranges(args: &PaperArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let measure = |bench: &mut Bench| -> Result<(), Error> {
        bench.without_budget();
        let setup = range::Setup {
            time: Duration::from_secs_f64(args.seconds(RANGE_S)),
            ..super::range::setup(common.quick, &args.workers, args.ranges)
        };
        ranges::measure(setup, bench)
    };
    plots::drawn("paper-004", common, args.plots.as_deref(), measure, |report| {
        ranges::conclude(report);
        plots::texts(range::draw(report))
    })
}
