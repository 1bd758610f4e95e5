//! `manx doctor`: what keeps running processes from being fast, and what to do.
//!
//! The evidence and the verdicts are those of the package `doctor`. This file has the options, the
//! choice of processes, the progress, and the exit code. A program that is started and compared is
//! in `pairs.rs`.

mod change;
mod counts;
mod figure;
mod pairs;
mod refused;
mod session;
mod work;

use command::duration::parse_ns;
use command::failure::{
    BROKEN, FINDING, Failure, NO_PROCESS, NOT_EXECUTABLE, NOT_FOUND, NOT_OUR_FINDING, USAGE, exit_codes,
};
use command::machine::Machine;
use command::sigpipe::print;
use command::statistics::PAIRS_MIN;
use doctor::{Evidence, Verdict, diagnose, json, text, watch};
use figure::{Better, Pattern};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

/// The arguments of `manx doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = more_help(),
    override_usage = "manx doctor [OPTIONS] <PID|--cgroup <NAME>|--all>\n       \
                      manx doctor [OPTIONS] -- PROGRAM [ARGS]..."
)]
#[command(group(clap::ArgGroup::new("whom").required(true).args(["pid", "cgroup", "all", "command"])))]
pub struct Args {
    /// The process id
    #[arg(value_name = "PID", value_parser = parse_pid)]
    pid: Option<i32>,

    /// All processes of a control group and of the groups below it, a line for each
    ///
    /// NAME is the group as /proc/PID/cgroup writes it, or the last parts of that.
    #[arg(long, value_name = "NAME")]
    cgroup: Option<String>,

    /// All processes, a line for each with a finding
    #[arg(long)]
    all: bool,

    /// A program to start: it runs in turn as it is and under `manx run`, and the change is shown
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,

    /// With PROGRAM: how often it runs as it is and under `manx run`; fewer than 5 show no interval
    #[arg(long, value_name = "N", default_value_t = PAIRS_MIN, value_parser = parse_pairs, conflicts_with_all = ["pid", "cgroup", "all"])]
    pairs: usize,

    /// With PROGRAM: a figure of its work that is better if it is less: a regular expression for
    /// its output, whose one group is the number, as 'step ([0-9.]+) ms'
    ///
    /// The median of all matches of a run is its figure. Both output streams are searched, line by
    /// line. Without --figure and --rate, the wall time of a program that ends by itself is the
    /// figure; without any there is no verdict on whether `manx run` helps.
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse, conflicts_with_all = ["pid", "cgroup", "all", "rate"])]
    figure: Option<Pattern>,

    /// The same for a figure that is better if it is more, as '([0-9.]+) requests/s'
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse, conflicts_with_all = ["pid", "cgroup", "all"])]
    rate: Option<Pattern>,

    /// How long to watch, as 10s or 500ms; of a PROGRAM, each run that does not end before
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    time: Duration,

    /// Write JSON: the verdicts and all the evidence
    #[arg(long)]
    json: bool,

    /// Do not show how long it still takes
    #[arg(short, long)]
    quiet: bool,
}

fn parse_pid(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|&pid: &i32| pid > 0);
    pid.ok_or_else(|| "write the number of a process, as `pgrep` or `ps -e` show it".to_owned())
}

fn parse_pairs(text: &str) -> Result<usize, String> {
    let pairs = text.parse().ok().filter(|pairs| (2..=1000).contains(pairs));
    pairs.ok_or_else(|| "write a number from 2 to 1000".to_owned())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = Duration::from_nanos(parse_ns(text)?);
    if time.is_zero() { Err("write a time of more than 0".into()) } else { Ok(time) }
}

fn more_help() -> String {
    const MORE: &str = "\
What is found:
  More runnable threads than CPUs; a quota that stops the program; busy waiting;
  a contended lock; priority inversion. And what is not Manx's business: other
  processes on the same CPUs, a host that takes CPU time, memory, disks. The worst
  comes first. Its severity is the number of threads that it keeps from their work
  on average, so that causes can be compared.

A program that is started (-- PROGRAM):
  It runs as it is and under `manx run`, in turn, in an order drawn at random, and
  once more under `manx run --stats` for the answers of the trial. Its output is
  discarded and its input is /dev/null. A run that does not end within --for is
  ended by SIGTERM, after 5 s by SIGKILL. Whether `manx run` helps is said by a
  figure of work only: --figure, --rate, or the wall time of a program that ends by
  itself. The exit code is that of what was found in the program as it is, whatever
  its own exit status.

What it does to the program:
  It attaches to nothing, stops nothing and changes nothing. It reads files of
  /proc, samples the instructions of at most 64 threads 97 times per second of
  CPU time, notes the waits of at most 8 threads for contended locks, and uses at
  most about 2 % of one CPU.

What it needs:
  For processes of one's own, kernel.perf_event_paranoid of at most 2 (for busy
  waiting) or 1 (also for how long waits for locks last), and
  kernel.yama.ptrace_scope of 0 (for locks). For others, root, or CAP_SYS_PTRACE
  and CAP_PERFMON. What it could not see is said.";
    let codes = exit_codes(&[
        (0, "nothing was found"),
        (NO_PROCESS, "there is no such process, or nobody may look at it"),
        (USAGE, "the command line is wrong"),
        (FINDING, "something was found that Manx can do something about"),
        (NOT_OUR_FINDING, "something was found, and it is not Manx's business"),
        (BROKEN, "standard output cannot be written, or with PROGRAM the preload library is missing"),
        (NOT_EXECUTABLE, "PROGRAM was found but cannot be executed"),
        (NOT_FOUND, "PROGRAM was not found"),
    ]);
    format!("{MORE}\n\n{codes}")
}

