//! A record of the log: a batch, as bytes. A record that was not written whole is recognized as
//! such.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..8 | the store's [`Secret`], the part for this |
//! | 8..12 | checksum (CRC-32, begun with the other part of the secret) of all that follows |
//! | 12..16 | length of the changes in bytes |
//! | 16..24 | *generation*: of the opening of the store that wrote it |
//! | 24..32 | *sequence*: one more than that of the record before it |
//! | 32..40 | *durable*: all records up to this sequence were known to be durable when it was written |
//! | 40..48 | the id of the transaction, or 0 |
//! | 48..56 | the timestamp of its commit, or 0 |
//! | 56..64 | the oldest timestamp that could be read then |
//! | 64.. | the changes: a tag (1 put, 2 delete), the key's length (4 bytes) and the key; for a put the value's length and the value |
//!
//! All numbers are little-endian.

use super::secret::Secret;
use crate::txn::{Change, Value};
use crc32fast::Hasher;

/// How many bytes come before the changes.
pub(super) const HEADER: usize = 64;
/// Where what the checksum covers begins.
const COVERED: usize = 12;

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// What a record says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) generation: u64,
    pub(super) sequence: u64,
    pub(super) durable: u64,
    pub(super) id: u64,
    pub(super) timestamp: u64,
    pub(super) oldest_timestamp: u64,
}

#[cfg(test)]
impl Head {
    /// Of a generation, and of nothing else.
    pub(super) fn of(generation: u64) -> Head {
        Head { generation, sequence: 0, durable: 0, id: 0, timestamp: 0, oldest_timestamp: 0 }
    }
}

/// How many bytes the record of some changes has.
pub(super) fn bytes_of(changes: &[Change]) -> usize {
    let bytes = |change: &Change| match change {
        Change::Put { key, value } => 9 + key.len() + value.len(),
        Change::Delete { key } => 5 + key.len(),
    };
    HEADER + changes.iter().map(bytes).sum::<usize>()
}

/// Writes a record in the place of what is in `into`. Its changes have less than 4 GiB.
pub(super) fn encode(secret: Secret, head: Head, changes: &[Change], into: &mut Vec<u8>) {
    into.clear();
    into.resize(HEADER, 0);
    for change in changes {
        match change {
            Change::Put { key, value } => {
                into.push(PUT);
                put(key, into);
                put(value, into);
            }
            Change::Delete { key } => {
                into.push(DELETE);
                put(key, into);
            }
        }
    }
    let length = (into.len() - HEADER) as u32;
    into[..8].copy_from_slice(&secret.start);
    into[12..16].copy_from_slice(&length.to_le_bytes());
    let Head { generation, sequence, durable, id, timestamp, oldest_timestamp } = head;
    let numbers = [generation, sequence, durable, id, timestamp, oldest_timestamp];
    for (place, number) in into[16..HEADER].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let sum = sum(secret, &into[COVERED..]);
    into[8..12].copy_from_slice(&sum.to_le_bytes());
}

fn sum(secret: Secret, covered: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(secret.sum);
    hasher.update(covered);
    hasher.finalize()
}

fn put(bytes: &[u8], into: &mut Vec<u8>) {
    into.extend((bytes.len() as u32).to_le_bytes());
    into.extend(bytes);
}

/// The record at the beginning of `bytes`, and its length, if it is whole.
pub(super) fn decode(secret: Secret, bytes: &[u8]) -> Option<(Head, Vec<Change>, usize)> {
    let (head, body) = check(secret, bytes)?;
    let mut rest = body;
    let mut changes = Vec::new();
    while let Some((tag, after)) = rest.split_first() {
        rest = after;
        let key = take(&mut rest)?;
        changes.push(match *tag {
            PUT => Change::Put { key, value: take(&mut rest)? },
            DELETE => Change::Delete { key },
            _ => return None,
        });
    }
    Some((head, changes, HEADER + body.len()))
}

