//! Threads that do random things.

use super::checker::{Key, Txn, anomalies};
use super::is_forbidden;
use super::run::{Clock, LISTS, Running, is_list, stores};
use fastrand::Rng;
use manx::txn::coordinator::Protocol;
use manx::txn::{Error, Isolation, Options, Store};
use manx::wait::{Adaptive, Policy, Yield};
use std::sync::Mutex;
use std::thread;
use testing::{full, setting};

const THREADS: u64 = 4;
const TXNS: u64 = 60;
/// The number of registers in use at a time, and of lists.
const KEYS: Key = 4;
/// Other keys come after this number of moments: new ones, which are nowhere yet.
const GENERATION: u64 = 400;
const OPS_MAX: u64 = 5;

/// One transaction. `Ok` says whether it is to be committed.
fn work(it: &mut Running<'_>, isolation: Isolation, clock: &Clock, random: &mut Rng) -> Result<bool, Error> {
    let first = KEYS * (clock.next() / GENERATION) as Key;
    for _ in 0..=random.u64(..OPS_MAX) {
        // Elements are appended by transactions that have read the list, so lists are whole only
        // where updates are not lost.
        let has_lists = matches!(isolation, Isolation::Snapshot | Isolation::Serializable);
        let kind = if has_lists && random.u64(..2) == 0 { LISTS } else { 0 };
        let key = kind + first + random.u32(..KEYS);
        match random.u64(..9) {
            0..4 => drop(it.read(key)?),
            4 => it.read_all(kind + first, kind + first + KEYS, random.u64(..2) == 0)?,
            _ => it.write(key)?,
        }
        if random.u64(..3) == 0 {
            thread::yield_now();
        }
    }
    Ok(random.u64(..10) > 0)
}

fn history(store: &Store, isolation: Isolation, seed: u64) -> Vec<Txn> {
    let (clock, history) = (Clock::default(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (clock, history) = (&clock, &history);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed ^ thread << 32);
                let mut session = store.session().expect("a session");
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
    let first = setting("MANX_TXN_SEED", 1);
    let yielding = Protocol::Wait(|is_taken| {
        Yield.until(is_taken);
    });
    let protocols = [Protocol::Help, Protocol::Adaptive(Adaptive::DEFAULT), Protocol::Help, yielding];
    let mut committed = 0;
    for seed in first..first + if full() { 1_000 } else { 10 } {
        let protocol = protocols[seed as usize % protocols.len()];
        // Each third one makes one range of several.
        let ranges_max = if seed % 3 == 0 { 2 } else { 4_096 };
        for store in stores(Options::new().protocol(protocol).ranges_max(ranges_max)) {
            let history = history(&store, isolation, seed);
            committed += history.iter().filter(|txn| txn.committed).count();
            let found = anomalies(&history, is_list);
            let bad: Vec<_> =
                found.iter().filter(|&(&anomaly, _)| is_forbidden(isolation, anomaly)).collect();
            assert!(bad.is_empty(), "MANX_TXN_SEED={seed}, {isolation:?}, {protocol:?}: {bad:#?}");
        }
    }
    assert!(committed > 0, "histories without a commit say nothing");
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
