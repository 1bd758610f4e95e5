//! Widely used programs that wait badly when CPUs are short: as they are, under `manx run`, and
//! with the program's own tuning options that help most.
//!
//! Invariants:
//! 1. A case is a victim under a load: two copies side by side on two CPUs, more threads than CPUs,
//!    a quota, a busy loop beside it, or one copy of two threads alone, where there is nothing to
//!    repair.
//! 2. Versions take turns, round after round, until the ratio of interest (`Case::watched`) and
//!    those of the targets are known well enough, or the time of the case is over.
//! 3. A run that is cut off is not a failure: programs that wait badly can take minutes. The run is
//!    marked, and its figures until then are kept.
//! 4. Results are compared. If the program as it is gives the same bits each time, it must give the
//!    same bits under `manx run`. Each driver also checks its own results.
//! 5. A program that is not installed is left out, and a note says so. A crash, a hang at the end
//!    or a wrong result under `manx run` fails the experiment, after all other measurements.

pub mod catalogue;
mod conclude;
pub(crate) mod copies;
mod place;

pub use crate::engines::{AS_IS, MANX as GUARDED};
pub use catalogue::{QUICK, VICTIMS, Victim, choose};
pub use conclude::conclude;
pub use place::{Place, Ready};

use crate::error::Error;
use crate::group::{Group, Hierarchy, Limits};
use crate::harness::{Bench, Sample};
use crate::running::Running;
use crate::turns::{self, Entrant, Turns};
use crate::verdict;
use catalogue::{Load, Mpi, Setting};
use copies::Outcome;
use report::{Compared, Histogram, Report};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The time that a copy of a Python program needs to start and to end.
const STARTED: Duration = Duration::from_secs(2);

/// The variables that settings may set. Victims start without the user's values of them.
const CLEARED: [&str; 9] = [
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_THREAD_TIMEOUT",
    "MKL_NUM_THREADS",
    "KMP_BLOCKTIME",
    "ERL_FLAGS",
    "MANX",
];

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// The victims to measure
    pub victims: Vec<&'static Victim>,
    /// Where the programs are
    pub place: Place,
    /// `manx` itself
    pub manx: PathBuf,
    /// A smoke check: each run does only the work that shows that the program runs
    pub quick: bool,
    /// The CPUs to run on
    pub cpus: Vec<usize>,
    /// The time after which a run is cut off
    pub limit: Duration,
}

/// A version of a program: as it is, under `manx run`, or with a tuning option of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    AsIs,
    Guarded,
    Set(Setting),
}

impl Version {
    fn name(&self) -> &'static str {
        match self {
            Version::AsIs => AS_IS,
            Version::Guarded => GUARDED,
            Version::Set(setting) => setting.name,
        }
    }
}

/// Measures each victim under each of its loads; what was found is in `bench.report`.
///
/// # Errors
/// If nothing could be measured, if a program failed that should not (Invariant 5), or if the user
/// interrupts.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus: Vec<String> = setup.cpus.iter().map(usize::to_string).collect();
    bench.note(format!("on CPUs {}; a run is cut off after {} s", cpus.join(","), setup.limit.as_secs()));
    turns::each(
        &setup.victims,
        |victim| victim.name,
        bench,
        |victim| setup.place.ready(victim),
        |victim, ready, bench, failures| {
            victim
                .loads
                .iter()
                .try_for_each(|load| Case { setup, victim, load, ready }.measure(bench, failures))
        },
    )
}

/// A victim under a load.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) victim: &'static Victim,
    pub(crate) load: &'static Load,
    pub(crate) ready: &'a Ready,
}

