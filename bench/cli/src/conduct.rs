//! What all experiments have in common: their options, Ctrl-C, progress, the tables at the end, the
//! JSON file.

use super::progress::Shown;
use command::companion;
use command::failure::{BROKEN, Failure, INTERRUPTED, USAGE, reason};
use command::sigpipe::print;
use report::{Machine, Report, Resolution};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use workload::harness::Bench;
use workload::{Error, interrupt};

/// The longest that `--quick` takes.
const QUICK: Duration = Duration::from_secs(45);
/// Of these, what is left for compiling and the last run.
const QUICK_MARGIN: Duration = Duration::from_secs(8);

/// The options of every experiment.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Common {
    /// A smoke check, not a measurement: at most 45 seconds, and five minutes for a paper
    #[arg(long)]
    pub(super) quick: bool,
    /// The most rounds of a case; a round runs every version once, in an order drawn at random
    /// [default: as many as --width needs]
    #[arg(long, alias = "seeds", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeats: Option<u32>,
    /// Go on with a case until the ratios of its targets are known to ±PERCENT
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = number("percent", 0.01, 100.0))]
    width: f64,
    /// Go on with a case for no longer than this; the first five rounds are always made
    #[arg(long, value_name = "MINUTES", default_value = "10", value_parser = number("minutes", 0.0, 1440.0))]
    minutes: f64,
    /// Draw the orders of the rounds from this number, which the report of a run names [default:
    /// from the clock]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Write every run, table and target to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// A parser of numbers of `unit` from `least` to `most`.
pub(super) fn number(
    unit: &'static str,
    least: f64,
    most: f64,
) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("not a number of {unit} from {least} to {most}")),
    }
}

/// Runs an experiment: `measure` runs programs, `conclude` makes tables of what was measured.
pub(super) fn conduct(
    name: &str,
    common: &Common,
    measure: impl FnOnce(&mut Bench) -> Result<(), Error>,
    conclude: impl FnOnce(&mut Report),
) -> Result<u8, Failure> {
    // Opened before the measurement, so that an unwritable file is found before it.
    let json = common.json.as_deref().map(|path| open("--json", path)).transpose()?;
    interrupt::install();
    let mut progress = Shown::new(name);
    let budget = common.quick.then(|| QUICK - QUICK_MARGIN);
    let mut bench = Bench::new(name, Machine::here(), budget, &mut progress);
    bench.resolution = resolution(common);
    if let Some(seed) = common.seed {
        bench.draw_from(seed);
    }
    let result = measure(&mut bench);
    let mut report = bench.finish(&result);
    if !report.runs.is_empty() || result.is_ok() {
        conclude(&mut report);
        print(&report.to_string())?;
    }
    if let (Some(file), Some(path)) = (json, &common.json) {
        write(file, &report).map_err(|error| unwritable("--json", path, &error))?;
    }
    match result {
        Ok(()) => Ok(0),
        Err(Error::Interrupted) => Ok(INTERRUPTED),
        Err(error) => Err(failure(name, &error)),
    }
}

/// How long to go on: a smoke check runs everything once.
fn resolution(common: &Common) -> Resolution {
    Resolution {
        width: common.width / 100.0,
        limit: Duration::from_secs_f64(common.minutes * 60.0),
        pairs_max: common.repeats.map(|most| most as usize).or(common.quick.then_some(1)),
        ..Resolution::default()
    }
}

/// The `manx` that goes with this command: programs are measured under its `manx run`.
pub(super) fn manx_path() -> Result<PathBuf, Error> {
    companion::MANX.find().map_err(|failure| Error::missing(failure.what, failure.help))
}

/// The path of this command, which some measured processes run.
pub(super) fn own_path() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(|error| {
        Error::request(
            format!("/proc/self/exe: {}", reason(&error)),
            "manx-bench must know where it is to run itself",
        )
    })
}

/// An experiment's error with its exit code.
pub(super) fn failure(name: &str, error: &Error) -> Failure {
    let what = |what: &str| format!("bench {name}: {what}");
    match error {
        Error::Interrupted => Failure::new(INTERRUPTED, what("interrupted"), ""),
        Error::Request { what: text, help } => Failure::new(USAGE, what(text), help.as_str()),
        Error::Missing { what: text, help } => Failure::new(BROKEN, what(text), help.as_str()),
        Error::Failed { what: text, stderr } => Failure::new(BROKEN, what(text), stderr.trim_end()),
    }
}

/// Opens the file of an option without truncation: the result of an earlier run stays until there
/// is a new one.
pub(super) fn open(option: &str, path: &Path) -> Result<File, Failure> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| unwritable(option, path, &error))
}

/// The file, or the folder, of an option cannot be written.
pub(super) fn unwritable(option: &str, path: &Path, error: &io::Error) -> Failure {
    let kind = if option == "--plots" { "folder" } else { "file" };
    let what = format!("{option} {}: {}", path.display(), reason(error));
    Failure::new(USAGE, what, format!("name a {kind} that can be written"))
}

fn write(mut file: File, report: &Report) -> io::Result<()> {
    let mut text = serde_json::to_vec(report)?;
    text.push(b'\n');
    // Pipes and devices have no length to set.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_code_and_its_words() {
        let codes = [
            (Error::request("a", "b"), USAGE),
            (Error::missing("a", "b"), BROKEN),
            (Error::Failed { what: "a".into(), stderr: "b\n".into() }, BROKEN),
        ];
        for (error, code) in codes {
            let failure = failure("x", &error);
            assert_eq!((failure.code, failure.to_string()), (code, "manx: bench x: a\n  b".to_owned()));
        }
    }

    #[test]
    fn a_file_keeps_what_it_had_until_there_is_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, "x".repeat(100_000)).unwrap();
        let file = open("--json", &path).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 100_000);
        write(file, &Report::new("b", report::Machine::default(), 0)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(Report::from_json(&text).unwrap().bench, "b");
        let refused = open("--output", &folder.path().join("none/x.json")).unwrap_err();
        assert_eq!(refused.code, USAGE);
        assert!(refused.to_string().contains("--output"), "{refused}");
    }
}
