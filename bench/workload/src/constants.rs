//! `manx bench sim MACHINE constants`: what the default mutex's constants cost and gain.
//!
//! Each version of the mutex has one constant that differs from what ships. All versions make the
//! runs of `mutex.rs`, with the same seeds. Of two figures, throughput and the longest wait, either
//! can be bought with the other. So a version is worth a thought only if no other one is better in
//! one of them and no worse in the other: if it is *on the Pareto front*.
//!
//! Figures of several cases are put together as geometric means of their ratios to what ships.

use crate::error::Error;
use crate::harness::{Bench, Case};
use crate::mutex::{RATE, run, sample};
use crate::place::Place;
use contend_sim::CONSTANTS;
use contention::lock::Lock;
use platform_sim::constant;
use platform_sim::machine::Machine;
use report::figure::three_digits;
use report::{Report, Table};
use std::time::Duration;

/// The version that ships.
const SHIPS: &str = "as it is";
/// The longest wait of a run.
const LONGEST: &str = "max_ns";

/// What is varied unless the user says otherwise.
const VARIED: [(&str, &[u64]); 10] = [
    ("WINDOW_NS", &[250_000, 500_000, 2_000_000, 4_000_000]),
    ("SPIN_OWN_NS", &[2_500, 5_000, 20_000, 40_000]),
    ("SPIN_WOKEN_NS", &[1_000, 20_000]),
    ("LOOK_INTERVAL_COSTS", &[3, 6, 24]),
    ("SPIN_STARVING_NS", &[5_000, 80_000]),
    ("LINE_NS_MIN", &[25_000, 400_000]),
    ("STILL_NS", &[2_000, 10_000, 20_000]),
    ("FAR", &[1, 8]),
    ("BACK_NS", &[0, 200, 800]),
    ("CROWD_NS", &[0, 20_000, 1_000_000]),
];

/// A version: constants with other values.
pub type Varied = Vec<(String, u64)>;

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// The machines, with their names
    pub machines: Vec<(String, Machine)>,
    /// The seed of the first round
    pub seed: u64,
    /// How many threads; none: from two to twice the CPUs
    pub threads: Vec<usize>,
    /// The versions beside the one that ships
    pub varied: Vec<Varied>,
    /// The rounds of each case
    pub rounds: usize,
    /// The measured time of a run
    pub time: Duration,
    /// A section, without its cache lines, in nanoseconds on the fastest CPU
    pub hold_ns: u64,
    /// The time between two sections
    pub think_ns: u64,
}

/// What is varied unless the user says otherwise.
pub fn usual() -> Vec<Varied> {
    let of = |(name, values): &(&str, &[u64])| {
        let name = (*name).to_owned();
        values.iter().map(move |value| vec![(name.clone(), *value)]).collect::<Vec<_>>()
    };
    VARIED.iter().flat_map(of).collect()
}

/// The names of the constants that can be varied.
pub fn names() -> impl Iterator<Item = &'static str> {
    CONSTANTS.iter().map(constant::Constant::name)
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or a lock that does not exclude.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.in_virtual_time();
    let version = |varied: &Varied| {
        varied.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    };
    let versions: Vec<String> = setup.varied.iter().map(version).collect();
    let names: Vec<&str> = [SHIPS].into_iter().chain(versions.iter().map(String::as_str)).collect();
    for (machine_name, machine) in &setup.machines {
        for threads in threads(setup, machine.cpus().len()) {
            let name = format!("{machine_name}, {threads} threads");
            let case = Case { name: &name, variants: &names, expected: setup.time * 6 / 5 };
            let run = run(setup.time, [setup.hold_ns, setup.think_ns], threads);
            bench.rounds(case, setup.rounds, |at, round| {
                let seed = setup.seed.wrapping_add(round as u64);
                let place = Place::simulated(machine_name, machine.clone(), seed);
                let varied = at.checked_sub(1).map(|at| &setup.varied[at]);
                constant::with(varied.map_or(&[], Vec::as_slice), || sample(&place, Lock::Manx, &run))
            })?;
        }
    }
    Ok(())
}

