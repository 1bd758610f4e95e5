//! One run of the program, and what it or the measuring command printed.

use super::{Sweep, Variant};
use crate::child;
use crate::error::Error;
use report::{Counts, Histogram};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The longest that a run may take.
const LIMIT: Duration = Duration::from_secs(3600);
/// Starts the program beside the command that measures it; when that ends, so does the program.
const BESIDE: &str = "measure=$1; shift; \"$@\" >&2 & export MANX_PROFILE_PID=$!; exec sh -c \"$measure\"";
/// The number of characters that are shown of output that is not understood.
const SHOWN: usize = 80;

/// What a run says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Operations a second
    pub throughput_per_s: f64,
    /// The percentile's latency
    pub tail_ns: f64,
    /// The longest latency, if it is said
    pub max_ns: Option<u64>,
}

/// The part of a result's JSON that is needed.
#[derive(Deserialize)]
struct Output {
    throughput_per_s: f64,
    #[serde(default)]
    errors: u64,
    all: Counts,
}

/// Runs the program once.
///
/// # Errors
/// If it cannot be started, fails, or does not say its figures.
pub fn run(manx: &Path, sweep: &Sweep, variant: Variant) -> Result<Measured, Error> {
    let started = command(manx, sweep, variant);
    let finished = child::run(started, LIMIT)?;
    read(&finished.stdout, sweep.percentile).map_err(|reason| Error::Failed {
        what: format!("{}: {reason}", sweep.measure.as_ref().unwrap_or(&sweep.program[0])),
        stderr: finished.stderr,
    })
}

