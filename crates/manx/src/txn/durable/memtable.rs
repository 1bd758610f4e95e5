//! What was appended since a checkpoint, in memory: the tree follows it with the next one.
//!
//! Each change is kept under its key and the sequence of its batch, so that a reader goes by the
//! batches that were there when it began, however many come meanwhile:
//!
//! ```text
//! "a": 9 ► gone, 7 ► "2"      "c": 8 ► "5"        above the base, for a reader as of batch 8: "a" is "2", "c" is "5"
//! ```
//!
//! 1. One thread at a time adds (the thread that has the writer); many read.
//! 2. Of a key, the change with the highest sequence that is not above the reader's is what it has;
//!    what is below, if there is none.
//! 3. A batch is seen whole: its sequence is stored with release after all its changes, and read
//!    with acquire before any.
//! 4. Nothing is taken away: when the tree has it all, the whole is dropped.

use crate::txn::{Bounds, Change, Value};
use crossbeam_skiplist::SkipMap;
use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering as Order};

/// A key and a sequence, the highest of a key first.
type Place = (Value, Reverse<u64>);

/// A place, with a key of its own or a borrowed one: so that a search copies no key.
trait Placed {
    fn place(&self) -> (&[u8], Reverse<u64>);
}

impl Placed for Place {
    fn place(&self) -> (&[u8], Reverse<u64>) {
        (&self.0, self.1)
    }
}

impl Placed for (&[u8], Reverse<u64>) {
    fn place(&self) -> (&[u8], Reverse<u64>) {
        *self
    }
}

impl<'a> Borrow<dyn Placed + 'a> for Place {
    fn borrow(&self) -> &(dyn Placed + 'a) {
        self
    }
}

impl PartialEq for dyn Placed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for dyn Placed + '_ {}

impl PartialOrd for dyn Placed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Placed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

/// What a key has, or that it has nothing.
pub(super) type Found = Option<Value>;

/// Changes by key and sequence.
#[derive(Debug, Default)]
pub(super) struct Memtable {
    changes: SkipMap<Place, Found>,
    /// Of the last batch that is here.
    sequence: AtomicU64,
}

impl Memtable {
    /// Adds what a batch of this sequence changes, in order.
    pub(super) fn add(&self, sequence: u64, changes: &[Change]) {
        for change in changes {
            let (key, value) = match change {
                Change::Put { key, value } => (key, Some(value.clone())),
                Change::Delete { key } => (key, None),
            };
            // The last one of a batch is what counts.
            self.changes.insert((key.clone(), Reverse(sequence)), value);
        }
        self.sequence.store(sequence, Order::Release);
    }