impl Case<'_> {
    fn measure(&self, bench: &mut Bench, failures: &mut Vec<String>) -> Result<(), Error> {
        let name = self.victim.case(self.load);
        if let Err(why) = self.group() {
            bench.note(format!("{name}: left out: {why}"));
            return Ok(());
        }
        let mut versions = vec![Version::AsIs, Version::Guarded];
        versions.extend(self.load.settings.iter().map(|setting| Version::Set(*setting)));
        let entrant = |version: &Version| {
            let is_ours = !matches!(version, Version::Set(_));
            // Also without a program as it is, `manx run` is compared with the settings.
            Entrant { name: version.name(), is_plain: false, is_ours }
        };
        let entrants: Vec<Entrant> = versions.iter().map(entrant).collect();
        let mut sums: Vec<BTreeSet<String>> = vec![BTreeSet::new(); versions.len()];
        let seconds = if self.setup.quick { 0.5 } else { self.victim.seconds };
        let expected = Duration::from_secs_f64(seconds) + STARTED * self.load.copies as u32;
        let turns = Turns { case: &name, entrants: &entrants, rounds: None, expected };
        let ended = turns.take(
            bench,
            failures,
            |report| self.watched(report),
            |at, _| {
                let outcome = self.run(versions[at])?;
                sums[at].extend(outcome.outputs.iter().flat_map(|one| one.checksums.iter().cloned()));
                if versions[at] == Version::Guarded && !outcome.cut && !outcome.ended {
                    return Err(Error::failed("did not end when it was told to"));
                }
                Ok(sample(&outcome, self.setup.limit))
            },
        );
        if let [as_is, guarded, ..] = &sums[..]
            && as_is.len() == 1
            && !guarded.is_subset(as_is)
        {
            turns.failed_at_its_end(1, Error::failed("another result than as it is"), bench, failures)?;
        }
        if sums[0].len() > 1 {
            bench.note(format!("{name}: {} different results as it is", sums[0].len()));
        }
        ended
    }

    /// One round of one version.
    fn run(&self, version: Version) -> Result<Outcome, Error> {
        self.run_beside(version, |_| Ok(()), |()| Ok(())).map(|(outcome, ())| outcome)
    }

    /// One round of the program as it is; `begin` and `end` are those of [`copies::run_beside`].
    pub(crate) fn as_it_is<B, E>(
        &self,
        begin: impl FnOnce(i32) -> Result<B, Error>,
        end: impl FnOnce(B) -> Result<E, Error>,
    ) -> Result<(Outcome, E), Error> {
        self.run_beside(Version::AsIs, begin, end)
    }

    fn run_beside<B, E>(
        &self,
        version: Version,
        begin: impl FnOnce(i32) -> Result<B, Error>,
        end: impl FnOnce(B) -> Result<E, Error>,
    ) -> Result<(Outcome, E), Error> {
        let mut commands = self.commands(version);
        let group = self.group()?;
        if let Some(group) = &group {
            commands.iter_mut().try_for_each(|command| group.hold(command)).map_err(Error::failed)?;
        }
        let begin = |leader| {
            let neighbours = (0..self.load.neighbours).map(|_| self.busy_loop());
            let neighbours: Vec<Running> = neighbours.collect::<Result<_, _>>()?;
            Ok((begin(leader)?, neighbours))
        };
        // The neighbours end after that.
        let end = |(begun, _neighbours)| end(begun);
        copies::run_beside(commands, &self.setup.cpus, self.setup.limit, begin, end)
    }

    /// A neighbour that uses all the time that it gets.
    fn busy_loop(&self) -> Result<Running, Error> {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        copies::pin(&mut command, &self.setup.cpus);
        Running::spawn(command)
    }

    /// A control group with the quota of the load.
    pub(crate) fn group(&self) -> Result<Option<Group>, Error> {
        let Some(percent) = self.load.quota_percent else { return Ok(None) };
        let cpus = f64::from(percent) / 100.0;
        let made = Hierarchy::find(cpus)
            .and_then(|found| found.make("victim", Limits { quota_cpus: Some(cpus), weight: None }));
        let missing = |why| Error::missing(format!("there can be no quota: {why}"), "it needs root");
        made.map(Some).map_err(missing)
    }

    fn commands(&self, version: Version) -> Vec<Command> {
        (0..self.load.copies).map(|_| self.command(version)).collect()
    }

    /// The command line and environment of one copy of the program, in this version. Only
    /// `Version::Set` adds options and variables.
    fn command(&self, version: Version) -> Command {
        let setting = if let Version::Set(setting) = version { Some(setting) } else { None };
        let mut command_line = Vec::new();
        if version == Version::Guarded {
            command_line.extend([self.setup.manx.clone().into(), "run".into(), "--".into()]);
        }
        if let Some(launcher) = &self.ready.launcher {
            command_line.extend(launcher.words.iter().cloned());
            // Declare as many slots as ranks; otherwise Open MPI refuses to start more ranks than
            // there are CPUs. In a container with a quota it sees all CPUs, and starts them anyway.
            let ranks = self.load.threads.to_string();
            if launcher.mpi != Mpi::Ch {
                command_line.extend(["--host".into(), format!("localhost:{ranks}").into()]);
            }
            command_line.extend(["-n".into(), ranks.into()]);
            command_line.extend(setting.iter().flat_map(|setting| setting.launcher.iter().map(Into::into)));
        }
        command_line.extend(self.ready.words.iter().cloned());
        command_line.extend(self.victim.arguments.iter().map(Into::into));
        let (operations, seconds) = match self.setup.quick {
            // A smoke check: just enough to see that the program runs.
            true => (self.victim.operations.min(4), self.victim.seconds.min(0.5)),
            false => (self.victim.operations, self.victim.seconds),
        };
        command_line.push(format!("--operations={operations}").into());
        command_line.push(format!("--seconds={seconds}").into());
        command_line.push(format!("--threads={}", self.load.threads).into());
        command_line.extend(setting.iter().flat_map(|setting| setting.arguments.iter().map(Into::into)));
        let mut command = Command::new(&command_line[0]);
        command.args(&command_line[1..]);
        for name in CLEARED {
            command.env_remove(name);
        }
        command.env("OMP_NUM_THREADS", self.load.threads.to_string());
        command.env("OPENBLAS_NUM_THREADS", self.load.threads.to_string());
        command.env("BLIS_NUM_THREADS", self.load.threads.to_string());
        // Settings may override these variables, so they come last.
        command.envs(setting.iter().flat_map(|setting| setting.variables.iter().copied()));
        command
    }

    /// The ratios that the case goes on for: those of its targets, and the ratio to the best
    /// setting. Alone, or without a setting, it is the ratio to the program as it is.
    fn watched(&self, report: &Report) -> Vec<Compared> {
        let case = self.victim.case(self.load);
        let best = if self.load.name == catalogue::ALONE { None } else { conclude::best(report, &case) };
        let under = best.unwrap_or_else(|| AS_IS.into());
        let mut watched = verdict::watched(report, &case, |report, id| conclude::figure(report, id).ok());
        watched.push(Compared::new(&case, GUARDED, &under, "p50_ns"));
        watched
    }
}

