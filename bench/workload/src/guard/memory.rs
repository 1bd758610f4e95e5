//! What the guard adds to the memory of a program with many threads: in all, and for each thread.
//!
//! The program itself asks the kernel for its proportional set size while all of its threads are
//! alive and have busy-waited once. What 5,000 threads take more than 10 do, under the guard and
//! without it, gives the cost of one; whatever else a guarded process holds is in the sum only.

use super::setup::{Setup, VARIANTS};
use crate::child;
use crate::engine::{AS_IS, GUARDED, Start, command};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use report::Report;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// The two cases: many threads, and few.
pub const CASES: [(&str, usize); 2] = [("memory of 5,000 threads", 5000), ("memory of 10 threads", 10)];
/// The medians.
pub const TABLE: &str = "
    case = every case | variant = version | proportional [KiB] = proportional_bytes
    private [KiB] = private_bytes | resident [KiB] = resident_bytes";
/// The figure that is compared.
const VALUE: &str = "proportional_bytes";
/// Sizes scatter little.
const ROUNDS: usize = 3;

#[derive(Deserialize)]
struct Sizes {
    resident_bytes: f64,
    proportional_bytes: f64,
    private_bytes: f64,
}

/// Runs the program with many threads and with few.
///
/// # Errors
/// If it cannot be compiled, or fails with few threads. Too many threads for this machine is only
/// noted.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let program = setup.compiler.program("threads", &[], "")?;
    let once = |variant: &str, threads: usize| {
        let start = if variant == GUARDED { Start::Guarded(&setup.manx) } else { Start::AsIs };
        let mut command = command(&program, start);
        command.arg(format!("--threads={threads}"));
        let finished = child::run(command, Duration::from_secs(120))?;
        let sizes: Sizes = serde_json::from_str(&finished.stdout).map_err(|error| Error::Failed {
            what: format!("{}: {error}", program.display()),
            stderr: finished.stderr,
        })?;
        let mut sample = Sample::of([
            ("resident_bytes", sizes.resident_bytes),
            (VALUE, sizes.proportional_bytes),
            ("private_bytes", sizes.private_bytes),
        ]);
        sample.output = RawValue::from_string(finished.stdout.trim().to_owned()).ok();
        Ok(sample)
    };
    if let Err(Error::Failed { what, stderr }) = once(AS_IS, CASES[0].1) {
        bench.note(format!(
            "memory is not measured: {what}: {} (see ulimit -u and the cgroup's pids.max)",
            stderr.trim()
        ));
        return Ok(());
    }
    let rounds = if setup.quick { 1 } else { ROUNDS };
    for (case, threads) in CASES {
        let case = Case { name: case, variants: &VARIANTS, expected: Duration::from_secs(1) };
        bench.rounds(case, rounds, |variant, _| once(VARIANTS[variant], threads))?;
    }
    Ok(())
}

/// What the guard adds to one case.
fn added(report: &Report, case: &str) -> f64 {
    report.middle(case, GUARDED, VALUE) - report.middle(case, AS_IS, VALUE)
}

/// What it adds to 5,000 threads, in MiB.
pub fn added_mib(report: &Report) -> f64 {
    added(report, CASES[0].0) / f64::from(1 << 20)
}

/// What it adds for each thread, in bytes.
pub fn added_each(report: &Report) -> f64 {
    (added(report, CASES[0].0) - added(report, CASES[1].0)) / (CASES[0].1 - CASES[1].1) as f64
}
