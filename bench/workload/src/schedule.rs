//! `manx bench sim MACHINE schedule`: what the scheduler does to two threads, here and simulated.
//!
//! Each pattern runs in turn on this machine and on the simulated one. The distributions of times
//! are compared by their Kolmogorov-Smirnov distance: the largest difference of the shares of times
//! below any limit. Two narrow distributions with medians that differ by a percent are as far apart
//! as two that have nothing in common. So there is a second distance, for which times that differ
//! by less than a factor count as the same (Lévy's distance, of logarithms). And there is a third
//! one, of the distributions as multiples of their medians, with the ratio of the medians beside
//! it: how the shapes differ, and how far one is shifted.
//!
//! Where the kernel's tracer can be used (`tracer.rs`), each pattern is run once more under it: how
//! long the kernel says that threads wait for a CPU, and what the simulated timeline says. The
//! tracer costs time itself: how much is seen by comparing the threads' own times with those of the
//! run without it.

mod tracer;

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use crate::pool::group::{Hierarchy, Limits};
use contention::schedule::Pattern;
use platform_sim::trace::Waits;
use report::{Counts, Histogram, Report, Sheet};
use std::collections::HashSet;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracer::Tracer;

/// The versions.
const HERE: &str = "here";
const SIMULATED: &str = "simulated";
/// How the names of the cases end that are measured by the kernel's tracer, and the simulated
/// timeline.
const TRACED: &str = ", traced";
const ROUNDS: usize = 5;

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// The simulated machine
    pub place: Place,
    /// The measured time of a run
    pub time: Duration,
}

/// Runs every pattern; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or fewer than two CPUs.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus = crate::machine::cpus();
    let [first, second, ..] = cpus[..] else {
        return Err(Error::request("a wake-up of an idle CPU needs two", "allow this process two CPUs"));
    };
    let is_traced = Tracer::begin().map(drop).map_err(|why| {
        bench.note(format!("nothing was traced: {why}"));
    });
    for pattern in Pattern::ALL {
        if let Some(Err(why)) = pattern.quota_cpus().map(Hierarchy::find) {
            bench.note(format!("{}: left out, because no group can be made: {why}", pattern.name()));
            continue;
        }
        for is_traced in [Some(false), is_traced.ok().map(|()| true)].into_iter().flatten() {
            let name = format!("{}{}", pattern.name(), if is_traced { TRACED } else { "" });
            let case = Case { name: &name, variants: &[HERE, SIMULATED], expected: setup.time * 6 / 5 };
            bench.rounds(case, ROUNDS, |at, _| {
                let times = match at {
                    0 => here(pattern, [first, second], setup.time, is_traced),
                    _ => simulated(setup, pattern, is_traced),
                };
                let Found { times, own } =
                    times.map_err(|what| Error::Failed { what, stderr: String::new() })?;
                let own_p50_ns = own.summary().p50_ns as f64;
                let mut sample = Sample::of([("times", times.count() as f64), ("own_p50_ns", own_p50_ns)]);
                sample.add_tail("", &times);
                Ok(sample.with(&times))
            })?;
        }
    }
    Ok(())
}

/// The times of a run.
struct Found {
    /// As the threads saw them, or as the tracer or the timeline did
    times: Histogram,
    /// As the threads saw them: in a traced run, with what the tracer costs
    own: Histogram,
}

impl Found {
    fn of(pattern: Pattern, own: Histogram, waits: Option<Waits>) -> Found {
        let times = waits.map_or_else(
            || own.clone(),
            |waits| of_waits(pattern, if pattern.is_of_wake_ups() { waits.slept } else { waits.lost }),
        );
        Found { times, own }
    }
}

/// The times of a pattern on this machine.
fn here(pattern: Pattern, cpus: [usize; 2], time: Duration, is_traced: bool) -> Result<Found, String> {
    let limited = |cpus| {
        let limits = Limits { quota_cpus: Some(cpus), weight: None };
        Hierarchy::find(cpus)?.make("schedule", limits)
    };
    let group = pattern.quota_cpus().map(limited).transpose()?;
    let files: Vec<_> = group.iter().flat_map(|group| group.threads_files()).collect();
    let threads = Mutex::new(HashSet::new());
    let joins = || {
        threads.lock().unwrap_or_else(PoisonError::into_inner).insert(platform::thread::id());
        let join = |file: &std::path::PathBuf| {
            fs::write(file, platform::thread::id().to_string())
                .map_err(|error| format!("{}: {error}", file.display()))
        };
        files.iter().try_for_each(join)
    };
    let tracer = is_traced.then(Tracer::begin).transpose()?;
    let own = contend::schedule::measure(pattern, cpus, time, joins)?;
    let threads = threads.into_inner().unwrap_or_else(PoisonError::into_inner);
    let waits = tracer.map(|tracer| tracer.end(&threads)).transpose()?;
    Ok(Found::of(pattern, own, waits))
}

