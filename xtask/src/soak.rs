//! `cargo xtask soak`: a dozen programs and servers at once under `manx run`, for an hour, each
//! run's result checked.
//!
//! 1. A program is a shell script that does a few seconds of work and prints its result, the same
//!    each time. What it prints as it is, run once by itself at the start, is what each of its runs
//!    under `manx run` must print.
//! 2. Each program runs again and again beside all others until the time is over; with `--chaos`,
//!    two that are drawn run at a time, in a group with a quota that is drawn too. The seed is
//!    printed, and `--seed` draws the same again.
//! 3. A run that exceeds its limit hangs: its processes' stacks are printed, by gdb where that is
//!    installed, and it is ended. A hang, a crash and a wrong result each fail the soak, which goes
//!    on with the rest.
//! 4. A program that is not installed is left out, and said. Without any there is nothing to do,
//!    and that is said too.

mod group;
mod programs;
mod run;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::build;
use crate::outcome::Result;
use crate::steps::Verdict;
use crate::workspace::Workspace;
use group::Group;
use programs::Prepared;
use run::{Ended, Start};

/// Minutes, unless others are asked for; in chaos; and in CI.
const MINUTES: u64 = 60;
const CHAOS_MINUTES: u64 = 30;
const CI_MINUTES: u64 = 1;

/// How to soak.
#[derive(clap::Args)]
pub struct Options {
    /// How long [default: 60; with --chaos, 30]
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Pairs of programs that are drawn, each pair under a CPU quota that is drawn
    #[arg(long)]
    chaos: bool,
    /// Seed of the random draws of --chaos
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only these programs, with commas between
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// A run that takes longer than this counts as hung
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
}

/// Builds, and soaks.
///
/// # Errors
/// If a run hung, crashed or came to another result, or nothing could be run.
pub fn run(options: &Options) -> Result {
    build::run()?;
    match soak(options) {
        Verdict::Passed => Ok(()),
        Verdict::Failed(why) | Verdict::Skipped(why) => Err(why),
    }
}

/// The minute of CI; what is built is there.
pub fn smoke() -> Verdict {
    let options =
        Options { minutes: Some(CI_MINUTES), chaos: false, seed: None, only: Vec::new(), limit: 300 };
    soak(&options)
}

fn soak(options: &Options) -> Verdict {
    let workspace = match Workspace::load() {
        Ok(workspace) => workspace,
        Err(why) => return Verdict::Failed(why),
    };
    let scratch = workspace.target.join("soak");
    let (programs, left_out) = match programs::prepare(&workspace.target, &scratch, &options.only) {
        Ok(prepared) => prepared,
        Err(why) => return Verdict::Failed(why),
    };
    left_out.iter().for_each(|why| println!("soak: left out: {why}"));
    if programs.is_empty() {
        return Verdict::Skipped("none of the programs is installed".into());
    }
    let soak = Soak {
        manx: workspace.manx(),
        scratch,
        limit: Duration::from_secs(options.limit),
        found: Mutex::default(),
    };
    let expected = match soak.references(&programs) {
        Ok(expected) => expected,
        Err(why) => return Verdict::Failed(why),
    };
    let minutes = options.minutes.unwrap_or(if options.chaos { CHAOS_MINUTES } else { MINUTES });
    let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
    println!("soak: {minutes} minutes of {}", names.join(", "));
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    if options.chaos {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        soak.chaos(&programs, &expected, until, options.seed.unwrap_or(now.as_millis() as u64));
    } else {
        soak.all(&programs, &expected, until);
    }
    soak.verdict()
}

struct Soak {
    manx: PathBuf,
    scratch: PathBuf,
    limit: Duration,
    found: Mutex<Found>,
}

/// What has been found so far.
#[derive(Default)]
struct Found {
    /// Good runs of each program
    good: BTreeMap<&'static str, u64>,
    failures: Vec<String>,
}

