//! What the store keeps for a key: what kind of thing it is, when it expires, and a stamp, before
//! the thing itself.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | the [`Kind`], and the bits [`EXPIRES`] and [`WIDE`] |
//! | 8 | the stamp: different for each time that something is written |
//! | 0 or 8 | the expiry, in milliseconds since 1970 |
//! | the rest | of a string the bytes that the client gave, of a collection its [`Header`] |
//!
//! The *stamp* is what WATCH remembers. The bytes would not do, since another client may have
//! written the same ones again.

use crate::names::number;
use manx::txn::Value;
use std::sync::Arc;

/// What a key can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String = 0x10,
    Hash = 0x20,
    SortedSet = 0x30,
    Set = 0x40,
    List = 0x50,
}

impl Kind {
    /// As TYPE says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::SortedSet => "zset",
            Kind::Set => "set",
            Kind::List => "list",
        }
    }
}

/// A bit: there is an expiry.
const EXPIRES: u8 = 1;
/// A bit: a collection that counts by lanes.
const WIDE: u8 = 2;
/// Kind and stamp.
pub(crate) const HEAD: usize = 9;
/// What a collection's header takes, but for `first`.
const HEADER: usize = 16;

/// What there is of a collection beside its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) incarnation: u64,
    /// Of members; if it is wide, of lanes that have any.
    pub(crate) count: u64,
    pub(crate) is_wide: bool,
    /// Of a list that has no ends apart: the position of its first element.
    pub(crate) first: Option<i64>,
}

/// A value that the store had.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    value: Value,
    kind: Kind,
    /// Where the thing itself begins.
    start: usize,
}

impl Found {
    /// Reads what the store had; none if no server has written it.
    #[inline]
    pub(crate) fn read(value: Value) -> Option<Found> {
        let first = *value.first()?;
        let kind = match first & !(EXPIRES | WIDE) {
            0x10 => Kind::String,
            0x20 => Kind::Hash,
            0x30 => Kind::SortedSet,
            0x40 => Kind::Set,
            0x50 => Kind::List,
            _ => return None,
        };
        let start = HEAD + if first & EXPIRES != 0 { 8 } else { 0 };
        let is_whole = match (kind, value.len().checked_sub(start)) {
            (Kind::String, length) => length.is_some(),
            (Kind::List, Some(length)) if first & WIDE == 0 => length == HEADER || length == HEADER + 8,
            (_, length) => length == Some(HEADER),
        };
        is_whole.then_some(Found { value, kind, start })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The thing itself: of a string, the client's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.value[self.start..]
    }

    /// How many bytes the store keeps for the key.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.value.len()
    }

    /// Which write this was.
    pub(crate) fn stamp(&self) -> u64 {
        number(&self.value[1..HEAD])
    }

    /// When it expires, in milliseconds since 1970.
    pub(crate) fn expires_ms(&self) -> Option<u64> {
        (self.start > HEAD).then(|| number(&self.value[HEAD..HEAD + 8]))
    }

    /// Of a collection.
    pub(crate) fn header(&self) -> Option<Header> {
        if self.kind == Kind::String {
            return None;
        }
        let number_at = |at: usize| self.bytes().get(at..at + 8).map(number);
        Some(Header {
            incarnation: number_at(0)?,
            count: number_at(8)?,
            is_wide: self.value[0] & WIDE != 0,
            first: number_at(HEADER).map(|first| first as i64),
        })
    }
}

/// Whether what the store had for a key expires.
#[inline]
pub(crate) fn has_expiry(value: &[u8]) -> bool {
    value.first().is_some_and(|first| first & EXPIRES != 0)
}

fn begin(into: &mut Vec<u8>, first: u8, stamp: u64, expires_ms: Option<u64>) {
    into.clear();
    into.push(first | if expires_ms.is_some() { EXPIRES } else { 0 });
    into.extend_from_slice(&stamp.to_be_bytes());
    if let Some(expires_ms) = expires_ms {
        into.extend_from_slice(&expires_ms.to_be_bytes());
    }
}