/// The same on the simulated machine.
fn simulated(setup: &Setup, pattern: Pattern, is_traced: bool) -> Result<Found, String> {
    let (own, waits) = setup.place.schedule(pattern, setup.time)?;
    Ok(Found::of(pattern, own, is_traced.then_some(waits)))
}

/// The waits that a thread would have seen, too: shorter ones are interrupts and other noise,
/// unless the pattern is about short ones. A woken thread may have its CPU at once.
fn of_waits(pattern: Pattern, waits_ns: Vec<u64>) -> Histogram {
    let is_short = pattern.is_of_wake_ups() || pattern == Pattern::Yields;
    let least_ns = if is_short { 0 } else { contend::schedule::GAP_NS };
    let mut times = Histogram::new();
    waits_ns.into_iter().filter(|ns| *ns >= least_ns).for_each(|ns| times.record(ns));
    times
}

const TABLE: &str = "
    what = case | where = version | times [] = sum times | p50 = p50_ns | p99 = p99_ns
    max = worst max_ns | threads' own p50 = own_p50_ns";

/// Adds the table, and the distances.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    report.show(Sheet::new(TABLE).of(report, "What the scheduler does to two threads", &cases));
    for case in &cases {
        let of = |version: &str| report.outputs::<Histogram>(case, version).sum::<Histogram>();
        let (here, simulated) = (of(HERE), of(SIMULATED));
        if here.count() == 0 || simulated.count() == 0 {
            report.notes.push(format!("{case}: too short a run, there are no times"));
            continue;
        }
        let [distances, multiples] = [1.0, median(&here) / median(&simulated)]
            .map(|factor| [1.0, 1.1].map(|tolerance| distance(&here, &times(&simulated, factor), tolerance)));
        report.notes.push(format!(
            "{case}: Kolmogorov-Smirnov distance {:.2}, {:.2} if times that differ by 10 % count as the same; \
             with equal medians, {:.2}, {:.2} (the simulated median is {:.3} of that here)",
            distances[0],
            distances[1],
            multiples[0],
            multiples[1],
            median(&simulated) / median(&here),
        ));
    }
}

fn median(times: &Histogram) -> f64 {
    times.summary().p50_ns as f64
}

/// All times multiplied by a factor.
fn times(of: &Histogram, factor: f64) -> Histogram {
    let mut all = Histogram::new();
    for (ns, count) in Counts::from(of).counts {
        all.record_many((ns as f64 * factor) as u64, count);
    }
    all
}

/// The Kolmogorov-Smirnov distance of two distributions, if times that differ by no more than this
/// factor count as the same: 0 if they are the same, 1 if no time of one lies among those of the
/// other.
fn distance(one: &Histogram, other: &Histogram, factor: f64) -> f64 {
    let (one, other) = (Counts::from(one), Counts::from(other));
    let share = |counts: &Counts, limit_ns: u64| {
        let below: u64 = counts.counts.iter().filter(|(ns, _)| *ns <= limit_ns).map(|(_, count)| count).sum();
        below as f64 / counts.count as f64
    };
    let limits = one.counts.iter().chain(&other.counts).map(|(ns, _)| *ns);
    let ahead = |first: &Counts, second: &Counts, ns: u64| {
        share(first, ns) - share(second, (ns as f64 * factor) as u64)
    };
    limits.map(|ns| ahead(&one, &other, ns).max(ahead(&other, &one, ns))).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wake_up_counts_and_short_waits_of_threads_that_work_do_not() {
        let waits_ns = || vec![0, 811, contend::schedule::GAP_NS, 4_000_000];
        assert_eq!(of_waits(Pattern::Near, waits_ns()).count(), 4);
        assert_eq!(of_waits(Pattern::Turns, waits_ns()).count(), 2);
    }

    #[test]
    fn a_distribution_is_near_itself_and_far_from_another_one() {
        let of = |times_ns: &[u64]| {
            let mut histogram = Histogram::new();
            times_ns.iter().for_each(|ns| histogram.record(*ns));
            histogram
        };
        let low = of(&[1000, 2000, 3000, 4000]);
        assert_eq!(distance(&low, &low, 1.0), 0.0);
        assert_eq!(distance(&low, &of(&[1_000_000]), 1.0), 1.0);
        assert_eq!(distance(&low, &of(&[3000, 4000, 4000, 4000]), 1.0), 0.5);
        let little_more = of(&[1050, 2100, 3150, 4200]);
        assert_eq!(distance(&low, &little_more, 1.0), 0.25);
        assert_eq!(distance(&low, &little_more, 1.1), 0.0);
        assert_eq!(distance(&little_more, &low, 1.1), 0.0);
    }
}