impl Soak {
    /// What each program prints as it is.
    fn references(&self, programs: &[Prepared]) -> Result<BTreeMap<&'static str, String>> {
        let each = programs.iter().map(|program| {
            let began = Instant::now();
            match run::run(program, Start::AsIs, &self.scratch, None, self.limit)? {
                Ended::Well(said) => {
                    println!("soak: {}: {:.1} s as it is", program.name, began.elapsed().as_secs_f64());
                    Ok((program.name, said))
                }
                Ended::Badly(why) => Err(format!("{}: as it is: {why}", program.name)),
            }
        });
        each.collect()
    }

    /// One run, its result checked.
    fn once(&self, program: &Prepared, expected: &BTreeMap<&'static str, String>, group: Option<&Group>) {
        let ended = run::run(program, Start::Guarded(&self.manx), &self.scratch, group, self.limit);
        let why = match ended {
            Ok(Ended::Well(said)) if said == expected[program.name] => None,
            Ok(Ended::Well(said)) => {
                Some(format!("another result: `{}`, not `{}`", said.trim(), expected[program.name].trim()))
            }
            Ok(Ended::Badly(why)) | Err(why) => Some(why),
        };
        let mut found = self.found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match why {
            None => *found.good.entry(program.name).or_default() += 1,
            Some(why) => {
                println!("soak: {}: {why}", program.name);
                found.failures.push(format!("{}: {why}", program.name));
            }
        }
    }

    /// All programs at once.
    fn all(&self, programs: &[Prepared], expected: &BTreeMap<&'static str, String>, until: Instant) {
        thread::scope(|scope| {
            for program in programs {
                scope.spawn(move || {
                    while Instant::now() < until {
                        self.once(program, expected, None);
                    }
                });
            }
        });
    }

    /// Two at a time, under quotas.
    fn chaos(
        &self,
        programs: &[Prepared],
        expected: &BTreeMap<&'static str, String>,
        until: Instant,
        seed: u64,
    ) {
        println!("soak: --seed {seed}");
        let group = Group::new();
        if let Err(why) = &group {
            println!("soak: without quotas: {why}");
        }
        let mut random = fastrand::Rng::with_seed(seed);
        while Instant::now() < until {
            let (first, second) =
                (&programs[random.usize(..programs.len())], &programs[random.usize(..programs.len())]);
            let period_us = 10_000 * random.u64(1..=10);
            let percent = 10 * random.u64(2..25);
            if let Ok(group) = &group {
                match group.limit(period_us, percent) {
                    Ok(()) => println!(
                        "soak: {} beside {}, {percent} % of a CPU in {} ms",
                        first.name,
                        second.name,
                        period_us / 1000
                    ),
                    Err(why) => println!("soak: no quota: {why}"),
                }
            }
            thread::scope(|scope| {
                for program in [first, second] {
                    let group = group.as_ref().ok();
                    scope.spawn(move || self.once(program, expected, group));
                }
            });
        }
    }

    fn verdict(self) -> Verdict {
        let found = self.found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let runs: Vec<String> = found.good.iter().map(|(name, count)| format!("{name} {count}")).collect();
        println!("soak: good runs: {}", runs.join(", "));
        match found.failures.len() {
            0 if found.good.is_empty() => Verdict::Failed("no run ended".into()),
            0 => Verdict::Passed,
            count => Verdict::Failed(format!("{count} bad runs\n{}", found.failures.join("\n"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A "manx" that counts its uses, or breaks what it runs, so that nothing has to be built.
    fn soak(body: &str, script: &'static str, limit_s: u64) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        let manx = folder.path().join("manx");
        std::fs::write(&manx, format!("#!/bin/sh\nshift 2\n{body}\n")).unwrap();
        std::fs::set_permissions(&manx, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let soak = Soak {
            manx,
            scratch: folder.path().into(),
            limit: Duration::from_secs(limit_s),
            found: Mutex::default(),
        };
        let programs = [Prepared::of("made-up", script)];
        let expected = soak.references(&programs).unwrap();
        soak.once(&programs[0], &expected, None);
        soak.verdict()
    }

    #[test]
    fn the_same_result_is_fine() {
        assert_eq!(soak("exec \"$@\"", "echo right", 600), Verdict::Passed);
    }

    #[test]
    fn another_result_a_crash_and_a_hang_are_each_a_failure() {
        for (body, word, limit_s) in [
            ("echo wrong", "another result", 600),
            ("kill -SEGV $$", "signal", 600),
            ("sleep 1000", "hangs", 2),
        ] {
            let Verdict::Failed(why) = soak(body, "echo right", limit_s) else { panic!("{body} passed") };
            assert!(why.contains(word), "{why}");
        }
    }
}
