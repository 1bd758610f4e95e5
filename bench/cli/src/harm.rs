//! `manx bench harm`: its options, and what they ask of the experiment.

use super::conduct::{self, Common, number};
use command::failure::Failure;
use command::sigpipe::print;
use command::table::Table;
use regex::Regex;
use std::path::PathBuf;
use std::time::Duration;
use workload::engine::Compiler;
use workload::harm::{self, Place, Row, Setup, suite};

#[derive(Debug, clap::Args)]
pub(super) struct HarmArgs {
    #[command(flatten)]
    common: Common,
    /// Only rows whose name this regular expression finds; may be given several times [default:
    /// all; with --quick, a few that need no more than usual programs]
    #[arg(long, value_name = "PATTERN", value_parser = Regex::new)]
    only: Vec<Regex>,
    /// Go on with a row for no longer than this, instead of --minutes
    #[arg(long, value_name = "SECONDS", value_parser = number("seconds", 0.0, 86400.0), conflicts_with = "minutes")]
    seconds: Option<f64>,
    /// Measure the rows of this file, in the form of bench/workload/harm/suite.toml
    #[arg(long, value_name = "FILE")]
    suite: Option<PathBuf>,
    /// List the rows, and what is missing, and measure nothing
    #[arg(long)]
    list: bool,
}

pub(super) fn harm(args: &HarmArgs) -> Result<u8, Failure> {
    let common = &args.common;
    let rows = rows(args).map_err(|error| conduct::failure("harm", &error))?;
    if args.list {
        print(&listed(&rows).to_string())?;
        return Ok(0);
    }
    conduct::conduct(
        "harm",
        common,
        |bench| {
            if let Some(seconds) = args.seconds {
                bench.resolution.limit = Duration::from_secs_f64(seconds);
            }
            let manx = conduct::manx_path()?;
            let place = Place::find(args.suite.as_deref(), &manx)?;
            let compiler = Compiler::from_environment()?;
            let setup = Setup { rows: rows.clone(), place, compiler, manx, quick: common.quick };
            harm::measure(&setup, bench)
        },
        |report| harm::conclude(report, &rows),
    )
}

/// The rows that are asked for.
fn rows(args: &HarmArgs) -> Result<Vec<Row>, workload::Error> {
    let all = match &args.suite {
        Some(file) => suite::read(file)?,
        None => suite::built_in(),
    };
    let is_short = args.common.quick && args.only.is_empty() && args.suite.is_none();
    harm::choose(all.into_iter().filter(|row| row.quick || !is_short).collect(), &args.only)
}

fn listed(rows: &[Row]) -> Table {
    let mut table = Table::new(&format!("{} rows", rows.len()), &["name", "what it does", "missing"]);
    for row in rows {
        let missing =
            row.installed().err().map_or(String::new(), |error| error.to_string().replace('\n', ": "));
        table.row([row.name.clone(), row.words.clone(), missing]);
    }
    table
}
