//! What was applied since a checkpoint began, in memory: the engine takes no changes while it makes
//! one durable, and no thread waits for that.
//!
//! Each change is kept under its key and the sequence of its group, so that a reader goes by the
//! groups that were there when it began, however many come meanwhile:
//!
//! ```text
//! "a": 9 ► gone, 7 ► "2"      "c": 8 ► "5"        above the base, for a reader as of group 8: "a" is "2", "c" is "5"
//! ```
//!
//! 1. One thread at a time adds (the thread that has the writer); many read.
//! 2. Of a key, the change with the highest sequence that is not above the reader's is what it has;
//!    the base, if there is none.
//! 3. Nothing is taken away: when the base has it all, the whole is dropped. So until then the base
//!    may have some of it or not.

use crate::txn::{Bounds, Change, Value};
use crossbeam_skiplist::SkipMap;
use std::cmp::Reverse;
use std::ops::Bound;

/// A key and a sequence, the highest of a key first.
type Place = (Value, Reverse<u64>);

/// What a key has, or that it has nothing.
pub(super) type Found = Option<Value>;

/// Changes by key and sequence.
#[derive(Debug, Default)]
pub(super) struct Memtable(SkipMap<Place, Found>);

impl Memtable {
    /// Adds what a group of this sequence changes, in order.
    pub(super) fn add(&self, sequence: u64, batches: &[&[Change]]) {
        for change in batches.iter().copied().flatten() {
            let (key, value) = match change {
                Change::Put { key, value } => (key, Some(value.clone())),
                Change::Delete { key } => (key, None),
            };
            // The last one of a group is what counts.
            self.0.insert((key.clone(), Reverse(sequence)), value);
        }
    }

    /// What a key has by the groups up to this sequence, if one of them changed it.
    pub(super) fn get(&self, key: &[u8], sequence: u64) -> Option<Found> {
        let first = (Value::from(key), Reverse(sequence));
        let entry = self.0.lower_bound(Bound::Included(&first))?;
        (*entry.key().0 == *key).then(|| entry.value().clone())
    }

    /// The keys of some bounds, which are not empty, that were changed by groups up to this
    /// sequence, and what they have.
    pub(super) fn scan(
        &self,
        (from, to): Bounds<'_>,
        descending: bool,
        sequence: u64,
    ) -> impl Iterator<Item = (Value, Found)> {
        let place = |key: &[u8], sequence| (Value::from(key), Reverse(sequence));
        // The first of a key's places has the highest sequence; the last one has sequence 0, which
        // no group has.
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
        let mut range = self.0.range::<Place, _>((from, to));
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
        recent.add(7, &[&[change("a", Some("1"))], &[change("a", Some("2")), change("ab", Some("3"))]]);
        recent.add(8, &[&[change("c", Some("5"))]]);
        recent.add(9, &[&[change("a", None), change("", Some("6"))]]);
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
    }
}
