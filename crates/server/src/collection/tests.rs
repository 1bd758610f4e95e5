//! Concurrent transactions in a collection, step by step. Bounds are small here, so that a few
//! members make it wide.

use super::lanes;
use super::{Collection, SMALL_MAX, SortedSet, watched};
use crate::fault::Fault;
use crate::keyspace::Keyspace;
use crate::names::{self, KEYS, LANES, MEMBERS, ORDER, TOMBSTONES};
use crate::ops::Ops;
use crate::options::Options as Serving;
use crate::value::Kind;
use manx::txn::{Error, Isolation, Options, Session, Store, Transaction};
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(super) const KEY: &[u8] = b"key";
const OTHER: &[u8] = b"other";

pub(super) struct Fixture {
    store: Store,
    keyspace: Keyspace,
}

impl Fixture {
    pub(super) fn new() -> Fixture {
        let store = Store::in_memory(Options::default());
        let keyspace = Keyspace::new(&store, &Serving::default()).unwrap();
        Fixture { store, keyspace }
    }

    pub(super) fn session(&self) -> Session {
        self.store.session().unwrap()
    }

    pub(super) fn ops<'o, 's>(&'o self, transaction: &'o mut Transaction<'s>) -> Ops<'o, 's> {
        Ops::new(transaction, &self.keyspace, usize::MAX)
    }

    /// Does this in a transaction of its own.
    pub(super) fn alone<R>(&self, work: impl FnOnce(&mut Ops<'_, '_>) -> R) -> R {
        let mut session = self.session();
        let mut transaction = session.begin(Isolation::Snapshot).unwrap();
        let result = work(&mut self.ops(&mut transaction));
        transaction.commit().unwrap();
        result
    }

    fn set(&self, fields: impl IntoIterator<Item = String>) {
        for field in fields {
            self.alone(|ops| set(ops, &field)).unwrap();
        }
    }

    fn fields(&self) -> Vec<String> {
        self.alone(|ops| {
            let Some(hash) = Collection::find(ops, KEY, Kind::Hash).unwrap() else { return Vec::new() };
            let mut fields = Vec::new();
            hash.members(ops, &hash.all(), false, |field, _| {
                fields.push(String::from_utf8(field.to_vec()).unwrap());
                crate::ops::Enough::No
            })
            .unwrap();
            assert_eq!(hash.len(ops).unwrap(), fields.len() as u64);
            fields
        })
    }

    /// How many names there are in each space.
    pub(super) fn names(&self) -> [usize; 5] {
        [KEYS, MEMBERS, ORDER, LANES, TOMBSTONES]
            .map(|space| self.alone(|ops| ops.entries(&names::all(space), false).count()))
    }

    pub(super) fn clean(&self) {
        while self.alone(|ops| ops.purge().unwrap()) {}
    }

    /// Renames the key to another one, and that back.
    pub(super) fn rename_and_back(&self) {
        self.alone(|ops| rename(ops, KEY, OTHER)).unwrap();
        self.alone(|ops| rename(ops, OTHER, KEY)).unwrap();
    }

    /// Gives the key a copy of what it has.
    pub(super) fn replace_by_copy(&self) {
        self.alone(|ops| {
            if let Some(found) = ops.get(KEY).unwrap() {
                ops.copy(&found, OTHER).unwrap();
            }
        });
        self.alone(|ops| rename(ops, OTHER, KEY)).unwrap();
    }
}

fn set(ops: &mut Ops<'_, '_>, field: &str) -> Result<(), Error> {
    let mut hash = Collection::find_or_make(ops, KEY, Kind::Hash).map_err(store)?;
    let is_new = hash.get(ops, field.as_bytes())?.is_none();
    hash.put(ops, field.as_bytes(), b"value", is_new)?;
    hash.finish(ops)
}

fn delete(ops: &mut Ops<'_, '_>, field: &str) -> Result<(), Error> {
    let Some(mut hash) = Collection::find(ops, KEY, Kind::Hash).map_err(store)? else { return Ok(()) };
    if hash.get(ops, field.as_bytes())?.is_some() {
        hash.delete(ops, field.as_bytes())?;
    }
    hash.finish(ops)
}

/// Renames a key, if it is there.
fn rename(ops: &mut Ops<'_, '_>, from: &[u8], to: &[u8]) -> Result<(), Error> {
    match ops.get(from)? {
        Some(found) => ops.rename(from, &found, to),
        None => Ok(()),
    }
}

fn store(fault: Fault) -> Error {
    match fault {
        Fault::Store(error) => error,
        Fault::Message(text) => panic!("{text}"),
    }
}

fn field(number: u64) -> String {
    format!("field:{number}")
}

/// A field in another lane than this one.
fn elsewhere(than: &str) -> String {
    let is_elsewhere = |field: &String| lanes::of(field.as_bytes()) != lanes::of(than.as_bytes());
    (100..).map(field).find(is_elsewhere).unwrap()
}

