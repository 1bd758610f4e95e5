//! The experiment of Andreoli and Cucinotta, "Inducing Huge Tail Latency on a MongoDB deployment",
//! section III, on this machine: what threads of high priority do to an engine whose snapshots
//! busy-wait.
//!
//! | case | compares | of the paper |
//! | --- | --- | --- |
//! | [`HEADLINE`] | as it is, under `manx run`, and fixed, 4 of 40 threads boosted | figure 4 at 40 threads |
//! | [`BOOST`] | 20 threads, boosted or not, guarded and as it is | the 2168 % and 7 % of section III |
//! | [`PAIR`] | 2 threads, nothing to repair | (costs nothing where nothing is wrong) |
//! | sweep | 8, 20, 40, 80 threads, boosted or not | figure 4 |
//! | [`TIMELINE`] | second by second, boosted in the middle third | figures 2b and 3b |
//!
//! The paper has 112 cores and uses 10 of them; here all threads share 2 CPUs, and the think time
//! stands for the network between client and server. Its figures 2a and 3a, a machine with a core
//! for each thread, have their counterpart in [`PAIR`].

pub use crate::boosted::LOWERED;
pub use crate::engine::{AS_IS, GUARDED};

use crate::boosted;
use crate::child;
use crate::engine::{self, Engines, Load, Program, Start};
use crate::error::Error;
use crate::harness::{self, Bench};
use crate::verdict::{self, Figure};
use report::{Report, Sheet};
use std::path::PathBuf;

/// Forty threads; four of them are boosted.
pub const HEADLINE: &str = "40 threads, think 300 µs, 4 boosted";
/// Twenty threads, boosted and not.
pub const BOOST: &str = "20 threads, think 300 µs, boosted and not";
/// Two threads on two CPUs.
pub const PAIR: &str = "2 threads, no think time";
/// Second by second.
pub const TIMELINE: &str = "40 threads, think 300 µs, 4 boosted in the middle third";
/// The thread counts of figure 4.
const SWEEP: [usize; 4] = [8, 20, 40, 80];

/// With its source repaired.
pub const FIXED: &str = "fixed";
/// The three with four boosted threads.
pub const BOOSTED: [&str; 3] = ["as it is, boosted", "manx run, boosted", "fixed, boosted"];

/// How many threads are boosted, as in the paper.
const BOOST_THREADS: usize = 4;
const THINK_US: f64 = 300.0;
/// Rounds of the sweep, which is for a picture.
const SWEEP_ROUNDS: usize = 1;
/// A row for each version of each case: medians over the rounds, percentiles beside the maximum and
/// the slowest thread's share.
pub(crate) const TABLE: &str = "
    ?case = case | variant = version | runs [] = count max_ns | throughput [op/s] = throughput_per_s
    of as it is [] = ratio throughput_per_s | 95 % [] = interval throughput_per_s
    mean [µs] = mean_ns | p50 [µs] = p50_ns | p99.9 [ms] = p999_ns | max [ms] = max_ns
    worst max [ms] = worst max_ns | slowest thread [of mean] = slowest_of_mean";

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The programs
    pub engines: Engines,
    /// `manx` itself
    pub manx: PathBuf,
    /// A smoke check: short runs, and no sweep
    pub quick: bool,
    /// The CPUs to run on, as a list
    pub cpus: String,
}

/// Which program, started how, with how many boosted threads.
struct Variant<'a> {
    name: &'static str,
    program: &'a Program,
    start: Start<'a>,
    boost: usize,
}