/// Watches, and prints what was found.
///
/// # Errors
/// With code 1 if there is no such process.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let shows = !args.quiet && io::stderr().is_terminal();
    if !args.command.is_empty() {
        let rate = args.rate.as_ref().map(|pattern| (pattern, Better::More));
        let asked = args.figure.as_ref().map(|pattern| (pattern, Better::Less)).or(rate);
        let verdicts = pairs::run(&args.command, args.pairs, args.time, asked, args.json, |run, passed| {
            if shows {
                let (run, runs, passed) = (run + 1, 2 * args.pairs + 1, passed.as_secs());
                let _ = write!(io::stderr(), "\rrun {run} of {runs}: {passed} of {} s ", args.time.as_secs());
            }
        });
        if shows {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        return Ok(code(&verdicts?));
    }
    let pids = match (args.pid, &args.cgroup) {
        (Some(pid), _) => vec![pid],
        (None, Some(group)) => in_group(group)?,
        (None, None) => processes().collect(),
    };
    let watched = watch(&pids, args.time, |passed| {
        if shows {
            // Progress that cannot be shown is no error.
            let _ = write!(io::stderr(), "\rwatching: {} of {} s", passed.as_secs(), args.time.as_secs());
        }
    });
    if shows {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    let judged = |mut evidence: Evidence| {
        counts::add(&mut evidence);
        let verdicts = diagnose(&evidence);
        (evidence, verdicts)
    };
    if args.pid.is_some() {
        let evidence =
            watched.into_iter().next().expect("one process").map_err(|refusal| refused::failure(&refusal))?;
        let (evidence, verdicts) = judged(evidence);
        print(&if args.json {
            format!("{:#}\n", json::value(&evidence, &verdicts, &Machine::here()))
        } else {
            text::report(&evidence, &verdicts)
        })?;
        return Ok(code(&verdicts));
    }
    // A process that has ended before it was looked at is none.
    let mut all: Vec<(Evidence, Vec<Verdict>)> = watched.into_iter().flatten().map(judged).collect();
    let severity = |verdicts: &[Verdict]| verdicts.first().map_or(0.0, |verdict| verdict.severity);
    all.sort_by(|(_, one), (_, other)| severity(other).total_cmp(&severity(one)));
    print(&if args.json {
        let machine = Machine::here();
        let list = all.iter().map(|(evidence, verdicts)| json::value(evidence, verdicts, &machine)).collect();
        format!("{:#}\n", Value::Array(list))
    } else {
        list(&all)
    })?;
    let verdicts: Vec<Verdict> = all.into_iter().flat_map(|(_, verdicts)| verdicts).collect();
    Ok(code(&verdicts))
}

/// A line for each process with a finding.
fn list(all: &[(Evidence, Vec<Verdict>)]) -> String {
    let mut out = String::new();
    let found = all.iter().filter(|(_, verdicts)| !verdicts.is_empty());
    for (evidence, verdicts) in found.clone() {
        out += &format!("{}\n", text::line(evidence, verdicts));
    }
    let healthy = all.len() - found.count();
    out + &format!(
        "{healthy} of {} processes have no finding; `manx doctor PID` says more of one\n",
        all.len()
    )
}

/// The exit code: findings that Manx can cure come first.
fn code(verdicts: &[Verdict]) -> u8 {
    match verdicts {
        [] => 0,
        some if some.iter().any(|verdict| verdict.cause.is_curable()) => FINDING,
        _ => NOT_OUR_FINDING,
    }
}

/// The processes, without this one and without threads of the kernel, which have no program.
fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_program =
        |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| !it.is_empty());
    let own = std::process::id() as i32;
    pids.filter(move |pid| *pid != own && has_program(pid))
}

/// The processes of a control group.
fn in_group(name: &str) -> Result<Vec<i32>, Failure> {
    let is_in = |pid: &i32| {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|group| is_below(group, name))
    };
    let pids: Vec<i32> = processes().filter(is_in).collect();
    if pids.is_empty() {
        let what = format!("no process is in a control group {name}");
        return Err(Failure::new(NO_PROCESS, what, "/proc/PID/cgroup names the groups of a process"));
    }
    Ok(pids)
}

/// Whether `group` is the group of that name or lies below it. The name may be the end of a path.
fn is_below(group: &str, name: &str) -> bool {
    let name = Path::new(name.trim_matches('/'));
    let is_named = |path: &Path| !name.as_os_str().is_empty() && path.ends_with(name);
    Path::new(group).ancestors().any(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::Cause;

    #[test]
    fn a_finding_that_manx_can_cure_decides_the_exit_code() {
        let of = |causes: &[Cause]| {
            let verdicts: Vec<Verdict> = causes.iter().map(|cause| Verdict::new(*cause, 1.0, "it")).collect();
            code(&verdicts)
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[Cause::Neighbours]), NOT_OUR_FINDING);
        assert_eq!(of(&[Cause::Neighbours, Cause::Quota]), FINDING);
    }

    #[test]
    fn a_group_is_found_by_the_end_of_its_path_and_with_those_below() {
        for (group, name, expected) in [
            ("/system.slice/app.service", "app.service", true),
            ("/system.slice/app.service/worker", "/system.slice/app.service", true),
            ("/system.slice/app.service", "system.slice", true),
            ("/system.slice/my-app.service", "app.service", false),
            ("/", "app", false),
            ("/a", "", false),
        ] {
            assert_eq!(is_below(group, name), expected, "{group} {name}");
        }
    }

    #[test]
    fn this_process_is_left_out_and_its_parent_is_not() {
        let own = std::process::id() as i32;
        let parent = std::os::unix::process::parent_id() as i32;
        let all: Vec<i32> = processes().collect();
        assert!(!all.contains(&own) && all.contains(&parent), "{all:?}");
    }
}
