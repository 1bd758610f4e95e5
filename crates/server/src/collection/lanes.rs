//! Lanes: a wide collection's members in [`LANES_MAX`] parts by a hash, each with a count and a
//! stamp of its own.
//!
//! Two transactions that write members at once conflict if both write in the same lane: of ten
//! writers about one in fifty. The number of members is the sum of the lanes. Their stamps tell
//! whether anything has changed.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | the stamp: different for each time that a member of the lane is written |
//! | 8 | how many members, at least one: a lane that has none is not there |

use crate::names::{self, LANES, MEMBERS, number};
use crate::ops::{Ops, foreign};
use manx::txn::{Error, Value};
use std::collections::BTreeMap;

/// The maximum number of lanes.
const LANES_MAX: u64 = if cfg!(test) { 4 } else { 512 };

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// The lane of a member: its hash's halves folded. It is on disk, so it must not change.
pub(super) fn of(member: &[u8]) -> u16 {
    let hash = hash(member);
    ((hash ^ hash >> 32) % LANES_MAX) as u16
}

/// The stamp and the count that a lane has.
fn read(name: &[u8], value: &[u8]) -> Result<(u64, u64), Error> {
    let (stamp, count) = value.split_at_checked(8).ok_or_else(|| foreign(name))?;
    Ok((number(stamp), number(count)))
}

fn store(ops: &mut Ops<'_, '_>, incarnation: u64, lane: u16, count: u64) -> Result<(), Error> {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&ops.stamp().to_be_bytes());
    value[8..].copy_from_slice(&count.to_be_bytes());
    ops.store(&names::lane(incarnation, lane), &value)
}

/// Adds `by` to the lane's count of members. Returns how many lanes more have members: 1, 0 or −1.
pub(super) fn count(ops: &mut Ops<'_, '_>, incarnation: u64, lane: u16, by: i64) -> Result<i64, Error> {
    let name = names::lane(incarnation, lane);
    let before = match ops.load(&name)? {
        Some(value) => read(&name, &value)?.1,
        None => 0,
    };
    let after = before.saturating_add_signed(by);
    if after == 0 {
        ops.remove(&name)?;
        return Ok(if before == 0 { 0 } else { -1 });
    }
    store(ops, incarnation, lane, after)?;
    Ok(i64::from(before == 0))
}

/// Makes lanes for the members that are there. Returns how many have some.
pub(super) fn widen(ops: &mut Ops<'_, '_>, incarnation: u64) -> Result<u64, Error> {
    let mut counts = BTreeMap::new();
    for entry in ops.entries(&names::all_of(MEMBERS, incarnation), false) {
        let (name, _) = entry?;
        let member = names::member_in(&name).ok_or_else(|| foreign(&name))?;
        *counts.entry(of(member)).or_insert(0) += 1;
    }
    for (lane, count) in &counts {
        store(ops, incarnation, *lane, *count)?;
    }
    Ok(counts.len() as u64)
}

/// How many members there are.
pub(super) fn sum(ops: &mut Ops<'_, '_>, incarnation: u64) -> Result<u64, Error> {
    all_are_read(ops, incarnation)?;
    let mut sum: u64 = 0;
    for entry in ops.entries(&names::all_of(LANES, incarnation), false) {
        let (name, value) = entry?;
        sum = sum.saturating_add(read(&name, &value)?.1);
    }
    Ok(sum)
}

/// Remembers all lanes as read. That covers all members: a change of a member writes its lane, and
/// a new lane changes the header.
pub(super) fn all_are_read(ops: &mut Ops<'_, '_>, incarnation: u64) -> Result<(), Error> {
    if !ops.remembers() {
        return Ok(());
    }
    let lanes = ops.entries(&names::all_of(LANES, incarnation), false);
    let lanes: Result<Vec<Value>, Error> = lanes.map(|entry| Ok(entry?.0)).collect();
    lanes?.iter().for_each(|name| ops.was_read(name));
    Ok(())
}

/// A number that differs after each change. The newest stamp would not do, because stamps are not
/// in the order of commits. So it is the sum of all stamps, each mixed (splitmix64): that two sets
/// of stamps have the same sum is practically impossible.
pub(super) fn digest(ops: &mut Ops<'_, '_>, incarnation: u64) -> Result<u64, Error> {
    let mut digest: u64 = 0;
    for entry in ops.entries(&names::all_of(LANES, incarnation), false) {
        let (name, value) = entry?;
        let (mut mixed, _) = read(&name, &value)?;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        digest = digest.wrapping_add(mixed ^ mixed >> 31);
    }
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the hash's authors; other lanes would be other folders.
    #[test]
    fn the_hash_is_what_it_was() {
        for (bytes, expected) in [
            (&b""[..], 0xCBF2_9CE4_8422_2325),
            (b"a", 0xAF63_DC4C_8601_EC8C),
            (b"foobar", 0x8594_4171_F739_67E8),
        ] {
            assert_eq!(hash(bytes), expected, "{bytes:?}");
        }
        // The halves, folded: 0xF739_67E8 ^ 0x8594_4171 ends with the bits 01.
        assert_eq!(of(b"foobar"), 1);
    }

    #[test]
    fn what_no_server_wrote_is_not_read() {
        assert_eq!(read(b"name", &[0, 0, 0, 0, 0, 0, 0, 7, 9]).unwrap(), (7, 9));
        assert!(read(b"name", &[0; 7]).is_err());
    }
}
