//! `manx report`: one page of HTML from results of the other commands.
//!
//! The page is made by the package `page`. This file reads the files and writes the page. A result
//! is never overwritten.

use command::failure::{BROKEN, Failure, NO_PAGE, USAGE, exit_codes, reason};
use command::sigpipe::print;
use page::{Fault, Named, Options, page};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The most bytes of a file that is read.
const BYTES_MAX: u64 = 256 << 20;

/// The arguments of `manx report`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = more_help())]
pub struct Args {
    /// Results in JSON, of `manx bench`, `manx profile`, `manx doctor` or `manx stats`; - is
    /// standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Where the page goes; - is standard output [default: the first FILE, with .html]
    #[arg(short, long, value_name = "PAGE")]
    output: Option<PathBuf>,

    /// Compare: the first FILE is before a change, the others are after it
    #[arg(long)]
    compare: bool,

    /// The page's title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

fn more_help() -> String {
    const MORE: &str = "\
What is on the page:
  What was run and on which machine, the verdicts, tables that sort, and pictures:
  percentiles up to the maximum, latencies over time, ratios with their intervals,
  throughput over latency, what each thread did. Several files stand below each
  other, with their machines side by side.

How the results are made:
  manx bench wait --json wait.json          manx profile --json p.json -- ./server
  manx doctor --json PID > doctor.json      manx stats --json PID > stats.json

The page is one file of less than 1 MB, which loads nothing from elsewhere. It has
the tables as CSV and the results as JSON inside, as far as they fit.";
    let codes = exit_codes(&[
        (0, "the page is written"),
        (NO_PAGE, "a file cannot be read, is no result, or cannot be compared"),
        (USAGE, "the command line is wrong, or the page cannot be written"),
        (BROKEN, "standard output cannot be written"),
    ]);
    format!("{MORE}\n\n{codes}")
}

/// Reads the results and writes the page.
///
/// # Errors
/// With code 1 if a file is no result.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let output = output(args)?;
    let mut results = Vec::new();
    for file in &args.files {
        let name = shown(file);
        let text = read(file).map_err(|error| {
            let what = format!("report: {name}: {}", reason(&error));
            Failure::new(NO_PAGE, what, "name a file that a command of Manx wrote with --json")
        })?;
        results.push(
            Named::read(&on_page(file, &args.files), &text)
                .map_err(|fault| failure(&format!("{name}: "), &fault))?,
        );
    }
    let options = Options { title: args.title.clone(), compare: args.compare };
    let text = page(&results, &options).map_err(|fault| failure("", &fault))?;
    let Some(file) = output else { return print(&text).map(|()| 0) };
    write(&file, &text).map_err(|error| {
        let what = format!("report: {}: {}", file.display(), reason(&error));
        Failure::new(USAGE, what, "name a file that can be written with --output, or - for standard output")
    })?;
    Ok(0)
}

fn failure(begin: &str, fault: &Fault) -> Failure {
    Failure::new(NO_PAGE, format!("report: {begin}{}", fault.what), fault.help.as_str())
}

/// A file in an error.
fn shown(file: &Path) -> String {
    if is_dash(file) { "standard input".into() } else { file.display().to_string() }
}

/// A file on the page: without its folder, which is nobody's business, unless two files have the
/// same name.
fn on_page(file: &Path, files: &[PathBuf]) -> String {
    let same = files.iter().filter(|other| other.file_name() == file.file_name()).count();
    match file.file_name().filter(|_| same == 1 && !is_dash(file)) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => shown(file),
    }
}

fn is_dash(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Where the page goes; `None` is standard output.
fn output(args: &Args) -> Result<Option<PathBuf>, Failure> {
    let usage = |what: String, help: &str| Err(Failure::new(USAGE, format!("report: {what}"), help));
    if args.files.iter().filter(|file| is_dash(file)).count() > 1 {
        return usage("- is there twice".into(), "standard input can be read once");
    }
    let file = match &args.output {
        Some(file) if is_dash(file) => return Ok(None),
        Some(file) => file.clone(),
        None if is_dash(&args.files[0]) => return Ok(None),
        None => args.files[0].with_extension("html"),
    };
    let same = |one: &Path| fs::canonicalize(one).ok();
    if let Some(result) = args.files.iter().find(|one| same(one).is_some() && same(one) == same(&file)) {
        let what = format!("the page would overwrite the result {}", result.display());
        return usage(what, "name another file with --output");
    }
    Ok(Some(file))
}

fn read(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let read = match is_dash(file) {
        true => io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes)?,
        false => fs::File::open(file)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?,
    };
    if read as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {} MiB", BYTES_MAX >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text in UTF-8, so no JSON"))
}

/// Writes the page as a whole: a reader never sees a part of it.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let is_special = fs::metadata(file).is_ok_and(|metadata| !metadata.is_file());
    if is_special {
        return fs::write(file, text);
    }
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    fs::write(&beside, text)?;
    fs::rename(&beside, file).inspect_err(|_| drop(fs::remove_file(&beside)))
}
