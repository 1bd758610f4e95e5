//! What a transaction that only reads costs, and what it costs that others are there.

use super::arguments::{Way, What};
use super::cases::{self, MANX};
use super::judge;
use super::peers::DRIVE;
use super::plan::Plan;
use crate::child;
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use report::{Compared, Report, Samples};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// Sessions without a transaction.
pub(super) const IDLE: [usize; 4] = [0, 10, 100, 1000];
/// Transactions that have written and are not over.
pub(super) const WRITERS: [usize; 4] = [0, 4, 16, 64];
/// What is measured takes no longer.
const SECONDS_MAX: f64 = 1.0;
const SLACK: Duration = Duration::from_secs(30);

impl Plan {
    /// All sizes take turns within a case each; so do the protocols, for which it should make no
    /// difference.
    pub(super) fn snapshot(&self, bench: &mut Bench) -> Result<(), Error> {
        let seconds = self.setup.seconds.min(SECONDS_MAX);
        let versions = Way::ALL.map(|way| (way.name(), way));
        let all: Vec<(String, usize, usize)> = (IDLE.into_iter().map(|idle| (cases::idle(idle), idle, 0)))
            .chain(WRITERS.into_iter().skip(1).map(|writers| (cases::writers(writers), 0, writers)))
            .collect();
        // Sizes are compared with each other, so they take turns: each round is one of all sizes.
        let names: Vec<String> = (all.iter())
            .flat_map(|(case, ..)| versions.iter().map(move |(name, _)| format!("{case}: {name}")))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let begun = bench.report.runs.len();
        let expected = Duration::from_secs_f64(seconds * 1.5);
        // While they run all are versions of one case.
        let watch = |report: &Report| {
            let whole = |Samples { case, version, figure }| {
                let version = format!("{case}: {version}");
                Samples { case: MANX.into(), version, figure }
            };
            let of = |Compared { over, under, factor }| Compared {
                over: whole(over),
                under: whole(under),
                factor,
            };
            all.iter()
                .flat_map(|(case, ..)| crate::verdict::watched(report, case, judge::figure))
                .map(of)
                .collect()
        };
        let case = Case { name: MANX, variants: &names, expected };
        bench.compare(case, watch, |at, _| {
            let ((_, idle, writers), (_, way)) = (&all[at / versions.len()], &versions[at % versions.len()]);
            self.reads(*way, *idle, *writers, seconds)
        })?;
        for run in &mut bench.report.runs[begun..] {
            if let Some((case, variant)) = run.variant.clone().split_once(": ") {
                (run.case, run.variant) = (case.into(), variant.into());
            }
        }
        Ok(())
    }

    fn reads(&self, way: Way, idle: usize, writers: usize, seconds: f64) -> Result<Sample, Error> {
        let mut command = Command::new(&self.setup.own);
        command.arg("txn").arg(format!("--{DRIVE}"));
        command.args([format!("--what={}", What::Reads.name()), format!("--protocol={}", way.name())]);
        command.args([format!("--idle={idle}"), format!("--writers={writers}")]);
        command.args([format!("--seconds={seconds}"), format!("--warm-up={}", seconds / 10.0)]);
        // One thread, on one CPU: it is the transaction that is measured and not the scheduler.
        let cpu = self.setup.cpus.split(',').next().unwrap_or_default();
        command.arg(format!("--cpus={cpu}"));
        let finished = child::run(command, Duration::from_secs_f64(seconds * 5.0) + SLACK)?;
        let values: BTreeMap<String, f64> = serde_json::from_str(&finished.stdout).map_err(|error| {
            Error::Failed { what: format!("manx: no figures: {error}"), stderr: finished.stdout.clone() }
        })?;
        Ok(Sample { values, output: None })
    }
}
