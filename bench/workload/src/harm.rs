//! Programs that need nothing, or wait well, as they are and under `manx run`: the suite of harm.
//!
//! Invariants:
//! 1. Rows are data ([`suite`]): a program, a load, and a figure of its work. CPU time that is not
//!    burned is no figure of work.
//! 2. Both versions of a row take turns, in an order that is drawn at random, until the ratio of
//!    throughputs is known to the width asked for, or the row's time is over (`turns.rs`). Before
//!    that each runs once and is not counted, except in a smoke check.
//! 3. Programs and their loads share two CPUs, so that "more threads than CPUs" means the same
//!    everywhere.
//! 4. A row whose program is not installed is left out, and a note says how to get it.

mod conclude;
mod script;
pub mod suite;

pub use conclude::conclude;
pub use script::Place;
pub use suite::Row;

use crate::engine::{self, Compiler, Load, Program};
use crate::engines::Version;
use crate::error::Error;
use crate::harness::{Bench, Sample};
use crate::machine;
use crate::servers::{self, Ground};
use crate::turns::{self, Entrant, Turns};
use regex::Regex;
use report::Report;
use script::Prepared;
use std::path::PathBuf;
use std::time::Duration;
use suite::What;

/// CPUs that programs and their loads share.
const CPUS: usize = 2;
/// About how long a run takes.
const EXPECTED: Duration = Duration::from_millis(1200);
/// Measured time of a server and of an engine, and connections to a server.
const SECONDS: u32 = 1;
const CLIENTS: usize = 32;

/// The settings of the experiment.
#[derive(Debug)]
pub struct Setup {
    /// The rows to measure
    pub rows: Vec<Row>,
    /// Where their programs are
    pub place: Place,
    /// The compiler of the engines
    pub compiler: Compiler,
    /// `manx` itself
    pub manx: PathBuf,
    /// A smoke check
    pub quick: bool,
}

/// The rows whose names one of these patterns finds; all of them if there are none.
///
/// # Errors
/// A pattern finds no row.
pub fn choose(rows: Vec<Row>, patterns: &[Regex]) -> Result<Vec<Row>, Error> {
    let idle = patterns.iter().find(|pattern| !rows.iter().any(|row| pattern.is_match(&row.name)));
    if let Some(pattern) = idle {
        return Err(Error::request(format!("--only {pattern}: no row has such a name"), "--list names them"));
    }
    let is_chosen =
        |row: &Row| patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_match(&row.name));
    Ok(rows.into_iter().filter(is_chosen).collect())
}

/// A row that is ready to run.
enum Ready<'a> {
    Script(Prepared<'a>),
    Engine(Program),
    Server(servers::Ready),
}

/// Measures each row in both versions; what was found is in `bench.report`.
///
/// # Errors
/// No row could be measured, a program failed, or the user interrupted.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let manx = setup.manx.display().to_string();
    if manx.contains(char::is_whitespace) {
        return Err(Error::request(
            format!("'{manx}': a space in the path"),
            "scripts cannot start it: move manx",
        ));
    }
    let cpus = platform::cpu::restrict(CPUS);
    bench.note(format!("{cpus} CPUs for a program and what loads it together"));
    let ground = Ground::new(servers::Setup {
        cases: Vec::new(),
        versions: Version::always(),
        manx: setup.manx.clone(),
        load: servers::Load { clients: CLIENTS, seconds: SECONDS, threads: 4 },
        quick: setup.quick,
    })?;
    let rows: Vec<&Row> = setup.rows.iter().collect();
    turns::each(
        &rows,
        |row| &row.name,
        bench,
        |row| setup.ready(row, &ground),
        |row, ready, bench, failures| setup.take(row, ready, &ground, bench, failures),
    )
}

impl Setup {
    fn ready<'a>(&'a self, row: &'a Row, ground: &Ground) -> Result<Ready<'a>, Error> {
        row.installed()?;
        Ok(match &row.what {
            What::Script { prepare, command, figure } => {
                let script = Prepared::new(&self.place, row, prepare, command, figure)?;
                // The first start searches the program's libraries, once for each user. If a run
                // fails, the first pair says so.
                for version in Version::always() {
                    let _ = script.run(version.start(&self.manx));
                }
                Ready::Script(script)
            }
            What::Engine(subject) => Ready::Engine(subject.program(&self.compiler)?),
            What::Server(case) => Ready::Server(ground.ready(case)?),
        })
    }

    /// Takes the turns of a row.
    fn take(
        &self,
        row: &Row,
        ready: &Ready,
        ground: &Ground,
        bench: &mut Bench,
        failures: &mut Vec<String>,
    ) -> Result<(), Error> {
        let watch = |_: &Report| vec![conclude::judged_by(&row.name)];
        let versions = Version::always();
        let run: &dyn Fn(usize, usize) -> Result<Sample, Error> = match ready {
            Ready::Server(server) => return ground.compare(&row.name, server, watch, bench, failures),
            Ready::Script(script) => &|at, _| script.run(versions[at].start(&self.manx)),
            Ready::Engine(program) => &|at, round| {
                let cpus = machine::cpu_list(CPUS);
                let load = Load::new(row.load.threads, f64::from(SECONDS) / 2.0, 0.1, &cpus);
                let load = Load { seed: round as u64 + 1, ..load };
                engine::run(program, versions[at].start(&self.manx), &load)
            },
        };
        let entrants: Vec<Entrant> = versions.iter().map(Entrant::from).collect();
        let turns = Turns { case: &row.name, entrants: &entrants, rounds: None, expected: EXPECTED };
        turns.take(bench, failures, watch, |at, round| {
            if round == 0 && !self.quick {
                run(at, round)?; // Invariant 2
            }
            run(at, round)
        })
    }
}
