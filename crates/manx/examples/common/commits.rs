//! Commits to a store that is elsewhere, beside as many transactions there: clients that each put
//! one entry of 100 bytes and go on when that is durable.
//!
//! Rounds alternate; a ratio is that of a round's two rates. Then the store gets further entries,
//! and other servers take it over.

use manx::txn::{Batch, Change, Data, Recovered, Remote, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const KEYS: u64 = 10_000;
pub const VALUE: [u8; 100] = [b'v'; 100];

/// What the command line says, each a number: CLIENTS, ROUNDS, SECONDS, ENTRIES.
pub struct Arguments {
    pub clients: usize,
    pub time: Duration,
    rounds: usize,
    entries: usize,
}

impl Arguments {
    pub fn read() -> Arguments {
        let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
        let mut argument = |otherwise: usize| arguments.next().unwrap_or(otherwise);
        let (clients, rounds, seconds) = (argument(64), argument(5), argument(3));
        let time = Duration::from_secs(seconds as u64);
        println!("{clients} clients, {rounds} rounds of {seconds} s each");
        Arguments { clients, time, rounds, entries: argument(100_000) }
    }
}

/// How long each commit took, and for how long the clients were at work.
pub struct Run {
    pub latencies_us: Vec<u64>,
    pub took: Duration,
}

impl Run {
    fn rate(&self) -> f64 {
        self.latencies_us.len() as f64 / self.took.as_secs_f64()
    }

    fn show(&mut self, name: &str) {
        self.latencies_us.sort_unstable();
        let at = |part: f64| {
            let index = (self.latencies_us.len() as f64 * part) as usize;
            self.latencies_us.get(index).or(self.latencies_us.last()).map_or(0.0, |us| *us as f64 / 1e3)
        };
        println!(
            "{name:>10}: {:7.0} commits/s; p50 {:.1}, p99 {:.1}, p99.9 {:.1}, maximum {:.1} ms",
            self.rate(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
        );
    }
}

pub fn key() -> Vec<u8> {
    format!("key{:08}", fastrand::u64(..KEYS)).into_bytes()
}

pub fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A thread for each client.
fn store(it: &Remote, owner: Recovered, ids: &AtomicU64, clients: usize, time: Duration) -> Run {
    let began = Instant::now();
    let latencies_us = thread::scope(|scope| {
        let client = || {
            let mut latencies_us = Vec::new();
            while began.elapsed() < time {
                let change = [Change::Put { key: Value::from(key()), value: VALUE.into() }];
                let id = ids.fetch_add(1, Ordering::Relaxed) + 1;
                let sent = Instant::now();
                it.apply(Batch { epoch: owner.epoch, id, ..Batch::new(&change, true) }).expect("committed");
                latencies_us.push(elapsed_us(sent));
            }
            latencies_us
        };
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    Run { latencies_us, took: began.elapsed() }
}

/// Compares a store with its backend, which has this name, and then takes it over.
pub fn compare(
    arguments: &Arguments,
    name: &str,
    open: impl Fn() -> Remote,
    mut theirs: impl FnMut() -> Run,
) {
    let Arguments { clients, time, rounds, entries } = *arguments;
    let data = open();
    let owner = data.recover().expect("taken over");
    let ids = AtomicU64::new(owner.last_id);
    let (mut ratios, mut all) = (Vec::new(), [const { Vec::new() }; 2]);
    for round in 0..rounds {
        let ours = || store(&data, owner, &ids, clients, time);
        let (mut ours, mut theirs) = if round % 2 == 0 {
            let ours = ours();
            (ours, theirs())
        } else {
            let theirs = theirs();
            (ours(), theirs)
        };
        ours.show("store");
        theirs.show(name);
        ratios.push(ours.rate() / theirs.rate());
        all[0].append(&mut ours.latencies_us);
        all[1].append(&mut theirs.latencies_us);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    println!("ratio of rates: median {median:.2} ({least:.2} to {most:.2})");
    for (name, latencies_us) in ["store", name].into_iter().zip(all) {
        Run { latencies_us, took: time * rounds as u32 }.show(name);
    }
    let before = resident_bytes();
    let numbers: Vec<usize> = (0..entries).collect();
    let began = Instant::now();
    for some in numbers.chunks(10_000) {
        let put = |number: &usize| {
            let key = Value::from(format!("entry{number:011}").as_bytes());
            Change::Put { key, value: VALUE.into() }
        };
        let changes: Vec<Change> = some.iter().map(put).collect();
        let id = ids.fetch_add(1, Ordering::Relaxed) + 1;
        data.apply(Batch { epoch: owner.epoch, id, ..Batch::new(&changes, true) }).expect("committed");
    }
    let each = resident_bytes().saturating_sub(before) / entries.max(1);
    println!(
        "{entries} entries of 16 and 100 bytes: put in {:.1?}, about {each} bytes of memory each",
        began.elapsed()
    );
    // One that waits may have read them before; it gets some time for that.
    let next = open();
    let took = thread::scope(|scope| {
        let waits = scope.spawn(|| next.recover().map(|_| Instant::now()));
        thread::sleep(Duration::from_secs(10));
        let began = Instant::now();
        drop(data);
        waits.join().expect("no panic").expect("taken over") - began
    });
    println!("taken over by a server that waited: in {took:.1?}");
    drop(next);
    let data = open();
    let began = Instant::now();
    data.recover().expect("taken over");
    println!("taken over by one that was just started: in {:.1?}", began.elapsed());
}

/// The process's memory, by the kernel.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).map_or(0, |pages| pages * 4096)
}