/// What is before a string that does not expire.
#[inline]
pub(crate) fn string_head(stamp: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[0] = Kind::String as u8;
    head[1..].copy_from_slice(&stamp.to_be_bytes());
    head
}

/// What the store is to have for these bytes of a client: one allocation, and one copy.
#[inline]
pub(crate) fn string(bytes: &[u8], stamp: u64, expires_ms: Option<u64>) -> Value {
    let mut head = [0; HEAD + 8];
    head[..HEAD].copy_from_slice(&string_head(stamp));
    head[0] |= if expires_ms.is_some() { EXPIRES } else { 0 };
    head[HEAD..].copy_from_slice(&expires_ms.unwrap_or_default().to_be_bytes());
    let head = &head[..if expires_ms.is_some() { HEAD + 8 } else { HEAD }];
    let mut value = Value::new_uninit_slice(head.len() + bytes.len());
    let (first, rest) = Arc::get_mut(&mut value).expect("it is new").split_at_mut(head.len());
    first.write_copy_of_slice(head);
    rest.write_copy_of_slice(bytes);
    // SAFETY: both parts, which are all of it, were written.
    unsafe { value.assume_init() }
}

/// Puts what the store is to have into `into`, but for the client's bytes, which follow.
#[inline]
pub(crate) fn begin_string(into: &mut Vec<u8>, stamp: u64, expires_ms: Option<u64>) {
    begin(into, Kind::String as u8, stamp, expires_ms);
}

/// Puts what the store is to have for a collection into `into`.
pub(crate) fn collection(
    into: &mut Vec<u8>,
    kind: Kind,
    stamp: u64,
    expires_ms: Option<u64>,
    header: Header,
) {
    begin(into, kind as u8 | if header.is_wide { WIDE } else { 0 }, stamp, expires_ms);
    into.extend_from_slice(&header.incarnation.to_be_bytes());
    into.extend_from_slice(&header.count.to_be_bytes());
    if let Some(first) = header.first {
        into.extend_from_slice(&first.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: u64 = 0x0102_0304_0506_0708;

    #[test]
    fn a_string_that_is_written_is_read() {
        for expires_ms in [None, Some(0), Some(u64::MAX)] {
            for bytes in [&b""[..], b"value"] {
                let mut value = vec![1, 2, 3];
                begin_string(&mut value, STAMP, expires_ms);
                value.extend_from_slice(bytes);
                assert_eq!(*string(bytes, STAMP, expires_ms), *value);
                let found = Found::read(value.into()).unwrap();
                assert_eq!((found.kind(), found.bytes(), found.header()), (Kind::String, bytes, None));
                assert_eq!((found.stamp(), found.expires_ms()), (STAMP, expires_ms));
            }
        }
    }

    #[test]
    fn a_collection_that_is_written_is_read() {
        for kind in [Kind::Hash, Kind::SortedSet, Kind::Set, Kind::List] {
            let first = if kind == Kind::List { Some(-1) } else { None };
            for (expires_ms, is_wide, first) in [(None, false, first), (Some(7), true, None)] {
                let header = Header { incarnation: 5, count: u64::MAX, is_wide, first };
                let mut value = vec![1, 2, 3];
                collection(&mut value, kind, STAMP, expires_ms, header);
                let found = Found::read(value.into()).unwrap();
                assert_eq!((found.kind(), found.header()), (kind, Some(header)));
                assert_eq!((found.stamp(), found.expires_ms()), (STAMP, expires_ms));
            }
        }
    }

    #[test]
    fn what_others_wrote_is_not_taken_for_ours() {
        let short: [&[u8]; 7] = [b"", b"x", &[0x10], &[0x10; 8], &[0x11; 16], &[0x20; 24], &[0x50; 26]];
        let long: [&[u8]; 5] = [&[0x30; 26], &[0x30; 33], &[0x50; 34], &[0x52; 33], &[0; 40]];
        for bytes in short.into_iter().chain(long) {
            assert!(Found::read(bytes.into()).is_none(), "{bytes:?}");
        }
    }
}
