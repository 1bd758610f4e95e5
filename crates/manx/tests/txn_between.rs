//! Versions between two that are needed, behind old snapshots: which are kept, and which are freed.

#[path = "common/cleaning.rs"]
mod cleaning;
#[path = "common/map.rs"]
mod map;
#[path = "common/texts.rs"]
mod texts;

use Isolation::Snapshot;
use cleaning::{alive, alone, collects, leaves_no_garbage};
use manx::txn::{Isolation, Session, Transaction, Value};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use texts::{get, keys, put, stores};

/// Writes a number that the key has not had yet.
fn put_number(session: &mut Session, key: &[u8], values: &mut Vec<Weak<[u8]>>) {
    let value: Value = values.len().to_be_bytes().into();
    values.push(Arc::downgrade(&value));
    let mut it = session.begin(Snapshot).unwrap();
    it.put_shared(key, value).unwrap();
    it.commit().unwrap();
}

/// All entries that a transaction sees.
fn all(it: &mut Transaction<'_>) -> Vec<(Value, Value)> {
    it.scan::<[u8], _>(..).collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_hot_key_has_a_version_for_each_snapshot_in_use_and_the_newest() {
    for store in stores(alone) {
        let mut writers: Vec<_> = (0..3).map(|_| store.session().unwrap()).collect();
        let mut sessions: Vec<_> = (0..10).map(|_| store.session().unwrap()).collect();
        let mut sessions = sessions.iter_mut();
        let (mut readers, mut values) = (Vec::new(), Vec::new());
        for round in 0..100_000 {
            if round % 10_000 == 1 {
                readers.push((sessions.next().unwrap().begin(Snapshot).unwrap(), round - 1_usize));
            }
            put_number(&mut writers[round % 3], b"hot", &mut values);
            if round % 1_000 == 0 {
                store.collect();
                // What was written since the last time may not be freed yet.
                assert!(store.stats().garbage_keys <= 2_000, "{:?}", store.stats());
            }
        }
        collects("one value for each reader", &store, || alive(&values) <= readers.len() + 1);
        assert!(store.stats().garbage_keys <= readers.len(), "{:?}", store.stats());
        for (reader, number) in &mut readers {
            let seen = reader.get(b"hot").unwrap().unwrap();
            assert_eq!(seen[..], number.to_be_bytes(), "the key is what it was");
        }
        // Those that come and go leave nothing, in whatever order.
        for (gone, at) in [3, 0, 7, 1].into_iter().enumerate() {
            drop(readers.remove(at));
            collects("one value fewer", &store, || alive(&values) <= 10 - gone);
        }
        drop(readers);
        collects("the last value", &store, || alive(&values) <= 1);
        leaves_no_garbage(&store);
    }
}

/// Sessions come and go, the values are of many sizes, and all threads write all keys.
#[test]
fn what_threads_write_over_is_freed_but_for_what_long_readers_see() {
    const KEYS: usize = 20;
    const WRITERS: usize = 4;
    let name = |number: usize| [b'k', (number % KEYS) as u8];
    for store in stores(Default::default) {
        let values = Mutex::new(Vec::new());
        let write = |number: usize| {
            let value: Value = vec![number as u8; 1 + (number * 7_919) % 50_000].into();
            values.lock().unwrap().push(Arc::downgrade(&value));
            store.run(Snapshot, |it| it.put_shared(&name(number), value.clone())).unwrap();
        };
        (0..KEYS).for_each(write);
        let mut sessions: Vec<_> = (0..3).map(|_| store.session().unwrap()).collect();
        let mut readers = Vec::new();
        for session in &mut sessions {
            let mut reader = session.begin(Snapshot).unwrap();
            // A copy, so that this list keeps no value in memory.
            let seen: Vec<_> = all(&mut reader).into_iter().map(|(_, value)| value.to_vec()).collect();
            readers.push((reader, seen));
            thread::scope(|scope| {
                for writer in 0..WRITERS {
                    scope.spawn(move || (0..500).for_each(|number| write(number + writer * KEYS / WRITERS)));
                }
            });
            let needed = KEYS * (readers.len() + 1);
            let alive = || alive(&values.lock().unwrap());
            collects("what is needed", &store, || alive() <= needed);
        }
        for (mut reader, seen) in readers {
            assert!(all(&mut reader).iter().map(|(_, value)| &value[..]).eq(&seen), "all is as it was");
        }
        let alive = || alive(&values.lock().unwrap());
        collects("a value for each key", &store, || alive() <= KEYS);
        leaves_no_garbage(&store);
    }
}

/// While a transaction that writes is at work, no later snapshot has a bound below which all is
/// over.
#[test]
fn a_transaction_that_writes_for_long_keeps_nothing_that_it_does_not_see() {
    for store in stores(alone) {
        let (mut long, mut reading) = (store.session().unwrap(), store.session().unwrap());
        let mut long = long.begin(Snapshot).unwrap();
        long.put(b"other", b"1").unwrap();
        let (mut writer, mut values) = (store.session().unwrap(), Vec::new());
        put_number(&mut writer, b"hot", &mut values);
        store.collect();
        let mut reader = reading.begin(Snapshot).unwrap();
        for round in 0..5_000 {
            put_number(&mut writer, b"hot", &mut values);
            if round % 500 == 0 {
                store.collect();
            }
        }
        collects("values for one reader", &store, || alive(&values) <= 2);
        assert_eq!(reader.get(b"hot").unwrap().as_deref(), Some(&0_usize.to_be_bytes()[..]));
        assert_eq!(long.get(b"hot").unwrap(), None);
        drop(reader);
        collects("values for no reader", &store, || alive(&values) <= 1);
        long.commit().unwrap();
        leaves_no_garbage(&store);
    }
}

/// Keys that are written, deleted and taken back behind an old snapshot.
#[test]
fn keys_that_only_an_old_snapshot_keeps_leave_when_it_ends() {
    for store in stores(alone) {
        let (mut session, mut writer) = (store.session().unwrap(), store.session().unwrap());
        for number in 0..50_u8 {
            put(&store, &format!("k{number}"), "old");
        }
        let mut old = session.begin(Snapshot).unwrap();
        for round in 0..4_u8 {
            for number in 0..60_u8 {
                let mut it = writer.begin(Snapshot).unwrap();
                it.put(format!("k{number}").as_bytes(), &[round]).unwrap();
                it.put(format!("new {round} {number}").as_bytes(), &[round]).unwrap();
                if number % 3 == 0 { it.rollback() } else { assert!(it.commit().unwrap().id.is_some()) }
            }
            store.collect();
        }
        store.run(Snapshot, |it| it.delete_range::<[u8], _>(..)).unwrap();
        store.collect();
        assert_eq!(keys(&mut old).len(), 50);
        assert_eq!(get(&mut old, "k1").as_deref(), Some("old"));
        drop(old);
        store.collect();
        let stats = store.stats();
        assert_eq!((stats.keys, stats.garbage_keys), (0, 0), "{stats:?}");
    }
}
