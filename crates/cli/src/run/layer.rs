//! Settings as one place has them: the flags, a file, or `MANX_OPTIONS`.

use preload_abi::cpus::{Cpus, Places};
use preload_abi::filter::{Entry, encode_entry};
use preload_abi::options::{Guard, Lock, Short};
use preload_abi::slo::Slo;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The settings of one place; `None` where it sets nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// `--guard`
    pub guard: Option<Guard>,
    /// `--lock`
    pub lock: Option<Lock>,
    /// `--short`
    pub short: Option<Short>,
    /// `--slo`
    pub slos: Option<Vec<Slo>>,
    /// `--cores`
    pub cores: Option<String>,
    /// `--dilate`, in thousandths
    pub dilation: Option<u32>,
    /// `--cpus`
    pub cpus: Option<Cpus>,
    /// `--cpus-also`
    pub cpus_also: Option<Places>,
    /// `--only`, as entries of `MANX_OPTIONS`
    pub only: Option<Vec<String>>,
    /// `--not`, as entries of `MANX_OPTIONS`
    pub not: Option<Vec<String>>,
    /// `--stats`
    pub stats: Option<Destination>,
    /// `--spins`
    pub spins: Option<u32>,
    /// `--yields`
    pub yields: Option<u32>,
    /// `--sleep-step`, in microseconds
    pub sleep_step_us: Option<u32>,
    /// `--sleep-max`, in microseconds
    pub sleep_max_us: Option<u32>,
    /// `--perf-map`
    pub perf_map: Option<bool>,
    /// Not `--no-cache`
    pub cache: Option<bool>,
    /// `--verbose`
    pub verbose: Option<bool>,
    /// `--quiet`
    pub quiet: Option<bool>,
}

/// Where statistics go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// None are kept.
    Nowhere,
    /// A table on standard error.
    Stderr,
    /// Nowhere but to what looks while the program runs.
    Live,
    /// JSON in the file of this absolute path.
    File(PathBuf),
}

impl Destination {
    /// The destination that `word` names: `off`, `stderr`, `live`, or a file.
    pub fn from_word(word: &OsStr) -> Destination {
        match word.as_bytes() {
            b"off" => Destination::Nowhere,
            b"stderr" => Destination::Stderr,
            b"live" => Destination::Live,
            _ => Destination::File(absolute(word.into())),
        }
    }
}

/// The path as it stands for processes that work in other folders.
pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Reads the number of CPUs that is reported to the program.
///
/// # Errors
/// What to write.
pub fn parse_cpus(text: &str) -> Result<Cpus, String> {
    Cpus::from_word(text.as_bytes())
        .ok_or_else(|| format!("write `auto`, `keep`, or a number from 1 to {}", Cpus::MAX))
}

/// Checks what a filter names, and writes it as an entry of `MANX_OPTIONS`.
///
/// # Errors
/// What is wrong with `text`, and what to write.
pub fn parse_entry(text: &str) -> Result<String, String> {
    let mut entry = String::new();
    encode_entry(text, &mut entry).expect("writing to a String");
    match Entry::parse(entry.as_bytes()) {
        Ok(_) => Ok(entry),
        Err(fault) => Err(fault.to_string()),
    }
}
