//! What every data component has to do whose data other processes keep, and its calls in short.

use crate::component::{delete, put};
use manx::txn::{
    Batch, Change, Data, DataError, Isolation, Options, Outcome, Recovered, Remote, RemoteOptions, Store,
    Value,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testing::{eventually, until};

pub const QUICK: RemoteOptions = RemoteOptions::new().lease_s(1);

pub fn apply(it: &Remote, owner: Recovered, id: u64, changes: &[Change]) -> Result<(), DataError> {
    it.apply(Batch { epoch: owner.epoch, id, ..Batch::new(changes, true) })
}

pub fn get(it: &Remote, key: &str) -> Result<Option<String>, DataError> {
    let found = it.get(key.as_bytes())?;
    Ok(found.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

pub fn some(text: &str) -> Result<Option<String>, DataError> {
    Ok(Some(text.into()))
}

/// All entries.
pub fn all(it: &Remote) -> BTreeMap<Value, Value> {
    it.scan((Bound::Unbounded, Bound::Unbounded), false, usize::MAX).expect("scanned").into_iter().collect()
}

/// A batch of `count` values, one of them longer than the others, is made as a whole, in its place.
/// Returns the component, opened again.
pub fn a_large_batch_is_one(
    open: impl Fn() -> Remote,
    count: u32,
    value_bytes: usize,
    longest_bytes: usize,
) -> Remote {
    let first = open();
    let owner = first.recover().expect("taken over");
    apply(&first, owner, 1, &[put("gone", "1"), put("stays", "1")]).expect("applied");
    let mut changes: Vec<Change> = (0..count)
        .map(|number| {
            let bytes = if number == 500 { longest_bytes } else { value_bytes };
            Change::Put {
                key: number.to_be_bytes().into(),
                value: vec![number.to_be_bytes()[3]; bytes].into(),
            }
        })
        .collect();
    changes.push(delete("gone"));
    let place =
        first.append(Batch { epoch: owner.epoch, id: 2, ..Batch::new(&changes, true) }).expect("appended");
    // What comes behind it is behind it.
    apply(&first, owner, 3, &[put("stays", "2")]).expect("applied");
    assert!(first.durable() > place);
    let expected = all(&first);
    let found = (expected.len(), get(&first, "gone"), get(&first, "stays"));
    assert_eq!(found, (count as usize + 1, Ok(None), some("2")));
    drop(first);
    let second = open();
    assert_eq!(second.recover().expect("taken over").last_id, 3);
    assert!(all(&second) == expected, "the same entries");
    second
}

/// A server waits for the owner before it, or fences it. The store's address ends with `name`.
pub fn owners_wait_or_fence(open: impl Fn(RemoteOptions) -> Remote, name: &'static str) {
    let first = open(QUICK);
    let owner = first.recover().expect("taken over");
    apply(&first, owner, 1, &[put("a", "1")]).expect("applied");
    // The second one waits, the third one does not.
    static WAITS: Mutex<String> = Mutex::new(String::new());
    let waiting = QUICK.when_waiting(|place| *WAITS.lock().expect("no panic") = place.into());
    let (second, third) = (open(waiting), open(QUICK.at_once(true)));
    thread::scope(|scope| {
        let waits = scope.spawn(|| second.recover().expect("taken over"));
        until("it waits", || WAITS.lock().expect("no panic").ends_with(name));
        apply(&first, owner, 2, &[put("a", "2")]).expect("the store is still the first one's");
        let later = third.recover().expect("taken over");
        assert!(later.epoch > owner.epoch && later.last_id == 2);
        assert_eq!(get(&third, "a"), some("2"));
        let refused = apply(&first, owner, 3, &[put("a", "3")]).expect_err("fenced");
        assert_eq!(refused.outcome(), Outcome::Fenced, "{refused}");
        assert!(refused.to_string().contains("another server"), "{refused}");
        assert_eq!(get(&first, "a").expect_err("fenced").outcome(), Outcome::Fenced);
        apply(&third, later, 3, &[put("b", "1")]).expect("applied");
        // The end of an owner gives the store free at once.
        drop(third);
        let last = waits.join().expect("no panic");
        assert!(last.epoch > later.epoch && last.last_id == 3);
    });
    assert_eq!((get(&second, "a"), get(&second, "b")), (some("2"), some("1")));
    // One that only reads finds out too.
    let fourth = open(QUICK.at_once(true));
    fourth.recover().expect("taken over");
    eventually("it is fenced", || second.get(b"a").err().filter(|error| error.outcome() == Outcome::Fenced));
}

/// A transaction that only reads finds out that another server has taken the store, and the program
/// is told.
pub fn readers_find_out(open: impl Fn(RemoteOptions) -> Remote) {
    static LOST: Mutex<Vec<DataError>> = Mutex::new(Vec::new());
    let told = QUICK.when_lost(|error| LOST.lock().expect("no panic").push(error.clone()));
    let store = Store::open(Options::new(), Box::new(open(told))).expect("opened");
    store.run(Isolation::Snapshot, |it| it.put(b"a", b"1")).expect("committed");
    // An old snapshot keeps the versions of `a` in memory: no read of it asks the component.
    let mut old = store.session().expect("a session");
    let mut old = old.begin(Isolation::Snapshot).expect("begun");
    assert_eq!(old.get(b"a").expect("read").as_deref(), Some(&b"1"[..]));
    store.run(Isolation::Snapshot, |it| it.put(b"a", b"2")).expect("committed");
    let next = open(QUICK.at_once(true));
    let owner = next.recover().expect("taken over");
    apply(&next, owner, owner.last_id + 1, &[put("a", "3")]).expect("applied");
    eventually("it is told", || store.run(Isolation::Snapshot, |it| it.get(b"a")).err());
    old.commit().expect_err("lost");
    until("the program is told", || !LOST.lock().expect("no panic").is_empty());
    let lost = LOST.lock().expect("no panic");
    assert!(matches!(&lost[..], [why] if why.to_string().contains("taken it over")), "{lost:?}");
}

/// After a commit without an answer nothing is changed any more, and the program is told. The other
/// side does not answer between `stop` and `go_on`.
pub fn silence_ends_it(open: impl Fn(RemoteOptions) -> Remote, stop: impl FnOnce(), go_on: impl FnOnce()) {
    static IS_LOST: AtomicBool = AtomicBool::new(false);
    let told = QUICK.when_lost(|_| IS_LOST.store(true, Ordering::SeqCst));
    let it = open(told.patience(Duration::from_secs(2)));
    let owner = it.recover().expect("taken over");
    apply(&it, owner, 1, &[put("a", "1")]).expect("applied");
    stop();
    let change = [put("a", "2")];
    let batch = Batch { epoch: owner.epoch, id: 2, ..Batch::new(&change, true) };
    let error = it.apply(batch).expect_err("no answer");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert!(error.to_string().contains("start again"), "{error}");
    until("the program is told", || IS_LOST.load(Ordering::SeqCst));
    assert_eq!(it.append(batch).expect_err("still unknown").outcome(), Outcome::Unknown);
    assert_eq!(apply(&it, owner, 3, &[put("b", "1")]).expect_err("broken").outcome(), Outcome::NotApplied);
    get(&it, "a").expect_err("it may not be there");
    go_on();
    get(&it, "a").expect_err("it may not be there");
    drop(it);
    let again = open(QUICK.patience(testing::LONG));
    let found = again.recover().expect("taken over");
    assert_eq!(get(&again, "a"), some(&found.last_id.to_string()), "the record and the entries agree");
    assert_eq!(get(&again, "b"), Ok(None));
}

/// While the other side has no room, writes are refused with these words, and reads go on. After
/// `make_room` writes succeed. There is room for some of the `large` values, under their keys.
pub fn it_goes_on_when_there_is_room(
    open: impl Fn(RemoteOptions) -> Remote,
    (it, owner): (Remote, Recovered),
    large: impl Fn(u64) -> (String, Value),
    words: &[&str],
    make_room: impl FnOnce(),
) {
    let write = |it: &Remote, id: u64| {
        let (key, value) = large(id);
        apply(it, owner, id, &[Change::Put { key: Value::from(key.as_bytes()), value }])
    };
    let is_there = |it: &Remote, id: u64| {
        let (key, value) = large(id);
        it.get(key.as_bytes()).expect("read") == Some(value)
    };
    let (last, error) = (1_u64..).find_map(|id| Some((id, write(&it, id).err()?))).expect("there is an end");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert!(words.iter().all(|words| error.to_string().contains(words)), "{error}");
    static WAITS: AtomicBool = AtomicBool::new(false);
    let second = open(QUICK.when_waiting(|_| WAITS.store(true, Ordering::SeqCst)));
    thread::scope(|scope| {
        let waits = scope.spawn(|| second.recover());
        until("it waits", || WAITS.load(Ordering::SeqCst));
        // For longer than the lease: it is still the owner.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            assert!(is_there(&it, last - 1));
            let error = apply(&it, owner, last + 1, &[delete(&large(1).0)]).expect_err("refused");
            assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        }
        assert!(!waits.is_finished());
        make_room();
        eventually("writes go on", || apply(&it, owner, last + 1, &[put("after", "1")]).ok());
        // What was not known is made: it came before.
        assert!(is_there(&it, last));
        let expected = all(&it);
        drop(it);
        assert_eq!(waits.join().expect("no panic").expect("taken over").last_id, last + 1);
        assert!(all(&second) == expected, "the same entries");
    });
}
