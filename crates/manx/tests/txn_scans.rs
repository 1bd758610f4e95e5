//! Scans: how much is looked at, and in what order, in memory and over a data component.

#[path = "common/map.rs"]
mod map;
#[path = "common/texts.rs"]
mod texts;

use manx::txn::{
    Batch, Bounds, Data, DataError, Entry, Error, Isolation, Options, Recovered, Store, Transaction, Value,
};
use map::Map;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use texts::{get, keys, put, stores};

use Isolation::{Serializable, Snapshot};

/// Counts the entries that it is asked for.
#[derive(Clone, Default)]
struct Counting {
    map: Map,
    given: Arc<AtomicUsize>,
}

impl Data for Counting {
    fn recover(&self) -> Result<Recovered, DataError> {
        self.map.recover()
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        self.map.get_many(keys)
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        let found = self.map.scan(bounds, descending, limit)?;
        self.given.fetch_add(found.len(), Relaxed);
        Ok(found)
    }

    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
        self.map.append(batch)
    }

    fn wait(&self, place: u64) -> Result<(), DataError> {
        self.map.wait(place)
    }

    fn durable(&self) -> u64 {
        self.map.durable()
    }
}

fn name(number: u32) -> String {
    format!("k{number:06}")
}

#[test]
fn a_scan_looks_at_little_more_than_is_taken() {
    let data = Counting::default();
    {
        let mut map = data.map.0.lock().unwrap();
        (0..100_000).for_each(|number| _ = map.insert(name(number).as_bytes().into(), (*b"v").into()));
    }
    let store = Store::open(Options::default(), Box::new(data.clone())).unwrap();
    let mut session = store.session().unwrap();
    for isolation in [Snapshot, Serializable] {
        let mut it = session.begin(isolation).unwrap();
        let mut asked = |scan: &mut dyn FnMut(&mut Transaction<'_>) -> usize, taken: usize| {
            data.given.store(0, Relaxed);
            assert_eq!(scan(&mut it), taken);
            data.given.load(Relaxed)
        };
        assert_eq!(asked(&mut |it| it.scan("k".."l").limit(10).count(), 10), 10);
        assert!(asked(&mut |it| it.scan("k".."l").take(10).count(), 10) <= 24);
        assert!(asked(&mut |it| it.scan("k".."l").rev().take(3).count(), 3) <= 8);
        assert!(asked(&mut |it| it.scan("k".."l").take(1_000).count(), 1_000) <= 1_200);
        assert_eq!(asked(&mut |it| it.scan("k".."l").limit(0).count(), 0), 0);
        let mut visit = |it: &mut Transaction<'_>| {
            let mut count = 0;
            let see = |_: &[u8], _: &[u8]| {
                count += 1;
                ControlFlow::Continue(())
            };
            it.scan("k".."l").limit(2_500).visit(see).unwrap();
            count
        };
        assert_eq!(asked(&mut visit, 2_500), 2_500);
    }
}

#[test]
fn a_serializable_scan_answers_for_what_it_has_taken_and_for_nothing_else() {
    for store in stores(Options::default) {
        (0..100).for_each(|number| put(&store, &name(number), "old"));
        let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
        let mut it = one.begin(Serializable).unwrap();
        assert_eq!(get(&mut it, "a"), None, "its snapshot is this old");
        let mut writer = other.begin(Snapshot).unwrap();
        assert_eq!(keys(&mut writer).len(), 100);
        writer.put(name(50).as_bytes(), b"new").unwrap();
        writer.commit().unwrap();
        assert_eq!(it.scan("k".."l").limit(20).filter(Result::is_ok).count(), 20);
        assert_eq!(it.scan("k".."l").rev().limit(20).filter(Result::is_ok).count(), 20);
        let error = it.scan("k".."l").find_map(|entry| entry.err());
        assert!(
            matches!(&error, Some(Error::Conflict { key, .. }) if **key == *name(50).as_bytes()),
            "{error:?}"
        );
        assert_eq!(it.get(b"a"), Err(Error::Failed));
    }
}

#[test]
fn a_visit_ends_where_the_visitor_ends_it_and_shows_all_else() {
    for store in stores(Options::default) {
        store
            .run(Snapshot, |it| (0..5_000).try_for_each(|number| it.put(name(number).as_bytes(), b"v")))
            .unwrap();
        let mut session = store.session().unwrap();
        let mut it = session.begin(Snapshot).unwrap();
        for (end, expected) in [(None, 5_000), (Some(0), 1), (Some(1_023), 1_024), (Some(1_024), 1_025)] {
            let mut seen = Vec::new();
            let visited = it.scan("k".."l").visit(|key, _| {
                seen.push(key.to_vec());
                let is_end = Some(seen.len()) == end.map(|end| end + 1);
                if is_end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            visited.unwrap();
            assert_eq!(seen.len(), expected);
            assert!(
                seen.iter().map(|key| &key[..]).eq((0..expected as u32)
                    .map(name)
                    .collect::<Vec<_>>()
                    .iter()
                    .map(|key| key.as_bytes()))
            );
        }
        // Part of it by an iterator.
        let mut scan = it.scan("k".."l").rev();
        assert_eq!(&*scan.next().unwrap().unwrap().0, name(4_999).as_bytes());
        let mut left = 0;
        scan.visit(|_, _| {
            left += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(left, 4_999);
    }
}

/// What is below, what a transaction has written over it, and how it is scanned.
type Case = (Vec<u8>, Vec<(u8, bool)>, (u8, u8), bool, usize);

fn case() -> impl Strategy<Value = Case> {
    let below = proptest::collection::vec(0..60_u8, 0..60);
    let above = proptest::collection::vec((0..60_u8, any::<bool>()), 0..60);
    (below, above, (0..62_u8, 0..62_u8), any::<bool>(), 0..70_usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// By an iterator, by a visit, and in a map they are the same.
    #[test]
    fn scans_show_what_is_there((below, above, (from, to), descending, limit) in case()) {
        let mut model = BTreeMap::new();
        for store in stores(Options::default) {
            model.clear();
            for key in &below {
                store.run(Snapshot, |it| it.put(&[*key], b"below")).unwrap();
                model.insert(*key, &b"below"[..]);
            }
            let mut session = store.session().unwrap();
            let mut it = session.begin(Snapshot).unwrap();
            for (key, is_there) in &above {
                if *is_there {
                    it.put(&[*key], b"above").unwrap();
                    model.insert(*key, b"above");
                } else {
                    it.delete(&[*key]).unwrap();
                    model.remove(key);
                }
            }
            let bounds = (Bound::Included(&[from][..]), Bound::Excluded(&[to][..]));
            let all = model.iter().filter(|(key, _)| (from..to).contains(key));
            let mut expected: Vec<_> = all.map(|(key, value)| (vec![*key], value.to_vec())).collect();
            if descending {
                expected.reverse();
            }
            expected.truncate(limit);
            let turned = |scan: manx::txn::Scan<'_, '_>| -> Vec<(Vec<u8>, Vec<u8>)> {
                scan.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
            };
            let scan = it.scan::<[u8], _>(bounds).limit(limit);
            prop_assert_eq!(&turned(if descending { scan.rev() } else { scan }), &expected);
            let mut visited = Vec::new();
            let scan = it.scan::<[u8], _>(bounds).limit(limit);
            let scan = if descending { scan.rev() } else { scan };
            scan.visit(|key, value| {
                visited.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
            prop_assert_eq!(visited, expected);
        }
    }
}
