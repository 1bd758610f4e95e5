//! memcached, loaded by a client of our own over its text protocol.
//!
//! | in the folder | what it is |
//! | --- | --- |
//! | `s` | its socket |
//!
//! All records fit into its memory, so a get always finds its value.

mod client;

use super::driver::{self, Driver, Load, find, slowest_of_mean, words};
use crate::error::Error;
use crate::harness::Sample;
use crate::interrupt;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Memcached {
    server: PathBuf,
    load: Load,
}

impl Memcached {
    /// # Errors
    /// [`Error::Missing`] if it is not installed.
    pub(super) fn find(load: Load) -> Result<Memcached, Error> {
        Ok(Memcached { server: find("memcached", "memcached")?, load })
    }
}

fn failed(why: String) -> Error {
    if interrupt::requested() {
        return Error::Interrupted;
    }
    Error::failed(format!("the client of memcached: {why}"))
}

impl Driver for Memcached {
    fn command(&self, home: &Path) -> (&Path, Vec<OsString>) {
        let mut arguments = words(["-m", "64", "-t", &self.load.threads.to_string(), "-s"]);
        arguments.push(home.join("s").into());
        (&self.server, arguments)
    }

    fn ask(&self, home: &Path) -> Result<(), String> {
        client::ask(&home.join("s"))
    }

    fn fill(&self, home: &Path) -> Result<(), Error> {
        client::fill(&home.join("s")).map_err(failed)
    }

    fn load(&self, home: &Path, round: usize) -> Result<Sample, Error> {
        let driven = client::drive(&home.join("s"), self.load.clients, self.load.seconds, round as u64);
        let driven = driven.map_err(failed)?;
        let throughput = driven.latencies.count() as f64 / f64::from(self.load.seconds);
        let mut sample = driver::sample(&driven.latencies, throughput).map_err(failed)?;
        sample.values.insert("slowest_of_mean".into(), slowest_of_mean(&driven.operations));
        Ok(sample)
    }

    fn is_alarm(&self, line: &str) -> bool {
        // memcached writes errors only.
        !line.trim().is_empty()
    }
}
