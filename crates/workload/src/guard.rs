//! What the guard costs programs that need no repair.
//!
//! | part | compares, as it is and under `manx run` |
//! | --- | --- |
//! | [`throughput`] | two threads of: the engine, bounded waits, no waits, a shortly contended spinlock |
//! | [`launch`] | `true`: what starting anything costs |
//! | [`memory`] | a program with 5,000 threads, and with 10 |
//! | [`scan`] | the search of a program with much text, by the guard's own clock |

pub mod launch;
pub mod memory;
pub mod scan;
pub mod throughput;

use crate::engine::{Compiler, Engines};
use crate::error::Error;
use crate::harness::Bench;
use crate::verdict;
use report::{Report, Spread};
use std::path::PathBuf;

/// The program as it is.
pub const AS_IS: &str = "as it is";
/// The same once more.
pub const AGAIN: &str = "as it is, again";
/// Under the guard.
pub const GUARDED: &str = "manx run";
/// The versions that are compared, in this order.
pub const VARIANTS: [&str; 3] = [AS_IS, AGAIN, GUARDED];

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The engine
    pub engines: Engines,
    /// What compiles the other programs
    pub compiler: Compiler,
    /// `manx` itself
    pub manx: PathBuf,
    /// Rounds of each comparison
    pub repeats: usize,
    /// A smoke check
    pub quick: bool,
    /// The CPUs to run on, as a list
    pub cpus: String,
}

/// Runs all parts; what they found is in `bench.report`.
///
/// # Errors
/// The first error of a run.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    setup.engines.notes.iter().for_each(|note| bench.note(note.as_str()));
    launch::measure(setup, bench)?;
    memory::measure(setup, bench)?;
    scan::measure(setup, bench)?;
    throughput::measure(setup, bench)
}

/// Draws tables from the runs, and judges the targets.
pub fn conclude(report: &mut Report) {
    throughput::tables(report);
    launch::table(report);
    memory::table(report);
    scan::table(report);
    let mut spreads: Vec<(&str, Option<Spread>)> = Vec::new();
    for (target, case) in throughput::CASES {
        spreads.push((target, verdict::against_itself(report, case, AS_IS, AGAIN, "throughput_per_s")));
    }
    verdict::against_itself(report, launch::CASE, AS_IS, AGAIN, "wall_ns");
    verdict::judge(report, |target, report| match target.id.as_str() {
        "launch" => Ok((launch::added_ms(report), None)),
        "memory-thread" => Ok((memory::added_each(report), None)),
        "memory-total" => Ok((memory::added_mib(report), None)),
        "scan" => Ok((scan::ms_per_10_mb(report), None)),
        "scan-again" => Ok((scan::second_ms_per_10_mb(report), None)),
        id => match throughput::CASES.iter().zip(&spreads).find(|((name, _), _)| *name == id) {
            Some(((_, case), (_, spread))) => {
                Ok((verdict::ratio(report, case, GUARDED, AS_IS, "throughput_per_s"), spread.clone()))
            }
            None => Err(format!("this version does not know how to measure '{id}'")),
        },
    });
}