/// The figures of a round, of all copies together.
pub(crate) fn sample(outcome: &Outcome, limit: Duration) -> Sample {
    let all: Histogram = outcome.outputs.iter().map(|one| one.latencies.clone()).sum();
    let summary = all.summary();
    let mut sample = Sample::default();
    if summary.count > 0 {
        sample.add("p50_ns", summary.p50_ns as f64);
        sample.add("p99_ns", summary.p99_ns as f64);
        sample.add("max_ns", summary.max_ns as f64);
        sample.add("operations", summary.count as f64);
        let rates = outcome
            .outputs
            .iter()
            .map(|one| one.latencies.count() as f64 / ((one.last_ns - one.begin_ns).max(1) as f64 / 1e9));
        sample.add("throughput_per_s", rates.sum());
    }
    let cpu: Option<u64> = outcome.outputs.iter().map(|one| one.cpu_ns).sum();
    if let (Some(cpu), true) = (cpu, summary.count > 0) {
        sample.add("cpu_ns", cpu as f64);
        sample.add("cpu_each_ns", cpu as f64 / summary.count as f64);
    }
    if outcome.cut {
        sample.add("longer_than_s", limit.as_secs_f64());
    }
    let sums: BTreeSet<&String> = outcome.outputs.iter().flat_map(|one| &one.checksums).collect();
    sample.with(&serde_json::json!({ "latencies": all, "checksums": sums }))
}