/// What the record at the beginning of `bytes` says of itself, and its changes as bytes, if it is
/// whole.
pub(super) fn check(secret: Secret, bytes: &[u8]) -> Option<(Head, &[u8])> {
    let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if !bytes.starts_with(&secret.start) {
        return None;
    }
    let end = HEADER.checked_add(short(12)? as usize)?;
    let covered = bytes.get(COVERED..end)?;
    if sum(secret, covered) != short(8)? {
        return None;
    }
    let head = Head {
        generation: number(16)?,
        sequence: number(24)?,
        durable: number(32)?,
        id: number(40)?,
        timestamp: number(48)?,
        oldest_timestamp: number(56)?,
    };
    Some((head, &bytes[HEADER..end]))
}

/// Takes bytes behind their length.
fn take(rest: &mut &[u8]) -> Option<Value> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (bytes, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret = Secret { start: *b"\xABsecret!", sum: 0x0102_0304 };
    const HEAD: Head =
        Head { generation: 3, sequence: 9, durable: 7, id: 11, timestamp: 20, oldest_timestamp: 15 };

    fn changes() -> Vec<Change> {
        let put = |key: &[u8], value: &[u8]| Change::Put { key: key.into(), value: value.into() };
        vec![put(b"a", b"1"), put(b"", b""), Change::Delete { key: b"b".as_slice().into() }]
    }

    fn record() -> Vec<u8> {
        let (changes, mut bytes) = (changes(), Vec::new());
        encode(SECRET, HEAD, &changes, &mut bytes);
        assert_eq!(bytes.len(), bytes_of(&changes));
        bytes
    }

    #[test]
    fn a_record_is_read_as_it_was_written_whatever_follows() {
        let mut bytes = record();
        let length = bytes.len();
        assert_eq!(decode(SECRET, &bytes), Some((HEAD, changes(), length)));
        bytes.extend(b"and more");
        assert_eq!(decode(SECRET, &bytes), Some((HEAD, changes(), length)));
    }

    #[test]
    fn a_record_that_is_cut_or_changed_anywhere_is_none() {
        let bytes = record();
        for at in 0..bytes.len() {
            assert_eq!(decode(SECRET, &bytes[..at]), None, "cut at {at}");
            let mut torn = bytes.clone();
            torn[at] ^= 0x10;
            assert_eq!(decode(SECRET, &torn), None, "changed at {at}");
            torn[at..].fill(0);
            assert!(decode(SECRET, &torn).is_none() || torn == bytes, "zeroes from {at}");
        }
    }

    /// The format is this one, and every later version has to read it, or to say that it cannot.
    #[test]
    fn a_record_of_an_earlier_day_is_read_and_written_as_it_was() {
        let parts: [&[u8]; 11] = [
            b"\xABsecret!",
            // By another implementation of the checksum.
            &[0xCF, 0x50, 0xBB, 0x73],
            &[20, 0, 0, 0],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[9, 0, 0, 0, 0, 0, 0, 0],
            &[7, 0, 0, 0, 0, 0, 0, 0],
            &[11, 0, 0, 0, 0, 0, 0, 0],
            &[20, 0, 0, 0, 0, 0, 0, 0],
            &[15, 0, 0, 0, 0, 0, 0, 0],
            // A put of two bytes under one, and a delete.
            b"\x01\x01\0\0\0a\x02\0\0\x0012",
            b"\x02\x03\0\0\0key",
        ];
        let sample = parts.concat();
        let changes = vec![
            Change::Put { key: (*b"a").into(), value: (*b"12").into() },
            Change::Delete { key: (*b"key").into() },
        ];
        let mut bytes = Vec::new();
        encode(SECRET, HEAD, &changes, &mut bytes);
        assert_eq!(bytes, sample);
        assert_eq!(decode(SECRET, &sample), Some((HEAD, changes, sample.len())));
    }

    #[test]
    fn a_record_of_another_store_is_none_whichever_part_of_the_secret_differs() {
        let bytes = record();
        let start = Secret { start: *b"\xABsecret?", ..SECRET };
        let sum = Secret { sum: SECRET.sum + 1, ..SECRET };
        for other in [start, sum] {
            assert_eq!(decode(other, &bytes), None);
        }
    }
}
