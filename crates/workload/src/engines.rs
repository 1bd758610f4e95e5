//! Real databases under more threads than CPUs: as they are, under `manx run`, and with others' lock libraries.
//!
//! `turns.rs` tells what becomes of a program that fails, or is not there; `unequal.rs` measures on cores of two speeds.

pub mod catalogue;
mod conclude;
mod turns;
pub mod unequal;
pub mod version;

pub use catalogue::{SUBJECTS, Subject, choose};
pub use conclude::conclude;
pub use version::{AS_IS, MANX, Version};

use crate::engine::{self, Compiler, Load};
use crate::error::Error;
use crate::harness::Bench;
use report::Report;
use report::figure::duration;
use std::path::PathBuf;
use turns::{Entrant, Turns};

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
        Load {
            threads: subject.threads.unwrap_or(self.threads),
            seconds: self.seconds,
            warm_up: (self.seconds / 5.0).min(0.5),
            think_us: 0.0,
            cpus: self.cpus.clone(),
            boost: 0,
            lowered: false,
            window: None,
            seed: 1,
            more: self.slo_ns.map(slo_option).into_iter().collect(),
        }
    }
}

/// How a driver is told a target.
fn slo_option(slo_ns: u64) -> String {
    format!("--slo-us={}", slo_ns as f64 / 1e3)
}

/// Measures each program in all versions; what was found is in `bench.report`.
///
/// # Errors
/// If nothing could be measured, if a program failed that should not (Invariant 4 in `turns.rs`), or if the user interrupts.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.note(format!("{} threads on CPUs {}, no think time", setup.threads, setup.cpus));
    if let Some(slo_ns) = setup.slo_ns {
        bench.note(format!("each operation is an epoch: 99 % within {}", duration(slo_ns)));
    }
    let entrants: Vec<Entrant> = setup.versions.iter().map(Entrant::from).collect();
    turns::each(&setup.subjects, &setup.compiler, bench, |subject, program, bench, failures| {
        let load = setup.load(subject);
        if let Some(threads) = subject.threads {
            bench.note(format!("{threads} threads for {}", subject.name));
        }
        let turns = Turns { case: subject.name, entrants: &entrants, rounds: None, load: &load };
        let watch = |report: &Report| conclude::watched(report, subject.name);
        turns.take(bench, failures, watch, |at, load| {
            engine::run_within(program, setup.versions[at].start(&setup.manx), load, turns::limit(load))
        })
    })
}

impl<'a> From<&'a Version> for Entrant<'a> {
    fn from(version: &'a Version) -> Entrant<'a> {
        Entrant { name: &version.name, is_plain: version.is_plain(), is_ours: version.is_ours() }
    }
}
