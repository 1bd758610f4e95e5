//! Savepoints: what is taken back, and what is not.

#[path = "common/cleaning.rs"]
mod cleaning;
#[path = "common/map.rs"]
mod map;
#[path = "common/texts.rs"]
mod texts;

use cleaning::leaves_no_garbage;
use manx::txn::{Error, Isolation, Options, Store, Transaction, Value};
use map::Map;
use proptest::prelude::*;
use std::collections::BTreeMap;
use texts::{get, keys, put, stores};

use Isolation::{Serializable, Snapshot};

#[test]
fn a_savepoint_is_of_one_transaction_and_of_one_branch_of_it() {
    for store in stores(Options::default) {
        let mut session = store.session().unwrap();
        let mut it = session.begin(Snapshot).unwrap();
        let outer = it.savepoint();
        it.put(b"a", b"1").unwrap();
        let inner = it.savepoint();
        it.rollback_to(outer).unwrap();
        assert_eq!(it.rollback_to(inner), Err(Error::NoSavepoint), "it was behind");
        it.put(b"b", b"1").unwrap();
        it.rollback_to(outer).expect("it stays");
        it.put(b"c", b"1").unwrap();
        it.commit().unwrap();
        let mut it = session.begin(Snapshot).unwrap();
        assert_eq!(keys(&mut it), ["c"]);
        assert_eq!(it.rollback_to(outer), Err(Error::NoSavepoint));
        let mut other = store.session().unwrap();
        let foreign = other.begin(Snapshot).unwrap().savepoint();
        let empty = it.savepoint();
        assert_eq!(it.rollback_to(foreign), Err(Error::NoSavepoint));
        it.rollback_to(empty).expect("nothing was written");
    }
}

#[test]
fn keys_that_were_taken_back_are_free_for_others_and_leave_nothing() {
    let stores = [
        Store::in_memory(Options::new().collect_every(None)),
        Store::open(Options::new().collect_every(None), Box::new(Map::default())).unwrap(),
    ];
    for store in stores {
        put(&store, "old", "1");
        let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
        let mut it = one.begin(Snapshot).unwrap();
        it.put(b"kept", b"1").unwrap();
        let before = it.savepoint();
        it.put(b"old", b"2").unwrap();
        it.put(b"new", b"2").unwrap();
        it.rollback_to(before).unwrap();
        // It has not written these: another one may, and this one does not overwrite that.
        let mut quick = other.begin(Snapshot).unwrap();
        quick.put(b"old", b"3").unwrap();
        quick.put(b"new", b"3").unwrap();
        assert!(matches!(quick.put(b"kept", b"3"), Err(Error::Conflict { .. })));
        drop(quick);
        store.run(Snapshot, |it| it.put(b"old", b"4")).unwrap();
        it.commit().unwrap();
        let mut it = other.begin(Snapshot).unwrap();
        assert_eq!((get(&mut it, "old").as_deref(), get(&mut it, "new")), (Some("4"), None));
        assert_eq!(get(&mut it, "kept").as_deref(), Some("1"));
        assert!(it.delete(b"old").unwrap() && it.delete(b"kept").unwrap());
        it.commit().unwrap();
        leaves_no_garbage(&store);
        assert_eq!(store.stats().keys, 0);
    }
}

#[test]
fn a_failed_transaction_is_rolled_back_as_a_whole() {
    for store in stores(Options::default) {
        let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
        let mut it = one.begin(Serializable).unwrap();
        let before = it.savepoint();
        it.put(b"a", b"1").unwrap();
        let mut writer = other.begin(Snapshot).unwrap();
        writer.put(b"b", b"1").unwrap();
        writer.commit().unwrap();
        assert!(matches!(it.put(b"b", b"2"), Err(Error::Conflict { .. })));
        assert_eq!(it.rollback_to(before), Err(Error::Failed));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Lock(u8),
    Savepoint,
    /// To one of those that there are.
    Back(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (0..6_u8).prop_map(Step::Delete),
        1 => (0..6_u8).prop_map(Step::Lock),
        2 => Just(Step::Savepoint),
        2 => (0..4_usize).prop_map(Step::Back),
    ]
}

type Model = BTreeMap<u8, u8>;

fn shown(it: &mut Transaction<'_>) -> Model {
    let entry = |entry: Result<(Value, Value), Error>| entry.map(|(key, value)| (key[0], value[0])).unwrap();
    it.scan::<[u8], _>(..).map(entry).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn what_is_there_is_what_was_there(
        steps in proptest::collection::vec(step(), 0..40),
        is_committed in any::<bool>(),
    ) {
        let map = Map::default();
        for (store, below) in [
            (Store::in_memory(Options::default()), None),
            (Store::open(Options::default(), Box::new(map.clone())).unwrap(), Some(&map)),
        ] {
            let old: Model = (0..3).map(|key| (key, 100)).collect();
            for (key, value) in &old {
                store.run(Snapshot, |it| it.put(&[*key], &[*value])).unwrap();
            }
            let mut session = store.session().unwrap();
            let mut it = session.begin(Snapshot).unwrap();
            let (mut model, mut points) = (old.clone(), Vec::new());
            for step in &steps {
                match *step {
                    Step::Put(key, value) => {
                        it.put(&[key], &[value]).unwrap();
                        model.insert(key, value);
                    }
                    Step::Delete(key) => {
                        prop_assert_eq!(it.delete(&[key]).unwrap(), model.remove(&key).is_some());
                    }
                    Step::Lock(key) => {
                        let value = it.get_for_update(&[key]).unwrap().map(|value| value[0]);
                        prop_assert_eq!(value, model.get(&key).copied());
                    }
                    Step::Savepoint => points.push((it.savepoint(), model.clone())),
                    Step::Back(at) if at < points.len() => {
                        points.truncate(at + 1);
                        it.rollback_to(points[at].0).unwrap();
                        model = points[at].1.clone();
                    }
                    Step::Back(_) => {}
                }
                prop_assert_eq!(&shown(&mut it), &model);
            }
            let expected = if is_committed {
                it.commit().unwrap();
                model
            } else {
                drop(it);
                old
            };
            prop_assert_eq!(&shown(&mut store.session().unwrap().begin(Snapshot).unwrap()), &expected);
            if let Some(map) = below {
                let below: Model = map.0.lock().unwrap().iter().map(|(key, value)| (key[0], value[0])).collect();
                prop_assert_eq!(&below, &expected);
            }
        }
    }
}
