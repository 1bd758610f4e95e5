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
//! | a competitor's name, and with a target | its library, instead of `manx` and `adaptive` | as for `asl` |
//!
//! 1. What a target is derived from is measured before any other version is, as a case of its own:
//!    the 99th percentile of little threads under the C library's locks, or, as in figures 9 and 10
//!    of the paper, under each competitor that takes no target. So all rounds have the same
//!    targets.
//! 2. Each operation counts in the class of its thread, and no figure is of all threads alone.

mod conclude;
mod draw;
mod version;

pub use conclude::conclude;
pub use draw::draw;
pub use version::GLIBC;

use super::{Subject, in_round, limit, slo_option};
use crate::engine::{self, Compiler, Cores, Load, Program, Rival};
use crate::error::Error;
use crate::harness::Bench;
use crate::turns::{self, Entrant, Turns};
use report::Report;
use report::figure::{duration, three_digits};
use std::path::PathBuf;
use version::{ALONE, ASL, Version, at_the_tail_of};

/// The other locks that are compared where there is no competitor.
const OTHERS: [&str; 2] = ["manx", "adaptive"];

/// Targets, as multiples of the reference's percentile.
pub const FACTORS: [f64; 3] = [1.2, 2.0, 4.0];
/// The number of runs that give the percentiles from which targets are derived.
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
    /// Competitors
    pub rivals: Vec<Rival>,
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
    /// The targets, in nanoseconds; none: what each competitor takes, or [`FACTORS`] times what the
    /// reference takes
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

    /// What targets are derived from.
    fn first(&self) -> Vec<Version> {
        let rivals = self.rivals.iter().filter(|rival| !rival.takes_targets()).map(Version::rival);
        [Version::unmarked(GLIBC, GLIBC)].into_iter().chain(rivals).collect()
    }

    /// Targets by name, if `tail_ns` is what little threads take with each version of
    /// [`Setup::first`].
    fn targets(&self, tail_ns: impl Fn(&str) -> f64) -> Vec<(String, u64)> {
        if !self.slos_ns.is_empty() {
            return self.slos_ns.iter().map(|&ns| (duration(ns), ns)).collect();
        }
        let reference_ns = tail_ns(GLIBC);
        let of_rivals = self.first().into_iter().skip(1).map(|rival| {
            let ns = tail_ns(&rival.name);
            (at_the_tail_of(&rival.name), ns)
        });
        let mut targets: Vec<(String, f64)> = of_rivals.filter(|(_, ns)| ns.is_finite()).collect();
        if targets.is_empty() {
            targets
                .extend(FACTORS.map(|factor| (format!("{}x", three_digits(factor)), reference_ns * factor)));
        }
        targets.retain(|(_, ns)| ns.is_finite());
        targets.into_iter().map(|(name, ns)| (name, ns.round() as u64)).collect()
    }

    /// All versions, the references first.
    fn versions(&self, targets: &[(String, u64)]) -> Vec<Version> {
        let mut versions = [GLIBC, ALONE].map(|name| Version::unmarked(name, GLIBC)).to_vec();
        let others = OTHERS.into_iter().filter(|_| self.rivals.is_empty());
        for lock in others.chain(self.locks.iter().map(String::as_str)).chain([ASL]) {
            if !versions.iter().any(|version| version.name == lock) {
                versions.push(Version::unmarked(lock, lock));
            }
        }
        versions.extend(self.rivals.iter().map(Version::rival));
        let targeted = self.rivals.iter().filter(|rival| rival.takes_targets()).map(Version::rival);
        for lock in [Version::unmarked(ASL, ASL)].into_iter().chain(targeted) {
            versions.extend(targets.iter().map(|(name, slo_ns)| lock.marked(name, *slo_ns)));
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
        bench.note(format!(
            "the paper's upscaledb is in no registry, only its source at GitHub: {INSTEAD} is in its place"
        ));
    }
    let ready = |subject: &'static Subject| subject.program(&setup.compiler);
    let each =
        |subject: &'static Subject, program: &Program, bench: &mut Bench, failures: &mut Vec<String>| {
            let first = format!("{}, first", subject.name);
            if setup.slos_ns.is_empty() {
                compare(setup, &first, program, &setup.first(), Some(FIRST_RUNS), bench, failures)?;
            }
            let targets = setup.targets(|version| bench.report.middle(&first, version, "little_p99_ns"));
            if targets.is_empty() {
                return Ok(()); // It failed, or there was no time; either is noted.
            }
            compare(setup, subject.name, program, &setup.versions(&targets), None, bench, failures)
        };
    let ended = turns::each(&setup.subjects, |subject| subject.name, bench, ready, each);
    super::note_versions(bench);
    ended
}

/// One program in some versions, in turn.
fn compare(
    setup: &Setup,
    case: &str,
    program: &Program,
    versions: &[Version],
    rounds: Option<usize>,
    bench: &mut Bench,
    failures: &mut Vec<String>,
) -> Result<(), Error> {
    let entrants: Vec<Entrant> = versions
        .iter()
        .map(|version| Entrant {
            name: &version.name,
            is_plain: version.is_plain(),
            is_ours: version.is_ours(),
        })
        .collect();
    let turns = Turns { case, entrants: &entrants, rounds, expected: setup.load().expected() };
    let watch = |report: &Report| conclude::watched(report, case);
    turns.take(bench, failures, watch, |at, round| {
        let version = &versions[at];
        let load = if version.name == ALONE { setup.load_of_big() } else { setup.load() };
        let mut load = in_round(load, round);
        load.more.extend(version.slo_ns.map(slo_option));
        let start = version.start(&setup.manx, setup.cores);
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
            rivals: Vec::new(),
            compiler: Compiler::new("cc", "/x"),
            manx: "/y/manx".into(),
            seconds: 1.0,
            threads: 2,
            cores: Cores { big: 0, little: 1, dilation: 3750 },
            slos_ns: slos_ns.to_vec(),
        }
    }

    fn names(setup: &Setup) -> Vec<(String, Option<u64>)> {
        let targets = setup.targets(|version| if version == GLIBC { 10_000.0 } else { 7_000.0 });
        setup.versions(&targets).into_iter().map(|version| (version.name, version.slo_ns)).collect()
    }

    #[test]
    fn targets_are_multiples_of_the_reference_or_as_given() {
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
    fn with_competitors_targets_are_their_tails() {
        let rival = |lock| Rival { name: lock, library: "/x.so".into(), lock: None };
        let asl = Rival { lock: Some("asl-mcs"), ..rival("asl-mcs".to_owned()) };
        let setup = Setup { rivals: vec![rival("tas".to_owned()), asl], ..setup(&[], &[]) };
        let first: Vec<String> = setup.first().into_iter().map(|version| version.name).collect();
        assert_eq!(first, [GLIBC, "tas"]);
        let target = Some(7_000);
        let expected = [
            (GLIBC, None),
            (ALONE, None),
            (ASL, None),
            ("tas", None),
            ("asl-mcs", None),
            ("asl, as tas", target),
            ("asl-mcs, as tas", target),
        ];
        assert_eq!(names(&setup), expected.map(|(name, slo)| (name.to_owned(), slo)));
        // If each of them fails, the reference is left.
        let targets = setup.targets(|version| if version == GLIBC { 10_000.0 } else { f64::NAN });
        assert_eq!(targets[0], ("1.20x".to_owned(), 12_000));
        assert!(setup.targets(|_| f64::NAN).is_empty());
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