/// Two transactions that have begun before either has done anything. Returns which were committed.
fn both(
    fixture: &Fixture,
    first: impl FnOnce(&mut Ops<'_, '_>) -> Result<(), Error>,
    second: impl FnOnce(&mut Ops<'_, '_>) -> Result<(), Error>,
) -> [bool; 2] {
    let (mut one, mut other) = (fixture.session(), fixture.session());
    let mut one = one.begin(Isolation::Snapshot).unwrap();
    let mut other = other.begin(Isolation::Snapshot).unwrap();
    let first = first(&mut fixture.ops(&mut one));
    let second = second(&mut fixture.ops(&mut other));
    let first = first.and_then(|()| one.commit()).is_ok();
    let second = second.and_then(|()| other.commit()).is_ok();
    [first, second]
}

/// Of a hash with one field: in both forms.
fn with_one_field(test: impl Fn(&Fixture, &str)) {
    for members in [1, SMALL_MAX + 1] {
        let fixture = Fixture::new();
        fixture.set((0..members).map(field));
        for number in 1..members {
            fixture.alone(|ops| delete(ops, &field(number))).unwrap();
        }
        assert_eq!(fixture.fields(), [field(0)]);
        test(&fixture, &field(0));
    }
}

#[test]
fn a_delete_of_the_last_field_conflicts_with_an_addition() {
    with_one_field(|fixture, last| {
        let added = elsewhere(last);
        let done = both(fixture, |ops| delete(ops, last), |ops| set(ops, &added));
        assert_eq!(done, [true, false]);
        assert_eq!(fixture.fields(), [""; 0]);
        fixture.alone(|ops| set(ops, &added)).unwrap();
        assert_eq!(fixture.fields(), [added]);
    });
    with_one_field(|fixture, last| {
        let added = elsewhere(last);
        let done = both(fixture, |ops| set(ops, &added), |ops| delete(ops, last));
        assert_eq!(done, [true, false]);
        assert_eq!(fixture.fields().len(), 2);
    });
}

#[test]
fn writers_of_a_wide_one_do_not_conflict_unless_in_a_lane() {
    let fixture = Fixture::new();
    fixture.set((0..50).map(field));
    let [one, other] = [field(0), elsewhere(&field(0))];
    assert_eq!(both(&fixture, |ops| set(ops, &one), |ops| set(ops, &other)), [true; 2]);
    assert_eq!(both(&fixture, |ops| set(ops, &one), |ops| delete(ops, &other)), [true; 2]);
    assert_eq!(both(&fixture, |ops| set(ops, &one), |ops| set(ops, &one)), [true, false]);
}

#[test]
fn what_is_written_while_its_collection_dies_is_as_if_it_had_been_before() {
    for members in [1, 50] {
        let fixture = Fixture::new();
        fixture.set((0..members).map(field));
        let done = both(&fixture, |ops| set(ops, &field(0)), |ops| ops.delete(KEY).map(drop));
        // A small one has its header written by both.
        assert_eq!(done, [true, members == 50]);
        fixture.alone(|ops| ops.delete(KEY)).unwrap();
        assert_eq!(fixture.fields(), [""; 0]);
        fixture.clean();
        assert_eq!(fixture.names(), [0; 5]);
    }
}

#[test]
fn what_is_written_while_its_collection_is_renamed_is_as_if_it_had_been_before() {
    for members in [1, 50] {
        for renames_first in [false, true] {
            let fixture = Fixture::new();
            fixture.set((0..members).map(field));
            let add = |ops: &mut Ops<'_, '_>| {
                // In a lane that has members; of a small one it is a new field.
                let name = (60..).map(field).find(|name| lanes::of(name.as_bytes()) == lanes::of(b"field:0"));
                set(ops, &name.unwrap())
            };
            let move_it = |ops: &mut Ops<'_, '_>| rename(ops, KEY, OTHER);
            let done = match renames_first {
                true => both(&fixture, move_it, add),
                false => both(&fixture, add, move_it),
            };
            assert_eq!(done, [true, members == 50], "{members} {renames_first}");
            fixture.alone(|ops| rename(ops, OTHER, KEY)).unwrap();
            let expected = members + u64::from(members == 50 || !renames_first);
            assert_eq!(fixture.fields().len() as u64, expected);
            fixture.alone(|ops| ops.delete(KEY)).unwrap();
            fixture.clean();
            assert_eq!(fixture.names(), [0; 5]);
        }
    }
}

#[test]
fn nothing_can_come_into_what_is_being_cleaned() {
    let fixture = Fixture::new();
    fixture.set((0..50).map(field));
    let mut late = fixture.session();
    let mut late = late.begin(Isolation::Snapshot).unwrap();
    fixture.alone(|ops| ops.delete(KEY)).unwrap();
    fixture.clean();
    // It sees the collection, but not that it is dead.
    let added = set(&mut fixture.ops(&mut late), &field(7));
    assert!(matches!(added, Err(Error::Conflict { .. })), "{added:?}");
    drop(late);
    assert_eq!(fixture.names(), [0; 5]);
}

