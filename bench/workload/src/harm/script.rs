//! A row that is a script: its folder, what it finds there, and its figures.
//!
//! Invariants:
//! 1. A row has a folder of its own, which is its home too: it is gone in the end, and what
//!    `manx run` keeps of programs is warm after the first run, as it is for a user.
//! 2. Each copy has a session and an autogroup of its own, and so has each neighbour.
//! 3. A figure that is not in the output is a failure, never a zero.

use super::suite::{Figure, Load, Row};
use crate::child::{self, Finished};
use crate::engine::Start;
use crate::error::{Error, reason};
use crate::harness::Sample;
use crate::machine;
use crate::running::Running;
use regex::Regex;
use std::env;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

/// A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// For compiling a program, and what it uses.
const PREPARED: Duration = Duration::from_secs(300);
/// The most that is shown of the words of a script that fails.
const WORDS: usize = 300;

/// Stands before each script.
const PRELUDE: &str = r#"serve() {
    "$@" > served 2>&1 &
    until "$PYTHON" -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' $PORT 2> waited
    do kill -0 $! 2> waited || { cat served >&2; exit 1; }
    done
}
"#;

/// The programs of the suite, by file name.
const SOURCES: [(&str, &str); 8] = [
    ("tail.h", include_str!("../../harm/tail.h")),
    ("gang.c", include_str!("../../harm/gang.c")),
    ("tasks.cpp", include_str!("../../harm/tasks.cpp")),
    ("joins.rs", include_str!("../../harm/joins.rs")),
    ("Load.java", include_str!("../../harm/Load.java")),
    ("channels.go", include_str!("../../harm/channels.go")),
    ("workers.js", include_str!("../../harm/workers.js")),
    ("load.py", include_str!("../../harm/load.py")),
];

/// Variables by which users change the programs. Rows start without them.
const CLEARED: [&str; 8] = [
    "MANX",
    "MANX_OPTIONS",
    "LD_PRELOAD",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "MAKEFLAGS",
];

/// Where scripts find programs.
#[derive(Debug)]
pub struct Place {
    sources: PathBuf,
    python: PathBuf,
    /// The built-in sources are removed with it.
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    /// The folder of a suite, or one with the programs of the built-in suite. The Python is that of
    /// the folder `MANX_HARM`, of `harm` in the target folder of `manx`, or the machine's.
    ///
    /// # Errors
    /// The programs cannot be written, or `MANX_HARM` has no Python.
    pub fn find(suite: Option<&Path>, manx: &Path) -> Result<Place, Error> {
        let unwritable = |error: std::io::Error| {
            let help = "the programs are kept there; TMPDIR names another folder";
            Error::request(format!("{}: {}", env::temp_dir().display(), reason(&error)), help)
        };
        let folder = match suite {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("manx-harm-").tempdir().map_err(unwritable)?),
        };
        for (name, text) in
            folder.iter().flat_map(|folder| SOURCES.map(|(name, text)| (folder.path().join(name), text)))
        {
            std::fs::write(name, text).map_err(unwritable)?;
        }
        let parent = |suite: &Path| std::path::absolute(suite).ok()?.parent().map(Path::to_owned);
        let sources = folder.as_ref().map(|folder| folder.path().to_owned()).or_else(|| parent(suite?));
        let python = |folder: PathBuf| Some(folder.join("bin/python")).filter(|python| python.is_file());
        let named = env::var_os("MANX_HARM").filter(|named| !named.is_empty());
        let named = named.map(|named| std::path::absolute(&named).unwrap_or_else(|_| named.into()));
        let python = match named {
            Some(named) => python(named.clone()).ok_or_else(|| {
                let help = "MANX_HARM names a virtual environment of Python";
                Error::request(format!("MANX_HARM: {}: no bin/python in it", named.display()), help)
            })?,
            None => {
                let built =
                    manx.parent().and_then(Path::parent).and_then(|target| python(target.join("harm/env")));
                built.or_else(itself).unwrap_or_else(|| "python3".into())
            }
        };
        Ok(Place { sources: sources.unwrap_or_default(), python, _folder: folder })
    }

    /// The command that runs a script in a folder.
    fn command(&self, script: &str, load: &Load, folder: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", &format!("{PRELUDE}{script}")]).current_dir(folder);
        for name in CLEARED {
            command.env_remove(name);
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let paths = env::var_os("PATH").unwrap_or_default();
        let paths = env::split_paths(&paths).chain(machine::SERVERS.map(PathBuf::from));
        command
            .env("HOME", folder)
            .env_remove("XDG_CACHE_HOME")
            .env("PATH", env::join_paths(paths).unwrap_or_default())
            .env("SOURCES", &self.sources)
            .env("PYTHON", &self.python)
            .env("PORT", port.map_or(0, |address| address.port()).to_string())
            .env("THREADS", load.threads.to_string())
            .env("WITH", &load.with)
            .env("SECONDS", "1");
        command
    }
}

/// The machine's own Python, and no script that starts it.
fn itself() -> Option<PathBuf> {
    let mut command = Command::new(machine::program("python3")?);
    command.args(["-c", "import sys; print(sys.executable)"]);
    let said = child::run(command, LIMIT).ok()?.stdout;
    Some(PathBuf::from(said.trim())).filter(|python| python.is_file())
}

/// A row that is ready to run.
pub struct Prepared<'a> {
    place: &'a Place,
    row: &'a Row,
    command: &'a str,
    figure: &'a Figure,
    home: tempfile::TempDir,
}

