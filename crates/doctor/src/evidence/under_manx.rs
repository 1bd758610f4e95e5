//! A process that runs under `manx run` already: what Manx does there, and its own counts.
//!
//! The preload library is one of the process's modules, and the launcher left its settings in the
//! environment with which the program began. A remedy that is already applied is no remedy.

use preload_abi::cpus::Cpus;
use preload_abi::live::Asked;
use preload_abi::options::{Guard, Lock, Options};
use procfs::process::Process;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt as _;

/// The library that `manx run` puts into a program.
const LIBRARY: &str = "libmanx_preload.so";
/// The variable with the settings.
const VARIABLE: &str = "MANX_OPTIONS";

/// What Manx does in a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnderManx {
    /// Whether busy waiting is repaired
    pub guard: bool,
    /// What the mutexes have become, as `--lock` names it
    pub lock: String,
    /// How many CPUs the program is told of, as `--cpus` names it
    pub cpus: String,
    /// Its own counts, if it keeps any (`manx run --stats`)
    pub counts: Option<Counts>,
}

/// What the preload library has counted since the program began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Loops in which threads have waited by its means
    pub repaired_loops: u64,
    /// Waits in these loops
    pub loop_waits: u64,
    /// How often a thread slept in them
    pub loop_sleeps: u64,
    /// Waits for locks
    pub lock_waits: u64,
    /// Answers of the trial
    #[serde(serialize_with = "crate::json::trials")]
    pub trials: Vec<Asked>,
}

impl UnderManx {
    /// Of a process with these modules; `None` if it does not run under Manx. Settings that may not
    /// be read count as those that `manx run` has without options.
    pub fn of(process: &Process, modules: &[String]) -> Option<UnderManx> {
        if !modules.iter().any(|module| module == LIBRARY) {
            return None;
        }
        let environment = process.environ().unwrap_or_default();
        let settings = environment.get(std::ffi::OsStr::new(VARIABLE));
        Some(UnderManx::with(settings.map_or(&b""[..], |settings| settings.as_bytes())))
    }

    /// With these settings.
    ///
    /// ```
    /// use doctor::evidence::under_manx::UnderManx;
    /// let manx = UnderManx::with(b"guard=off,lock=glibc");
    /// assert_eq!((manx.guard, manx.lock.as_str(), manx.cpus.as_str()), (false, "glibc", "auto"));
    /// ```
    pub fn with(settings: &[u8]) -> UnderManx {
        let options = Options::parse(settings);
        UnderManx {
            guard: options.guard != Guard::Off,
            lock: options.lock.word().to_owned(),
            cpus: options.cpus.to_string(),
            counts: None,
        }
    }

    /// Whether what these options of `manx run` ask for is done already. No options stand for the
    /// guard.
    pub fn does(&self, options: &str) -> bool {
        match options {
            "" => self.guard,
            "--lock=manx" => self.lock == Lock::Manx.word(),
            "--cpus=auto" => self.cpus != Cpus::Keep.to_string(),
            _ => false,
        }
    }
}

impl std::fmt::Display for UnderManx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let guard = if self.guard { "on" } else { "off" };
        write!(f, "It runs under `manx run`: guard {guard}, --lock={}, --cpus={}", self.lock, self.cpus)?;
        match &self.counts {
            Some(counts) => write!(
                f,
                "; since its start {} waits in {} repaired loops, {} of them slept, and {} waits for locks",
                counts.loop_waits, counts.repaired_loops, counts.loop_sleeps, counts.lock_waits
            ),
            None => write!(f, "; it keeps no counts (`manx run --stats`)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_the_library_is_not_under_manx() {
        let process = Process::myself().expect("this process");
        assert_eq!(UnderManx::of(&process, &["libc.so.6".into()]), None);
        assert!(UnderManx::of(&process, &[LIBRARY.into()]).is_some());
    }

    #[test]
    fn options_that_are_on_already_are_known() {
        let usual = UnderManx::with(b"guard=on,pid=7");
        assert!(["", "--lock=manx", "--cpus=auto"].iter().all(|options| usual.does(options)));
        let none = UnderManx::with(b"guard=off,lock=glibc,cpus=keep");
        assert!(!["", "--lock=manx", "--cpus=auto"].iter().any(|options| none.does(options)));
    }
}
