//! `manx serve` beside redis-server, as a client sees them that costs little itself.
//!
//! redis-benchmark, which `server` uses, is itself slower than either server, so it hides a part of
//! what a server costs. Here one thread serves all connections by epoll (`closed_loop.rs`), and
//! each connection has one command at a time.
//!
//! 1. Each run has a server of its own with nothing in it, and three phases (`phases.rs`).
//! 2. The client is a thread of this process; the kernel places both it and the server.
//! 3. A run with a wrong answer, or with another number of keys at its end, is an error and has no
//!    figures.

mod phases;

use super::cases::{self, REDIS};
use super::memory::raise_open_files;
use super::phase;
use super::plan::Plan;
use super::serving::{COMPARED, Server, missing};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::interrupt;
use phases::{Load, VALUE_BYTES};
use report::Compared;
use std::time::Duration;

pub(super) use phases::PHASES;

/// Connections, unless something else is asked for.
pub const CONNECTIONS: [usize; 1] = [50];
const KEYS: u32 = 100_000;
/// What setting each key for the first time takes, about.
const NEW: Duration = Duration::from_secs(1);

impl Plan {
    pub(super) fn client(&self, bench: &mut Bench) -> Result<(), Error> {
        if let Some(why) = missing(REDIS) {
            bench.note(format!("client: left out: {why}"));
            return Ok(());
        }
        let setup = &self.setup;
        bench.note(format!("client: {} keys; values of {VALUE_BYTES} bytes", self.keys()));
        let names = COMPARED.map(|(name, _)| name);
        let expected = NEW + Duration::from_secs_f64(setup.seconds);
        let few = if setup.quick { 1 } else { setup.client_connections.len() };
        for &connections in setup.client_connections.iter().take(few) {
            let name = cases::client(connections);
            let case = Case { name: &name, variants: &names, expected };
            // A case goes on until the rates are known. Tails vary more.
            let watch = |_: &_| phase::ratios(&name, &PHASES, &phase::FIGURES[..1]);
            bench.compare(case, watch, |at, round| self.phases(COMPARED[at].1, connections, round))?;
        }
        Ok(())
    }

    fn keys(&self) -> u32 {
        if self.setup.quick { KEYS / 10 } else { KEYS }
    }

    fn phases(&self, server: Server, connections: usize, round: usize) -> Result<Sample, Error> {
        raise_open_files(connections)?;
        let (mut running, port) = self.start(server)?;
        let load = Load {
            connections,
            keys: self.keys(),
            seconds: self.setup.seconds / 2.0,
            // The same requests for all servers of a round.
            seed: round as u64 + 1,
        };
        let phases = phases::drive(port, load);
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        running.check()?;
        let phases = phases.map_err(|why| running.failed(&why))?;
        Ok(phase::sample(&PHASES, &phases))
    }
}

/// The ratios of all figures of a case.
pub(super) fn compared(case: &str) -> Vec<Compared> {
    phase::ratios(case, &PHASES, &phase::FIGURES)
}
