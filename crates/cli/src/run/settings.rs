//! What the program is to be run with, put together from where it may be said.
//!
//! Nearest to the user wins: the flags, then `MANX_OPTIONS`, then the defaults.

use crate::failure::{Failure, USAGE};
use preload_abi::OPTIONS_VARIABLE;
use preload_abi::options::{self, Guard, Options, Stats};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// The flags of `manx run`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// How to guard against busy waiting
    #[arg(long, value_name = "HOW")]
    guard: Option<GuardWord>,

    /// Count what the guard does: a table on standard error at the end, or JSON in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "stderr")]
    stats: Option<OsString>,

    /// Let the library say on standard error what it could not do
    #[arg(short, long)]
    verbose: bool,
}

/// A guard, as the command line spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GuardWord {
    /// Repair busy-wait loops when the program creates its first thread
    On,
    /// Touch nothing
    Off,
    /// Repair them as soon as the program is loaded
    Always,
    /// Leave the program's text alone: sample where threads spend CPU time instead
    Sample,
}

impl From<GuardWord> for Guard {
    fn from(word: GuardWord) -> Guard {
        match word {
            GuardWord::On => Guard::On,
            GuardWord::Off => Guard::Off,
            GuardWord::Always => Guard::Always,
            GuardWord::Sample => Guard::Sample,
        }
    }
}

/// Where statistics go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Destination {
    Nowhere,
    Stderr,
    File(PathBuf),
}

impl Destination {
    fn from_word(word: &OsStr) -> Destination {
        match word.as_bytes() {
            b"off" => Destination::Nowhere,
            b"stderr" => Destination::Stderr,
            _ => Destination::File(std::path::absolute(word).unwrap_or_else(|_| word.into())),
        }
    }
}

/// What the program is to be run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Everything but where statistics go, whose path does not live as long.
    options: Options<'static>,
    stats: Destination,
}

impl Settings {
    /// Puts the settings together.
    ///
    /// # Errors
    /// With code 2 if `MANX_OPTIONS` cannot be understood.
    pub fn gather(flags: &Flags) -> Result<Settings, Failure> {
        let mut settings =
            Settings::from_environment(std::env::var_os(OPTIONS_VARIABLE).unwrap_or_default().as_bytes())?;
        if let Some(guard) = flags.guard {
            settings.options.guard = guard.into();
        }
        if let Some(word) = &flags.stats {
            settings.stats = Destination::from_word(word);
        }
        settings.options.verbose |= flags.verbose;
        Ok(settings)
    }

    fn from_environment(text: &[u8]) -> Result<Settings, Failure> {
        let read = Options::parse(text);
        let not_understood = |what: &[u8]| {
            Failure::new(
                USAGE,
                format!("{OPTIONS_VARIABLE}: `{}` is not understood", String::from_utf8_lossy(what)),
                "correct it, or unset the variable",
            )
        };
        if let Some(rejected) = read.rejected {
            return Err(not_understood(rejected));
        }
        let stats = match read.stats {
            Stats::Off => Destination::Nowhere,
            Stats::Stderr => Destination::Stderr,
            Stats::File(encoded) => {
                let mut buffer = vec![0; encoded.len()];
                let path = options::decode(encoded, &mut buffer).ok_or_else(|| not_understood(encoded))?;
                let path = PathBuf::from(OsString::from_vec(path.to_vec()));
                Destination::File(std::path::absolute(&path).unwrap_or(path))
            }
        };
        let options = Options { stats: Stats::Off, rejected: None, ..read };
        Ok(Settings { options: detach(options), stats })
    }

    /// The value of `MANX_OPTIONS` for the process `pid`.
    pub fn to_options(&self, pid: u32) -> String {
        let mut encoded = String::new();
        let stats = match &self.stats {
            Destination::Nowhere => Stats::Off,
            Destination::Stderr => Stats::Stderr,
            Destination::File(path) => {
                options::encode(path.as_os_str().as_bytes(), &mut encoded).expect("writing to a String");
                Stats::File(encoded.as_bytes())
            }
        };
        Options { pid, stats, ..self.options }.to_string()
    }
}

/// The same options without the borrowed parts.
fn detach(options: Options<'_>) -> Options<'static> {
    let Options { guard, pid, verbose, trap, spins, yields, step_us, ceiling_us, quiet_us, .. } = options;
    Options {
        guard,
        stats: Stats::Off,
        pid,
        verbose,
        trap,
        spins,
        yields,
        step_us,
        ceiling_us,
        quiet_us,
        rejected: None,
    }
}
