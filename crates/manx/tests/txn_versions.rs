//! Versions of transactions: which are kept, for which readers, where, and which are freed.

#[path = "common/cleaning.rs"]
mod cleaning;
#[path = "common/map.rs"]
mod map;
#[path = "common/texts.rs"]
mod texts;

use cleaning::{alive, alone, leaves_no_garbage};
use manx::txn::{
    Batch, Bounds, Data, DataError, Entry, Error, Isolation, Options, Recovered, Session, Store, Value,
};
use map::Map;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use testing::until;
use texts::{get, keys, put, stores};

use Isolation::{ReadCommitted, ReadUncommitted, Serializable, Snapshot};

#[test]
fn what_failed_below_is_taken_back() {
    let store = Store::open(Options::default(), Box::new(Map::default())).unwrap();
    let mut session = store.session().unwrap();
    let mut it = session.begin(Snapshot).unwrap();
    it.put(b"a", b"1").unwrap();
    it.put(b"poison", b"1").unwrap();
    let error = it.commit().expect_err("the disk is full");
    assert!(matches!(&error, Error::Data(_)) && error.to_string().contains("make room"), "{error}");
    assert_eq!(keys(&mut session.begin(ReadUncommitted).unwrap()), [""; 0]);
    put(&store, "a", "2");
    assert_eq!(keys(&mut session.begin(Snapshot).unwrap()), ["a"]);
}

#[test]
fn what_is_below_has_what_was_committed_and_nothing_else() {
    let map = Map::default();
    let store = Store::open(Options::default(), Box::new(map.clone())).unwrap();
    for number in 0..500 {
        put(&store, &format!("k{number}"), "1");
    }
    store.run(Snapshot, |it| it.delete(b"k7")).unwrap();
    let mut session = store.session().unwrap();
    let mut at_work = session.begin(Snapshot).unwrap();
    at_work.put(b"k8", b"not yet").unwrap();
    let below = map.0.lock().unwrap().clone();
    assert_eq!(below.len(), 499);
    assert_eq!(&*below[&b"k8"[..]], b"1");
    drop(at_work);
    assert!(store.stats().keys < 400, "what nobody needs here leaves: {:?}", store.stats());
    let again = Store::open(Options::default(), Box::new(map)).unwrap();
    let mut session = again.session().unwrap();
    assert_eq!(keys(&mut session.begin(Snapshot).unwrap()).len(), 499);
}

#[test]
fn versions_that_no_transaction_can_see_are_freed_and_others_are_not() {
    let store = Store::in_memory(Options::default());
    put(&store, "kept", "old");
    let value: Value = vec![0; 1 << 20].into();
    let mut session = store.session().unwrap();
    let mut old = session.begin(Snapshot).unwrap();
    put(&store, "kept", "new");
    store.run(Snapshot, |it| it.put_shared(b"large", value.clone())).expect("a megabyte is not too large");
    let mut writer = store.session().unwrap();
    for round in 0..2_000 {
        let mut it = writer.begin(Snapshot).unwrap();
        it.put(format!("gone {}", round % 100).as_bytes(), b"1").unwrap();
        it.commit().unwrap();
    }
    assert_eq!(get(&mut old, "kept").as_deref(), Some("old"));
    assert_eq!(keys(&mut old), ["kept"]);
    drop(old);
    for round in 0..200 {
        let mut it = writer.begin(Snapshot).unwrap();
        it.delete(format!("gone {}", round % 100).as_bytes()).unwrap();
        it.commit().unwrap();
    }
    store.run(Snapshot, |it| it.delete(b"large")).unwrap();
    // One of 64 transactions finds out what is needed, for all; what was changed since waits for
    // the next one.
    for _ in 0..200 {
        let mut it = writer.begin(Snapshot).unwrap();
        it.put(b"kept", b"newer").unwrap();
        it.commit().unwrap();
    }
    let keys = store.stats().keys;
    assert!((1..5).contains(&keys), "{:?}", store.stats());
}

