//! Threads that do random things.

use super::checker::{Key, Txn, anomalies};
use super::is_forbidden;
use super::run::{Clock, LISTS, Running, is_list, stores};
use manx::txn::coordinator::Protocol;
use manx::txn::{Error, Isolation, Options, Store};
use manx::wait::{Adaptive, Policy, Yield};
use std::sync::Mutex;
use std::thread;

const THREADS: u64 = 4;
const TXNS: u64 = 60;
/// The number of registers in use at a time, and of lists.
const KEYS: Key = 4;
/// Other keys come after this number of moments: new ones, which are nowhere yet.
const GENERATION: u64 = 400;
const OPS_MAX: u64 = 5;

/// Numbers without an end (Vigna's SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// One transaction. `Ok` says whether it is to be committed.
fn work(
    it: &mut Running<'_>,
    isolation: Isolation,
    clock: &Clock,
    random: &mut Random,
) -> Result<bool, Error> {
    let first = KEYS * (clock.next() / GENERATION) as Key;
    for _ in 0..=random.below(OPS_MAX) {
        // Elements are appended by transactions that have read the list, so lists are whole only
        // where updates are not lost.
        let has_lists = matches!(isolation, Isolation::Snapshot | Isolation::Serializable);
        let kind = if has_lists && random.below(2) == 0 { LISTS } else { 0 };
        let key = kind + first + random.below(KEYS.into()) as Key;
        match random.below(9) {
            0..4 => drop(it.read(key)?),
            4 => it.read_all(kind + first, kind + first + KEYS, random.below(2) == 0)?,
            _ => it.write(key)?,
        }
        if random.below(3) == 0 {
            thread::yield_now();
        }
    }
    Ok(random.below(10) > 0)
}

fn history(store: &Store, isolation: Isolation, seed: u64) -> Vec<Txn> {
    let (clock, history) = (Clock::default(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (clock, history) = (&clock, &history);
            scope.spawn(move || {
                let mut random = Random(seed ^ thread << 32);
                let mut session = store.session().expect("a seat");
                let mut mine = Vec::new();
                for _ in 0..TXNS {
                    let mut it = Running::begin(&mut session, isolation, clock);
                    let result = work(&mut it, isolation, clock, &mut random);
                    if let Err(error) = &result {
                        assert!(error.is_retryable(), "{error}");
                    }
                    mine.push(if matches!(result, Ok(true)) { it.commit() } else { it.rollback() });
                }
                history.lock().expect("whole").extend(mine);
            });
        }
    });
    history.into_inner().expect("whole")
}

fn explore(isolation: Isolation) {
    let full = std::env::var_os("MANX_FULL").is_some();
    let first: u64 = std::env::var("MANX_TXN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let yielding = Protocol::Wait(|is_taken| {
        Yield.until(is_taken);
    });
    let protocols = [Protocol::Help, Protocol::Adaptive(Adaptive::DEFAULT), Protocol::Help, yielding];
    let (mut committed, mut all) = (0, 0);
    for seed in first..first + if full { 1_000 } else { 10 } {
        let protocol = protocols[seed as usize % protocols.len()];
        for store in stores(Options { protocol, ..Options::default() }) {
            let history = history(&store, isolation, seed);
            committed += history.iter().filter(|txn| txn.committed).count();
            all += history.len();
            let found = anomalies(&history, is_list);
            let bad: Vec<_> =
                found.iter().filter(|&(&anomaly, _)| is_forbidden(isolation, anomaly)).collect();
            assert!(bad.is_empty(), "MANX_TXN_SEED={seed}, {isolation:?}, {protocol:?}: {bad:#?}");
        }
    }
    assert!(committed * 4 > all, "too few to say much: {committed} of {all}");
}

#[test]
fn read_uncommitted() {
    explore(Isolation::ReadUncommitted);
}

#[test]
fn read_committed() {
    explore(Isolation::ReadCommitted);
}

#[test]
fn snapshot() {
    explore(Isolation::Snapshot);
}

#[test]
fn serializable() {
    explore(Isolation::Serializable);
}
