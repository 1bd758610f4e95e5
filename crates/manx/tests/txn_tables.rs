//! Several tables in one store: each is like a map of its own, beside a simple model.

use manx::txn::{Error, Isolation, Options, Store, TableStats, Tables, TablesError};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A table's entries, by its name.
type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

#[derive(Clone, Debug)]
enum Step {
    Create(String),
    Rename(String, String),
    Remove(String),
    Put(String, Vec<u8>, Vec<u8>),
    Delete(String, Vec<u8>),
    DeleteRange(String, Bound<Vec<u8>>, Bound<Vec<u8>>),
    Scan(String, Bound<Vec<u8>>, Bound<Vec<u8>>, bool, usize),
    /// Opens the tables again.
    Open,
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "name", "ä"]).prop_map(String::from)
}

/// Keys at the edges of a table, too.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, b'n', 255]), 0..4)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), key().prop_map(Bound::Included), key().prop_map(Bound::Excluded)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => name().prop_map(Step::Create),
        1 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name().prop_map(Step::Remove),
        8 => (name(), key(), key()).prop_map(|(name, key, value)| Step::Put(name, key, value)),
        2 => (name(), key()).prop_map(|(name, key)| Step::Delete(name, key)),
        1 => (name(), bound(), bound()).prop_map(|(name, from, to)| Step::DeleteRange(name, from, to)),
        4 => (name(), bound(), bound(), any::<bool>(), 0..4_usize)
            .prop_map(|(name, from, to, descending, limit)| Step::Scan(name, from, to, descending, limit)),
        1 => Just(Step::Open),
    ]
}

/// Whether a map's range would panic: it is inverted, or empty in a way that a map refuses.
fn is_inverted(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    match (from, to) {
        (Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from > to
        }
        _ => false,
    }
}

