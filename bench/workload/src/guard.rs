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
mod setup;
pub mod throughput;

pub use crate::engine::{AS_IS, GUARDED};
pub use setup::{Setup, VARIANTS};

use crate::error::Error;
use crate::harness::Bench;
use crate::inversion;
use crate::verdict::{self, Figure};
use report::{Report, Sheet};

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
    let memory = memory::CASES.map(|(case, _)| case);
    let tables = [
        (inversion::TABLE, throughput::TITLE, &throughput::CASES.map(|(_, case)| case)[..]),
        (launch::TABLE, launch::CASE, &[launch::CASE]),
        (memory::TABLE, "Memory, all threads alive", &memory),
        (scan::TABLE, "The search for busy-wait loops", &[scan::CASE]),
    ];
    for (columns, title, cases) in tables {
        report.show(Sheet::new(columns).over(AS_IS).own(&scan::per_10_mb).of(report, title, cases));
    }
    verdict::judge(report, figure);
}

/// What a target looks at.
fn figure(report: &Report, id: &str) -> Option<Figure> {
    Some(match id {
        "launch" => Figure::Plain(launch::added_ms(report)),
        "memory-thread" => Figure::Plain(memory::added_each(report)),
        "memory-total" => Figure::Plain(memory::added_mib(report)),
        "scan" => Figure::Plain(scan::ms_per_10_mb(report, "scan_ns")),
        "scan-again" => Figure::Plain(scan::ms_per_10_mb(report, "second_scan_ns")),
        id => throughput::figure(id)?,
    })
}
