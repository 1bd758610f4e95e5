//! What every data component has to do, whatever it stands on ([`Data`]).

use manx::txn::{Batch, Change, Data, Entry, Outcome, Recovered, Value};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;

pub fn put(key: &str, value: &str) -> Change {
    Change::Put { key: key.as_bytes().into(), value: value.as_bytes().into() }
}

pub fn delete(key: &str) -> Change {
    Change::Delete { key: key.as_bytes().into() }
}

fn value(text: &str) -> Option<Value> {
    Some(text.as_bytes().into())
}

fn batch(owner: Recovered, id: u64, changes: &[Change]) -> Batch<'_> {
    Batch { epoch: owner.epoch, id, ..Batch::new(changes, true) }
}

fn scanned(it: &dyn Data, from: Bound<&str>, to: Bound<&str>, descending: bool, limit: usize) -> Vec<String> {
    let bounds = (from.map(str::as_bytes), to.map(str::as_bytes));
    let text =
        |(key, value): &Entry| format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
    it.scan(bounds, descending, limit).expect("scanned").iter().map(text).collect()
}

/// Checks a component that `make` makes, empty each time.
pub fn conforms<D: Data>(mut make: impl FnMut() -> D) {
    reads_what_was_appended(&make());
    places_rise_and_are_durable_after_a_wait(&make());
    an_owner_that_was_replaced_is_fenced(&make());
    what_was_appended_again_is_made_once(&make());
    threads_agree_on_the_order(&make());
}

/// Checks a component that keeps what it has: `open` opens the same one again, empty at first.
pub fn survives<D: Data>(mut open: impl FnMut() -> D) {
    let first = open();
    let owner = first.recover().expect("taken over");
    let changes = [put("a", "1"), put("b", "1")];
    first.apply(Batch { timestamp: 20, ..batch(owner, owner.last_id + 7, &changes) }).expect("applied");
    let changes = [delete("b"), put("c", "2")];
    let stamped = Batch { timestamp: 10, oldest_timestamp: 5, ..batch(owner, owner.last_id + 3, &changes) };
    first.apply(stamped).expect("applied");
    drop(first);
    for _ in 0..2 {
        let again = open();
        let found = again.recover().expect("taken over");
        assert!(found.epoch > owner.epoch, "a later owner has a higher epoch: {found:?} after {owner:?}");
        assert_eq!((found.last_id, found.timestamp), (owner.last_id + 7, 20));
        assert!((5..=20).contains(&found.oldest_timestamp), "{found:?}");
        let all = scanned(&again, Bound::Unbounded, Bound::Unbounded, false, 9);
        assert_eq!(all, ["a=1", "c=2"]);
    }
    let (again, later) = (open(), Batch { timestamp: 21, oldest_timestamp: 30, ..Batch::default() });
    let owner = again.recover().expect("taken over");
    again.apply(Batch { epoch: owner.epoch, sync: true, ..later }).expect("applied");
    drop(again);
    let found = open().recover().expect("taken over");
    assert_eq!((found.timestamp, found.oldest_timestamp), (21, 30));
}

fn reads_what_was_appended(it: &dyn Data) {
    let owner = it.recover().expect("taken over");
    assert_eq!(it.get(b"a"), Ok(None));
    it.append(batch(owner, 1, &[put("b", "1"), put("a", "1"), put("c", "1"), put("", "0")]))
        .expect("appended");
    // It is seen before it is durable; and of two changes of a key the later one counts.
    it.append(batch(owner, 2, &[put("b", "2"), delete("c"), put("d", "1"), put("d", "2")]))
        .expect("appended");
    let found = it.get_many(&[b"d", b"c", b"b", b"b", b""]).expect("read");
    assert_eq!(found, [value("2"), None, value("2"), value("2"), value("0")]);
    assert_eq!(it.get_many(&[]), Ok(vec![]));
    assert_eq!(it.get(b"a"), Ok(value("1")));
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(scanned(it, Unbounded, Unbounded, false, 9), ["=0", "a=1", "b=2", "d=2"]);
    assert_eq!(scanned(it, Unbounded, Unbounded, true, 3), ["d=2", "b=2", "a=1"]);
    assert_eq!(scanned(it, Included("a"), Excluded("d"), false, 9), ["a=1", "b=2"]);
    assert_eq!(scanned(it, Excluded("a"), Included("d"), true, 9), ["d=2", "b=2"]);
    assert_eq!(scanned(it, Excluded("a"), Unbounded, false, 1), ["b=2"]);
    assert_eq!(scanned(it, Excluded("a"), Included("a"), false, 9), [""; 0]);
    it.checkpoint().expect("made");
    assert_eq!(scanned(it, Unbounded, Unbounded, false, 9), ["=0", "a=1", "b=2", "d=2"]);
}

fn places_rise_and_are_durable_after_a_wait(it: &dyn Data) {
    let owner = it.recover().expect("taken over");
    let mut last = 0;
    for id in 1..=20 {
        let place = it.append(batch(owner, id, &[put("a", &id.to_string())])).expect("appended");
        assert!(place > last, "{place} after {last}");
        last = place;
    }
    it.wait(last).expect("durable");
    assert!(it.durable() >= last);
    it.wait(1).expect("durable before");
    let nothing = it.append(batch(owner, 21, &[])).expect("appended");
    it.wait(nothing).expect("nothing is durable at once, or with what comes later");
}

fn an_owner_that_was_replaced_is_fenced(it: &dyn Data) {
    let first = it.recover().expect("taken over");
    it.apply(batch(first, 1, &[put("a", "1")])).expect("applied");
    let second = it.recover().expect("taken over");
    assert!(second.epoch > first.epoch);
    assert_eq!(second.last_id, 1);
    let refused = it.apply(batch(first, 2, &[put("a", "2")])).expect_err("fenced");
    assert_eq!(refused.outcome(), Outcome::Fenced, "{refused}");
    assert_eq!(it.get(b"a"), Ok(value("1")));
    it.apply(batch(second, 2, &[put("a", "3")])).expect("applied");
    assert_eq!(it.get(b"a"), Ok(value("3")));
}

fn what_was_appended_again_is_made_once(it: &dyn Data) {
    let owner = it.recover().expect("taken over");
    let changes = [put("a", "1"), delete("b")];
    let places = [(); 2].map(|()| it.append(batch(owner, 5, &changes)).expect("appended"));
    places.iter().try_for_each(|place| it.wait(*place)).expect("durable");
    assert_eq!(scanned(it, Bound::Unbounded, Bound::Unbounded, false, 9), ["a=1"]);
}

/// The value that is left is that of the batch with the highest place, for each key.
fn threads_agree_on_the_order(it: &dyn Data) {
    let owner = it.recover().expect("taken over");
    let last = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let last = &last;
            scope.spawn(move || {
                for number in 0..20 {
                    let (id, key) = (1 + thread * 100 + number, format!("k{}", number % 3));
                    let change = [put(&key, &id.to_string())];
                    let place = it.append(batch(owner, id, &change)).expect("appended");
                    it.wait(place).expect("durable");
                    let mut last = last.lock().expect("no panic");
                    let newest = last.entry(key).or_insert((0, 0));
                    *newest = (*newest).max((place, id));
                }
            });
        }
    });
    for (key, (_, id)) in last.into_inner().expect("no panic") {
        assert_eq!(it.get(key.as_bytes()), Ok(value(&id.to_string())), "{key}");
    }
}
