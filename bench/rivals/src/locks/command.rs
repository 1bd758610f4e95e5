//! `rivals locks`, and the two commands by which it starts its children.

use super::competitor::{COMPETITORS, measure};
use super::round::{self, Entry, Plan};
use super::run::{CASES, Case, Run};
use super::verdict::{Row, rows, text, verdicts, watched};
use clap::Args;
use report::resolution::End;
use report::target::Verdict;
use report::{Order, Resolution};
use serde::Serialize;
use std::env;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use workload::machine::{self, stay_on, stay_on_all};

/// What `rivals locks` is given.
#[derive(Args)]
pub struct Options {
    /// Cases, or `all`
    #[arg(long, value_delimiter = ',', default_value = "all")]
    case: Vec<String>,
    /// Thread counts, instead of each case's own
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Locks, instead of all
    #[arg(long, value_delimiter = ',')]
    lock: Vec<String>,
    /// An interposing lock library, NAME=PATH: glibc's mutex with this library loaded before
    #[arg(long)]
    rival: Vec<String>,
    /// Seconds of each run
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The most rounds of a case and thread count [default: as many as `--width` needs]
    #[arg(long)]
    repeats: Option<usize>,
    /// Go on until the ratios of the targets are known to ± this many percent
    #[arg(long, default_value_t = 2.0)]
    width: f64,
    /// Go on with a case and thread count for no longer than this; the first five rounds are always
    /// made
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Draw the orders of the rounds from this number [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// CPUs to use
    #[arg(long, default_value_t = 2)]
    cpus: usize,
    /// Leave threads to the scheduler
    #[arg(long)]
    unpinned: bool,
    /// Write every run here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What a child is given.
#[derive(Args)]
pub struct Child {
    #[arg(long)]
    lock: String,
    #[arg(long)]
    case: String,
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    seconds: f64,
    #[arg(long)]
    cpus: usize,
    #[arg(long)]
    unpinned: bool,
}

fn case(name: &str) -> Result<&'static Case, String> {
    let names = || CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
    CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or_else(|| format!("no case `{name}`; there are {}", names()))
}

fn cpus(wanted: usize) -> Result<Vec<usize>, String> {
    let mut all = machine::cpus();
    if wanted == 0 || wanted > all.len() {
        return Err(format!("--cpus {wanted}: between 1 and {} can be used here", all.len()));
    }
    all.truncate(wanted);
    Ok(all)
}

fn time(seconds: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && seconds <= 3600.0 => Ok(time),
        _ => Err(format!("--seconds {seconds}: more than 0 and at most 3600 is wanted")),
    }
}

fn count(threads: usize) -> Result<usize, String> {
    match threads {
        1..=4096 => Ok(threads),
        _ => Err(format!("--threads {threads}: between 1 and 4096 is wanted")),
    }
}

/// One run, printed as a line of JSON.
///
/// # Errors
/// If an option is wrong, or the run fails.
pub fn child(child: &Child) -> Result<(), String> {
    let cpus = cpus(child.cpus)?;
    stay_on_all(&cpus)?;
    let run = Run {
        work: case(&child.case)?.work,
        threads: count(child.threads)?,
        time: time(child.seconds)?,
        cpus,
        pinned: !child.unpinned,
    };
    // The process that started this one may be gone before a lock hangs, or be a launcher that is
    // killed in its place.
    let limit = round::patience(run.time).as_secs() as u32 + 1;
    // SAFETY: the call only sets a timer; the signal's default ends the process.
    unsafe { libc::alarm(limit) };
    let outcome = measure(&child.lock, &run).ok_or_else(|| format!("no lock `{}`", child.lock))??;
    println!("{}", serde_json::to_string(&outcome).map_err(|error| error.to_string())?);
    Ok(())
}

/// Burns the CPU of this number until the parent is gone.
///
/// # Errors
/// If there is no such CPU.
pub fn hog(number: usize) -> Result<(), String> {
    stay_on(*machine::cpus().get(number).ok_or("no such CPU")?)?;
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        (0..1_000_000).for_each(|step| {
            std::hint::black_box(step);
        });
    }
    Ok(())
}

fn entries(options: &Options) -> Result<Vec<Entry>, String> {
    let plain = |name: &str, lock: &str, barging| Entry {
        name: name.into(),
        lock: lock.into(),
        preload: None,
        launcher: Vec::new(),
        barging,
    };
    let mut all: Vec<Entry> =
        COMPETITORS.iter().map(|peer| plain(peer.name, peer.name, peer.barging)).collect();
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let manx = program.with_file_name("manx");
    for mode in ["manx", "adaptive", "fifo"] {
        let mut entry = plain(&format!("preload-{mode}"), "glibc", false);
        entry.launcher =
            vec![manx.display().to_string(), "run".into(), format!("--lock={mode}"), "--".into()];
        all.push(entry);
    }
    if let Some(name) = options.lock.iter().find(|name| !all.iter().any(|entry| entry.name == **name)) {
        let names: Vec<&str> = all.iter().map(|entry| entry.name.as_str()).collect();
        return Err(format!("no lock `{name}`; there are {}", names.join(", ")));
    }
    all.retain(|entry| options.lock.is_empty() || options.lock.contains(&entry.name));
    for rival in &options.rival {
        let (name, path) = rival.split_once('=').ok_or(format!("--rival {rival}: NAME=PATH is wanted"))?;
        let path = Path::new(path).canonicalize().map_err(|error| format!("--rival {rival}: {error}"))?;
        let mut entry = plain(name, "glibc", false);
        entry.preload = Some(path);
        all.push(entry);
    }
    Ok(all)
}

