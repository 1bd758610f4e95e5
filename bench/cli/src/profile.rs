//! `manx profile`, which becomes `manx-bench profile`: sweeps a program's latency target, draws
//! what it costs and brings, and suggests one.
//!
//! The table goes to standard output, progress to standard error. The JSON file is replaced after
//! every run, by a rename, so an interrupted sweep is whole up to its last run and can be resumed.

mod files;

use crate::conduct;
use command::cores::{parse_cores, parse_dilation};
use command::duration::parse_ns;
use command::failure::{
    BROKEN, Failure, INTERRUPTED, NO_RESULT, NOT_EXECUTABLE, NOT_FOUND, USAGE, exit_codes, reason,
};
use command::sigpipe::print;
use command::slo;
use report::Machine;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use workload::harness::Progress;
use workload::profile::{Profile, Sweep, chart, conclude, table};
use workload::{Error, interrupt};

/// The arguments of `manx profile`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "manx profile [OPTIONS] [--] PROGRAM [ARGS]...", after_long_help = more_help())]
pub struct Args {
    /// The shortest target
    #[arg(long, value_name = "TIME", value_parser = parse_ns, default_value = "50us")]
    from: u64,
    /// The longest target
    #[arg(long, value_name = "TIME", value_parser = parse_ns, default_value = "5ms")]
    to: u64,
    /// How many targets, in equal ratios
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100), default_value = "12")]
    steps: u32,
    /// Rounds, each of which runs every target once in random order; figures are medians
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value = "5")]
    repeats: u32,
    /// Sweep the target of the epochs with this id instead of that of requests
    #[arg(long, value_name = "ID")]
    epoch: Option<u64>,
    /// The percentile that a target is for, and that is measured, as p99.9
    #[arg(long, value_name = "pN", value_parser = parse_percentile, default_value = "p99")]
    percentile: u16,
    /// What the program's mutexes become
    #[arg(long, value_name = "WHICH", default_value = "asl")]
    lock: LockWord,
    /// Which CPUs are fast and which are slow, as for `manx run`
    #[arg(long, value_name = "CORES", value_parser = parse_cores)]
    cores: Option<String>,
    /// Take threads on slow CPUs RATIO times as long, as for `manx run`; without Manx, too
    #[arg(long, value_name = "RATIO", value_parser = parse_dilation)]
    dilate: Option<u32>,
    /// Let this shell command measure the program while it runs
    #[arg(long, value_name = "COMMAND")]
    measure: Option<String>,
    /// Write every run and the conclusion to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Continue the sweep in this JSON file: what it has is not run again
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Draw the graph as SVG
    #[arg(long, value_name = "FILE", value_parser = picture)]
    svg: Option<PathBuf>,
    /// Refused: there were PNG files
    #[arg(long, value_name = "FILE", hide = true, value_parser = no_png)]
    png: Option<PathBuf>,
    /// The program, and behind it its own arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// A lock that takes a target.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LockWord {
    /// Threads on little cores let those on big ones pass
    Asl,
    /// Running threads may overtake sleeping ones
    Manx,
}

/// A file for a picture.
fn picture(file: &str) -> Result<PathBuf, String> {
    if file.ends_with(".png") { no_png(file) } else { Ok(file.into()) }
}

fn no_png(_file: &str) -> Result<PathBuf, String> {
    Err("pictures are SVG files: name one with --svg FILE.svg".into())
}

fn parse_percentile(text: &str) -> Result<u16, String> {
    slo::parse_slo(&format!("0ns@{text}")).map(|slo| slo.percentile)
}

fn more_help() -> String {
    const MORE: &str = "\
What is measured:
  Requests, or with --epoch the epochs that the program marks with
  manx_epoch_start and manx_epoch_end: Manx counts them, with their latencies,
  and the program prints nothing for it. A server does not end by itself: with
  --measure a command, such as a load generator, runs beside it. When the command
  ends, the program is killed.
  A program, or the command of --measure, may also print its own figures: a JSON
  object, alone or as one line of its output, with `throughput_per_s` and `all`,
  its latencies:
    {\"count\": 2, \"min_ns\": 5, \"max_ns\": 9, \"sum_ns\": 14, \"counts\": [[5, 1], [9, 1]]}
  or two numbers, operations a second and the percentile's latency in
  nanoseconds. Then these are taken, in all runs. MANX_PROFILE_PID is the
  program's process id; to measure after it has ended, wait for it:
    tail --pid=$MANX_PROFILE_PID -f /dev/null; cat result.json

Knee and suggestion:
  The knee is where throughput lies highest above the straight line from the
  first target to the last, over the target's logarithm (Kneedle; Satopaa and
  others, 2011). Suggested is the knee, or the next longer target, if the measured
  percentile is within 5 % of it and throughput is 5 % above that of FIFO.

Ctrl-C ends a sweep with exit code 130, and shows and keeps what was measured.";
    let codes = exit_codes(&[
        (0, "success"),
        (NO_RESULT, "the program failed, or gave no result"),
        (USAGE, "the command line is wrong, or a file in it cannot be used"),
        (BROKEN, "manx or its preload library is missing"),
        (NOT_EXECUTABLE, "the program was found but cannot be executed"),
        (NOT_FOUND, "the program was not found"),
        (INTERRUPTED, "interrupted by Ctrl-C"),
    ]);
    format!("{MORE}\n\n{codes}")
}

