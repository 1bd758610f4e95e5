//! One run of the program, and its figures: what it or the measuring command printed, or what Manx
//! counted.
//!
//! The first run tells where the figures come from ([`Source`]). All runs of a sweep are measured
//! in the same way, so that they can be compared: if Manx counts, it also counts in the runs whose
//! waiting and locks it leaves alone.

use super::counted;
use super::schema::{Measured, Sweep, Variant};
use crate::child;
use crate::error::{Error, reason};
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

/// The part of a result's JSON that is needed.
#[derive(Deserialize)]
struct Output {
    throughput_per_s: f64,
    #[serde(default)]
    errors: u64,
    all: Counts,
}

/// Where the figures of a sweep come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// No run has told yet
    #[default]
    Unknown,
    /// The program, or the measuring command, prints them
    Printed,
    /// Manx counts the epochs and requests that end
    Counted,
}

/// Runs the program once; twice if that is the first run, and it prints no figures.
///
/// # Errors
/// If it cannot be started, fails, or has no figures.
pub fn run(manx: &Path, sweep: &Sweep, variant: Variant, source: &mut Source) -> Result<Measured, Error> {
    if *source != Source::Counted {
        let finished = child::run(command(manx, sweep, variant, None), LIMIT)?;
        match read(&finished.stdout, sweep.percentile) {
            Ok(measured) => {
                *source = Source::Printed;
                return Ok(measured);
            }
            Err(NoFigures::None(_)) if *source == Source::Unknown => {}
            Err(NoFigures::None(why) | NoFigures::Wrong(why)) => {
                return Err(failed(sweep, &why, finished.stderr));
            }
        }
    }
    let folder = tempfile::tempdir().map_err(|error| {
        Error::request(format!("a temporary folder: {}", reason(&error)), "TMPDIR says where")
    })?;
    let statistics = folder.path().join("statistics");
    child::run(command(manx, sweep, variant, Some(&statistics)), LIMIT)?;
    let measured = counted::read(manx, folder.path(), sweep)?;
    *source = Source::Counted;
    Ok(measured)
}

fn failed(sweep: &Sweep, why: &str, stderr: String) -> Error {
    let what = format!("{}: {why}", sweep.measure.as_ref().unwrap_or(&sweep.program[0]));
    Error::Failed { what, stderr }
}

/// The command of a run. If Manx counts, `statistics` is the file that it writes.
fn command(manx: &Path, sweep: &Sweep, variant: Variant, statistics: Option<&Path>) -> Command {
    let mut words = Vec::new();
    let slo = |slo_ns: u64| {
        let id = sweep.epoch.map(|id| format!("{id}=")).unwrap_or_default();
        format!("--slo={id}{slo_ns}ns@{}", sweep.percentile_name())
    };
    if variant != Variant::Plain || sweep.dilation.is_some() || statistics.is_some() {
        words.extend([manx.into(), "run".into(), "--quiet".into()]);
        if let Some(file) = statistics {
            let mut word = std::ffi::OsString::from("--stats=");
            word.push(file);
            words.push(word);
            if !matches!(variant, Variant::SloNs(_)) {
                // Requests are seen only if there is a target; these locks obey none.
                words.push(slo(sweep.to_ns).into());
            }
        }
        if let Some(cores) = &sweep.cores {
            words.push(format!("--cores={cores}").into());
        }
        if let Some(thousandths) = sweep.dilation {
            words.push(format!("--dilate={}", f64::from(thousandths) / 1000.0).into());
        }
        match variant {
            Variant::Plain => words.extend(["--guard=off".into(), "--lock=glibc".into()]),
            Variant::SloNs(slo_ns) => {
                words.push(format!("--lock={}", sweep.lock).into());
                words.push(slo(slo_ns).into());
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

/// Why there are no figures in what was printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFigures {
    /// It is something else
    None(String),
    /// They cannot be right
    Wrong(String),
}

/// Finds the figures in what was printed: a result's JSON, whole or as a line of its own, or two
/// numbers, the throughput a second and the tail latency in nanoseconds.
///
/// # Errors
/// If there are none, or they cannot be right.
pub fn read(text: &str, percentile: u16) -> Result<Measured, NoFigures> {
    let text = text.trim();
    let measured = match json(text) {
        Some(output) => of(&output.map_err(NoFigures::None)?, percentile).map_err(NoFigures::Wrong)?,
        None => numbers(text).ok_or_else(|| {
            NoFigures::None(match text.lines().next() {
                None => "nothing was printed, where a result's JSON or two numbers should be".to_owned(),
                Some(line) => {
                    let line: String = line.chars().take(SHOWN).collect();
                    format!(
                        "neither a result's JSON nor two numbers were printed; the first line is `{line}`"
                    )
                }
            })
        })?,
    };
    let Measured { throughput_per_s, tail_ns, .. } = measured;
    let possible = |value: f64| value.is_finite() && value > 0.0;
    if possible(throughput_per_s) && possible(tail_ns) {
        return Ok(measured);
    }
    let why = format!("throughput {throughput_per_s} and latency {tail_ns}: both must be above 0");
    Err(NoFigures::Wrong(why))
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
    use super::*;
    use crate::profile::schema::tests::sweep;

    const RESULT: &str = r#"{"throughput_per_s":10.5,"all":{"count":2,"min_ns":100,"max_ns":200,"sum_ns":300,"counts":[[100,1],[200,1]]}}"#;

    fn words(sweep: &Sweep, variant: Variant) -> String {
        words_with(sweep, variant, None)
    }

    fn words_with(sweep: &Sweep, variant: Variant, statistics: Option<&str>) -> String {
        let command = command(Path::new("/m"), sweep, variant, statistics.map(Path::new));
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
    fn every_run_is_counted_if_the_program_prints_nothing() {
        let sweep = Sweep { epoch: Some(7), ..sweep() };
        let words = |variant| words_with(&sweep, variant, Some("/s"));
        let counting = "/m run --quiet --stats=/s --slo=7=5000000ns@p99";
        assert_eq!(words(Variant::Plain), format!("{counting} --guard=off --lock=glibc -- p"));
        assert_eq!(words(Variant::Fifo), format!("{counting} --lock=fifo -- p"));
        let slo = "/m run --quiet --stats=/s --lock=asl --slo=7=50ns@p99 -- p";
        assert_eq!(words(Variant::SloNs(50)), slo);
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
    fn output_that_is_no_result_is_refused_with_the_reason() {
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
            let (NoFigures::None(error) | NoFigures::Wrong(error)) = read(text, 9900).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_command_measures_while_the_program_runs() {
        let program = ["sh", "-c", "exec sleep 1000"].map(str::to_owned).to_vec();
        let measure = Some("kill -0 $MANX_PROFILE_PID && echo 5 6".to_owned());
        let sweep = Sweep { program, measure, ..sweep() };
        assert_eq!(
            run(Path::new("/m"), &sweep, Variant::Plain, &mut Source::default()).unwrap().tail_ns,
            6.0
        );
    }
}
