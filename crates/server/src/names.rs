//! The names under which the store keeps the data of clients, in seven *spaces*. The first byte of
//! a name is its space.
//!
//! | space | behind the first byte | what it has |
//! | --- | --- | --- |
//! | [`KEYS`] | a key | a string, or the header of a collection (`value.rs`) |
//! | [`MEMBERS`] | an incarnation, a member | what the field of a hash has, the score of a sorted set's member, or the element at a position of a list |
//! | [`ORDER`] | an incarnation, a score, a member; of a list, a side | nothing: it is there; of a list whose ends are apart, where that side ends |
//! | [`LANES`] | an incarnation, a lane | how many members a lane has, and a stamp (`collection/lanes.rs`) |
//! | [`TOMBSTONES`] | an incarnation | nothing: its members are to be deleted |
//! | [`LATER_KEYS`] | a generation, a key | as [`KEYS`] |
//! | [`GENERATION`] | nothing | the generation |
//!
//! A *generation* is what all keys are of from one FLUSHALL to the next. Those of the first one are
//! in [`KEYS`]. So a store that no client has flushed has short names, and FLUSHALL only changes a
//! number: keys of generations before are no keys any more.
//!
//! An *incarnation* is what a collection is from when its key gets it until the key is deleted or
//! gets something else; its number is never used again. So members that are still there when their
//! collection is not belong to no collection. Numbers stand with their highest byte first, so that
//! they are in order.

use smallvec::SmallVec;
use std::ops::{Bound, Range};

pub(crate) const KEYS: u8 = 1;
pub(crate) const MEMBERS: u8 = 2;
pub(crate) const ORDER: u8 = 3;
pub(crate) const LANES: u8 = 4;
pub(crate) const TOMBSTONES: u8 = 5;
const LATER_KEYS: u8 = 6;
/// The name of the generation.
pub(crate) const GENERATION: &[u8] = &[7];

/// A name. Those of usual keys need no memory of their own.
pub(crate) type Name = SmallVec<[u8; 64]>;

/// Where a member begins in the names of [`MEMBERS`].
const MEMBER: usize = 1 + 8;
/// Where a member begins in the names of [`ORDER`].
const ORDERED_MEMBER: usize = MEMBER + 8;

/// A name of these parts.
#[inline]
fn name(space: u8, parts: &[&[u8]]) -> Name {
    let mut name = Name::new();
    name.push(space);
    parts.iter().for_each(|part| name.extend_from_slice(part));
    name
}

/// Of what a key has.
#[inline]
pub(crate) fn key(generation: u64, key: &[u8]) -> Name {
    match generation {
        0 => name(KEYS, &[key]),
        later => name(LATER_KEYS, &[&later.to_be_bytes(), key]),
    }
}

/// The key in a name of a key; none if no server has written it.
pub(crate) fn key_in(name: &[u8]) -> Option<&[u8]> {
    name.get(if name.first() == Some(&KEYS) { 1 } else { MEMBER }..)
}

/// All names of a generation's keys.
pub(crate) fn keys(generation: u64) -> Range<Name> {
    if generation == 0 { all(KEYS) } else { all_of(LATER_KEYS, generation) }
}

/// All names of the keys of the generations before this one.
pub(crate) fn keys_before(generation: u64) -> [Range<Name>; 2] {
    let first = if generation == 0 { Name::new()..Name::new() } else { all(KEYS) };
    [first, key(1, &[])..name(LATER_KEYS, &[&generation.max(1).to_be_bytes()])]
}

/// All names of a space.
pub(crate) fn all(space: u8) -> Range<Name> {
    name(space, &[])..name(space + 1, &[])
}

/// All names of an incarnation in a space.
pub(crate) fn all_of(space: u8, incarnation: u64) -> Range<Name> {
    let first = name(space, &[&incarnation.to_be_bytes()]);
    // Numbers begin at a time in nanoseconds; the last one is in a folder that no server has
    // written.
    match incarnation.checked_add(1) {
        Some(next) => first..name(space, &[&next.to_be_bytes()]),
        None => first..all(space).end,
    }
}

/// Of a member.
pub(crate) fn member(incarnation: u64, member: &[u8]) -> Name {
    name(MEMBERS, &[&incarnation.to_be_bytes(), member])
}

