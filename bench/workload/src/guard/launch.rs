//! What `manx run` adds to the start of a program that does nothing: `true`.

use super::setup::{Setup, VARIANTS};
use crate::engine::{AS_IS, GUARDED};
use crate::error::{Error, reason};
use crate::harness::{Bench, Case, Sample};
use report::Report;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The case's name.
pub const CASE: &str = "`true`, from its start to its end";
/// Median and maximum.
pub const TABLE: &str =
    "variant = version | runs [] = count wall_ns | median [ms] = wall_ns | max [ms] = worst wall_ns";
/// The number of pairs.
const PAIRS: usize = 20;

/// Starts `true` and waits for its end, in turn with `manx run true`.
///
/// # Errors
/// If either cannot be started or fails.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let command = |guarded: bool| {
        if !guarded {
            return Command::new("true");
        }
        let mut command = Command::new(&setup.manx);
        command.args(["run", "--", "true"]);
        command
    };
    for guarded in [false, true] {
        time(command(guarded))?; // so that no version pays for the first read of its files
    }
    let case = Case { name: CASE, variants: &VARIANTS, expected: Duration::from_millis(10) };
    bench.rounds(case, PAIRS, |variant, _| {
        let wall_ns = time(command(VARIANTS[variant] == GUARDED))?;
        Ok(Sample::of([("wall_ns", wall_ns)]))
    })
}

fn time(mut command: Command) -> Result<f64, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begun = Instant::now();
    let output = command.spawn().and_then(|child| child.wait_with_output());
    let wall_ns = begun.elapsed().as_nanos() as f64;
    match output {
        Ok(output) if output.status.success() => Ok(wall_ns),
        Ok(output) => Err(Error::Failed {
            what: format!("{name}: {}", output.status),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Err(error) => Err(Error::request(format!("{name}: {}", reason(&error)), "it must be in PATH")),
    }
}

/// The medians' difference.
pub fn added_ms(report: &Report) -> f64 {
    (report.middle(CASE, GUARDED, "wall_ns") - report.middle(CASE, AS_IS, "wall_ns")) / 1e6
}
