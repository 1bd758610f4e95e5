//! The loss of power at any moment. The whole store, engine included, runs on a simulated machine
//! (`common/machine.rs`) whose disk forgets, tears and reorders whatever was not synced; killing a
//! process does not, since the kernel still has what was written.
//!
//! The power is cut at one of the operations of the disk, drawn from a seed. In most rounds
//! something went wrong before: the disk was full for some operations, or one failed. The store is
//! opened again on what is left; often something goes wrong again in the middle of that.
//!
//! A failure prints its seed: `MANX_POWER_SEED=… cargo test -p manx --features durable --test
//! txn_power`. `MANX_POWER_ROUNDS` sets how many are run.

#[path = "common/machine.rs"]
mod machine;
#[path = "common/transfers.rs"]
mod transfers;

use fastrand::Rng;
use machine::{Faults, Machine};
use manx::txn::durable::{Durable, DurableOptions};
use manx::txn::{Batch, Change, Data, DataError, Error, Isolation, Options, Outcome, Store, Transaction};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use testing::setting;
use transfers::Model;

/// A log that is full after some tens of groups.
const SHORT: DurableOptions = DurableOptions::new().log_bytes(4 << 10).cache_bytes(1 << 20);
/// Some groups are longer than the log.
const FILLING: (u64, usize) = (60, 4_500);

/// Draws what goes wrong until the power fails.
fn faults(random: &mut Rng, power: u64) -> Faults {
    let mut faults = Faults { power, ..Faults::NONE };
    if random.u64(..2) == 0 {
        let first = random.u64(..power + 1);
        // For a while, or until the end.
        faults.full = first..if random.u64(..2) == 0 { first + 1 + random.u64(..20) } else { power };
    }
    if random.u64(..3) == 0 {
        faults.broken = Some(random.u64(..power + 1));
    }
    faults
}

/// What a thread knows of its transfers: how many were begun, and not refused; how many were
/// acknowledged as durable; how many were refused for want of room.
#[derive(Debug)]
struct Counts {
    begun: AtomicU64,
    acknowledged: AtomicU64,
    refused: AtomicU64,
}

/// Whether a change was not made, and never will be.
fn is_refused(error: &DataError) -> bool {
    error.outcome() == Outcome::NotApplied
}

/// Makes transfers until the store takes no more.
fn run(store: &Durable, model: &mut Model, counts: &Counts, mut random: Rng) {
    loop {
        let before = model.clone();
        let sync = random.u64(..4) != 0;
        let batch = model.transfer();
        counts.begun.store(model.transfers, SeqCst);
        match store.apply(Batch::new(&batch, sync)) {
            // A transfer that was not to be durable is, once a later one is; it was not promised
            // before.
            Ok(()) if sync => counts.acknowledged.store(model.transfers, SeqCst),
            Ok(()) => {}
            Err(error) if is_refused(&error) => {
                counts.begun.store(before.transfers, SeqCst);
                let why = error.to_string();
                if !why.contains("make room") || why.contains("takes no changes") {
                    break;
                }
                counts.refused.fetch_add(1, SeqCst);
                *model = before;
            }
            Err(_) => break,
        }
        if random.u64(..40) == 0 && store.checkpoint().is_err() {
            break;
        }
    }
}