/// How long to go on.
fn resolution(options: &Options) -> Result<Resolution, String> {
    let Options { repeats, width, minutes, .. } = options;
    if *repeats == Some(0) {
        return Err("--repeats 0: at least one is wanted".into());
    }
    if !(0.01..=100.0).contains(width) {
        return Err(format!("--width {width}: between 0.01 and 100 is wanted"));
    }
    if !(0.0..=1440.0).contains(minutes) {
        return Err(format!("--minutes {minutes}: between 0 and 1440 is wanted"));
    }
    let limit = Duration::from_secs_f64(minutes * 60.0);
    Ok(Resolution { width: width / 100.0, limit, pairs_max: *repeats, ..Resolution::default() })
}

fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Runs everything and prints the tables.
///
/// # Errors
/// If an option is wrong or the file cannot be written; a lock that fails has a row that says so.
pub fn run(options: &Options) -> Result<(), String> {
    let entries = entries(options)?;
    stay_on_all(&cpus(options.cpus)?)?;
    time(options.seconds)?;
    options.threads.iter().try_for_each(|&threads| count(threads).map(drop))?;
    let resolution = resolution(options)?;
    let seed = options.seed.unwrap_or_else(clock);
    let mut order = Order::new(seed);
    println!("each round runs the locks in an order drawn at random, from seed {seed}\n");
    let cases: Vec<&Case> = match options.case.iter().any(|name| name == "all") {
        true => CASES.iter().collect(),
        false => options.case.iter().map(|name| case(name)).collect::<Result<_, _>>()?,
    };
    // A file that cannot be written is known before the runs, not after them.
    write(options, &[], &[])?;
    let mut all: Vec<Row> = Vec::new();
    for case in cases {
        let first = all.len();
        let threads = if options.threads.is_empty() { case.threads } else { &options.threads };
        for &threads in threads {
            all.extend(compare(options, resolution, &mut order, &entries, case, threads)?);
        }
        println!("{}: {} (medians of the rounds)\n", case.name, case.about);
        println!("{}", text(&all[first..]));
        // A user that interrupts the rest keeps what has run.
        write(options, &all, &[])?;
    }
    let verdicts = verdicts(&all);
    if !verdicts.is_empty() {
        println!("{}", report::target::table(&verdicts));
    }
    write(options, &all, &verdicts)
}

/// What the file holds: every run, and what it means for the figures to reach.
#[derive(Serialize)]
struct File<'a> {
    rows: &'a [Row],
    targets: &'a [Verdict],
}

fn write(options: &Options, rows: &[Row], targets: &[Verdict]) -> Result<(), String> {
    let Some(path) = &options.json else { return Ok(()) };
    let json = serde_json::to_string_pretty(&File { rows, targets }).map_err(|error| error.to_string())?;
    std::fs::write(path, json).map_err(|error| format!("{}: {error}", path.display()))
}

fn compare(
    options: &Options,
    resolution: Resolution,
    order: &mut Order,
    entries: &[Entry],
    case: &Case,
    threads: usize,
) -> Result<Vec<Row>, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let plan = Plan {
        case: case.name,
        threads,
        seconds: options.seconds,
        cpus: options.cpus,
        unpinned: options.unpinned,
        hogs: case.hogs,
    };
    let mut results = vec![Vec::new(); entries.len()];
    let table = |results: &[Vec<Result<_, String>>]| -> Vec<Row> {
        let of = |(entry, results): (&Entry, &Vec<_>)| rows(case.name, threads, entry, results.clone());
        entries.iter().zip(results).flat_map(of).collect()
    };
    let (begun, mut comparison, mut width) = (Instant::now(), resolution.begin(), String::new());
    for round in 1.. {
        for at in order.draw(entries.len()) {
            if stderr().is_terminal() {
                eprint!("\r\x1b[K{} {threads} threads: pair {round}{width}, {}", case.name, entries[at].name);
            }
            results[at].push(round::run(&program, &entries[at], &plan));
        }
        let end = comparison.end(round, begun.elapsed(), || {
            // A placement that came up rarely has no interval, and is not waited for.
            let widths = watched(&table(&results)).into_iter().map(|ratio| ratio.half_width());
            let widest = widths.filter(|width| width.is_finite()).fold(0.0, f64::max);
            width = format!(", ±{:.1} %", widest * 100.0);
            widest
        });
        if end == Some(End::TimeOver) && stderr().is_terminal() {
            eprintln!("\r\x1b[K{} {threads} threads: the time is over after {round} pairs{width}", case.name);
        }
        if end.is_some() {
            break;
        }
    }
    if stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    Ok(table(&results))
}