fn within(
    entries: &BTreeMap<Vec<u8>, Vec<u8>>,
    from: &Bound<Vec<u8>>,
    to: &Bound<Vec<u8>>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    if is_inverted(from, to) {
        return Vec::new();
    }
    entries.range((from.clone(), to.clone())).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn apply(tables: &mut Tables, model: &mut Model, step: &Step) -> Result<(), TablesError> {
    let missing = |name: &String| TablesError::Missing { name: name.clone() };
    let exists = |name: &String| TablesError::Exists { name: name.clone() };
    match step {
        Step::Create(name) => match model.contains_key(name) {
            true => assert_eq!(tables.create(name).err(), Some(exists(name))),
            false => {
                tables.create(name)?;
                model.insert(name.clone(), BTreeMap::new());
            }
        },
        Step::Rename(from, to) => match (model.contains_key(from), from != to && model.contains_key(to)) {
            (false, _) => assert_eq!(tables.rename(from, to).err(), Some(missing(from))),
            (true, true) => assert_eq!(tables.rename(from, to).err(), Some(exists(to))),
            (true, false) => {
                tables.rename(from, to)?;
                let entries = model.remove(from).expect("it is there");
                model.insert(to.clone(), entries);
            }
        },
        Step::Remove(name) => match model.remove(name) {
            Some(_) => tables.remove(name)?,
            None => assert_eq!(tables.remove(name).err(), Some(missing(name))),
        },
        Step::Open => *tables = Tables::open(tables.store().clone())?,
        Step::Put(name, ..) | Step::Delete(name, ..) | Step::DeleteRange(name, ..) | Step::Scan(name, ..) => {
            let Some(entries) = model.get_mut(name) else {
                assert_eq!(tables.get(name).err(), Some(missing(name)));
                return Ok(());
            };
            let table = tables.get(name)?;
            tables.store().run(Isolation::Serializable, |it| {
                match step {
                    Step::Put(_, key, value) => {
                        let before = table.replace(it, key, value.as_slice().into())?;
                        assert_eq!(before.as_deref(), entries.insert(key.clone(), value.clone()).as_deref());
                        assert_eq!(table.get(it, key)?.as_deref(), Some(value.as_slice()));
                    }
                    Step::Delete(_, key) => {
                        assert_eq!(table.delete(it, key)?, entries.remove(key).is_some());
                    }
                    Step::DeleteRange(_, from, to) => {
                        let gone = within(entries, from, to);
                        gone.iter().for_each(|(key, _)| drop(entries.remove(key)));
                        match table.delete_range::<Vec<u8>, _>(it, (from.clone(), to.clone())) {
                            // An empty range is a mistake of the caller's.
                            Err(Error::InvalidRange(_)) => assert!(gone.is_empty()),
                            deleted => assert_eq!(deleted, Ok(gone.len())),
                        }
                    }
                    Step::Scan(_, from, to, descending, limit) => {
                        let mut expected = within(entries, from, to);
                        if *descending {
                            expected.reverse();
                        }
                        expected.truncate(*limit);
                        let scan = table.scan::<Vec<u8>, _>(it, (from.clone(), to.clone())).limit(*limit);
                        let scan = if *descending { scan.rev() } else { scan };
                        let found: Result<Vec<_>, Error> = scan.collect();
                        let found: Vec<_> =
                            found?.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
                        assert_eq!(found, expected);
                    }
                    _ => unreachable!("above"),
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn tables_are_like_maps_of_their_own(steps in prop::collection::vec(step(), 1..60)) {
        let mut tables = Tables::open(Store::in_memory(Options::default())).expect("empty");
        let mut model = Model::new();
        for step in &steps {
            apply(&mut tables, &mut model, step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
            let names: Vec<&String> = model.keys().collect();
            prop_assert_eq!(tables.names().expect("readable"), names.iter().map(|it| it.to_string()).collect::<Vec<_>>());
        }
        for (name, entries) in &model {
            let table = tables.get(name).expect("there");
            let mut found = Vec::new();
            tables.store().run(Isolation::Snapshot, |it| {
                table.scan::<[u8], _>(it, ..).visit(|key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                    std::ops::ControlFlow::Continue(())
                })
            }).expect("readable");
            prop_assert_eq!(found, entries.clone().into_iter().collect::<Vec<_>>());
            let bytes = |all: &mut dyn Iterator<Item = &Vec<u8>>| all.map(|it| it.len() as u64).sum();
            let expected = TableStats {
                entries: entries.len() as u64,
                key_bytes: bytes(&mut entries.keys()),
                value_bytes: bytes(&mut entries.values()),
            };
            let stats = tables.store().run(Isolation::Snapshot, |it| table.stats(it));
            prop_assert_eq!(stats.expect("readable"), expected);
        }
    }
}

#[test]
fn a_store_with_keys_of_another_kind_is_left_as_it_is() {
    let store = Store::in_memory(Options::default());
    store.run(Isolation::Snapshot, |it| it.put(b"own", b"1")).expect("written");
    let refused = Tables::open(store.clone()).err();
    assert_eq!(refused, Some(TablesError::Foreign { key: (*b"own").into() }));
    let text = refused.expect("refused").to_string();
    assert!(text.contains("`own`") && text.contains("nothing was changed"), "{text}");
    let left = store.run(Isolation::Snapshot, |it| Ok(it.scan::<[u8], _>(..).count()));
    assert_eq!(left, Ok(1));
}

/// What a crash leaves between the two parts of a removal: the name is gone, the entries are not.
#[test]
fn opening_completes_a_removal() {
    let store = Store::in_memory(Options::default());
    let tables = Tables::open(store.clone()).expect("empty");
    let (old, kept) = (tables.create("old").expect("made"), tables.create("kept").expect("made"));
    for number in 0..2_500_u32 {
        let both = |it: &mut manx::txn::Transaction<'_>| {
            old.put(it, &number.to_be_bytes(), b"v")?;
            kept.put(it, &number.to_be_bytes(), b"v")
        };
        store.run(Isolation::Snapshot, both).expect("written");
    }
    store
        .run(Isolation::Snapshot, |it| {
            let id = it.take(b"\0\0\0\0nameold")?.expect("its name");
            it.put(&[b"\0\0\0\0gone", &id[..]].concat(), b"")
        })
        .expect("written");
    let tables = Tables::open(store.clone()).expect("opened");
    assert_eq!(tables.names().expect("readable"), ["kept"]);
    let count = |table: manx::txn::Table| {
        store.run(Isolation::Snapshot, |it| Ok(table.scan::<[u8], _>(it, ..).count())).expect("readable")
    };
    assert_eq!((count(old), count(kept)), (0, 2_500));
    assert_ne!(tables.create("old").expect("made"), old, "an id is not used again");
}

#[test]
fn threads_that_create_tables_get_different_ones() {
    let tables = Tables::open(Store::in_memory(Options::default())).expect("empty");
    let same: Vec<_> = std::thread::scope(|scope| {
        let made: Vec<_> = (0..4)
            .map(|thread| {
                let tables = &tables;
                scope.spawn(move || {
                    let own: Vec<_> =
                        (0..20).map(|at| tables.create(&format!("{thread}-{at}")).expect("made")).collect();
                    (own, tables.open_or_create("common").expect("made"))
                })
            })
            .collect();
        made.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut all: Vec<_> = same.iter().flat_map(|(own, _)| own.clone()).collect();
    all.push(same[0].1);
    assert!(same.iter().all(|(_, common)| *common == same[0].1));
    let different: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
    assert_eq!(tables.names().expect("readable").len(), 81);
}
