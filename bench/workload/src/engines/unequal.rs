//! Databases on cores of two speeds; their operations are epochs with a target.
//!
//! After N. Liu and others, "Asymmetry-aware Scalable Locking", section 4.2. Threads are pinned in
//! turn to a big CPU and to a little one. Whatever a thread of the little CPU does between two
//! calls of the C library's locks is stretched there, whichever library's locks they really are:
//! each version is the same file under `manx run --dilate`. The C library's own are the reference.
//!
//! | version | locks | operations |
//! | --- | --- | --- |
//! | `glibc` | the C library's | unmarked |
//! | `glibc, big alone` | the same, without the little threads: what these cost, or bring | unmarked |
//! | `manx`, `adaptive`, others on request | those of `--lock` | unmarked |
//! | `asl` | little threads let big ones pass, for as long as the lock allows | unmarked |
//! | `asl, …` | the same, for as long as the target allows | epochs with the target that is named |
//!
//! 1. What a target is derived from is measured before any other version is: the 99th percentile of
//!    little threads under the C library's locks. So all rounds have the same targets.
//! 2. Each operation counts in the class of its thread, and no figure is of all threads alone.

mod conclude;
mod draw;
mod version;

pub use conclude::conclude;
pub use draw::draw;
pub use version::GLIBC;

use super::{Subject, in_round, limit, slo_option};
use crate::engine::{self, Compiler, Cores, Load, Program, Start};
use crate::error::Error;
use crate::harness::Bench;
use crate::turns::{self, Entrant, Turns};
use report::Report;
use report::figure::{duration, three_digits};
use std::path::PathBuf;
use version::{ALONE, ASL, FIRST, Version};

/// The other locks that are always compared.
const OTHERS: [&str; 2] = ["manx", "adaptive"];

/// Targets, as multiples of the reference's percentile.
pub const FACTORS: [f64; 3] = [1.2, 2.0, 4.0];
/// The number of runs of the reference that give the percentile.
const FIRST_RUNS: usize = 3;

/// The databases of table 1, but for the database that is in no registry; RocksDB is in its place.
pub const TABLE: [&str; 5] = ["leveldb-get", "kyoto-cache", "sqlite-scan", "lmdb-private", INSTEAD];
const INSTEAD: &str = "rocksdb-mixed";

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is measured
    pub subjects: Vec<&'static Subject>,
    /// Further locks, by the words of `manx run --lock`
    pub locks: Vec<String>,
    /// What compiles the drivers
    pub compiler: Compiler,
    /// `manx` itself
    pub manx: PathBuf,
    /// Measured time of a run
    pub seconds: f64,
    /// Threads of each program, half of them big
    pub threads: usize,
    /// Where they run
    pub cores: Cores,
    /// The targets, in nanoseconds; none: [`FACTORS`] times what the reference takes
    pub slos_ns: Vec<u64>,
}

impl Setup {
    fn load(&self) -> Load {
        let cpus = format!("{},{}", self.cores.big, self.cores.little);
        let warm_up = (self.seconds / 3.0).min(1.0); // windows find their lengths meanwhile
        let more = vec!["--pin".into(), format!("--little={}", self.cores.little)];
        Load { more, ..Load::new(self.threads, self.seconds, warm_up, &cpus) }
    }

    /// Returns the same for the big threads. For them nothing changes but the absence of the other
    /// threads.
    fn load_of_big(&self) -> Load {
        Load {
            threads: self.threads.div_ceil(2),
            cpus: self.cores.big.to_string(),
            more: vec!["--pin".into(), "--little=".into()],
            ..self.load()
        }
    }

    /// All versions, the references first; `reference_ns` is what targets are multiples of.
    fn versions(&self, reference_ns: f64) -> Vec<Version> {
        let mut versions = [GLIBC, ALONE].map(|name| Version::unmarked(name, GLIBC)).to_vec();
        let others = OTHERS.into_iter().chain(self.locks.iter().map(String::as_str));
        for lock in others.chain([ASL]) {
            if lock != GLIBC && !versions.iter().any(|version| version.lock == lock) {
                versions.push(Version::unmarked(lock, lock));
            }
        }
        if self.slos_ns.is_empty() {
            let multiple = |factor: f64| {
                Version::marked(&format!("{}x", three_digits(factor)), (reference_ns * factor).round() as u64)
            };
            versions.extend(FACTORS.map(multiple));
        } else {
            versions.extend(self.slos_ns.iter().map(|&ns| Version::marked(&duration(ns), ns)));
        }
        versions
    }
}

