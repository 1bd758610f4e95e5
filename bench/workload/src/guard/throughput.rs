//! Throughput of two threads on two CPUs, where there is nothing to repair.
//!
//! Many short runs in turn resolve more than a few long ones: what disturbs a shared machine lasts
//! for seconds and then falls on all versions alike.

use super::setup::{Setup, VARIANTS};
use crate::engine::{self, AS_IS, GUARDED, Load, Program, Start};
use crate::error::Error;
use crate::harness::{Bench, Case};
use crate::verdict::{self, Figure};
use report::Report;

/// The title of the table of all.
pub const TITLE: &str = "Two threads on two CPUs, where there is nothing to repair";
/// The target that each case serves, and its name.
pub const CASES: [(&str, &str); 4] = [
    ("pair-throughput", "the engine, 2 threads, no think time"),
    ("bounded-throughput", "delay loops and bounded spins, 2 threads"),
    ("plain-throughput", "no busy wait, 2 threads"),
    ("spinlock-throughput", "a spinlock held for 0 to 600 ns, 2 threads"),
];

/// Runs each program as it is and under the guard, until their ratio is known.
///
/// # Errors
/// The first error of a run.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let small = |name| Ok(Program::new(setup.compiler.program(name, &[], "")?));
    let programs = [setup.engines.as_is.clone(), small("bounded")?, small("plain")?, small("spinlock")?];
    for ((_, case), program) in CASES.iter().zip(&programs) {
        let (seconds, warm_up) = if setup.quick { (0.3, 0.1) } else { (1.5, 0.2) };
        let more = if program.home { vec!["--records=20000".to_owned()] } else { Vec::new() };
        let load = Load { more, ..Load::new(2, seconds, warm_up, &setup.cpus) };
        let watch = |report: &Report| verdict::watched(report, case, |_, id| figure(id));
        let case = Case { name: case, variants: &VARIANTS, expected: load.expected() };
        bench.compare(case, watch, |variant, round| {
            let guarded = VARIANTS[variant] == GUARDED;
            let start = if guarded { Start::Guarded(&setup.manx) } else { Start::AsIs };
            engine::run(program, start, &Load { seed: round as u64 + 1, ..load.clone() })
        })?;
    }
    Ok(())
}

/// What a target looks at.
pub(super) fn figure(id: &str) -> Option<Figure> {
    let (_, case) = CASES.iter().find(|(name, _)| *name == id)?;
    Some(Figure::ratio(case, GUARDED, AS_IS, "throughput_per_s"))
}