/// The member in a name of [`MEMBERS`]; none if no server has written it.
pub(crate) fn member_in(name: &[u8]) -> Option<&[u8]> {
    name.get(MEMBER..)
}

/// Of a member at its place among the scores.
pub(crate) fn ordered(incarnation: u64, place: u64, member: &[u8]) -> Name {
    name(ORDER, &[&incarnation.to_be_bytes(), &place.to_be_bytes(), member])
}

/// The place and the member in a name of [`ORDER`]; none if no server has written it.
pub(crate) fn ordered_in(name: &[u8]) -> Option<(u64, &[u8])> {
    Some((number(name.get(MEMBER..ORDERED_MEMBER)?), &name[ORDERED_MEMBER..]))
}

/// Of a lane.
pub(crate) fn lane(incarnation: u64, lane: u16) -> Name {
    name(LANES, &[&incarnation.to_be_bytes(), &lane.to_be_bytes()])
}

/// Of an incarnation whose members are to be deleted.
pub(crate) fn tombstone(incarnation: u64) -> Name {
    name(TOMBSTONES, &[&incarnation.to_be_bytes()])
}

/// The incarnation in a name of any space but those of keys.
pub(crate) fn incarnation_in(name: &[u8]) -> Option<u64> {
    name.get(1..MEMBER).map(number)
}

/// The same name of a member, of its place, or of a lane, in another incarnation.
pub(crate) fn in_incarnation(incarnation: u64, of: &[u8]) -> Name {
    let (space, rest) = (of.first().copied().unwrap_or_default(), of.get(MEMBER..).unwrap_or_default());
    name(space, &[&incarnation.to_be_bytes(), rest])
}

/// A number whose highest byte stands first.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The bounds of these names, for a scan.
pub(crate) fn bounds(range: &Range<Name>) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(&range.start), Bound::Excluded(&range.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_in_order() {
        let names = [
            key(0, b""),
            key(0, b"\xff\xff"),
            member(7, b""),
            member(7, b"\xff"),
            member(8, b"a"),
            ordered(7, 0, b"z"),
            ordered(7, 1, b"a"),
            ordered(256, 0, b""),
            lane(7, 1),
            lane(7, 256),
            tombstone(7),
            key(1, b""),
            key(1, b"\xff"),
            key(2, b"a"),
            Name::from_slice(GENERATION),
        ];
        assert!(names.is_sorted());
        assert!(all_of(MEMBERS, 7).contains(&names[3]) && !all_of(MEMBERS, 7).contains(&names[4]));
        assert!(all(KEYS).contains(&names[1]) && !all(KEYS).contains(&names[2]));
        for (generation, of_it) in [(0, 0..2), (1, 11..13), (2, 13..14)] {
            let is_of = |name: &Name| keys(generation).contains(name);
            let found: Vec<_> = (0..names.len()).filter(|&at| is_of(&names[at])).collect();
            assert_eq!(found, of_it.clone().collect::<Vec<_>>());
            let is_before = |name: &Name| keys_before(generation).iter().any(|range| range.contains(name));
            let before: Vec<_> = (0..of_it.start).filter(|at| *at < 2 || *at > 10).collect();
            assert_eq!((0..names.len()).filter(|&at| is_before(&names[at])).collect::<Vec<_>>(), before);
        }
    }

    #[test]
    fn the_parts_of_a_name_are_found_in_it() {
        assert_eq!([0, 1, u64::MAX].map(|of| key_in(&key(of, b"k")).unwrap().to_vec()), [b"k", b"k", b"k"]);
        assert_eq!(member_in(&member(7, b"m")), Some(&b"m"[..]));
        assert_eq!(ordered_in(&ordered(7, 9, b"m")), Some((9, &b"m"[..])));
        assert_eq!((member_in(&[MEMBERS; 8]), ordered_in(&[ORDER; 16])), (None, None));
        assert_eq!(incarnation_in(&lane(7, 3)), Some(7));
        assert_eq!(incarnation_in(&[TOMBSTONES, 1]), None);
        let renumbered =
            [member(7, b"m"), ordered(7, 9, b""), lane(7, 3)].map(|name| in_incarnation(8, &name));
        assert_eq!(renumbered, [member(8, b"m"), ordered(8, 9, b""), lane(8, 3)]);
    }
}
