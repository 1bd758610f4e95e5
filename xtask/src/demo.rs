//! `cargo xtask demo`: the main job, before and after, on programs that everybody knows, within
//! five minutes of the first command on a clean clone.
//!
//! It builds only what it runs ([`build`]), in the profile in which this tool is built, so that
//! both share their dependencies. What it needs of other packages is installed meanwhile, by
//! another process of this tool. Then each program runs as it is and under `manx run`, in turn;
//! what cannot be had is left out, and said.
//!
//! The demo says what it saw. A verdict takes more than seconds: that is `manx bench`.

mod build;
pub mod packages;
mod progress;
mod run;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::outcome::Result;
use crate::process::root;
use crate::setup::victims;
use crate::steps::Verdict;
use crate::workspace::{MANX, Workspace};
use progress::Progress;
use run::{Latencies, cpus};
use table::{Row, Version};

/// As it is and under `manx run`, and the other way round.
const ROUNDS: [[Version; 2]; 2] = [[Version::AsIs, Version::Manx], [Version::Manx, Version::AsIs]];
/// A copy that has not measured enough by then is ended; what it measured counts.
const RUN_MAX: Duration = Duration::from_secs(10);

/// What to show.
#[derive(clap::Args)]
pub struct Options {
    /// Write the figures to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A smoke check: short runs, which say nothing about the programs
    #[arg(long)]
    quick: bool,
}

/// Two copies of a program side by side, or an engine alone.
enum Kind {
    /// Each copy measures itself, by the protocol of `bench/workload/victims/victim.py`.
    Pair,
    /// It prints one result at its end (`bench/engines/engine.h`).
    Engine,
}

/// A program of the demo.
struct Program {
    name: &'static str,
    kind: Kind,
    words: Vec<String>,
}

/// Sets up, builds and shows.
///
/// # Errors
/// If the build fails, or no program could be shown.
pub fn run(options: &Options) -> Result {
    show(options).map(drop)
}

/// The same as a check that it works; what is left out has not been checked.
pub fn smoke() -> Verdict {
    match show(&Options { json: None, quick: true }) {
        Ok(left_out) if left_out.is_empty() => Verdict::Passed,
        Ok(left_out) => Verdict::Skipped(left_out.join("; ")),
        Err(why) => Verdict::Failed(why),
    }
}

/// Shows what can be had, and returns what is left out, with reasons.
fn show(options: &Options) -> Result<Vec<String>> {
    let folder = Workspace::load()?.target.join("demo");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let progress = Progress::default();
    let built = build::run(&folder, &progress)?;
    let (programs, mut left_out) = programs(&folder, options.quick);
    let mut rows = Vec::new();
    for program in &programs {
        match measure(program, &built.join(MANX), &folder, options.quick, &progress) {
            Ok(versions) => rows.push(Row { name: program.name, versions }),
            Err(why) => left_out.push(format!("{}: {why}", program.name)),
        }
    }
    progress.end();
    if rows.is_empty() {
        return Err(format!("no program could be shown:\n{}", left_out.join("\n")));
    }
    print!("{}", table::draw(&rows));
    left_out.iter().for_each(|why| println!("left out: {why}"));
    let manx = built.join(MANX);
    let manx = manx.strip_prefix(root()).unwrap_or(&manx).display();
    println!("\nYour own program:  {manx} run -- PROGRAM ARGUMENTS");
    println!("To install it:     cargo xtask install --prefix /usr/local");
    if let Some(file) = &options.json {
        fs::write(file, format!("{:#}\n", json!({ "demo": table::json(&rows) }))).map_err(|error| {
            format!("--json {}: {error}: name a file that can be written", file.display())
        })?;
    }
    Ok(left_out)
}

/// The programs that can be had, and why others cannot.
fn programs(folder: &Path, quick: bool) -> (Vec<Program>, Vec<String>) {
    let (mut programs, mut left_out) = (Vec::new(), Vec::new());
    let mut add = |name, kind, words: Result<Vec<String>>| match words {
        Ok(words) => programs.push(Program { name, kind, words }),
        Err(why) => left_out.push(format!("{name}: {why}")),
    };
    // The names of the packages, the script, and how much a copy does.
    let python = |module: &str, script: &str, options: &[&str]| {
        let python = victims::python(module)?;
        let script = root().join("bench/workload/victims").join(script);
        let words = [python.display().to_string(), script.display().to_string()];
        Ok(words.into_iter().chain(options.iter().map(ToString::to_string)).collect())
    };
    let (products, fits) =
        if quick { ("--operations=4", "--operations=1") } else { ("--seconds=3", "--operations=5") };
    add(
        "numpy, 150 x 150, two copies",
        Kind::Pair,
        python("numpy", "product_numpy.py", &["--size=150", products]),
    );
    add("scikit-learn, two copies", Kind::Pair, python("scikit-learn", "fit_scikit.py", &[fits]));
    let seconds = if quick { "0.2" } else { "3" };
    let compiled = |name: &str, source: &str, flags: &[&str], options: &[String]| {
        let program = run::compile(folder, name, source, flags)?;
        Ok([program].into_iter().chain(options.iter().cloned()).collect())
    };
    let gang = [format!("--seconds={seconds}")];
    add(
        "OpenMP in C, two copies",
        Kind::Pair,
        compiled("gang", "bench/workload/victims/gang.c", &["-fopenmp"], &gang),
    );
    let mut engine: Vec<String> =
        ["--threads=40", "--think-us=300", "--boost=4", "--warm-up=0.5"].map(String::from).into();
    // Without the right to raise priorities, the 36 other threads are lowered.
    if !run::may_boost() {
        engine.extend(["--nice=0", "--others=19"].map(String::from));
    }
    if quick {
        engine.push("--records=1000".into());
    }
    engine.extend([
        format!("--seconds={seconds}"),
        format!("--cpus={}", cpus().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
    ]);
    add(
        "WiredTiger, 40 threads, 4 raised",
        Kind::Engine,
        compiled("wiredtiger", "bench/engines/wiredtiger.c", &["-lwiredtiger"], &engine),
    );
    (programs, left_out)
}

/// Runs a program in both versions, in turn.
fn measure(
    program: &Program,
    manx: &Path,
    folder: &Path,
    quick: bool,
    progress: &Progress,
) -> Result<BTreeMap<Version, Latencies>> {
    let mut versions: BTreeMap<Version, Latencies> = BTreeMap::new();
    for version in ROUNDS.iter().take(if quick { 1 } else { 2 }).flatten() {
        let how = if *version == Version::Manx { "under manx run" } else { "as it is" };
        progress.say(&format!("{} ({how})", program.name));
        let command = || {
            let mut words = vec![manx.display().to_string(), "run".into(), "--".into()];
            words.drain(..if *version == Version::Manx { 0 } else { 3 });
            words.extend(program.words.iter().cloned());
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).env_remove("MANX").env_remove("MANX_OPTIONS").env_remove("LD_PRELOAD");
            command
        };
        let latencies = match program.kind {
            Kind::Pair => run::copies(vec![command(), command()], folder, RUN_MAX)?,
            Kind::Engine => run::engine(command(), folder)?,
        };
        versions.entry(*version).or_default().add(&latencies);
    }
    Ok(versions)
}
