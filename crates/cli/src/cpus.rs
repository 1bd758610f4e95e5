//! `manx cpus`: how many CPUs a program would really get here, why not more, and which
//! runtimes know.
//!
//! The budget is [`CpuBudget`]'s, of this process, which is the same for every program of the same
//! shell. Runtimes are asked (`probes.rs`): each that is installed is run, alone and under `manx
//! run`.

mod facts;
mod json;
mod probes;
mod text;
mod watch;

use command::failure::{BROKEN, Failure, USAGE, exit_codes};
use command::sigpipe::print;
use manx::cpu::{CpuBudget, Rounding};

/// The arguments of `manx cpus`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = more_help())]
pub struct Args {
    /// Print one number only: how many threads to have
    #[arg(long)]
    count: bool,

    /// From a fraction of CPUs to a count: down and at least 1, up, or not at all
    #[arg(long, value_name = "HOW", default_value = "floor", value_parser = parse_rounding, requires = "count")]
    rounding: Rounding,

    /// Write JSON
    #[arg(long, conflicts_with = "count")]
    json: bool,

    /// Do not run the programs that are installed, to ask them
    #[arg(long)]
    no_runtimes: bool,

    /// Go on until interrupted, with a line for each change
    #[arg(long)]
    watch: bool,

    /// Say what this process is told, by whatever it can ask; used by the probes
    #[arg(long, hide = true)]
    ask: bool,
}

fn parse_rounding(text: &str) -> Result<Rounding, String> {
    text.parse().map_err(|error: manx::cpu::ParseRoundingError| error.to_string())
}

fn more_help() -> String {
    const MORE: &str = "\
What is shown:
  Every limit that the kernel sets: the CPUs that are online, those of the cpuset
  and of the affinity, and the quota of the own control group and of each above
  it, of cgroup v1 and v2. The one that decides is marked. A weight (shares) is
  no limit: it says who goes first when CPUs are short.

  Then what the runtimes that are installed take for the number of CPUs: as they
  are, and under `manx run`. Each is started twice, and has 10 seconds.

  Then, for each runtime that has a variable for it: what it counts, how many CPUs
  that are if it reads no quota, how it rounds the fraction of a quota, and the
  variable that `manx run` would set here, if it would. --json has the sources.";
    let codes = exit_codes(&[
        (0, "success"),
        (USAGE, "the command line is wrong"),
        (BROKEN, "standard output cannot be written"),
    ]);
    format!("{MORE}\n\n{codes}")
}

/// Shows the CPUs.
///
/// # Errors
/// With code 125 if standard output cannot be written.
pub fn run(args: &Args) -> Result<u8, Failure> {
    if args.ask {
        return print(&probes::answers()).map(|()| 0);
    }
    if args.watch {
        return watch::run(|budget| line(args, budget));
    }
    let budget = CpuBudget::now();
    if args.count {
        return print(&line(args, &budget)).map(|()| 0);
    }
    let facts = facts::Facts::now();
    let answers = if args.no_runtimes { probes::Answers::default() } else { probes::ask_all() };
    print(&if args.json {
        json::all(&budget, &facts, &answers)
    } else {
        text::all(&budget, &facts, &answers)
    })
    .map(|()| 0)
}

/// The budget in a line, in the form that was asked for.
fn line(args: &Args, budget: &CpuBudget) -> String {
    if args.count {
        let exact = args.rounding == Rounding::Exact;
        let number =
            if exact { text::fraction(budget.cpus()) } else { budget.count(args.rounding).to_string() };
        format!("{number}\n")
    } else if args.json {
        json::line(budget)
    } else {
        format!("{budget}\n")
    }
}