#[test]
fn values_that_no_transaction_can_see_are_freed_on_the_way_and_all_at_the_end() {
    let store = Store::in_memory(Options::default());
    let mut values = Vec::new();
    let mut write = |store: &Store, session: &mut Session, rounds: u8| {
        let before = values.len();
        for round in 0..rounds {
            let value: Value = vec![round; 100].into();
            values.push(Arc::downgrade(&value));
            let mut it = session.begin(Snapshot).unwrap();
            // The second one takes the place of the first in the same transaction.
            it.put(b"key", b"other").unwrap();
            it.put_shared(b"key", value).unwrap();
            if round % 10 == 9 { it.rollback() } else { assert!(it.commit().unwrap().id.is_some()) }
        }
        assert!(store.stats().keys == 1);
        values[before..].iter().filter(|value| value.strong_count() > 0).count()
    };
    let mut session = store.session().unwrap();
    // Memory is freed when all threads of this process that were reading have gone on, and other
    // tests read, too.
    let is_freed = (0..10_000).any(|_| write(&store, &mut session, 250) < 200);
    assert!(is_freed, "nothing is freed");
    let mut reader = store.session().unwrap();
    let mut old = reader.begin(Snapshot).unwrap();
    let seen = old.get(b"key").unwrap().unwrap();
    write(&store, &mut session, 250);
    assert_eq!(old.get(b"key").unwrap().as_deref(), Some(&seen[..]));
    drop((old, seen));
    drop((reader, session, store));
    assert_eq!(values.iter().filter(|value| value.strong_count() > 0).count(), 0, "something is never freed");
}

/// Also when everything is over for all transactions, and hundreds of other keys were cleaned.
#[test]
fn what_a_timestamp_may_still_show_is_kept_however_much_is_cleaned() {
    let store = Store::in_memory(Options::default());
    let mut session = store.session().unwrap();
    let mut commit_at = |key: &str, value: &str, timestamp: u64| {
        let mut it = session.begin(Snapshot).unwrap();
        it.put(key.as_bytes(), value.as_bytes()).unwrap();
        it.commit_at(timestamp).unwrap();
    };
    commit_at("k", "a", 10);
    commit_at("k", "b", 20);
    for other in 0..1_000 {
        commit_at(&format!("other {other}"), "1", 30);
    }
    let at = |timestamp: u64| {
        let mut session = store.session().unwrap();
        let mut it = session.begin_at(timestamp).unwrap();
        it.get(b"k").unwrap().map(|value| value.to_vec())
    };
    assert_eq!(at(15).as_deref(), Some(&b"a"[..]));
    assert_eq!(at(25).as_deref(), Some(&b"b"[..]));
    assert_eq!(at(5), None);
}

#[test]
fn a_key_that_is_changed_again_and_again_leaves_nothing_behind() {
    for store in stores(alone) {
        let mut sessions: Vec<_> = (0..3).map(|_| store.session().unwrap()).collect();
        for round in 0..3_000_u32 {
            let mut it = sessions[round as usize % 3].begin(ReadCommitted).unwrap();
            it.put(b"hot", &round.to_be_bytes()).unwrap();
            if round % 5 > 0 {
                it.commit().unwrap();
            }
        }
        assert!(store.stats().garbage_keys < 600, "{:?}", store.stats());
        leaves_no_garbage(&store);
    }
}

#[test]
fn many_sessions_that_go_idle_keep_little_together() {
    let store = Store::in_memory(alone());
    let mut sessions: Vec<_> = (0..500).map(|_| store.session().unwrap()).collect();
    for round in 0..10_u32 {
        for (number, session) in sessions.iter_mut().enumerate() {
            let mut it = session.begin(Snapshot).unwrap();
            it.put(format!("own {number}").as_bytes(), &round.to_be_bytes()).unwrap();
            it.commit().unwrap();
        }
    }
    // Those of the commits since the last one that found out what is needed.
    assert!(store.stats().garbage_keys <= 500, "{:?}", store.stats());
}

/// Large ones are counted by their bytes: a few are as much as many small ones.
#[test]
fn large_values_that_are_written_over_are_freed_by_the_next_commits() {
    const LARGE: usize = 1 << 20;
    let store = Store::in_memory(alone());
    let mut session = store.session().unwrap();
    for round in 0..50_u8 {
        let mut it = session.begin(Snapshot).unwrap();
        it.put(b"large", &vec![round; LARGE]).unwrap();
        it.commit().unwrap();
    }
    // Other tests of this process may be reading, which keeps some for a moment.
    let few = (0..10_000).any(|_| {
        let mut it = session.begin(Snapshot).unwrap();
        it.put(b"large", &vec![0; LARGE]).unwrap();
        it.commit().unwrap();
        store.stats().garbage_bytes < 8 * LARGE
    });
    assert!(few, "{:?}", store.stats());
}

