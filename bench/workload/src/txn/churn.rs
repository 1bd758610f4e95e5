//! The memory of `manx serve` and of redis-server while clients come and go: up to 10,000 of them,
//! with YCSB's mixes A to F on keys that mostly expire.
//!
//! 1. A run has ten *swings*: the number of clients goes up and down once in each. Few threads have
//!    the clients; each client sends a command, or a transaction, and its answer is waited for. Now
//!    and then one leaves in between.
//! 2. The index has all keys from the beginning. The times after which keys expire grow with the
//!    run, up to a twentieth of it. So what lives is steady from the second swing on, and a server
//!    that keeps anything else grows from there.
//! 3. The figures are the highest of a look every 10 ms: in the second swing, and in the last one.

use super::cases::{self, CHURNED, MANX, REDIS};
use super::memory::{LOOK, PAUSE};
use super::plan::Plan;
use super::resp::Connection;
use super::serving::{Server, ask, missing};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use fastrand::Rng;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 8;
const SWINGS: usize = 10;
const KEYS: usize = 50_000;
const VALUE_BYTES_MAX: usize = 2_000;
/// One of this number of commands is its client's last.
const LEAVES: u32 = 256;
/// One of this number of written keys does not expire.
const STAYS: u32 = 8;
const SCANNED_MAX: usize = 100;
/// All keys, as YCSB's binding has them.
const INDEX: &[u8] = b"index";

impl Plan {
    pub(super) fn churn(&self, bench: &mut Bench) -> Result<(), Error> {
        let mut servers = vec![(MANX, Server::Manx("pool"))];
        match missing(REDIS) {
            Some(why) => bench.note(format!("churn: {REDIS} left out: {why}")),
            None => servers.push((REDIS, Server::Redis)),
        }
        let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
        let clients = if self.setup.quick { CHURNED / 100 } else { CHURNED };
        let seconds = if self.setup.quick { self.setup.seconds } else { self.setup.seconds.max(3.0) };
        let expected = Duration::from_secs_f64(seconds) + PAUSE;
        let name = cases::churned(clients);
        let case = Case { name: &name, variants: &names, expected };
        let lines = RefCell::new(Vec::new());
        bench.compare(
            case,
            |_| Vec::new(),
            |at, round| {
                let (sample, highest) = self.come_and_go(servers[at].1, clients, seconds, round as u64)?;
                let mib = highest.map(|bytes| (bytes >> 20).to_string()).join(", ");
                lines
                    .borrow_mut()
                    .push(format!("{name}: {}, the highest of each swing: {mib} MiB", names[at]));
                Ok(sample)
            },
        )?;
        lines.into_inner().into_iter().for_each(|line| bench.note(line));
        Ok(())
    }

    /// One run, and the highest memory in each swing.
    fn come_and_go(
        &self,
        server: Server,
        clients: usize,
        seconds: f64,
        seed: u64,
    ) -> Result<(Sample, [u64; SWINGS]), Error> {
        super::memory::raise_open_files(clients)?;
        let (mut running, port) = self.start(server)?;
        let (is_over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut highest = [0; SWINGS];
        load(&mut Connection::open(port).map_err(Error::failed)?).map_err(Error::failed)?;
        let run = Run { port, clients: clients / THREADS, seconds, began: Instant::now() };
        let ended: Result<(), String> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS as u64)
                .map(|number| {
                    let (run, is_over, requests) = (&run, &is_over, &requests);
                    scope.spawn(move || {
                        run.serve_clients(&mut Rng::with_seed(seed << 8 | number), is_over, requests)
                    })
                })
                .collect();
            while run.part() < 1.0 {
                thread::sleep(LOOK);
                let swing = ((run.part() * SWINGS as f64) as usize).min(SWINGS - 1);
                highest[swing] = running.resident_bytes().unwrap_or(0).max(highest[swing]);
            }
            is_over.store(true, Relaxed);
            let join = |thread: thread::ScopedJoinHandle<'_, Result<(), String>>| {
                thread.join().unwrap_or_else(|_| Err("a client panicked".into()))
            };
            threads.into_iter().try_for_each(join)
        });
        ended.map_err(|why| running.failed(&why))?;
        thread::sleep(PAUSE);
        running.check()?;
        let rest = running.resident_bytes().unwrap_or(0);
        ask(port).map_err(Error::failed)?;
        let (early, late) = (highest[1] as f64, highest[SWINGS - 1] as f64);
        let sample = Sample::of([
            ("requests_per_s", requests.load(Relaxed) as f64 / seconds),
            ("peak_bytes", highest.into_iter().max().unwrap_or(0) as f64),
            ("early_bytes", early),
            ("late_bytes", late),
            ("late_of_early", late / early),
            ("rest_bytes", rest as f64),
        ]);
        Ok((sample, highest))
    }
}