/// Runs until the power fails, and looks at what is left; returns how many groups were refused, or
/// what is wrong.
fn round(machine: &Arc<Machine>, models: &mut [Model], random: &mut Rng) -> Result<u64, String> {
    let power = 10 + random.u64(..250);
    machine.expect(faults(random, power));
    let new = |model: &Model| Counts {
        begun: model.transfers.into(),
        acknowledged: model.transfers.into(),
        refused: 0.into(),
    };
    let counts: Vec<_> = models.iter().map(new).collect();
    if let Ok(store) = Durable::open_on(machine.disk(), SHORT) {
        let store = &store;
        let mut threads: Vec<_> = models.iter().cloned().zip(&counts).collect();
        if let [(model, counts)] = &mut threads[..] {
            run(store, model, counts, random.clone());
        } else {
            std::thread::scope(|scope| {
                for (model, counts) in &mut threads {
                    let random = Rng::with_seed(random.u64(..));
                    scope.spawn(|| run(store, model, counts, random));
                }
            });
        }
    }
    machine.restart();
    // Sometimes it goes wrong again while the store is opened.
    while random.u64(..3) == 0 {
        let power = random.u64(..40);
        machine.expect(faults(random, power));
        drop(Durable::open_on(machine.disk(), SHORT));
        machine.restart();
    }
    let store = Durable::open_on(machine.disk(), SHORT).map_err(|error| error.to_string())?;
    for (model, counts) in models.iter_mut().zip(&counts) {
        model.find(&store, counts.acknowledged.load(SeqCst), counts.begun.load(SeqCst))?;
    }
    let all = store
        .scan((Bound::Unbounded, Bound::Unbounded), false, usize::MAX)
        .map_err(|error| error.to_string())?;
    let known = [&b"account"[..], b"count", b"filling"];
    if let Some((key, _)) = all.iter().find(|(key, _)| !known.iter().any(|known| key.starts_with(known))) {
        return Err(format!("nobody wrote {:?}", key.escape_ascii().to_string()));
    }
    Ok(counts.iter().map(|counts| counts.refused.load(SeqCst)).sum())
}

/// Some rounds on one disk; returns how many groups were refused, or what is wrong after one of
/// them.
fn series(seed: u64, threads: u64, lies: bool) -> Result<u64, String> {
    let mut random = Rng::with_seed(seed);
    let machine = Machine::new(Rng::with_seed(random.u64(..)), lies);
    let mut models: Vec<_> = (0..threads).map(|thread| Model::new(thread, FILLING)).collect();
    (0..5).map(|_| round(&machine, &mut models, &mut random)).sum()
}

/// As [`series`], and says which seed if it panics.
fn seeded(seed: u64, threads: u64) -> u64 {
    let named = format!("MANX_POWER_SEED={seed} cargo test -p manx --features durable --test txn_power");
    match catch_unwind(AssertUnwindSafe(|| series(seed, threads, false))) {
        Ok(result) => result.unwrap_or_else(|what| panic!("{what}: {named}")),
        Err(panic) => {
            eprintln!("it panicked: {named}");
            resume_unwind(panic)
        }
    }
}

/// Runs `count` rounds, unless the environment names another number.
fn rounds(count: u64, threads: u64) {
    let seeds = match setting("MANX_POWER_SEED", 0) {
        0 => 1..setting("MANX_POWER_ROUNDS", count) / 5 + 1,
        seed => seed..seed + 1,
    };
    let (series, refused) = (seeds.end - seeds.start, seeds.map(|seed| seeded(seed, threads)).sum::<u64>());
    assert!(series < 20 || refused > 20, "in {series} series the disk was full for {refused} groups only");
}

#[test]
fn one_thread_loses_nothing_acknowledged() {
    rounds(500, 1);
}

#[test]
fn four_threads_lose_nothing_acknowledged() {
    rounds(150, 4);
}

#[test]
fn a_disk_that_ignores_syncs_is_detected() {
    let lost = (1..=20).filter(|seed| series(*seed, 1, true).is_err()).count();
    assert!(lost >= 15, "the test sees a loss in {lost} of 20 series only");
}