#[test]
fn what_a_reader_kept_is_freed_when_it_ends_though_no_commit_follows() {
    let store = Store::in_memory(Options::default());
    let (mut session, mut reading) = (store.session().unwrap(), store.session().unwrap());
    put(&store, "key", "1");
    put(&store, "gone", "1");
    let mut old = reading.begin(Snapshot).unwrap();
    let mut values = Vec::new();
    for number in 0..500_u32 {
        let value: Value = number.to_be_bytes().into();
        values.push(Arc::downgrade(&value));
        let mut it = session.begin(Snapshot).unwrap();
        it.put_shared(b"key", value).unwrap();
        it.commit().unwrap();
    }
    assert!(
        session
            .begin(Snapshot)
            .and_then(|mut it| {
                it.delete(b"gone")?;
                it.commit()
            })
            .is_ok()
    );
    until("all but one of 500 values are freed", || alive(&values) == 1);
    assert_eq!(get(&mut old, "key").as_deref(), Some("1"));
    assert_eq!(get(&mut old, "gone").as_deref(), Some("1"));
    assert_eq!(store.stats().keys, 2, "one reads what was before");
    drop(old);
    until("one key, and no garbage", || store.stats().keys == 1 && store.stats().garbage_bytes == 0);
    // It slept, and is woken.
    let mut it = session.begin(Snapshot).unwrap();
    it.put(b"key", b"last").unwrap();
    it.commit().unwrap();
    until("all values are freed", || alive(&values) == 0);
}

#[test]
fn a_store_that_is_dropped_is_gone_at_once_though_its_thread_works() {
    for _ in 0..50 {
        let map = Map::default();
        let store =
            Store::open(Options::new().collect_every(Some(Duration::ZERO)), Box::new(map.clone())).unwrap();
        for round in 0..20 {
            put(&store, "key", &round.to_string());
        }
        drop(store);
        assert_eq!(Arc::strong_count(&map.0), 1, "a folder could not be opened again");
    }
}

/// Runs this number of transactions that change a key of their own: enough that what no transaction
/// needs is found out and cleaned.
fn pass_time(session: &mut Session, transactions: u32) {
    for number in 0..transactions {
        let mut it = session.begin(Snapshot).unwrap();
        it.put(b"clock", &number.to_be_bytes()).unwrap();
        it.commit().unwrap();
    }
}

#[test]
fn scanned_values_are_freed_like_all_others() {
    let map = Map::default();
    let store = Store::open(Options::default(), Box::new(map.clone())).unwrap();
    let mut session = store.session().unwrap();
    let mut it = session.begin(Snapshot).unwrap();
    let mut values = Vec::new();
    for number in 0..200_u32 {
        let value: Value = number.to_be_bytes().into();
        values.push(Arc::downgrade(&value));
        it.put_shared(&number.to_be_bytes(), value).unwrap();
    }
    assert_eq!(it.scan::<[u8], _>(..).count(), 200);
    it.commit().unwrap();
    let mut it = session.begin(Serializable).unwrap();
    assert_eq!(it.scan::<[u8], _>(..).count(), 200);
    assert_eq!(it.scan::<[u8], _>(..).rev().count(), 200);
    drop(it);
    map.0.lock().unwrap().clear();
    // Memory is freed when all threads of this process that were reading have gone on, and other
    // tests read, too. (Some stay until more of their kind are freed together.)
    let is_freed = (0..10_000).any(|_| {
        pass_time(&mut session, 200);
        alive(&values) < 64
    });
    assert!(is_freed, "{} of 200 values are never freed", alive(&values));
    assert!(store.stats().keys < 5, "{:?}", store.stats());
}

