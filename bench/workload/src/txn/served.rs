//! YCSB's workloads and the update workload through servers: `manx serve`, by its pool and by a
//! thread for each connection, and redis-server, asked by the same commands ([`super::remote`]).
//!
//! 1. Each run has a server of its own, in a session and so an autogroup of its own, with nothing
//!    in it. The clients are another process: a thread with a connection each, in a closed loop.
//! 2. Clients are kept to the CPUs of the other parts; the server is where the kernel puts it, as
//!    in `server`.
//! 3. Nothing is boosted here: which thread serves a connection is the server's business, and Redis
//!    has one only.

use super::arguments::{Way, What};
use super::cases::{self, CHANGE, MANX, MANX_THREADS, REDIS};
use super::judge;
use super::peers::Variant;
use super::plan::Plan;
use super::serving::{self, Server, ask, free_port, missing};
use crate::engine::Load;
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use report::Report;

/// Connections, unless something else is asked for.
pub const CONNECTIONS: [usize; 2] = [8, 80];

impl Plan {
    pub(super) fn served(&self, bench: &mut Bench) -> Result<(), Error> {
        let setup = &self.setup;
        let mut servers = vec![(MANX, Server::Manx("pool")), (MANX_THREADS, Server::Manx("threads"))];
        match missing(REDIS) {
            Some(why) => bench.note(format!("served: {REDIS} left out: {why}")),
            None => servers.push((REDIS, Server::Redis)),
        }
        let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
        // One workload says whether they run, and one count.
        let few = |all: usize| if setup.quick { all.min(1) } else { all };
        let workloads = setup.workloads[..few(setup.workloads.len())].iter().map(String::as_str);
        for workload in workloads.chain([CHANGE]) {
            for &connections in &setup.connections[..few(setup.connections.len())] {
                let load = self.drawn(self.load(connections, 0.0, workload));
                let name = cases::served(workload, setup.keys, connections);
                let case = Case { name: &name, variants: &names, expected: load.expected() };
                let watch = |report: &Report| crate::verdict::watched(report, name.as_str(), judge::figure);
                bench.compare(case, watch, |at, round| {
                    self.through(servers[at].1, &Load { seed: round as u64 + 1, ..load.clone() })
                })?;
            }
        }
        Ok(())
    }

    fn through(&self, server: Server, load: &Load) -> Result<Sample, Error> {
        let port = free_port()?;
        let running = serving::start(server.command(&self.setup.manx, port), port)?;
        let mut clients = Variant::manx(&self.setup.own, "clients", What::Remote, Way::Help);
        clients.more.push(format!("--port={port}"));
        let sample = clients.run(&self.setup.manx, load)?;
        ask(port).map_err(Error::failed)?;
        drop(running);
        Ok(sample)
    }
}