#[test]
fn a_watcher_sees_each_change_of_a_member() {
    with_one_field(|fixture, last| {
        let other = elsewhere(last);
        let mut seen = vec![fixture.alone(|ops| watched(ops, KEY)).unwrap()];
        let mut after = |change: &dyn Fn(&mut Ops<'_, '_>) -> Result<(), Error>| {
            fixture.alone(change).unwrap();
            let now = fixture.alone(|ops| watched(ops, KEY)).unwrap();
            assert!(!seen.contains(&now));
            seen.push(now);
        };
        after(&|ops| set(ops, last));
        after(&|ops| set(ops, &other));
        after(&|ops| delete(ops, last));
        after(&|ops| delete(ops, &other));
        after(&|ops| set(ops, &other));
    });
}

#[test]
fn a_transaction_that_remembers_its_reads_conflicts_with_a_writer() {
    for members in [1, 50] {
        for reads_all in [false, true] {
            let fixture = Fixture::new();
            fixture.set((0..members).map(field));
            let read = |ops: &mut Ops<'_, '_>| {
                ops.remember();
                let hash = Collection::find(ops, KEY, Kind::Hash).map_err(store)?.unwrap();
                if reads_all {
                    hash.len(ops)?;
                } else {
                    hash.get(ops, field(0).as_bytes())?;
                }
                ops.put(b"result", b"", None)?;
                ops.promote()
            };
            assert_eq!(both(&fixture, read, |ops| set(ops, &field(0))), [true, false]);
            assert_eq!(both(&fixture, |ops| delete(ops, &field(0)), read), [true, false]);
        }
    }
}

#[test]
fn an_incarnation_begins_behind_all_that_were() {
    let fixture = Fixture::new();
    fixture.set((0..50).map(field));
    let future = u64::MAX / 2;
    fixture.alone(|ops| ops.store(&names::tombstone(future), b"")).unwrap();
    let keyspace = Keyspace::new(&fixture.store, &Serving { durable: true, ..Serving::default() }).unwrap();
    assert!(keyspace.stamp() > future && keyspace.may_have_collections());
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, i8),
    Remove(u8),
    Delete,
    Replace,
    Clean,
    /// To another key and back.
    Rename,
    /// By a copy of it.
    ReplaceByCopy,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..20_u8, any::<i8>()).prop_map(|(member, score)| Step::Add(member, score)),
        15 => (0..20_u8).prop_map(Step::Remove),
        1 => Just(Step::Delete),
        1 => Just(Step::Replace),
        2 => Just(Step::Clean),
        2 => Just(Step::Rename),
        2 => Just(Step::ReplaceByCopy),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #[test]
    fn a_sorted_set_is_what_was_put_into_it(steps in steps()) {
        let fixture = Fixture::new();
        let mut model: BTreeMap<u8, i8> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Add(member, score) => {
                    fixture.alone(|ops| {
                        let mut set = SortedSet::find_or_make(ops, KEY).unwrap();
                        let old = set.score(ops, &[member]).unwrap();
                        set.put(ops, &[member], f64::from(score), old).unwrap();
                        set.0.finish(ops).unwrap();
                    });
                    model.insert(member, score);
                }
                Step::Remove(member) => {
                    fixture.alone(|ops| {
                        let Some(mut set) = SortedSet::find(ops, KEY).unwrap() else { return };
                        if let Some(score) = set.score(ops, &[member]).unwrap() {
                            set.delete(ops, &[member], score).unwrap();
                        }
                        set.0.finish(ops).unwrap();
                    });
                    model.remove(&member);
                }
                Step::Delete => {
                    let was = fixture.alone(|ops| ops.delete(KEY)).unwrap();
                    prop_assert_eq!(was, !model.is_empty());
                    model.clear();
                }
                Step::Replace => {
                    fixture.alone(|ops| ops.put(KEY, b"text", None)).unwrap();
                    prop_assert!(fixture.alone(|ops| ops.delete(KEY)).unwrap());
                    model.clear();
                }
                Step::Clean => fixture.clean(),
                Step::Rename => fixture.rename_and_back(),
                Step::ReplaceByCopy => fixture.replace_by_copy(),
            }
            let found = fixture.alone(|ops| {
                let mut found = Vec::new();
                if let Some(set) = SortedSet::find(ops, KEY).unwrap() {
                    assert_ne!(set.0.header.count, 0);
                    assert_eq!(set.0.len(ops).unwrap(), model.len() as u64);
                    set.in_order(ops, super::Scores::all(), false, |member, score| {
                        found.push((score as i8, member[0]));
                        crate::ops::Enough::No
                    })
                    .unwrap();
                }
                found
            });
            let mut expected: Vec<_> = model.iter().map(|(member, score)| (*score, *member)).collect();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
        fixture.clean();
        let [keys, members, ordered, _, dead] = fixture.names();
        prop_assert_eq!((keys, members), (usize::from(!model.is_empty()), model.len()));
        prop_assert_eq!((ordered, dead), (model.len(), 0));
        fixture.alone(|ops| ops.delete(KEY)).unwrap();
        fixture.clean();
        prop_assert_eq!(fixture.names(), [0; 5]);
    }
}