impl<'a> Prepared<'a> {
    /// Runs what prepares a row.
    ///
    /// # Errors
    /// [`Error::Missing`] if that fails; the row's words say how to get what it needs.
    pub fn new(
        place: &'a Place,
        row: &'a Row,
        prepare: &str,
        command: &'a str,
        figure: &'a Figure,
    ) -> Result<Prepared<'a>, Error> {
        let home = tempfile::Builder::new().prefix("manx-harm-").tempdir().map_err(|error| {
            Error::request(
                format!("{}: {}", env::temp_dir().display(), reason(&error)),
                "TMPDIR names another",
            )
        })?;
        let mut script = place.command(prepare, &row.load, home.path());
        // Compilers and cargo keep their caches in the home of the user. `prepare` is not measured.
        script.envs(["HOME", "XDG_CACHE_HOME"].iter().filter_map(|name| Some((name, env::var_os(name)?))));
        match child::run(script, PREPARED) {
            Ok(_) => Ok(Prepared { place, row, command, figure, home }),
            Err(Error::Failed { what, stderr }) => Err(Error::missing(
                format!("cannot be prepared ({})", last_words(&what, &stderr)),
                if row.get.is_empty() { "see `prepare` in the suite" } else { &row.get },
            )),
            Err(other) => Err(other),
        }
    }

    /// Runs it once: all copies at once, beside the neighbours.
    ///
    /// # Errors
    /// One fails, or has no figure.
    pub fn run(&self, start: Start) -> Result<Sample, Error> {
        let Load { copies, neighbours, .. } = self.row.load;
        let busy = || {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            Running::spawn(command)
        };
        let _neighbours = (0..neighbours).map(|_| busy()).collect::<Result<Vec<_>, _>>()?;
        let run = match start {
            Start::Guarded(manx) => format!("{} run --", manx.display()),
            _ => String::new(),
        };
        let ended: Vec<Result<Finished, Error>> = std::thread::scope(|scope| {
            let copy = |_| {
                let mut command = self.place.command(self.command, &self.row.load, self.home.path());
                command.env("RUN", &run);
                scope.spawn(|| child::run(command, LIMIT))
            };
            let copies: Vec<_> = (0..copies).map(copy).collect();
            let panicked = |_| Err(Error::failed("a thread of the bench panicked"));
            copies.into_iter().map(|copy| copy.join().unwrap_or_else(panicked)).collect()
        });
        let ended = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        sample(self.figure, &ended)
    }
}

static LATENCIES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"p50 (\d+) p99 (\d+) max (\d+)").expect("it is one"));

/// The figures of all copies together: rates add up, and latencies are those of the slowest copy.
fn sample(figure: &Figure, copies: &[Finished]) -> Result<Sample, Error> {
    let mut sample = Sample::default();
    let mut throughput = 0.0;
    for copy in copies {
        throughput += match figure {
            Figure::Wall => 1.0 / copy.wall.as_secs_f64(),
            Figure::Rate(found) => sum(found, copy)?,
            Figure::Time(found) => 1.0 / sum(found, copy)?,
        };
        for found in LATENCIES.captures_iter(&copy.stdout) {
            for (at, name) in ["p50_ns", "p99_ns", "max_ns"].into_iter().enumerate() {
                let value: f64 = found[at + 1].parse().unwrap_or(f64::NAN);
                let most = sample.values.get(name).copied().unwrap_or(0.0);
                sample.add(name, value.max(most));
            }
        }
    }
    sample.add("throughput_per_s", throughput);
    Ok(sample)
}

/// Invariant 3.
fn sum(figure: &Regex, copy: &Finished) -> Result<f64, Error> {
    let numbers = figure.captures_iter(&copy.stdout).map(|found| found[1].parse().unwrap_or(f64::NAN));
    let sum: f64 = numbers.sum();
    if sum.is_finite() && sum > 0.0 {
        return Ok(sum);
    }
    let what = format!("no figure in the output ({figure})");
    Err(Error::Failed { what, stderr: format!("{}{}", copy.stdout, copy.stderr) })
}

/// The end of what a script said.
fn last_words(what: &str, stderr: &str) -> String {
    let line = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or(what);
    line.chars().take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stdout: &str) -> Finished {
        Finished { stdout: stdout.into(), stderr: String::new(), wall: Duration::from_millis(250) }
    }

    #[test]
    fn rates_add_up_and_the_slowest_copy_has_the_latencies() {
        let found = |text: &str| Regex::new(text).unwrap();
        let copies = [said("rate 2.5 p50 10 p99 50 max 70"), said("rate 4 p50 30 p99 40 max 90")];
        let rates = sample(&Figure::Rate(found(r"rate ([\d.]+)")), &copies).unwrap().values;
        let expected = [("throughput_per_s", 6.5), ("p50_ns", 30.0), ("p99_ns", 50.0), ("max_ns", 90.0)];
        assert_eq!(rates, Sample::of(expected).values);
        let wall = sample(&Figure::Wall, &copies).unwrap().values;
        assert_eq!(wall["throughput_per_s"], 8.0);
        let times = [said("1.0 s\n3.0 s")];
        let time = sample(&Figure::Time(found(r"([\d.]+) s")), &times).unwrap().values;
        assert_eq!(time["throughput_per_s"], 0.25);
    }

    #[test]
    fn a_figure_that_is_not_there_is_a_failure() {
        let figure = Figure::Rate(Regex::new(r"rate ([\d.]+)").unwrap());
        for stdout in ["", "rate x", "rate 0", "rate ."] {
            let error = sample(&figure, &[said(stdout)]).unwrap_err();
            assert!(error.to_string().contains("no figure"), "{stdout}: {error}");
        }
    }
}
