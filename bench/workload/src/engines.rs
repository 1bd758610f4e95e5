//! Real databases under more threads than CPUs: as they are, under `manx run`, and with others'
//! lock libraries.
//!
//! `turns.rs` handles programs that fail or are not installed; `unequal.rs` measures on cores of
//! two speeds.

pub mod catalogue;
pub(crate) mod conclude;
pub mod unequal;
pub mod version;

pub use crate::engine::{AS_IS, GUARDED as MANX};
pub use catalogue::{SUBJECTS, Subject, choose};
pub use conclude::conclude;
pub use version::Version;

use crate::engine::{self, Compiler, Load, Output};
use crate::error::Error;
use crate::harness::Bench;
use crate::turns::{self, Entrant, Turns};
use report::Report;
use report::figure::duration;
use std::path::PathBuf;
use std::time::Duration;

/// Loading, stalls and the self-check: the time that a run may take beyond the time that it was
/// asked for. A run that takes longer hangs.
const SLACK: Duration = Duration::from_secs(15);

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is measured
    pub subjects: Vec<&'static Subject>,
    /// In which versions
    pub versions: Vec<Version>,
    /// What compiles the drivers
    pub compiler: Compiler,
    /// `manx` itself
    pub manx: PathBuf,
    /// Measured time of a run
    pub seconds: f64,
    /// Threads of each program, unless it has a number of its own
    pub threads: usize,
    /// The CPUs to run on, as a list
    pub cpus: String,
    /// The target that each operation is marked with, if there is one
    pub slo_ns: Option<u64>,
}

impl Setup {
    fn load(&self, subject: &Subject) -> Load {
        let threads = subject.threads.unwrap_or(self.threads);
        let load = Load::new(threads, self.seconds, (self.seconds / 5.0).min(0.5), &self.cpus);
        Load { more: self.slo_ns.map(slo_option).into_iter().collect(), ..load }
    }
}

/// Returns the time after which a run is taken to hang.
fn limit(load: &Load) -> Duration {
    load.expected() * 4 + SLACK
}

/// The load of a driver in a round: keys are drawn from the round's seed.
fn in_round(load: Load, round: usize) -> Load {
    Load { seed: round as u64 + 1, ..load }
}

/// The option that gives a driver its target.
fn slo_option(slo_ns: u64) -> String {
    format!("--slo-us={}", slo_ns as f64 / 1e3)
}

/// Measures each program in all versions; what was found is in `bench.report`.
///
/// # Errors
/// If nothing could be measured, if a program failed that should not (Invariant 4 of `turns.rs`),
/// or if the user interrupts.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.note(format!("{} threads on CPUs {}, no think time", setup.threads, setup.cpus));
    if let Some(slo_ns) = setup.slo_ns {
        bench.note(format!("each operation is an epoch: 99 % within {}", duration(slo_ns)));
    }
    let entrants: Vec<Entrant> = setup.versions.iter().map(Entrant::from).collect();
    let ended = turns::each(
        &setup.subjects,
        |subject| subject.name,
        bench,
        |subject| subject.program(&setup.compiler),
        |subject, program, bench, failures| {
            let load = setup.load(subject);
            if let Some(threads) = subject.threads {
                bench.note(format!("{threads} threads for {}", subject.name));
            }
            let turns =
                Turns { case: subject.name, entrants: &entrants, rounds: None, expected: load.expected() };
            let watch = |report: &Report| conclude::watched(report, subject.name);
            turns.take(bench, failures, watch, |at, round| {
                let load = in_round(load.clone(), round);
                engine::run_within(program, setup.versions[at].start(&setup.manx), &load, limit(&load))
            })
        },
    );
    note_versions(bench);
    ended
}

/// Notes what was measured, in the programs' own words but for their dates, each once.
fn note_versions(bench: &mut Bench) {
    let mut versions: Vec<String> = Vec::new();
    for output in bench.report.runs.iter().filter_map(|run| run.output.as_ref()) {
        let Ok(Output { version, .. }) = Output::parse(output.get()) else { continue };
        let short = version.split(": ").next().unwrap_or_default();
        if !versions.iter().any(|known| known == short) {
            versions.push(short.to_owned());
        }
    }
    if !versions.is_empty() {
        bench.note(format!("measured: {}", versions.join(", ")));
    }
}