/// Sweeps, shows and writes.
///
/// # Errors
/// What went wrong; what had been measured until then is shown and written first.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let sweep = sweep(args)?;
    let path = conduct::manx_path().map_err(failure)?;
    check(&path, args)?;
    let mut profile = match &args.resume {
        Some(file) => files::resume(file, &sweep)?,
        None => Profile::new(sweep, Machine::here()),
    };
    let kept = args.json.as_ref().or(args.resume.as_ref());
    // Checked before the measurement, so that an unwritable file is found before it.
    for file in [kept, args.svg.as_ref()].into_iter().flatten() {
        files::check(file)?;
    }
    let keep = |profile: &Profile| match kept {
        Some(file) => files::write_json(file, profile).map_err(|f| Error::request(f.what, f.help)),
        None => Ok(()),
    };
    interrupt::install();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let result = profile.complete(&path, seed, &mut Lines::default(), keep);
    if !profile.runs.is_empty() {
        show(args, &mut profile)?;
        keep(&profile).map_err(failure)?;
    }
    match result {
        Ok(()) => Ok(0),
        Err(Error::Interrupted) => Ok(INTERRUPTED),
        Err(error) => Err(failure(error)),
    }
}

/// Lets `manx run` look at the program and at its own libraries, so that what cannot be run is
/// refused before anything is measured.
///
/// # Errors
/// What `manx run` says, with its exit code.
fn check(manx: &Path, args: &Args) -> Result<(), Failure> {
    let mut command = Command::new(manx);
    command.args(["run", "--dry-run"]);
    if args.epoch.is_none() {
        // A target for requests takes a library more.
        command.args(["--slo", "1s"]);
    }
    command.arg("--").args(&args.command).stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.output().map_err(|error| {
        let what = format!("profile: {}: {}", manx.display(), reason(&error));
        Failure::new(BROKEN, what, "manx profile runs the program under manx run")
    })?;
    let code = output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(BROKEN);
    if code == 0 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let (what, help) = said.trim_end().split_once('\n').unwrap_or((said.trim_end(), ""));
    let help: Vec<&str> = help.lines().map(str::trim_start).collect();
    Err(Failure::new(code, what.strip_prefix("manx: ").unwrap_or(what), help.join("\n")))
}

fn sweep(args: &Args) -> Result<Sweep, Failure> {
    let usage = |what: &str, help: &str| Err(Failure::new(USAGE, format!("profile: {what}"), help));
    if args.from == 0 {
        return usage("--from is 0", "SLO 0 is FIFO, which is always measured: begin above it");
    }
    if args.from >= args.to {
        return usage("the range is reversed or empty", "--from must be shorter than --to");
    }
    let mut program = Vec::new();
    for word in &args.command {
        let Some(word) = word.to_str() else {
            return usage("an argument is not UTF-8", "put the command into a script");
        };
        program.push(word.to_owned());
    }
    Ok(Sweep {
        program,
        measure: args.measure.clone(),
        epoch: args.epoch,
        lock: match args.lock {
            LockWord::Asl => "asl".into(),
            LockWord::Manx => "manx".into(),
        },
        cores: args.cores.clone(),
        dilation: args.dilate,
        percentile: args.percentile,
        from_ns: args.from,
        to_ns: args.to,
        steps: args.steps as usize,
        repeats: args.repeats as usize,
    })
}

fn show(args: &Args, profile: &mut Profile) -> Result<(), Failure> {
    let conclusion = conclude(profile);
    let mut text = table(profile, &conclusion).to_string();
    let advice = &conclusion.advice;
    let slo = advice.slo_ns.map_or("none".into(), report::figure::duration);
    text.push_str(&format!("\nSuggested SLO: {slo}\n  {}\n", advice.reason));
    let chart = chart(profile, &conclusion);
    if let Some(file) = &args.svg {
        files::write(file, chart.svg().as_bytes())?;
    }
    profile.conclusion = Some(conclusion);
    print(&text)
}

fn failure(error: Error) -> Failure {
    let (code, what, help) = match error {
        Error::Interrupted => (INTERRUPTED, "interrupted".into(), String::new()),
        Error::Request { what, help } => (USAGE, what, help),
        Error::Missing { what, help } => (BROKEN, what, help),
        Error::Failed { what, stderr } => (NO_RESULT, what, stderr.trim_end().to_owned()),
    };
    Failure::new(code, format!("profile: {what}"), help)
}

/// A line for each run, with the time that is left, estimated by the mean of the runs before.
#[derive(Default)]
struct Lines {
    steps: usize,
    step: usize,
    started: Option<Instant>,
}

impl Progress for Lines {
    fn begin(&mut self, _what: &str, steps: Option<usize>) {
        *self = Lines { steps: steps.unwrap_or(0), step: 0, started: Some(Instant::now()) };
    }

    fn step(&mut self, what: &str) {
        let elapsed = self.started.map_or(0.0, |started| started.elapsed().as_secs_f64());
        let left = match self.step {
            0 => String::new(),
            done => format!(", {:.0} s left", elapsed / done as f64 * (self.steps - done) as f64),
        };
        self.step += 1;
        let text = format!("manx profile: {}/{}{left}: {what}\n", self.step, self.steps);
        // A failure to show progress does not end the sweep.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn end(&mut self) {}
}