fn command(manx: &Path, sweep: &Sweep, variant: Variant) -> Command {
    let mut words = Vec::new();
    if variant != Variant::Plain || sweep.dilation.is_some() {
        words.extend([manx.into(), "run".into(), "--quiet".into()]);
        if let Some(cores) = &sweep.cores {
            words.push(format!("--cores={cores}").into());
        }
        if let Some(thousandths) = sweep.dilation {
            words.push(format!("--dilate={}", f64::from(thousandths) / 1000.0).into());
        }
        match variant {
            Variant::Plain => words.extend(["--guard=off".into(), "--lock=glibc".into()]),
            Variant::SloNs(slo_ns) => {
                let id = sweep.epoch.map(|id| format!("{id}=")).unwrap_or_default();
                words.push(format!("--lock={}", sweep.lock).into());
                words.push(format!("--slo={id}{slo_ns}ns@{}", sweep.percentile_name()).into());
            }
            Variant::Fifo => words.push("--lock=fifo".into()),
        }
        words.push("--".into());
    }
    words.extend(sweep.program.iter().map(std::ffi::OsString::from));
    if let Some(measure) = &sweep.measure {
        let mut command = Command::new("sh");
        command.args(["-c", BESIDE, "sh", measure]).args(words);
        return command;
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Finds the figures in what was printed: a result's JSON, whole or as a line of its own, or two
/// numbers, the throughput a second and the tail latency in nanoseconds.
///
/// # Errors
/// If there are none, or they cannot be.
pub fn read(text: &str, percentile: u16) -> Result<Measured, String> {
    let text = text.trim();
    let measured = match json(text) {
        Some(output) => of(&output?, percentile)?,
        None => numbers(text).ok_or_else(|| match text.lines().next() {
            None => "nothing was printed, where a result's JSON or two numbers should be".to_owned(),
            Some(line) => {
                let line: String = line.chars().take(SHOWN).collect();
                format!("neither a result's JSON nor two numbers were printed; the first line is `{line}`")
            }
        })?,
    };
    let Measured { throughput_per_s, tail_ns, .. } = measured;
    let possible = |value: f64| value.is_finite() && value > 0.0;
    if possible(throughput_per_s) && possible(tail_ns) {
        return Ok(measured);
    }
    Err(format!("throughput {throughput_per_s} and latency {tail_ns}: both must be above 0"))
}

/// The JSON, if there is any; an error if it is not a result's.
fn json(text: &str) -> Option<Result<Output, String>> {
    let lines = text.lines().rev().filter(|line| line.starts_with('{'));
    let found = std::iter::once(text)
        .chain(lines)
        .find(|text| serde_json::from_str::<serde_json::Map<_, _>>(text).is_ok())?;
    Some(serde_json::from_str(found).map_err(|error| format!("the JSON is not a result: {error}")))
}

fn of(output: &Output, percentile: u16) -> Result<Measured, String> {
    if output.errors > 0 {
        return Err(format!("{} operations failed", output.errors));
    }
    let tail = Histogram::try_from(&output.all)?.tail(f64::from(percentile) / 100.0);
    let throughput_per_s = output.throughput_per_s;
    Ok(Measured { throughput_per_s, tail_ns: tail.value_ns as f64, max_ns: Some(tail.max_ns) })
}

fn numbers(text: &str) -> Option<Measured> {
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next(), words.next()) {
        (Some(Ok(throughput_per_s)), Some(Ok(tail_ns)), None) => {
            Some(Measured { throughput_per_s, tail_ns, max_ns: None })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sweep;
    use super::*;

    const RESULT: &str = r#"{"throughput_per_s":10.5,"all":{"count":2,"min_ns":100,"max_ns":200,"sum_ns":300,"counts":[[100,1],[200,1]]}}"#;

    fn words(sweep: &Sweep, variant: Variant) -> String {
        let command = command(Path::new("/m"), sweep, variant);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_target_is_told_to_manx_run() {
        let sweep = Sweep { epoch: Some(7), percentile: 9990, cores: Some("big:0".into()), ..sweep() };
        let slo = words(&sweep, Variant::SloNs(50_000));
        assert_eq!(slo, "/m run --quiet --cores=big:0 --lock=asl --slo=7=50000ns@p99.9 -- p");
        assert_eq!(words(&sweep, Variant::Fifo), "/m run --quiet --cores=big:0 --lock=fifo -- p");
        assert_eq!(words(&sweep, Variant::Plain), "p");
    }

    #[test]
    fn slow_cores_are_slow_without_manx_too() {
        let sweep = Sweep { dilation: Some(3750), cores: Some("big:0".into()), ..sweep() };
        let plain = words(&sweep, Variant::Plain);
        assert_eq!(plain, "/m run --quiet --cores=big:0 --dilate=3.75 --guard=off --lock=glibc -- p");
        assert!(words(&sweep, Variant::SloNs(5)).contains(" --dilate=3.75 --lock=asl "));
    }

    #[test]
    fn json_is_found_whole_or_as_a_line() {
        for text in [RESULT.to_owned(), format!("hello\n{RESULT}\nbye\n")] {
            let measured = read(&text, 9900).unwrap();
            assert_eq!(
                (measured.throughput_per_s, measured.tail_ns, measured.max_ns),
                (10.5, 200.0, Some(200))
            );
            assert_eq!(read(&text, 5000).unwrap().tail_ns, 100.0);
        }
    }

    #[test]
    fn two_numbers_are_throughput_and_latency() {
        let measured = read(" 1e3\n250\n", 9900).unwrap();
        assert_eq!((measured.throughput_per_s, measured.tail_ns, measured.max_ns), (1000.0, 250.0, None));
    }

    #[test]
    fn what_is_no_result_is_named() {
        for (text, why) in [
            ("", "nothing was printed"),
            ("ready\nsteady", "the first line is `ready`"),
            ("1 2 3", "the first line is `1 2 3`"),
            ("0 5", "must be above 0"),
            ("NaN 5", "must be above 0"),
            ("{\"a\":1}", "not a result: missing field"),
            (&RESULT.replace("\"all\"", "\"errors\":4,\"all\""), "4 operations failed"),
            (&RESULT.replace("\"count\":2", "\"count\":3"), ""),
        ] {
            let error = read(text, 9900).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_command_measures_while_the_program_runs() {
        let program = ["sh", "-c", "exec sleep 1000"].map(str::to_owned).to_vec();
        let measure = Some("kill -0 $MANX_PROFILE_PID && echo 5 6".to_owned());
        let sweep = Sweep { program, measure, ..sweep() };
        assert_eq!(run(Path::new("/m"), &sweep, Variant::Plain).unwrap().tail_ns, 6.0);
    }
}