#[test]
fn what_only_timestamps_kept_leaves_when_they_do() {
    for store in stores(Options::default) {
        let mut session = store.session().unwrap();
        for timestamp in [10, 20, 30] {
            let mut it = session.begin(Snapshot).unwrap();
            for number in 0..100_u32 {
                match timestamp {
                    30 => assert!(it.delete(&number.to_be_bytes()).unwrap()),
                    _ => it.put(&number.to_be_bytes(), b"1").unwrap(),
                }
            }
            it.commit_at(timestamp).unwrap();
            store.set_oldest_timestamp(timestamp / 2);
            pass_time(&mut session, 200);
        }
        assert!(store.stats().keys >= 100, "somebody may read at 15: {:?}", store.stats());
        let mut reader = store.session().unwrap();
        let at_15 = reader.begin_at(15).unwrap();
        store.set_oldest_timestamp(40);
        assert_eq!(store.stats().oldest_timestamp, 40);
        pass_time(&mut session, 400);
        assert!(store.stats().keys >= 100, "somebody reads at 15: {:?}", store.stats());
        drop(at_15);
        pass_time(&mut session, 400);
        assert!(store.stats().keys < 5, "{:?}", store.stats());
    }
}

#[test]
fn a_forgotten_transaction_blocks_no_other_and_keeps_nothing() {
    let options = Options::new().active_max(1).active_wait(Duration::from_millis(20));
    let store = Store::in_memory(options);
    let mut session = store.session().unwrap();
    let mut forgetful = store.session().unwrap();
    std::mem::forget(forgetful.begin(ReadCommitted).unwrap());
    assert_eq!(session.begin(Snapshot).map(drop), Err(Error::TooMany { limit: 1 }), "it might go on");
    std::mem::forget(forgetful.begin_at(5).expect("its own place is free"));
    drop(forgetful);
    for timestamp in [10, 20] {
        let mut it = session.begin(Snapshot).expect("one may");
        if timestamp == 10 {
            it.put(b"gone", b"1").unwrap()
        } else {
            assert!(it.delete(b"gone").unwrap())
        }
        it.commit_at(timestamp).unwrap();
    }
    store.set_oldest_timestamp(20);
    pass_time(&mut session, 200);
    assert_eq!(store.stats().keys, 1, "nobody reads at 5");
}

#[test]
fn a_scan_is_of_one_moment_at_each_level() {
    for store in stores(Options::default) {
        for number in 0..200 {
            put(&store, &format!("k{number:03}"), "old");
        }
        let mut session = store.session().unwrap();
        let mut it = session.begin(ReadCommitted).unwrap();
        let mut scan = it.scan("k".."l");
        assert_eq!(scan.next().unwrap().unwrap().1[..], *b"old");
        store
            .run(Snapshot, |it| {
                (0..200).try_for_each(|number| it.put(format!("k{number:03}").as_bytes(), b"new"))
            })
            .unwrap();
        assert_eq!(scan.filter(|entry| *entry.as_ref().unwrap().1 == *b"old").count(), 199);
        assert_eq!(get(&mut it, "k000").as_deref(), Some("new"), "that is another call");
    }
}

#[test]
fn a_scan_of_much_that_is_here_and_below_is_whole() {
    for store in stores(Options::default) {
        let name = |number: u32| format!("k{number:04}");
        for number in (0..600).step_by(2) {
            put(&store, &name(number), "below");
        }
        let mut session = store.session().unwrap();
        let mut it = session.begin(Snapshot).unwrap();
        for number in (1..1_200).step_by(2) {
            it.put(name(number).as_bytes(), b"here").unwrap();
        }
        for number in (0..600).step_by(20) {
            assert!(it.delete(name(number).as_bytes()).unwrap());
        }
        let is_there = |number: &u32| number % 2 == 1 || *number < 600 && !number.is_multiple_of(20);
        let expected: Vec<_> = (0..1_200).filter(is_there).map(name).collect();
        assert_eq!(keys(&mut it), expected);
        let back: Vec<_> = it.scan::<[u8], _>(..).rev().map(|entry| entry.unwrap().0).collect();
        assert!(back.iter().rev().map(|key| &key[..]).eq(expected.iter().map(|key| key.as_bytes())));
        assert_eq!(it.scan("k0100"..="k0101").count(), 1);
    }
}

