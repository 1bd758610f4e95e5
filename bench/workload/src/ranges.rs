//! `manx bench sim MACHINE range`: the thesis' workloads W1 and W2 with more threads than this
//! machine has CPUs, on a simulated one.
//!
//! The ranges are shuffled and dealt, as the author ran them ([`crate::range`] has the same on this
//! machine). To write a range takes a time; its bytes are in nobody's cache but the writer's. So
//! all differences are those of the locks.

use crate::drawing::{Charts, chart, over, panels, those, whole};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::ranges::{RangeLock, Ranges};
use report::{Report, Sheet};
use std::time::Duration;

/// The workloads, and how many ranges a thread holds at a time.
const WORKLOADS: [(&str, usize); 2] = [("w1", 1), ("w2", 16)];
const PAIRS: &str = "pairs_per_s";

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// Where the runs are made
    pub place: Place,
    /// How many threads, one case each
    pub threads: Vec<usize>,
    /// The locks
    pub locks: Vec<RangeLock>,
    /// How often each run is made
    pub rounds: usize,
    /// How many ranges are dealt
    pub ranges: usize,
    /// How long it takes to write a range
    pub write_ns: u64,
    /// The measured time of a run
    pub time: Duration,
}

/// The name of a case.
fn case(workload: &str, threads: usize) -> String {
    format!("{workload}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or a run that failed.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.note(format!(
        "{} shuffled ranges of 1 KiB are dealt to the threads; to write one takes {} ns",
        setup.ranges, setup.write_ns
    ));
    let names: Vec<&str> = setup.locks.iter().map(|lock| lock.name()).collect();
    for (workload, batch) in WORKLOADS {
        for &threads in &setup.threads {
            let (ranges, write_ns, time) = (setup.ranges, setup.write_ns, setup.time);
            let run = Ranges { threads, batch, ranges, write_ns, time };
            let name = case(workload, threads);
            let case = Case { name: &name, variants: &names, expected: time * 6 / 5 };
            bench.rounds(case, setup.rounds, |at, _| {
                let seed = setup.place.seed();
                let lock = setup.locks[at];
                let found = setup.place.ranges(lock, &run);
                let found = found.map_err(|what| Error::failed(format!("{}: {what}", lock.name())))?;
                Ok(Sample::of([
                    (PAIRS, found.pairs_per_s),
                    ("slowest_share", found.slowest_share),
                    ("seed", seed as f64),
                ]))
            })?;
        }
    }
    Ok(())
}

const TABLE: &str = "
    threads = case | lock = version | runs [] = rounds | pairs = pairs_per_s
    of published [] = ratio pairs_per_s | 95 % [] = interval pairs_per_s | slowest [x] = slowest_share";

/// Adds the tables.
pub fn conclude(report: &mut Report) {
    for (workload, _) in WORKLOADS {
        let cases = report.cases();
        let cases: Vec<&String> = cases.iter().filter(|case| case.starts_with(workload)).collect();
        let sheet = Sheet::new(TABLE).over(RangeLock::SkipListPublished.name());
        let table = sheet.of(report, workload, &cases);
        report.show(table);
    }
}

/// The pictures: figures 5.2 and 5.3 of the thesis.
pub fn draw(report: &Report) -> Charts {
    let scaling = |workload: &str| {
        let places: Vec<(f64, String)> =
            (1..=1024).map(|threads| (threads as f64, case(workload, threads))).collect();
        let panels = panels("pairs per second = pairs_per_s", |figure| over(report, &places, figure));
        chart(&format!("{workload}: shuffled ranges"), ("threads", true, whole), panels)
    };
    those(WORKLOADS.map(|(workload, _)| (workload, scaling(workload))))
}
