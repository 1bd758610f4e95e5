//! Lists beside a plain one. Bounds are small here, so that a few elements make a list wide.

use super::super::SMALL_MAX;
use super::super::tests::{Fixture, KEY};
use super::{List, Side};
use crate::ops::{Enough, Ops};
use manx::txn::{Error, Isolation};
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    Push(Side, u8),
    Pop(Side),
    Set(i64, u8),
    Insert(i64, u8),
    /// Keeps each second element.
    Thin,
    Delete,
    Clean,
    /// To another key and back.
    Rename,
    /// By a copy of it.
    ReplaceByCopy,
    /// By what a server wrote before December 2026.
    ReplaceByOld,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = prop_oneof![Just(Side::Left), Just(Side::Right)];
    let step = prop_oneof![
        20 => (side.clone(), any::<u8>()).prop_map(|(side, element)| Step::Push(side, element)),
        15 => side.prop_map(Step::Pop),
        4 => (-20..20_i64, any::<u8>()).prop_map(|(index, element)| Step::Set(index, element)),
        4 => (0..20_i64, any::<u8>()).prop_map(|(index, element)| Step::Insert(index, element)),
        1 => Just(Step::Thin),
        1 => Just(Step::Delete),
        2 => Just(Step::Clean),
        2 => Just(Step::Rename),
        2 => Just(Step::ReplaceByCopy),
        2 => Just(Step::ReplaceByOld),
    ];
    prop::collection::vec(step, 1..200)
}

/// Writes the list with its ends apart, if it is small.
fn make_old(ops: &mut Ops<'_, '_>) {
    let Some(mut list) = List::find(ops, KEY).unwrap() else { return };
    if list.members.header.first.take().is_some() {
        list.moved = [true; 2];
        list.members.has_changed = true;
        list.finish(ops).unwrap();
    }
}