#[test]
fn cleaning_that_a_session_left_undone_is_done_by_others() {
    let store = Store::in_memory(alone());
    let (mut reader, mut idle) = (store.session().unwrap(), store.session().unwrap());
    let old = reader.begin(Snapshot).unwrap();
    for is_there in [true, false] {
        for number in 0..3_000_u32 {
            let mut it = idle.begin(Snapshot).unwrap();
            if is_there {
                it.put(&number.to_be_bytes(), b"1").unwrap();
            } else {
                assert!(it.delete(&number.to_be_bytes()).unwrap());
            }
            it.commit().unwrap();
        }
    }
    assert!(store.stats().keys >= 3_000);
    drop(old);
    store.collect();
    assert_eq!(store.stats().keys, 0, "{:?}", store.stats());
}

/// Also what the oldest reader has just not seen.
#[test]
fn what_ended_after_a_reader_began_is_cleaned_when_it_has_ended() {
    let store = Store::in_memory(Options::default());
    put(&store, "gone", "1");
    let (mut session, mut reading) = (store.session().unwrap(), store.session().unwrap());
    let mut it = session.begin(Snapshot).unwrap();
    assert!(it.delete(b"gone").unwrap());
    let mut old = reading.begin(Snapshot).unwrap();
    assert_eq!(it.commit().unwrap().id, Some(store.stats().oldest_id), "it is at work as the reader sees it");
    pass_time(&mut session, 200);
    assert_eq!(get(&mut old, "gone").as_deref(), Some("1"));
    drop(old);
    pass_time(&mut session, 200);
    assert_eq!(store.stats().keys, 1);
}

/// Its `get` fails.
struct Unreadable;

impl Data for Unreadable {
    fn recover(&self) -> Result<Recovered, DataError> {
        Ok(Recovered::default())
    }

    fn get_many(&self, _: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        Err(DataError::new("a bad block"))
    }

    fn scan(&self, _: Bounds<'_>, _: bool, _: usize) -> Result<Vec<Entry>, DataError> {
        Ok(Vec::new())
    }

    fn append(&self, _: Batch<'_>) -> Result<u64, DataError> {
        Ok(1)
    }

    fn wait(&self, _: u64) -> Result<(), DataError> {
        Ok(())
    }

    fn durable(&self) -> u64 {
        1
    }
}

#[test]
fn a_failed_read_of_the_base_leaves_nothing_behind() {
    let store = Store::open(Options::default(), Box::new(Unreadable)).unwrap();
    let mut session = store.session().unwrap();
    let mut it = session.begin(Snapshot).unwrap();
    let error = it.put(b"a", b"1").expect_err("it has to know what was there");
    assert!(error.to_string().contains("bad block"), "{error}");
    assert_eq!(it.put(b"b", b"1"), Err(Error::Failed));
    assert_eq!(it.commit(), Err(error), "and says so again");
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn a_panic_below_rolls_its_transaction_back_and_holds_up_no_other() {
    let store = Store::open(Options::default(), Box::new(Map::default())).unwrap();
    for round in 0..20_u8 {
        thread::scope(|scope| {
            let fatal = scope.spawn(|| {
                store.run(Serializable, |it| {
                    it.put(b"key", b"lost")?;
                    it.get(b"panic")
                })
            });
            fatal.join().expect_err("the component panics");
        });
        // Neither the key nor its range is held any more.
        store.run(Serializable, |it| it.put(b"key", &[round])).unwrap();
        let seen = store.run(Serializable, |it| it.get(b"key")).unwrap();
        assert_eq!(seen.as_deref(), Some(&[round][..]));
    }
    leaves_no_garbage(&store);
}

#[test]
fn values_that_a_transaction_overwrites_are_freed_before_it_ends() {
    let store = Store::in_memory(Options::default());
    let mut session = store.session().unwrap();
    let mut it = session.begin(Snapshot).unwrap();
    let mut values = Vec::new();
    // Others are reading, too: see above.
    let is_freed = (0..100_000_u32).any(|round| {
        let value: Value = round.to_be_bytes().into();
        values.push(Arc::downgrade(&value));
        it.put_shared(b"key", value).unwrap();
        round % 1_000 == 999 && alive(&values) < values.len() / 2
    });
    assert!(is_freed, "{} of {}", alive(&values), values.len());
    assert_eq!(
        it.get(b"key").unwrap().map(|value| Arc::downgrade(&value).ptr_eq(values.last().unwrap())),
        Some(true)
    );
}
