//! What is committed is published before it is durable: the next writer of a key goes on, and no
//! transaction succeeds before what it has seen is durable.

#[path = "common/cleaning.rs"]
mod cleaning;
#[path = "common/lagging.rs"]
mod lagging;
#[path = "common/map.rs"]
mod map;

use cleaning::{alone, leaves_no_garbage};
use lagging::Lagging;
use manx::txn::{Data, Error, Isolation, Outcome, Session, Store};
use std::time::Duration;
use testing::until;

use Isolation::{ReadCommitted, Serializable, Snapshot};

/// A store on a disk that answers when it is told to, whose keys `a` and `b` are durable.
fn setting() -> (Store, Lagging) {
    let data = Lagging::default();
    let options = alone().lock_wait(Duration::from_millis(1));
    let store = Store::open(options, Box::new(data.clone())).unwrap();
    for key in [b"a", b"b"] {
        let place = put(&mut store.session().unwrap(), Snapshot, key, b"0");
        data.disk(|disk| disk.durable = place);
        store.wait(place).unwrap();
    }
    (store, data)
}

/// Returns the place.
fn put(session: &mut Session, isolation: Isolation, key: &[u8], value: &[u8]) -> u64 {
    let mut it = session.begin(isolation).unwrap();
    it.put(key, value).unwrap();
    it.commit_early().unwrap().place
}

/// Returns what it has seen, and the place that it has to wait for.
fn get(session: &mut Session, isolation: Isolation, key: &[u8]) -> (Option<Vec<u8>>, u64) {
    let mut it = session.begin(isolation).unwrap();
    let value = it.get(key).unwrap().map(|value| value.to_vec());
    (value, it.commit_early().unwrap().place)
}

#[test]
fn the_next_writer_of_a_key_goes_on_and_a_reader_waits_for_what_it_has_seen() {
    let (store, data) = setting();
    let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
    for isolation in [ReadCommitted, Snapshot, Serializable] {
        let first = put(&mut one, isolation, b"a", b"1");
        let second = put(&mut other, isolation, b"a", b"2");
        assert!(second > first && first > data.durable());
        assert_eq!(get(&mut one, isolation, b"a"), (Some(b"2".to_vec()), second));
        // What is durable is not waited for.
        assert_eq!(get(&mut one, isolation, b"b"), (Some(b"0".to_vec()), 0));
        assert_eq!(get(&mut one, isolation, b"none"), (None, 0));
        data.disk(|disk| disk.durable = first);
        assert_eq!(get(&mut one, isolation, b"a").1, second);
        data.disk(|disk| disk.durable = second);
        assert_eq!(get(&mut one, isolation, b"a").1, 0, "durable, whether a thread has waited or not");
    }
}

#[test]
fn a_reader_waits_for_a_deletion_and_for_what_a_scan_has_shown() {
    let (store, _) = setting();
    let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
    let mut older = other.begin(Snapshot).unwrap();
    assert_eq!(older.scan::<[u8], _>(..).count(), 2);
    let mut it = one.begin(Snapshot).unwrap();
    assert!(it.delete(b"b").unwrap());
    let place = it.commit_early().unwrap().place;
    assert_eq!(get(&mut one, Snapshot, b"b"), (None, place));
    let mut it = one.begin(Snapshot).unwrap();
    assert_eq!(it.scan("a".."b").count(), 1);
    assert_eq!(it.commit_early().unwrap().place, 0, "not that far");
    let mut it = one.begin(Snapshot).unwrap();
    assert_eq!(it.scan::<[u8], _>(..).rev().count(), 1);
    assert_eq!(it.commit_early().unwrap().place, place);
    assert!(older.get(b"b").unwrap().is_some());
    assert_eq!(older.commit_early().unwrap().place, 0, "it has not seen it");
}

#[test]
fn a_commit_returns_when_what_it_wrote_and_read_is_durable() {
    let (store, data) = setting();
    let place = put(&mut store.session().unwrap(), Snapshot, b"a", b"1");
    std::thread::scope(|scope| {
        for writes in [false, true, false] {
            let (store, data) = (&store, &data);
            scope.spawn(move || {
                let seen = store.run(Snapshot, |it| {
                    let seen = it.get(b"a")?;
                    if writes {
                        it.put(b"b", b"1")?
                    }
                    Ok(seen)
                });
                assert_eq!(seen.unwrap().as_deref(), Some(&b"1"[..]));
                assert!(data.durable() >= place + u64::from(writes), "it was told too early");
            });
        }
        until("three wait", || data.disk(|disk| disk.waiting == 3));
        data.disk(|disk| disk.durable = place + 1);
    });
}

#[test]
fn what_is_not_durable_stays_in_memory_and_then_does_not() {
    let (store, data) = setting();
    let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
    let mut last = 0;
    for number in 0..200_u32 {
        last = put(&mut one, Snapshot, b"a", &number.to_be_bytes());
    }
    store.collect();
    assert_eq!(store.stats().keys, 1);
    assert_eq!(get(&mut other, Snapshot, b"a"), (Some(199_u32.to_be_bytes().to_vec()), last));
    data.disk(|disk| disk.durable = last);
    store.wait(last).unwrap();
    leaves_no_garbage(&store);
    assert_eq!(store.stats().keys, 0);
    assert_eq!(get(&mut other, Snapshot, b"a"), (Some(199_u32.to_be_bytes().to_vec()), 0));
}

#[test]
fn after_an_answer_that_failed_no_transaction_succeeds_that_has_seen_it() {
    let (store, data) = setting();
    put(&mut store.session().unwrap(), Snapshot, b"a", b"1");
    data.disk(|disk| disk.fails = true);
    let unknown = |error: &Error| matches!(error, Error::Data(why) if why.outcome() == Outcome::Unknown);
    let error = store.run(Snapshot, |it| it.get(b"a")).expect_err("it is not known whether it is there");
    assert!(unknown(&error), "{error}");
    let error = store.run(Snapshot, |it| it.put(b"b", b"1")).expect_err("not known either");
    assert!(unknown(&error), "{error}");
    assert_eq!(store.run(Snapshot, |it| it.get(b"none")), Ok(None), "what is not concerned is read");
}

/// It would get a time-out.
#[test]
fn locks_are_released_before_the_disk_answers() {
    let (store, _) = setting();
    let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
    let mut first = one.begin(Serializable).unwrap();
    assert_eq!(first.scan::<[u8], _>(..).count(), 2);
    first.put(b"a", b"1").unwrap();
    first.commit_early().unwrap();
    let mut second = other.begin(Serializable).unwrap();
    assert_eq!(second.delete_range::<[u8], _>(..).unwrap(), 2);
    assert!(second.commit_early().unwrap().place > 0);
}

#[test]
fn the_first_writer_wins_also_if_it_is_not_durable() {
    let (store, _) = setting();
    let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
    let mut late = other.begin(Snapshot).unwrap();
    put(&mut one, Snapshot, b"a", b"1");
    assert!(matches!(late.put(b"a", b"2"), Err(Error::Conflict { .. })));
}
