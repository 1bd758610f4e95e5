//! The memory of `manx serve` and of redis-server: while clients write over values of many sizes,
//! after a pause, and of connections that do nothing.
//!
//! 1. What is measured is what the process has of the machine's memory, as the kernel counts it.
//! 2. The clients of a run write over all keys in turn, each from another one on, and wait for each
//!    answer. So what lives is known, and is all that a server has to keep.
//! 3. The highest figure is that of a look every 10 ms. It has the commands that are on their way.

use super::cases::{self, MANX, REDIS};
use super::plan::Plan;
use super::resp::Connection;
use super::serving::{self, Server, ask, free_port, missing};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::running::Running;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Clients, keys, and the size of a value in bytes.
const WRITTEN: [(usize, usize, usize); 4] =
    [(20, 10, 16 << 20), (4, 1, 60 << 20), (20, 1_000, 100_000), (100, 100_000, 100)];
/// Connections that have asked something, and ask no more.
const CONNECTED: usize = 10_000;
/// After the last answer the server has this time.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// The time between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(10);

impl Plan {
    pub(super) fn memory(&self, bench: &mut Bench) -> Result<(), Error> {
        let mut servers = vec![(MANX, Server::Manx("pool"))];
        match missing(REDIS) {
            Some(why) => bench.note(format!("memory: {REDIS} left out: {why}")),
            None => servers.push((REDIS, Server::Redis)),
        }
        let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
        // Long enough for each key to be written over several times.
        let seconds = if self.setup.quick { self.setup.seconds } else { self.setup.seconds.max(3.0) };
        let expected = Duration::from_secs_f64(seconds) + PAUSE;
        let written = &WRITTEN[if self.setup.quick { 3..4 } else { 0..WRITTEN.len() }];
        for &(clients, keys, bytes) in written {
            let name = cases::written_over(clients, keys, bytes);
            let case = Case { name: &name, variants: &names, expected };
            bench.compare(
                case,
                |_| Vec::new(),
                |at, _| self.write_over(servers[at].1, clients, keys, bytes, seconds),
            )?;
        }
        let connections = if self.setup.quick { CONNECTED / 100 } else { CONNECTED };
        let name = cases::connected(connections);
        let case = Case { name: &name, variants: &names, expected };
        bench.compare(case, |_| Vec::new(), |at, _| self.connect(servers[at].1, connections))
    }

    pub(super) fn start(&self, server: Server) -> Result<(Running, u16), Error> {
        let port = free_port()?;
        Ok((serving::start(server.command(&self.setup.manx, port), port)?, port))
    }

    fn write_over(
        &self,
        server: Server,
        clients: usize,
        keys: usize,
        bytes: usize,
        seconds: f64,
    ) -> Result<Sample, Error> {
        let (mut running, port) = self.start(server)?;
        let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut peak = 0;
        let ended: Result<(), String> = thread::scope(|scope| {
            let writers: Vec<_> = (0..clients)
                .map(|client| {
                    let (is_over, written) = (&is_over, &written);
                    scope.spawn(move || {
                        let mut it = Connection::open(port)?;
                        let value = vec![b'v'; bytes];
                        let mut key = client * keys / clients;
                        while !is_over.load(Relaxed) {
                            it.ask(&[b"SET", format!("key:{key}").as_bytes(), &value])?;
                            it.send()?;
                            it.simple("OK")?;
                            written.fetch_add(1, Relaxed);
                            key = (key + 1) % keys;
                        }
                        Ok(())
                    })
                })
                .collect();
            let began = Instant::now();
            while began.elapsed().as_secs_f64() < seconds {
                thread::sleep(LOOK);
                peak = running.resident_bytes().unwrap_or(0).max(peak);
            }
            is_over.store(true, Relaxed);
            let join = |writer: thread::ScopedJoinHandle<'_, Result<(), String>>| {
                writer.join().unwrap_or_else(|_| Err("a client panicked".into()))
            };
            writers.into_iter().try_for_each(join)
        });
        ended.map_err(|why| running.failed(&why))?;
        let written = written.load(Relaxed);
        thread::sleep(PAUSE);
        running.check()?;
        let rest = running.resident_bytes().unwrap_or(0);
        ask(port).map_err(Error::failed)?;
        let live = (keys.min(written as usize) * bytes) as f64;
        Ok(Sample::of([
            ("written_per_s", written as f64 / seconds),
            ("live_bytes", live),
            ("peak_bytes", peak as f64),
            ("rest_bytes", rest as f64),
            ("rest_of_live", rest as f64 / live),
        ]))
    }

    fn connect(&self, server: Server, connections: usize) -> Result<Sample, Error> {
        let (mut running, port) = self.start(server)?;
        raise_open_files(connections)?;
        let before = running.resident_bytes().unwrap_or(0);
        let open = |_| {
            let mut it = Connection::open(port)?;
            it.ask(&[b"PING"])?;
            it.send()?;
            it.simple("PONG")?;
            Ok(it)
        };
        let all: Result<Vec<Connection>, String> = (0..connections).map(open).collect();
        let all = all.map_err(|why| running.failed(&why))?;
        thread::sleep(PAUSE);
        running.check()?;
        let rest = running.resident_bytes().unwrap_or(0);
        drop(all);
        let each = rest.saturating_sub(before) as f64 / connections as f64;
        Ok(Sample::of([("rest_bytes", rest as f64), ("connection_bytes", each)]))
    }
}

/// Lets the process have this number of connections.
pub(super) fn raise_open_files(connections: usize) -> Result<(), Error> {
    let room = platform::limits::raise_open_files(connections as u64 + 100);
    if room.is_ok_and(|room| room < connections as u64 + 100) {
        return Err(Error::request(
            format!("{connections} connections: the process may not open as many files"),
            "raise the limit (ulimit -n)",
        ));
    }
    Ok(())
}