impl Setup {
    fn variant(&self, name: &'static str, boost: usize) -> Option<Variant<'_>> {
        let (program, start) = if name.starts_with(AS_IS) {
            (&self.engines.as_is, Start::AsIs)
        } else if name.starts_with(GUARDED) {
            (&self.engines.as_is, Start::Guarded(&self.manx))
        } else {
            (self.engines.fixed.as_ref().ok()?, Start::AsIs)
        };
        Some(Variant { name, program, start, boost })
    }

    fn load(&self, threads: usize, think_us: f64) -> Load {
        let (seconds, warm_up) = if self.quick { (1.0, 0.2) } else { (5.0, 1.0) };
        let load = Load::new(threads, seconds, warm_up, &self.cpus);
        let mut load = Load { think_us, lowered: !child::may_boost(), ..load };
        if self.quick {
            self.engines.shrink(&mut load);
        }
        load
    }
}

/// Runs all cases; what they found is in `bench.report`.
///
/// # Errors
/// The first error of a run.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    setup.engines.notes.iter().for_each(|note| bench.note(note.as_str()));
    if let Err(why) = &setup.engines.fixed {
        bench.note(format!("{FIXED}: left out: {why}"));
    }
    bench.note(format!("CPUs {}, a closed loop with service latencies", setup.cpus));
    boosted::describe(bench);
    let boost = BOOST_THREADS;
    let names = [(AS_IS, boost), (GUARDED, boost), (FIXED, boost)];
    case(setup, bench, HEADLINE, setup.load(40, THINK_US), &names, None)?;
    let mut names = vec![(GUARDED, 0), (BOOSTED[1], boost)];
    if !setup.quick {
        names.extend([(AS_IS, 0), (BOOSTED[0], boost)]);
    }
    case(setup, bench, BOOST, setup.load(20, THINK_US), &names, None)?;
    case(setup, bench, PAIR, setup.load(2, 0.0), &[(AS_IS, 0), (GUARDED, 0)], None)?;
    timeline(setup, bench, boost)?;
    if !setup.quick {
        for threads in SWEEP {
            let names = [
                (AS_IS, 0),
                (GUARDED, 0),
                (FIXED, 0),
                (BOOSTED[0], boost),
                (BOOSTED[1], boost),
                (BOOSTED[2], boost),
            ];
            let load = setup.load(threads, THINK_US);
            case(setup, bench, &sweep_case(threads), load, &names, Some(SWEEP_ROUNDS))?;
        }
    }
    Ok(())
}

/// A sweep's case.
fn sweep_case(threads: usize) -> String {
    format!("{threads} threads")
}

/// Runs the variants for `rounds` rounds, or until the ratios of their targets are known.
fn case(
    setup: &Setup,
    bench: &mut Bench,
    name: &str,
    load: Load,
    variants: &[(&'static str, usize)],
    rounds: Option<usize>,
) -> Result<(), Error> {
    let variants: Vec<Variant> =
        variants.iter().filter_map(|&(name, boost)| setup.variant(name, boost)).collect();
    let names: Vec<&str> = variants.iter().map(|variant| variant.name).collect();
    let case = harness::Case { name, variants: &names, expected: load.expected() };
    let run = |at: usize, round: usize| {
        let variant = &variants[at];
        // The same seed for all variants of a round, another one for each round.
        let load = Load { boost: variant.boost, seed: round as u64 + 1, ..load.clone() };
        engine::run(variant.program, variant.start, &load)
    };
    match rounds {
        Some(rounds) => bench.rounds(case, rounds, run),
        None => bench.compare(case, |report| verdict::watched(report, name, figure), run),
    }
}

/// Second by second: each version once, through all three thirds.
fn timeline(setup: &Setup, bench: &mut Bench, boost: usize) -> Result<(), Error> {
    let mut load = boosted::thirds(setup.load(40, THINK_US), setup.quick);
    load.boost = boost;
    let variants: Vec<Variant> =
        [AS_IS, GUARDED, FIXED].into_iter().filter_map(|name| setup.variant(name, boost)).collect();
    let names: Vec<&str> = variants.iter().map(|variant| variant.name).collect();
    let case = harness::Case { name: TIMELINE, variants: &names, expected: load.expected() };
    bench.rounds(case, 1, |at, _| {
        engine::run(variants[at].program, variants[at].start, &Load { seed: 1, ..load.clone() })
    })
}

/// Draws tables and pictures from the runs, and judges the targets.
pub fn conclude(report: &mut Report) {
    let sweep = SWEEP.map(sweep_case);
    let figure_4 = "8 to 80 threads, think 300 µs, without boost and with 4 boosted threads (figure 4)";
    let single = [HEADLINE, BOOST, PAIR].map(|case| (case, vec![case]));
    for (title, cases) in single.into_iter().chain([(figure_4, sweep.iter().map(String::as_str).collect())]) {
        report.show(Sheet::new(TABLE).over(AS_IS).of(report, title, &cases));
    }
    boosted::tables(report, TIMELINE);
    verdict::judge(report, figure);
}

/// The figure of the target that `manx bench guard` has, too, under another case.
fn figure(_: &Report, id: &str) -> Option<Figure> {
    (id == "pair-throughput").then(|| Figure::ratio(PAIR, GUARDED, AS_IS, "throughput_per_s"))
}
