//! `manx serve` beside redis-server: redis-benchmark with 50 connections that send one command at a
//! time, alone and with eight processes that keep both CPUs busy.
//!
//! 1. Beside busy processes the client is in the real-time class (`chrt -f 1`): otherwise it would
//!    be the client's waiting that is measured. Where that is not allowed it is not, and a note
//!    says so.
//! 2. Clients' figures are redis-benchmark's own. That it counts errors as answers is met by one
//!    question before each run, and one after it.

mod benchmark;

use super::cases::{BUSY, REDIS, SERVED, SERVED_BUSY};
use super::judge;
use super::plan::Plan;
use super::serving::{self, COMPARED, Server, ask, free_port, may_hurry, missing};
use crate::child;
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use report::Report;
use std::process::Command;
use std::time::Duration;

/// Requests of a run for each second that it is to take, of both commands together.
const REQUESTS_PER_S: f64 = 40_000.0;
const CONNECTIONS: u32 = 50;
const VALUE_BYTES: u32 = 100;
const KEYS: u32 = 100_000;
const SLACK: Duration = Duration::from_secs(120);

impl Plan {
    pub(super) fn server(&self, bench: &mut Bench) -> Result<(), Error> {
        if let Some(why) = [REDIS, "redis-benchmark"].into_iter().find_map(missing) {
            bench.note(format!("server: left out: {why}"));
            return Ok(());
        }
        let names = COMPARED.map(|(name, _)| name);
        let expected = Duration::from_secs_f64(self.setup.seconds * 2.0);
        for (case, busy) in [(SERVED, 0), (SERVED_BUSY, BUSY)] {
            let urgent = busy > 0 && may_hurry();
            if busy > 0 && !urgent {
                bench.note("server: the client may not be in the real-time class: beside busy processes it waits for them, too");
            }
            let watch = |report: &Report| crate::verdict::watched(report, case, judge::figure);
            let case = Case { name: case, variants: &names, expected };
            bench.compare(case, watch, |at, _| self.serve(COMPARED[at].1, busy, urgent))?;
        }
        Ok(())
    }

    fn serve(&self, server: Server, busy: usize, urgent: bool) -> Result<Sample, Error> {
        let port = free_port()?;
        let server = serving::start(server.command(&self.setup.manx, port), port)?;
        let busy = (0..busy).map(|_| serving::busy()).collect::<Result<Vec<_>, _>>()?;
        let requests = (self.setup.seconds * REQUESTS_PER_S).max(1000.0) as u64 / 2;
        let mut client = Command::new(if urgent { "chrt" } else { "redis-benchmark" });
        if urgent {
            client.args(["-f", "1", "redis-benchmark"]);
        }
        client.args(["-p", &port.to_string(), "-c", &CONNECTIONS.to_string(), "-P", "1"]);
        client.args(["-n", &requests.to_string(), "-d", &VALUE_BYTES.to_string(), "-r", &KEYS.to_string()]);
        client.args(["-t", "set,get", "--precision", "3"]);
        let finished = child::run(client, Duration::from_secs_f64(self.setup.seconds * 20.0) + SLACK)?;
        drop(busy);
        ask(port).map_err(Error::failed)?;
        drop(server);
        let values = benchmark::parse(&finished.stdout, requests).map_err(|what| Error::Failed {
            what: format!("redis-benchmark: {what}"),
            stderr: finished.stderr,
        })?;
        Ok(Sample { values, output: None })
    }
}