/// Changes the list that is there, or a new one.
fn change<R>(fixture: &Fixture, change: impl FnOnce(&mut Ops<'_, '_>, &mut List<'_>) -> R) -> R {
    fixture.alone(|ops| {
        let mut list = List::find_or_make(ops, KEY).unwrap();
        let result = change(ops, &mut list);
        list.finish(ops).unwrap();
        result
    })
}

fn take(model: &mut VecDeque<u8>, side: Side) -> Option<u8> {
    match side {
        Side::Left => model.pop_front(),
        Side::Right => model.pop_back(),
    }
}

/// The elements, after a look at Invariant 3.
fn elements(fixture: &Fixture) -> Vec<u8> {
    let Some((found, header)) = fixture.alone(|ops| {
        let list = List::find(ops, KEY).unwrap()?;
        let (mut found, header) = (Vec::new(), list.members.header);
        list.elements(ops, 0..list.len(), false, |index, element| {
            assert_eq!(index as usize, found.len());
            found.push(element[0]);
            Enough::No
        })
        .unwrap();
        assert_eq!(list.members.len(ops).unwrap(), found.len() as u64);
        Some((found, header))
    }) else {
        return Vec::new();
    };
    assert!(!(header.is_wide && header.first.is_some()));
    fixture.clean();
    let [_, members, ends, ..] = fixture.names();
    assert_eq!((members, ends), (found.len(), if header.first.is_some() { 0 } else { 2 }));
    found
}

proptest! {
    #[test]
    fn a_list_is_what_was_put_into_it(steps in steps()) {
        let fixture = Fixture::new();
        let mut model: VecDeque<u8> = VecDeque::new();
        for step in steps {
            match step {
                Step::Push(side, element) => {
                    change(&fixture, |ops, list| list.push(ops, side, &[element])).unwrap();
                    match side {
                        Side::Left => model.push_front(element),
                        Side::Right => model.push_back(element),
                    }
                }
                Step::Pop(side) => {
                    let popped = change(&fixture, |ops, list| list.pop(ops, side)).unwrap();
                    prop_assert_eq!(popped.map(|element| element[0]), take(&mut model, side));
                }
                Step::Set(index, element) => {
                    let was = change(&fixture, |ops, list| list.set(ops, index, &[element])).unwrap();
                    let at = if index < 0 { model.len() as i64 + index } else { index };
                    let place = usize::try_from(at).ok().and_then(|at| model.get_mut(at));
                    prop_assert_eq!(was, place.is_some());
                    place.into_iter().for_each(|place| *place = element);
                }
                Step::Insert(index, element) => {
                    let index = index.min(model.len() as i64);
                    change(&fixture, |ops, list| list.insert(ops, index, &[element])).unwrap();
                    model.insert(index as usize, element);
                }
                Step::Thin => {
                    let kept: Vec<i64> = (0..model.len() as i64).step_by(2).collect();
                    change(&fixture, |ops, list| list.keep(ops, &kept)).unwrap();
                    model = kept.iter().map(|at| model[*at as usize]).collect();
                }
                Step::Delete => {
                    let was = fixture.alone(|ops| ops.delete(KEY)).unwrap();
                    prop_assert_eq!(was, !model.is_empty());
                    model.clear();
                }
                Step::Clean => fixture.clean(),
                Step::Rename => fixture.rename_and_back(),
                Step::ReplaceByCopy => fixture.replace_by_copy(),
                Step::ReplaceByOld => fixture.alone(make_old),
            }
            prop_assert_eq!(elements(&fixture), Vec::from(model.clone()));
        }
        fixture.alone(|ops| ops.delete(KEY)).unwrap();
        fixture.clean();
        prop_assert_eq!(fixture.names(), [0; 5]);
    }
}

/// How many names there are of the key, of elements, and of ends.
fn of_list(fixture: &Fixture) -> [usize; 3] {
    let [keys, members, ends, ..] = fixture.names();
    [keys, members, ends]
}

#[test]
fn a_small_list_has_its_ends_in_its_header() {
    let fixture = Fixture::new();
    let push = |side| change(&fixture, |ops, list| list.push(ops, side, b"e")).unwrap();
    let pop = |side| change(&fixture, |ops, list| list.pop(ops, side)).unwrap();
    (0..SMALL_MAX).for_each(|_| push(Side::Left));
    assert_eq!(of_list(&fixture), [1, SMALL_MAX as usize, 0]);
    push(Side::Right);
    assert_eq!(of_list(&fixture), [1, SMALL_MAX as usize + 1, 2], "it is wide");
    (0..SMALL_MAX).for_each(|_| drop(pop(Side::Right)));
    assert_eq!(of_list(&fixture), [1, 1, 2], "it stays so");
    pop(Side::Left);
    assert_eq!(of_list(&fixture), [0; 3]);
    push(Side::Right);
    assert_eq!(of_list(&fixture), [1, 1, 0]);
    fixture.alone(make_old);
    assert_eq!(of_list(&fixture), [1, 1, 2]);
    pop(Side::Left);
    assert_eq!(of_list(&fixture), [0; 3]);
}

#[test]
fn two_that_change_one_side_of_a_small_list_conflict() {
    let fixture = Fixture::new();
    for element in [b"a", b"b"] {
        change(&fixture, |ops, list| list.push(ops, Side::Right, element)).unwrap();
    }
    for gone in ["the last element", "the list"] {
        let mut session = fixture.session();
        let mut transaction = session.begin(Isolation::Snapshot).unwrap();
        let ops = &mut fixture.ops(&mut transaction);
        let mut list = List::find(ops, KEY).unwrap().unwrap();
        change(&fixture, |ops, list| list.pop(ops, Side::Right)).unwrap();
        let pushed = list.push(ops, Side::Right, b"c").and_then(|()| list.finish(ops));
        assert!(matches!(pushed, Err(Error::Conflict { .. })), "{gone} is gone: {pushed:?}");
    }
    assert_eq!(of_list(&fixture), [0; 3]);
}
