//! Versions of transactions: which are kept, for whom, where, and which are freed.

#[path = "common/map.rs"]
mod map;
#[path = "common/texts.rs"]
mod texts;

use manx::txn::{Error, Isolation, Options, Session, Store, Value};
use map::Map;
use std::sync::Arc;
use texts::{get, keys, put, stores};

use Isolation::{ReadCommitted, ReadUncommitted, Snapshot};

#[test]
fn what_failed_below_is_taken_back() {
    let store = Store::open(Options::default(), Box::new(Map::default()));
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
    let store = Store::open(Options::default(), Box::new(map.clone()));
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
    let again = Store::open(Options::default(), Box::new(map));
    let mut session = again.session().unwrap();
    assert_eq!(keys(&mut session.begin(Snapshot).unwrap()).len(), 499);
}

#[test]
fn versions_that_nobody_can_see_are_freed_and_those_in_use_are_not() {
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
    // One of 64 transactions finds out what is needed, for all; what was changed since waits for the next one.
    for _ in 0..200 {
        let mut it = writer.begin(Snapshot).unwrap();
        it.put(b"kept", b"newer").unwrap();
        it.commit().unwrap();
    }
    let keys = store.stats().keys;
    assert!((1..5).contains(&keys), "{:?}", store.stats());
}

#[test]
fn values_that_nobody_can_see_are_freed_on_the_way_and_all_at_the_end() {
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
    // Memory is freed when all threads of this process that were reading have gone on, and other tests read, too.
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

#[test]
fn who_reads_at_a_timestamp_sees_what_was_then() {
    for store in stores() {
        let mut writer = store.session().unwrap();
        for timestamp in [10, 20, 30] {
            let mut it = writer.begin(Snapshot).unwrap();
            it.put(b"a", timestamp.to_string().as_bytes()).unwrap();
            it.commit_at(timestamp).unwrap();
        }
        let mut session = store.session().unwrap();
        for (asked, seen) in [(9, None), (10, Some("10")), (25, Some("20")), (99, Some("30"))] {
            assert_eq!(get(&mut session.begin_at(asked).unwrap(), "a").as_deref(), seen);
        }
        let mut late = session.begin_at(15).unwrap();
        assert!(matches!(late.put(b"a", b"1"), Err(Error::Conflict { .. })), "somebody wrote it later");
        drop(late);
        store.set_oldest_timestamp(20);
        assert_eq!(session.begin_at(19).map(drop), Err(Error::TooOld { asked: 19, oldest: 20 }));
        let it = session.begin(Snapshot).unwrap();
        assert_eq!(it.commit_at(20), Err(Error::BadTimestamp { asked: 20, above: 20 }));
    }
}

/// Also when everything is over for everybody, and hundreds of other keys were cleaned.
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
    for store in stores() {
        let mut sessions: Vec<_> = (0..3).map(|_| store.session().unwrap()).collect();
        for round in 0..3_000_u32 {
            let mut it = sessions[round as usize % 3].begin(ReadCommitted).unwrap();
            it.put(b"hot", &round.to_be_bytes()).unwrap();
            if round % 5 > 0 {
                it.commit().unwrap();
            }
        }
        let unfinished: Vec<_> = sessions.iter().map(|session| session.unfinished()).collect();
        assert!(unfinished.iter().all(|&keys| keys < 200), "{unfinished:?}");
    }
}

#[test]
fn many_sessions_that_go_idle_keep_little_together() {
    let store = Store::in_memory(Options::default());
    let mut sessions: Vec<_> = (0..500).map(|_| store.session().unwrap()).collect();
    for round in 0..10_u32 {
        for (number, session) in sessions.iter_mut().enumerate() {
            let mut it = session.begin(Snapshot).unwrap();
            it.put(format!("own {number}").as_bytes(), &round.to_be_bytes()).unwrap();
            it.commit().unwrap();
        }
    }
    // Each its last one, and those of one round in which the news had not come yet.
    let unfinished: usize = sessions.iter().map(|session| session.unfinished()).sum();
    assert!(unfinished <= 500 * 2, "{unfinished}");
}