/// The numbers of threads on a machine with this number of CPUs.
fn threads(setup: &Setup, cpus: usize) -> Vec<usize> {
    if !setup.threads.is_empty() {
        return setup.threads.clone();
    }
    let mut threads = vec![2, 4, cpus / 2, cpus, 2 * cpus];
    threads.retain(|threads| (2..=128).contains(threads));
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// A version's figures as parts of those of the version that ships.
struct Found {
    version: String,
    /// For each case: throughput, the longest wait
    ratios: Vec<(String, [f64; 2])>,
}

impl Found {
    fn of(report: &Report, cases: &[String], version: &str) -> Found {
        let of = |case: &String| {
            let rate = |version: &str| report.middle(case, version, RATE);
            let longest = |version: &str| report.middle(case, version, LONGEST);
            (case.clone(), [rate(version) / rate(SHIPS), longest(version) / longest(SHIPS)])
        };
        let ratios = cases.iter().map(of).filter(|(_, ratios)| ratios.iter().all(|ratio| *ratio > 0.0));
        Found { version: version.into(), ratios: ratios.collect() }
    }

    /// The geometric mean of a figure over the cases whose names begin like this.
    fn mean(&self, start: &str, at: usize) -> f64 {
        let those = self.ratios.iter().filter(|(case, _)| case.starts_with(start));
        let logarithms: Vec<f64> = those.map(|(_, ratios)| ratios[at].ln()).collect();
        (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp()
    }

    fn extreme(&self, at: usize, of: fn(f64, f64) -> f64) -> f64 {
        self.ratios.iter().map(|(_, ratios)| ratios[at]).fold(f64::NAN, of)
    }

    fn point(&self) -> [f64; 2] {
        [self.mean("", 0), self.mean("", 1)]
    }
}

/// Whether no other point has more throughput and no longer wait, or a shorter wait and no less
/// throughput.
fn is_on_front(own: [f64; 2], all: &[[f64; 2]]) -> bool {
    let is_better = |other: &[f64; 2]| other[0] >= own[0] && other[1] <= own[1] && *other != own;
    !all.iter().any(is_better)
}

/// Adds the tables: all cases together, and each machine.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    let Some(first) = cases.first() else { return };
    let found: Vec<Found> =
        report.variants(first).iter().map(|version| Found::of(report, &cases, version)).collect();
    let points: Vec<[f64; 2]> = found.iter().map(Found::point).collect();
    let headers = ["version", "Pareto front", "sections []", "least []", "longest wait []", "most []"];
    let mut table = Table::new("Constants of the mutex, of what ships: all cases", &headers);
    for (found, point) in found.iter().zip(&points) {
        let front = if is_on_front(*point, &points) { "yes" } else { "" };
        table.row([
            found.version.clone(),
            front.into(),
            three_digits(point[0]),
            three_digits(found.extreme(0, f64::min)),
            three_digits(point[1]),
            three_digits(found.extreme(1, f64::max)),
        ]);
    }
    report.show(table);
    let machine = |case: &String| case.split(", ").next().unwrap_or(case).to_owned();
    let mut machines: Vec<String> = cases.iter().map(machine).collect();
    machines.dedup();
    let headers: Vec<String> = machines.iter().map(|name| format!("{name} []")).collect();
    let headers: Vec<&str> = ["version"].into_iter().chain(headers.iter().map(String::as_str)).collect();
    let mut table = Table::new("Constants of the mutex, of what ships: sections, longest wait", &headers);
    for found in &found {
        let of = |machine: &String| {
            let start = format!("{machine}, ");
            format!("{}, {}", three_digits(found.mean(&start, 0)), three_digits(found.mean(&start, 1)))
        };
        table.row([found.version.clone()].into_iter().chain(machines.iter().map(of)));
    }
    report.show(table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_varied_are_constants() {
        assert!(usual().iter().flatten().all(|(name, _)| names().any(|known| known == name)));
    }

    #[test]
    fn the_front_has_what_nothing_else_is_better_than() {
        let points = [[1.0, 1.0], [1.1, 1.2], [0.9, 1.1], [1.0, 0.9]];
        assert_eq!(points.map(|point| is_on_front(point, &points)), [false, true, false, true]);
    }

    #[test]
    fn threads_are_from_two_to_twice_the_cpus() {
        let setup = Setup {
            machines: vec![],
            seed: 1,
            threads: vec![],
            varied: vec![],
            rounds: 1,
            time: Duration::ZERO,
            hold_ns: 0,
            think_ns: 0,
        };
        assert_eq!(threads(&setup, 2), [2, 4]);
        assert_eq!(threads(&setup, 8), [2, 4, 8, 16]);
        assert_eq!(threads(&setup, 112), [2, 4, 56, 112]);
    }
}