    /// The sequence of the last batch that is here, whole.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence.load(Order::Acquire)
    }

    /// What a key has by the batches up to this sequence, if one of them changed it.
    pub(super) fn get(&self, key: &[u8], sequence: u64) -> Option<Found> {
        if self.changes.is_empty() {
            return None;
        }
        let first = (key, Reverse(sequence));
        let entry = self.changes.lower_bound::<dyn Placed>(Bound::Included(&first))?;
        (*entry.key().0 == *key).then(|| entry.value().clone())
    }

    /// The keys of some bounds, which are not empty, that were changed by batches up to this
    /// sequence, and what they have.
    pub(super) fn scan(
        &self,
        (from, to): Bounds<'_>,
        descending: bool,
        sequence: u64,
    ) -> impl Iterator<Item = (Value, Found)> {
        let place = |key: &[u8], sequence| (Value::from(key), Reverse(sequence));
        // The first of a key's places has the highest sequence; the last one has sequence 0, which
        // no batch has.
        let from = match from {
            Bound::Included(key) => Bound::Included(place(key, u64::MAX)),
            Bound::Excluded(key) => Bound::Excluded(place(key, 0)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match to {
            Bound::Included(key) => Bound::Included(place(key, 0)),
            Bound::Excluded(key) => Bound::Excluded(place(key, u64::MAX)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let mut range = self.changes.range::<Place, _>((from, to));
        let mut last: Option<Value> = None;
        std::iter::from_fn(move || {
            loop {
                let entry = if descending { range.next_back() } else { range.next() }?;
                let key = &entry.key().0;
                if last.as_ref() == Some(key) {
                    continue;
                }
                last = Some(key.clone());
                if let Some(found) = self.get(key, sequence) {
                    return Some((key.clone(), found));
                }
            }
        })
    }

    /// All keys that were changed, in order, and what they have at last.
    pub(super) fn all(&self) -> impl Iterator<Item = (Value, Found)> {
        let mut last: Option<Value> = None;
        let newest = self.changes.iter().filter(move |entry| {
            let key = &entry.key().0;
            let is_first = last.as_ref() != Some(key);
            if is_first {
                last = Some(key.clone());
            }
            is_first
        });
        newest.map(|entry| (entry.key().0.clone(), entry.value().clone()))
    }
}

/// What is above and what is below together, both in the order of their keys; what is above decides
/// where both have a key.
pub(super) fn over(
    above: impl Iterator<Item = (Value, Found)>,
    below: impl Iterator<Item = (Value, Found)>,
    descending: bool,
) -> impl Iterator<Item = (Value, Found)> {
    let (mut above, mut below) = (above.peekable(), below.peekable());
    std::iter::from_fn(move || {
        let first = match (above.peek(), below.peek()) {
            (Some((above, _)), Some((below, _))) if descending => below.cmp(above),
            (Some((above, _)), Some((below, _))) => above.cmp(below),
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
        };
        if first == Ordering::Greater {
            return below.next();
        }
        if first == Ordering::Equal {
            below.next();
        }
        above.next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, value: Option<&str>) -> Change {
        let key = key.as_bytes().into();
        match value {
            Some(value) => Change::Put { key, value: value.as_bytes().into() },
            None => Change::Delete { key },
        }
    }

    fn scanned(
        recent: &Memtable,
        bounds: Bounds<'_>,
        descending: bool,
        sequence: u64,
    ) -> Vec<(String, Option<String>)> {
        let text = |value: &Value| String::from_utf8_lossy(value).into_owned();
        recent
            .scan(bounds, descending, sequence)
            .map(|(key, found)| (text(&key), found.as_ref().map(text)))
            .collect()
    }

    #[test]
    fn a_reader_sees_the_groups_up_to_its_sequence() {
        let recent = Memtable::default();
        recent.add(7, &[change("a", Some("1")), change("a", Some("2")), change("ab", Some("3"))]);
        recent.add(8, &[change("c", Some("5"))]);
        assert_eq!(recent.sequence(), 8);
        recent.add(9, &[change("a", None), change("", Some("6"))]);
        assert_eq!(recent.get(b"a", 6), None);
        assert_eq!(recent.get(b"a", 8), Some(Some((*b"2").into())));
        assert_eq!(recent.get(b"a", 9), Some(None));
        assert_eq!(recent.get(b"b", 9), None);
        let pair = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut expected = vec![pair("a", Some("2")), pair("ab", Some("3")), pair("c", Some("5"))];
        assert_eq!(scanned(&recent, all, false, 8), expected);
        expected.reverse();
        assert_eq!(scanned(&recent, all, true, 8), expected);
        let (a, c): (&[u8], &[u8]) = (b"a", b"c");
        assert_eq!(
            scanned(&recent, (Bound::Excluded(a), Bound::Excluded(c)), true, 9),
            [pair("ab", Some("3"))]
        );
        let both = [pair("a", None), pair("ab", Some("3"))];
        assert_eq!(scanned(&recent, (Bound::Included(a), Bound::Excluded(c)), false, 9), both);
        assert_eq!(scanned(&recent, (Bound::Excluded(a), Bound::Included(c)), false, 8).len(), 2);
        let newest: Vec<_> = recent.all().map(|(key, found)| (key.to_vec(), found.is_some())).collect();
        let newest: Vec<_> = newest.iter().map(|(key, there)| (&key[..], *there)).collect();
        assert_eq!(newest, [(&b""[..], true), (b"a", false), (b"ab", true), (b"c", true)]);
    }

    #[test]
    fn what_is_above_hides_what_is_below() {
        let pairs = |keys: &'static str, value: &'static str| {
            keys.bytes().map(move |key| (Value::from([key]), Some(value.as_bytes().into())))
        };
        for descending in [false, true] {
            let (mut above, mut below) = ("bce".to_owned(), "abd".to_owned());
            if descending {
                above = above.chars().rev().collect();
                below = below.chars().rev().collect();
            }
            let (above, below) = (above.leak(), below.leak());
            let all = over(pairs(above, "1"), pairs(below, "2"), descending);
            let text = |(key, found): (Value, Found)| [&key[..], &found.unwrap_or_default()].concat();
            let mut all: Vec<_> = all.map(text).collect();
            if descending {
                all.reverse();
            }
            assert_eq!(all, [&b"a2"[..], b"b1", b"c1", b"d2", b"e1"]);
        }
    }
}