struct Run {
    port: u16,
    /// Of each thread.
    clients: usize,
    seconds: f64,
    began: Instant,
}

impl Run {
    /// The part of the run that is over.
    fn part(&self) -> f64 {
        self.began.elapsed().as_secs_f64() / self.seconds
    }

    /// How many clients of a thread there are when this part of the run is over: between a
    /// twentieth and all of them.
    fn present(&self, part: f64) -> usize {
        let phase = (part * SWINGS as f64 * std::f64::consts::TAU).cos();
        ((self.clients as f64 * (0.525 - 0.475 * phase)) as usize).max(1)
    }

    fn serve_clients(&self, rng: &mut Rng, is_over: &AtomicBool, requests: &AtomicU64) -> Result<(), String> {
        let mut clients: Vec<Option<Connection>> = (0..self.clients).map(|_| None).collect();
        let mut present = 0;
        while !is_over.load(Relaxed) {
            let now = self.present(self.part());
            clients[now.min(present)..present].fill_with(|| None);
            present = now;
            let place = &mut clients[rng.usize(..present)];
            let mut client = match place.take() {
                Some(client) => client,
                None => Connection::open(self.port)?,
            };
            self.request(&mut client, rng)?;
            requests.fetch_add(1, Relaxed);
            if rng.u32(..LEAVES) > 0 {
                *place = Some(client);
            }
        }
        Ok(())
    }

    /// A request of one of YCSB's mixes.
    fn request(&self, client: &mut Connection, rng: &mut Rng) -> Result<(), String> {
        let key = key(rng.usize(..KEYS));
        let is_rare = rng.u32(..20) == 0;
        match (b'a' + rng.u8(..6), rng.bool()) {
            (b'a', true) => self.put(client, rng, &key),
            (b'b', _) if is_rare => self.put(client, rng, &key),
            (b'd' | b'e', _) if is_rare => self.insert(client, rng, &key),
            (b'e', _) => scan(client, &key, 1 + rng.usize(..SCANNED_MAX)),
            (b'f', true) => self.change(client, rng, &key),
            _ => {
                client.ask(&[b"GET", &key])?;
                client.send()?;
                client.bulk().map(drop)
            }
        }
    }

    /// Asks for a write of this key.
    fn ask_put(&self, client: &mut Connection, rng: &mut Rng, key: &[u8]) -> Result<(), String> {
        let value = [b'v'; VALUE_BYTES_MAX];
        let value = &value[..1 + rng.usize(..VALUE_BYTES_MAX)];
        if rng.u32(..STAYS) == 0 {
            return client.ask(&[b"SET", key, value]);
        }
        let longest_ms = (self.seconds * 50.0) as u64;
        let expiry_ms = 1 + rng.u64(longest_ms / 10..=longest_ms);
        client.ask(&[b"SET", key, value, b"PX", expiry_ms.to_string().as_bytes()])
    }

    fn put(&self, client: &mut Connection, rng: &mut Rng, key: &[u8]) -> Result<(), String> {
        self.ask_put(client, rng, key)?;
        client.send()?;
        client.simple("OK")
    }

