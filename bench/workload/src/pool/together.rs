//! Processes beside each other: figures 7 and 8, mixed kinds, and what a quota wastes (section
//! 4.1).

use super::cases::{self, Amount};
use super::group::Limits;
use super::kind::Kind;
use super::plan::Plan;
use super::spec::{Process, Task};
use super::variant::{Variant, process};
use crate::error::Error;
use crate::harness::Bench;
use std::time::Duration;

/// How many processes.
const PROCESSES: [usize; 5] = [1, 2, 3, 4, 8];
const QUICK_PROCESSES: [usize; 1] = [2];
/// The paper's factors, and how many processes have them.
const FACTORS: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0];
const QUICK_FACTORS: [f64; 1] = [2.0];
const OVERCOMMITTED: [usize; 2] = [2, 4];
/// One of two has nothing to do for this time, after as long with too much.
const PAUSE: Duration = Duration::from_millis(500);

impl Plan {
    /// More and more processes of one kind, at overload and with room.
    pub(super) fn neighbours(&self, bench: &mut Bench) -> Result<(), Error> {
        for amount in Amount::ALL {
            for processes in self.sweep(&PROCESSES, &QUICK_PROCESSES) {
                let kinds = Kind::ALL.iter().filter(|kind| self.wants(**kind) && **kind != Kind::Go);
                let variants: Vec<Variant> = kinds
                    .map(|&kind| {
                        let threads = match kind {
                            Kind::Optimal => (self.stage.cpus / processes).max(1),
                            _ => self.stage.cpus,
                        };
                        let all = (0..processes).map(|index| {
                            let task = match amount {
                                Amount::Overload => self.overload(index),
                                Amount::Room => self.room(index, processes),
                            };
                            process(kind, threads, task)
                        });
                        Variant::of(kind.name(), all.collect())
                    })
                    .collect();
                self.compare(bench, &cases::neighbours(amount, processes), &variants)?;
            }
        }
        Ok(())
    }

    /// The paper's pool with more threads than its part of the CPUs.
    pub(super) fn overcommit(&self, bench: &mut Bench) -> Result<(), Error> {
        if !self.wants(Kind::FriendlyPool) {
            return Ok(());
        }
        for processes in self.sweep(&OVERCOMMITTED, &QUICK_PROCESSES) {
            let mut variants = Vec::new();
            for factor in self.sweep(&FACTORS, &QUICK_FACTORS) {
                // More threads than CPUs only where the factor asks for them.
                let threads = (self.stage.cpus as f64 * factor.max(1.0)).ceil() as usize;
                let all = (0..processes).map(|index| {
                    let mut process = process(Kind::FriendlyPool, threads, self.overload(index));
                    process.shape.overcommit = factor;
                    process
                });
                variants.push(Variant::of(cases::factor(factor), all.collect()));
            }
            self.compare(bench, &cases::overcommit(processes), &variants)?;
        }
        Ok(())
    }

    /// Two of different kinds, in one group, where the kernel divides the CPUs among threads: which
    /// of the two gives its share away?
    pub(super) fn mixed(&self, bench: &mut Bench) -> Result<(), Error> {
        let pairs = [
            (Kind::Ignorant, Kind::Ignorant),
            (Kind::Manx, Kind::Ignorant),
            (Kind::FriendlyPool, Kind::Ignorant),
            (Kind::Optimal, Kind::Ignorant),
            (Kind::Manx, Kind::FriendlyPool),
            (Kind::Manx, Kind::Manx),
        ];
        let mut variants: Vec<Variant> = pairs
            .into_iter()
            .filter(|(first, second)| self.wants(*first) && self.wants(*second))
            .map(|(first, second)| {
                let of = |kind: Kind, index| {
                    let threads =
                        if kind == Kind::Optimal { (self.stage.cpus / 2).max(1) } else { self.stage.cpus };
                    process(kind, threads, self.overload(index))
                };
                let both =
                    Variant::of(cases::pair(first, second), vec![of(first, 0), of(second, 1)]).told_apart();
                if self.stage.hierarchy.is_ok() { both.within(Limits::default()) } else { both }
            })
            .collect();
        let strangers = cases::pair(Kind::Manx, Kind::Ignorant);
        let apart = variants.iter().find(|variant| variant.name == strangers).map(|variant| Variant {
            name: format!("{strangers}, a group each"),
            ..variant.clone().within_each(Limits::default())
        });
        variants.extend(apart.filter(|_| self.stage.hierarchy.is_ok()));
        if self.stage.hierarchy.is_err() {
            bench.note("mixed: without control groups the processes share a session instead, unless it is to be one for each");
        }
        self.compare(bench, cases::MIXED, &variants)
    }

    /// Quotas, weights or neither, where one of two is idle half of the time: what it leaves, may
    /// the other have it?
    pub(super) fn sharing(&self, bench: &mut Bench) -> Result<(), Error> {
        let half = self.stage.cpus as f64 / 2.0;
        let mut variants = Vec::new();
        for kind in [Kind::Ignorant, Kind::Manx].into_iter().filter(|kind| self.wants(*kind)) {
            let both = |threads: usize| -> Vec<Process> {
                let pause = PAUSE.min(self.time / 4);
                let idle = |task: Task| match task {
                    Task::Serve(load) => Task::Serve(super::spec::Load { pause: Some(pause), ..load }),
                    other => other,
                };
                vec![process(kind, threads, self.overload(0)), process(kind, threads, idle(self.overload(1)))]
            };
            let of = |scheme: &str, threads| {
                Variant::of(format!("{}, {scheme}", kind.name()), both(threads)).told_apart()
            };
            let whole = if kind == Kind::Manx { self.stage.cpus } else { (half as usize).max(1) };
            if self.stage.hierarchy.is_ok() {
                let quota = Limits { quota_cpus: Some(half), weight: None };
                variants.push(of("quotas", whole).within_each(quota));
                let shares = Limits { quota_cpus: None, weight: Some(1.0) };
                variants.push(of("shares", self.stage.cpus).within_each(shares));
            }
            variants.push(of("neither", self.stage.cpus));
        }
        if self.stage.hierarchy.is_err() {
            bench.note("sharing: quotas and shares are left out without control groups");
        }
        self.compare(bench, cases::SHARING, &variants)
    }
}