/// Many transactions write one key, and others read it. What one was told that it has read or
/// written is there after the loss of power, also what others wrote; and a later opening goes on
/// from it.
fn one_key(seed: u64, checks: bool) -> Result<(), String> {
    const KEY: &[u8] = b"counter";
    let count = |it: &mut Transaction<'_>| -> Result<u64, Error> {
        let value = it.get(KEY)?;
        Ok(value.map_or(0, |value| u64::from_be_bytes((&*value).try_into().expect("8 bytes"))))
    };
    let mut random = Rng::with_seed(seed);
    let machine = Machine::new(Rng::with_seed(random.u64(..)), false);
    let mut known = 0;
    for _ in 0..4 {
        let power = 20 + random.u64(..150);
        machine.expect(faults(&mut random, power));
        let (told, begun, over) = (AtomicU64::new(known), AtomicU64::new(known), AtomicU64::new(0));
        let open =
            |disk| Durable::open_on(disk, SHORT).and_then(|data| Store::open(Options::new(), Box::new(data)));
        if let Ok(store) = open(machine.disk()) {
            std::thread::scope(|scope| {
                for number in 0..6 {
                    let (store, told, begun, over) = (&store, &told, &begun, &over);
                    let mut random = Rng::with_seed(random.u64(..));
                    let writes = number % 2 == 0;
                    scope.spawn(move || {
                        let isolation = [Isolation::Snapshot, Isolation::Serializable][number / 3];
                        let mut session = store.session().expect("there are few");
                        while over.load(SeqCst) == 0 {
                            let mut it = session.begin(isolation).expect("no limit");
                            let done = count(&mut it).and_then(|found| {
                                if writes {
                                    begun.fetch_max(found + 1, SeqCst);
                                    let value = (found + 1).to_be_bytes();
                                    it.put(KEY, &value)?;
                                    if random.u64(..4) == 0 {
                                        it.put(&[number as u8], &[7; 600])?
                                    }
                                }
                                Ok(found + u64::from(writes))
                            });
                            let done = done.and_then(|seen| {
                                // As it would be if no transaction waited: to see the test fail.
                                if checks {
                                    it.commit()?
                                } else {
                                    it.commit_early()?
                                };
                                Ok(seen)
                            });
                            match done {
                                Ok(seen) => drop(told.fetch_max(seen, SeqCst)),
                                Err(error) if error.is_retryable() => std::thread::yield_now(),
                                Err(_) if writes => over.store(1, SeqCst),
                                Err(_) => {}
                            }
                        }
                    });
                }
            });
        }
        machine.restart();
        let store = open(machine.disk()).map_err(|error| error.to_string())?;
        let found = store.run(Isolation::Snapshot, count).map_err(|error| error.to_string())?;
        let (told, begun) = (told.into_inner(), begun.into_inner());
        if found < told || found > begun {
            return Err(format!("{found} is there; {told} was told, {begun} begun: seed {seed}"));
        }
        known = found;
    }
    Ok(())
}

#[test]
fn what_was_told_of_a_key_that_many_write_is_there() {
    let seeds = setting("MANX_POWER_ROUNDS", 120) / 4;
    (1..=seeds).for_each(|seed| one_key(seed, true).expect("lost"));
    let lost = (1..=20).filter(|seed| one_key(*seed, false).is_err()).count();
    assert!(lost >= 5, "the test sees a loss in {lost} of 20 only, if no transaction waits");
}

/// Groups that were not asked to be durable are all there or not, from the first one on, whatever
/// has happened to the log; the engine may not keep later ones alone.
#[test]
fn after_a_sync_that_failed_no_group_is_there_without_those_before_it() {
    let put = |key: &[u8], value: u8| Change::Put { key: key.into(), value: [value].into() };
    // In sectors of their own.
    let filling = |key: &[u8]| Change::Put { key: key.into(), value: [0; 600].into() };
    let groups = [
        vec![put(b"first", 1), filling(b"a")],
        vec![put(b"first", 2), put(b"second", 2), filling(b"b")],
        vec![put(b"third", 3)],
    ];
    let mut found = [0; 4];
    for seed in 1..=60 {
        let machine = Machine::new(Rng::with_seed(seed), false);
        let store = Durable::open_on(machine.disk(), SHORT).expect("made");
        store.apply(Batch::new(&groups[0], false)).expect("applied");
        store.apply(Batch::new(&groups[1], false)).expect("applied");
        // A write, then the sync.
        machine.expect(Faults { broken: Some(1), ..Faults::NONE });
        let error = store.apply(Batch::new(&groups[2], true)).expect_err("the sync failed");
        assert!(!is_refused(&error), "{error}");
        drop(store);
        machine.restart();
        let store = Durable::open_on(machine.disk(), SHORT).expect("opened");
        let get = |key: &[u8]| store.get(key).expect("read").map_or(0, |value| value[0]);
        let state = (get(b"first"), get(b"second"), get(b"third"));
        let states = [(0, 0, 0), (1, 0, 0), (2, 2, 0), (2, 2, 3)];
        let groups = states.iter().position(|known| *known == state);
        found[groups.unwrap_or_else(|| panic!("after no group it is {state:?} (seed {seed})"))] += 1;
    }
    assert!(found.iter().all(|times| *times > 0), "not all that may happen did: {found:?}");
}
