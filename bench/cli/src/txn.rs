//! `manx bench txn`: its options, and what they ask of the experiment.

use super::conduct::{self, Common, number};
use super::plots;
use clap::builder::PossibleValuesParser;
use command::failure::Failure;
use command::sigpipe::print;
use std::path::PathBuf;
use workload::engine::{Compiler, Libraries};
use workload::machine;
use workload::txn::records::{Kind, VALUE_MIN};
use workload::txn::{self, Part, Setup, THREADS, YCSB_THREADS, peers};

/// The measured time of a run in seconds, and that of a smoke check.
const SECONDS: f64 = 3.0;
const QUICK_SECONDS: f64 = 0.2;
/// The workloads of YCSB, and those of a smoke check.
const WORKLOADS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const QUICK_WORKLOADS: [&str; 2] = ["a", "c"];
/// The size of a value, as YCSB's ten fields of a hundred bytes.
const VALUE_BYTES: u32 = 1000;

#[derive(Debug, clap::Args)]
pub(super) struct TxnArgs {
    #[command(flatten)]
    common: Common,
    /// The parts to measure; several with commas between [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = PossibleValuesParser::new(Part::ALL.map(Part::name)))]
    part: Vec<String>,
    /// How many threads the parts `allocation` and `ycsb` have; several with commas between
    /// [default: 8,20,40,80, and 2,8 for `ycsb`]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// Workloads of YCSB, of the part `ycsb`; several with commas between [default: all]
    #[arg(long, value_name = "LETTER", value_delimiter = ',', value_parser = PossibleValuesParser::new(WORKLOADS))]
    workload: Vec<String>,
    /// How keys are drawn in the part `ycsb` [default: as each workload says]
    #[arg(long, value_name = "DISTRIBUTION", value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::name)))]
    keys: Option<String>,
    /// The size of a value
    #[arg(long, value_name = "BYTES", default_value_t = VALUE_BYTES, value_parser = clap::value_parser!(u32).range(VALUE_MIN as i64..=1 << 20))]
    value_bytes: u32,
    /// The measured time of each run [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = number("seconds", 0.05, 3600.0))]
    time: Option<f64>,
    /// Measure this libwiredtiger.so instead of the machine's own
    #[arg(long, value_name = "LIB")]
    library: Option<PathBuf>,
    /// Compare with this libwiredtiger.so, whose source was repaired [default: the one that
    /// `cargo xtask setup wiredtiger` built, and its original]
    #[arg(long, value_name = "LIB")]
    fixed: Option<PathBuf>,
    /// The folder of wiredtiger.h, if it does not lie near the library
    #[arg(long, value_name = "DIR")]
    include: Option<PathBuf>,
    /// Write the pictures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Be a measured process, with the options that follow
    #[arg(long = peers::DRIVE, value_name = "OPTION", hide = true, num_args = 0.., allow_hyphen_values = true, exclusive = true)]
    drive: Option<Vec<String>>,
}

pub(super) fn txn(args: &TxnArgs) -> Result<u8, Failure> {
    if let Some(options) = &args.drive {
        let printed = txn::run_child(options).map_err(|error| conduct::failure("txn", &error))?;
        return print(&format!("{printed}\n")).map(|()| 0);
    }
    let common = &args.common;
    let counts = |asked: &[u32], default: &[usize]| match asked {
        [] => default.to_vec(),
        _ => asked.iter().map(|&count| count as usize).collect(),
    };
    let threads = counts(&args.threads, if common.quick { &[20] } else { &THREADS });
    let ycsb_threads = counts(&args.threads, &YCSB_THREADS);
    let keys = Kind::ALL.into_iter().find(|kind| args.keys.as_deref() == Some(kind.name()));
    let all: &[&str] = if common.quick { &QUICK_WORKLOADS } else { &WORKLOADS };
    let wanted = |letter: &&&str| args.workload.iter().any(|name| name == **letter);
    let workloads = match args.workload.is_empty() {
        true => all.iter().map(|letter| (*letter).to_owned()).collect(),
        false => WORKLOADS.iter().filter(wanted).map(|letter| (*letter).to_owned()).collect(),
    };
    plots::drawn(
        "txn",
        common,
        args.plots.as_deref(),
        |bench| {
            let manx = conduct::manx_path()?;
            let setup = Setup {
                parts: Part::named(&args.part),
                compiler: Compiler::from_environment()?,
                libraries: Libraries {
                    library: args.library.clone(),
                    fixed: args.fixed.clone(),
                    include: args.include.clone(),
                    built: Libraries::built_beside(&manx),
                },
                manx,
                own: conduct::own_path()?,
                quick: common.quick,
                seconds: args.time.unwrap_or(if common.quick { QUICK_SECONDS } else { SECONDS }),
                threads,
                ycsb_threads,
                workloads,
                keys,
                value_bytes: args.value_bytes as usize,
                cpus: machine::cpu_list(2),
            };
            txn::measure(setup, bench)
        },
        |report| {
            txn::conclude(report);
            plots::texts(txn::draw(report))
        },
    )
}