/// Measures each program in all versions; what was found is in `bench.report`.
///
/// # Errors
/// If nothing could be measured, if a program failed, or if the user interrupts.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let Cores { big, little, dilation } = setup.cores;
    bench.note(format!(
        "{} threads, pinned in turn to CPU {big} and to CPU {little}, which takes {} times as long; no think time",
        setup.threads,
        f64::from(dilation) / 1000.0,
    ));
    if setup.subjects.iter().any(|subject| subject.name == INSTEAD) {
        bench.note(format!("the paper's upscaledb is in no registry: {INSTEAD} is in its place"));
    }
    let ready = |subject: &'static Subject| subject.program(&setup.compiler);
    let each =
        |subject: &'static Subject, program: &Program, bench: &mut Bench, failures: &mut Vec<String>| {
            let mut reference_ns = f64::NAN;
            if setup.slos_ns.is_empty() {
                let first = [Version::unmarked(FIRST, GLIBC)];
                compare(setup, subject, program, &first, Some(FIRST_RUNS), bench, failures)?;
                reference_ns = bench.report.middle(subject.name, FIRST, "little_p99_ns");
                if !reference_ns.is_finite() {
                    return Ok(()); // It failed, or there was no time; either is noted.
                }
            }
            let versions = setup.versions(reference_ns);
            compare(setup, subject, program, &versions, None, bench, failures)
        };
    let ended = turns::each(&setup.subjects, |subject| subject.name, bench, ready, each);
    super::note_versions(bench);
    ended
}

/// One program in some versions, in turn.
fn compare(
    setup: &Setup,
    subject: &'static Subject,
    program: &Program,
    versions: &[Version],
    rounds: Option<usize>,
    bench: &mut Bench,
    failures: &mut Vec<String>,
) -> Result<(), Error> {
    let entrants: Vec<Entrant> = versions
        .iter()
        .map(|version| Entrant { name: &version.name, is_plain: version.lock == GLIBC, is_ours: true })
        .collect();
    let turns = Turns { case: subject.name, entrants: &entrants, rounds, expected: setup.load().expected() };
    let watch = |report: &Report| conclude::watched(report, subject.name);
    turns.take(bench, failures, watch, |at, round| {
        let version = &versions[at];
        let load = if version.name == ALONE { setup.load_of_big() } else { setup.load() };
        let mut load = in_round(load, round);
        load.more.extend(version.slo_ns.map(slo_option));
        let start = Start::Unequal(&setup.manx, &version.lock, setup.cores);
        let mut sample = engine::run_within(program, start, &load, limit(&load))?;
        if let Some(slo_ns) = version.slo_ns {
            sample.values.insert("slo_ns".into(), slo_ns as f64);
        }
        Ok(sample)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::choose;

    fn setup(locks: &[&str], slos_ns: &[u64]) -> Setup {
        Setup {
            subjects: Vec::new(),
            locks: locks.iter().map(|lock| (*lock).to_owned()).collect(),
            compiler: Compiler::new("cc", "/x"),
            manx: "/y/manx".into(),
            seconds: 1.0,
            threads: 2,
            cores: Cores { big: 0, little: 1, dilation: 3750 },
            slos_ns: slos_ns.to_vec(),
        }
    }

    #[test]
    fn targets_are_multiples_of_the_reference_or_as_given() {
        let names = |setup: &Setup| -> Vec<(String, Option<u64>)> {
            setup.versions(10_000.0).into_iter().map(|version| (version.name, version.slo_ns)).collect()
        };
        let derived = names(&setup(&[], &[]));
        let targets: Vec<_> = derived.iter().filter(|(_, slo)| slo.is_some()).cloned().collect();
        let expected = [("asl, 1.20x", 12_000), ("asl, 2.00x", 20_000), ("asl, 4.00x", 40_000)]
            .map(|(n, s)| (n.to_owned(), Some(s)));
        assert_eq!(targets, expected);
        let unmarked: Vec<&str> =
            derived.iter().filter(|(_, slo)| slo.is_none()).map(|(name, _)| name.as_str()).collect();
        assert_eq!(unmarked, [GLIBC, ALONE, "manx", "adaptive", ASL]);
        let given = names(&setup(&["fifo", "asl", "glibc", "fifo"], &[15_500]));
        let given: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(given, [GLIBC, ALONE, "manx", "adaptive", "fifo", ASL, "asl, 15.5 µs"]);
    }

    #[test]
    fn big_threads_alone_are_as_many_as_they_are_beside_the_others() {
        for (threads, big) in [(1, 1), (2, 1), (5, 3), (8, 4)] {
            let setup = Setup { threads, ..setup(&[], &[]) };
            let arguments = setup.load_of_big().arguments();
            for option in [&format!("--threads={big}"), "--cpus=0", "--pin", "--little="] {
                assert!(arguments.iter().any(|argument| argument == option), "{option}: {arguments:?}");
            }
        }
    }

    #[test]
    fn the_table_names_programs_in_the_order_of_the_catalogue() {
        let names: Vec<String> = TABLE.map(str::to_owned).to_vec();
        let chosen: Vec<&str> = choose(&names).unwrap().iter().map(|subject| subject.name).collect();
        assert_eq!(chosen, TABLE);
    }
}
