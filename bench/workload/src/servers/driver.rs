//! What drives a server and its client: the interface, and what its implementations share.

use super::account::Home;
use crate::error::Error;
use crate::harness::Sample;
use report::{Counts, Histogram};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The time that a client may need beyond its load: it starts, ends, and may stall. A client that
/// needs more hangs.
pub(super) const SLACK: Duration = Duration::from_secs(60);

/// The load of a run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The number of connections; each connection has one operation at a time
    pub clients: usize,
    /// Measured time in seconds; pgbench and sysbench accept whole seconds only
    pub seconds: u32,
    /// The number of memcached's threads
    pub threads: usize,
}

impl Load {
    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs(u64::from(self.seconds) * 4) + SLACK
    }
}

/// Drives a server and its client. `home` is the server's folder.
pub(super) trait Driver {
    /// The server's program, and its arguments.
    fn command(&self, home: &Path) -> (&Path, Vec<OsString>);
    /// Puts the files into the folder that the server expects there.
    fn make(&self, _home: &Home) -> Result<(), Error> {
        Ok(())
    }
    /// Asks the server something; the error says why there is no answer.
    fn ask(&self, home: &Path) -> Result<(), String>;
    /// Writes the records.
    fn fill(&self, home: &Path) -> Result<(), Error>;
    /// Runs the client once.
    fn load(&self, home: &Path, round: usize) -> Result<Sample, Error>;
    /// Whether this line of the server's standard error reports an error.
    fn is_alarm(&self, line: &str) -> bool;
}

/// The path of a program, or an error that names the Debian packages.
pub(super) fn find(name: &str, packages: &str) -> Result<PathBuf, Error> {
    let missing = || {
        Error::missing(
            format!("{name} is not installed"),
            format!("{name} is missing: install it (Debian: apt-get install {packages})"),
        )
    };
    crate::machine::program(name).ok_or_else(missing)
}

/// Runs a client that asks the server for a sign of life.
pub(super) fn ping(client: &mut Command) -> Result<(), String> {
    let asked = client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if asked.is_ok_and(|status| status.success()) { Ok(()) } else { Err("it does not answer".into()) }
}

/// The words of a command line.
pub(super) fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).into()
}

/// An option that names a file.
pub(super) fn option(name: &str, file: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(file);
    option
}

/// The figures of a run.
///
/// # Errors
/// No operation ended.
pub(super) fn sample(latencies: &Histogram, throughput_per_s: f64) -> Result<Sample, String> {
    let summary = latencies.summary();
    if summary.count == 0 {
        return Err("no operation ended".into());
    }
    let mut sample = Sample::of(summary.figures());
    sample.add("throughput_per_s", throughput_per_s);
    Ok(sample.with(&serde_json::json!({ "all": Counts::from(latencies) })))
}

/// The slowest connection's operations over the mean of all connections.
pub(super) fn slowest_of_mean(operations: &[u64]) -> f64 {
    let mean = operations.iter().sum::<u64>() as f64 / operations.len() as f64;
    operations.iter().min().map_or(f64::NAN, |&slowest| slowest as f64 / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_packages() {
        let error = find("no-such-server", "mariadb-server sysbench").unwrap_err();
        let Error::Missing { what, help } = error else { panic!("{error:?}") };
        assert_eq!(what, "no-such-server is not installed");
        assert!(help.ends_with("apt-get install mariadb-server sysbench)"), "{help}");
    }
}
