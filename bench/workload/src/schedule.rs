//! `manx bench sim MACHINE schedule`: what the scheduler does to two threads, here and simulated.
//!
//! Each pattern runs in turn on this machine and on the simulated one. The distributions of times
//! are compared by their Kolmogorov-Smirnov distance: the largest difference of the shares of times
//! below any limit. Two narrow distributions with medians that differ by a percent are as far apart
//! as two that have nothing in common. So there is a second distance, for which times that differ
//! by less than a factor count as the same (Lévy's distance, of logarithms).

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::schedule::Pattern;
use report::{Counts, Histogram, Report, Sheet};
use std::time::Duration;

/// The versions.
const HERE: &str = "here";
const SIMULATED: &str = "simulated";

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
    for pattern in Pattern::ALL {
        let case = Case { name: pattern.name(), variants: &[HERE, SIMULATED], expected: setup.time * 6 / 5 };
        bench.rounds(case, 5, |at, _| {
            let times = match at {
                0 => contend::schedule::measure(pattern, [first, second], setup.time),
                _ => setup.place.schedule(pattern, setup.time),
            };
            let times = times.map_err(|what| Error::Failed { what, stderr: String::new() })?;
            let mut sample = Sample::of([("times", times.count() as f64)]);
            sample.add_tail("", &times);
            Ok(sample.with(&times))
        })?;
    }
    Ok(())
}

const TABLE: &str = "
    what = case | where = version | times [] = sum times | p50 = p50_ns | p99 = p99_ns | max = worst max_ns";

/// Adds the table, and the distances.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    report.show(Sheet::new(TABLE).of(report, "What the scheduler does to two threads", &cases));
    for case in &cases {
        let of = |version: &str| report.outputs::<Histogram>(case, version).sum::<Histogram>();
        let (here, simulated) = (of(HERE), of(SIMULATED));
        report.notes.push(format!(
            "{case}: Kolmogorov-Smirnov distance {:.2}; {:.2} if times that differ by 10 % count as the same",
            distance(&here, &simulated, 1.0),
            distance(&here, &simulated, 1.1),
        ));
    }
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
