//! Less CPU time than there are CPUs: the paper's figure 5, in Rust and in Go.
//!
//! A process with more threads than its quota has CPUs uses up the CPU time of a period early, and
//! is stopped for the rest of the period. One thread with a quota of 1.5 CPUs leaves a third of it
//! unused; below one CPU every number of threads is too large.

use super::group::Limits;
use super::kind::Kind;
use super::plan::Plan;
use super::spec::Process;
use super::variant::{Variant, process};
use super::{cases, go};
use crate::error::Error;
use crate::harness::Bench;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const QUOTAS: [f64; 3] = [0.5, 1.0, 1.5];
const QUICK: [f64; 1] = [1.0];

/// The largest quota that a process of any part gets.
pub(super) fn largest(cpus: usize) -> f64 {
    QUOTAS.into_iter().fold(cpus as f64 / 2.0, f64::max)
}

impl Plan {
    /// Pools under quotas.
    pub(super) fn quota(&self, bench: &mut Bench) -> Result<(), Error> {
        if self.stage.hierarchy.is_err() {
            bench.note("quota: left out without control groups");
            return Ok(());
        }
        let go = self.go(bench);
        for cpus in self.sweep(&QUOTAS, &QUICK) {
            let limits = Limits { quota_cpus: Some(cpus), weight: None };
            let whole = (cpus as usize).max(1);
            let of = |name: &str, process: Process| Variant::of(name, vec![process]).within(limits);
            let mut variants = Vec::new();
            for (name, kind, threads) in [
                (Kind::Ignorant.name(), Kind::Ignorant, self.stage.cpus),
                (cases::THREADS_AS_QUOTA, Kind::Optimal, whole),
                (Kind::FriendlyPool.name(), Kind::FriendlyPool, self.stage.cpus),
                (Kind::Manx.name(), Kind::Manx, self.stage.cpus),
                (Kind::Rayon.name(), Kind::Rayon, self.stage.cpus),
                (Kind::Tokio.name(), Kind::Tokio, self.stage.cpus),
                (Kind::RayonGate.name(), Kind::RayonGate, self.stage.cpus),
                (Kind::TokioGate.name(), Kind::TokioGate, self.stage.cpus),
            ] {
                if self.wants(kind) {
                    variants.push(of(name, process(kind, threads, self.overload(0))));
                }
            }
            for (name, program) in &go {
                let mut process = process(Kind::Go, whole, self.overload(0));
                process.program.clone_from(program);
                if *name == cases::GO_MANUAL {
                    process.environment.insert("GOMAXPROCS".into(), whole.to_string());
                }
                variants.push(of(name, process));
            }
            self.compare(bench, &cases::quota(cpus), &variants)?;
        }
        Ok(())
    }

    /// How the program in Go is started, in each of the ways that work here.
    fn go(&self, bench: &mut Bench) -> Vec<(&'static str, Vec<PathBuf>)> {
        if !self.wants(Kind::Go) {
            return Vec::new();
        }
        let program = match go::program(!self.quick) {
            Ok(Some(program)) => program,
            Ok(None) => {
                bench.note("go is left out: a smoke check does not build it");
                return Vec::new();
            }
            Err(error) => {
                bench.note(format!("go is left out: {}", error.to_string().replace('\n', "; ")));
                return Vec::new();
            }
        };
        let mut ways =
            vec![(cases::GO_AUTOMATIC, vec![program.clone()]), (cases::GO_MANUAL, vec![program.clone()])];
        let under: Vec<PathBuf> = vec![self.manx.clone(), "run".into(), "--".into(), program];
        let tried = Command::new(&under[0])
            .args(&under[1..])
            .args(["-seconds", "0.001"])
            .stdin(Stdio::null())
            .output();
        match tried {
            Ok(output) if output.status.success() => ways.push((cases::GO_MANX_RUN, under)),
            Ok(output) => {
                let words = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                bench.note(format!("{} is left out: {words}", cases::GO_MANX_RUN));
            }
            Err(error) => bench.note(format!("{} is left out: {error}", cases::GO_MANX_RUN)),
        }
        ways
    }
}