    fn insert(&self, client: &mut Connection, rng: &mut Rng, key: &[u8]) -> Result<(), String> {
        client.ask(&[b"MULTI"])?;
        self.ask_put(client, rng, key)?;
        client.ask(&[b"ZADD", INDEX, b"0", key])?;
        client.ask(&[b"EXEC"])?;
        client.send()?;
        client.simple("OK")?;
        client.simple("QUEUED")?;
        client.simple("QUEUED")?;
        match client.array()? {
            Some(2) => {}
            other => return Err(format!("two commands have {other:?} answers")),
        }
        client.simple("OK")?;
        client.integer().map(drop)
    }

    fn change(&self, client: &mut Connection, rng: &mut Rng, key: &[u8]) -> Result<(), String> {
        client.ask(&[b"WATCH", key])?;
        client.ask(&[b"GET", key])?;
        client.ask(&[b"MULTI"])?;
        self.ask_put(client, rng, key)?;
        client.ask(&[b"EXEC"])?;
        client.send()?;
        client.simple("OK")?;
        client.bulk()?;
        client.simple("OK")?;
        client.simple("QUEUED")?;
        match client.array()? {
            Some(1) => client.simple("OK"),
            // Another client was faster.
            None => Ok(()),
            other => Err(format!("one command has {other:?} answers")),
        }
    }
}

/// Puts all keys into the index.
fn load(connection: &mut Connection) -> Result<(), String> {
    for number in 0..KEYS {
        connection.ask(&[b"ZADD", INDEX, b"0", &key(number)])?;
    }
    connection.send()?;
    (0..KEYS).try_for_each(|_| connection.integer().map(drop))
}

fn key(number: usize) -> Vec<u8> {
    format!("user:{number:08}").into_bytes()
}

/// Reads up to this number of keys from this one on, and their values: some have expired.
fn scan(client: &mut Connection, from: &[u8], count: usize) -> Result<(), String> {
    let (from, count) = ([b"[", from].concat(), count.to_string());
    client.ask(&[b"ZRANGEBYLEX", INDEX, &from, b"+", b"LIMIT", b"0", count.as_bytes()])?;
    client.send()?;
    let mut keys = Vec::new();
    for _ in 0..client.array()?.unwrap_or(0) {
        keys.push(client.bulk()?.unwrap_or_default().to_vec());
    }
    if keys.is_empty() {
        return Ok(());
    }
    let words: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
    client.ask(&words)?;
    client.send()?;
    for _ in 0..client.array()?.unwrap_or(0) {
        client.bulk()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::serving;
    use super::*;
    use std::path::Path;

    fn run(port: u16) -> Run {
        Run { port, clients: 100, seconds: 10.0, began: Instant::now() }
    }

    #[test]
    fn clients_come_and_go_in_each_swing() {
        let run = run(0);
        for swing in 0..SWINGS {
            let at = |part: f64| run.present((swing as f64 + part) / SWINGS as f64);
            assert!(at(0.0) <= 6 && at(0.25) < at(0.5) && at(0.75) < at(0.5) && at(0.5) >= 99);
        }
    }

    #[test]
    fn each_request_is_answered() {
        if let Some(why) = missing(REDIS) {
            return testing::skip(why);
        }
        let port = serving::free_port().unwrap();
        let _running = serving::start(Server::Redis.command(Path::new("no manx"), port), port).unwrap();
        let run = run(port);
        let (mut client, mut rng) = (Connection::open(port).unwrap(), Rng::with_seed(1));
        load(&mut client).unwrap();
        for _ in 0..2_000 {
            run.request(&mut client, &mut rng).unwrap();
        }
        client.ask(&[b"ZCARD", INDEX]).unwrap();
        client.send().unwrap();
        assert_eq!(client.integer(), Ok(KEYS as i64));
    }
}
