//! The keys of a lock's requests in etcd, and which of them a request has to read.
//!
//! ```text
//! NAME#requests/SIZE/START/LEASE/NUMBER        (hexadecimal, but for the name)
//! ```
//!
//! A span is taken as a part of the line from 0 to 1: the bytes of its ends are digits behind the
//! point. Its *size* is about how many hexadecimal zeros its length begins with: a span of size `n`
//! is shorter than 16^-n. So if one overlaps `start..end`, it begins before `end`, and not before
//! `start` - 16^-n: it is a *neighbour* of this span. Only size 0, which has no limit, has no lower
//! end. The key of a request holds the size and the start of the hull of its ranges, as they were
//! when it was made.
//!
//! A request reads the neighbours of each size that it knows, and all keys between those sizes:
//!
//! ```text
//! |───── all ─────|  size 0d: neighbours  |── all ──|  size 0f: neighbours  |───── all ─────|
//! ```
//!
//! So it finds all requests that may overlap it, whatever sizes there are, and in one transaction.
//! The sizes that it knows are a guess that only saves work: its own, and those that it has found
//! in the parts that are read as a whole, more than [`FEW`] requests of each.
//!
//! Until it is compacted, etcd walks over all keys that ever were in what is read. So requests that
//! have left leave their numbers to later ones (`queue.rs`): then few keys ever were.
//!
//! Requests that grow (`owner.rs`) keep their keys. What they grew by is found by the key of the
//! request that asked for it, which is there for as long as they carry it.

use super::request::{Part, digits};
use crate::etcd::messages::{Op, RequestOp, end_of};
use crate::lock::Mutex;
use crate::range::span::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// This number of requests is read as fast as their neighbours are found.
const FEW: usize = 2;
/// The most sizes to know: each costs two more reads. With more of them the guess begins anew.
const SIZES_MAX: usize = 6;
/// Shorter spans have this size, too.
const SIZE_MAX: u8 = 127;
/// The bytes of a start that stand in its key: more than there are digits in a size.
const START_BYTES: usize = 64;

/// A lock's name in etcd, and what is known of the sizes of its requests.
#[derive(Clone)]
pub(super) struct Index {
    requests: String,
    graves: String,
    sizes: Arc<Mutex<BTreeSet<u8>>>,
}

impl Index {
    /// No two locks' names are the beginning of each other: they end at the first `#` that stands
    /// alone.
    pub(super) fn new(lock: &str) -> Index {
        let lock = lock.replace('#', "##");
        let (requests, graves) = (format!("{lock}#requests/"), format!("{lock}#graves/"));
        Index { requests, graves, sizes: Arc::default() }
    }

    /// The keys of a request of these ranges, and of its gravestone.
    pub(super) fn keys(&self, parts: &[Part], lease: i64, number: u64) -> (Vec<u8>, Vec<u8>) {
        let hull = hull(parts);
        let name = format!("{lease:016x}/{number:016x}");
        let (size, start) = (size(&hull), start(hull.start()));
        let key = format!("{}{size:02x}/{start}/{name}", self.requests);
        (key.into_bytes(), format!("{}{name}", self.graves).into_bytes())
    }

    /// Reads all requests.
    pub(super) fn read_all(&self) -> RequestOp {
        Op::read(self.requests.as_bytes().to_vec(), end_of(self.requests.as_bytes()))
    }

    /// Reads all requests that may have a key of these ranges, and some more.
    pub(super) fn reads(&self, parts: &[Part]) -> Vec<RequestOp> {
        let hull = hull(parts);
        let sizes = {
            let mut sizes = self.sizes.lock();
            know(&mut sizes, size(&hull));
            sizes.clone()
        };
        let mut reads = Vec::new();
        let mut read = |from: String, to: &[u8]| reads.push(Op::read(from.into_bytes(), to.to_vec()));
        let mut from = self.requests.clone();
        for size in sizes {
            let folder = format!("{}{size:02x}/", self.requests);
            read(from, folder.as_bytes());
            let first = format!("{folder}{}", lower(&hull, size));
            match hull.end() {
                // A start that is cut off may be before the end, if it looks like it. And a range
                // that ends before all keys still finds its own request.
                Some(end) if end.len() > START_BYTES || end.is_empty() => {
                    read(first, format!("{folder}{}0", start(Some(end))).as_bytes());
                }
                Some(end) => read(first, format!("{folder}{}", start(Some(end))).as_bytes()),
                None => read(first, &end_of(folder.as_bytes())),
            }
            // A digit comes after the slash.
            from = format!("{}{size:02x}0", self.requests);
        }
        read(from, &end_of(self.requests.as_bytes()));
        reads
    }

    /// Gets to know the sizes of requests that were read.
    pub(super) fn learn<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let mut counts = BTreeMap::new();
        for key in keys {
            let digits = key.get(self.requests.len()..self.requests.len() + 2);
            let size =
                digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
            *counts.entry(size).or_insert(0) += 1;
        }
        let mut sizes = self.sizes.lock();
        for (size, count) in counts {
            if let Some(size) = size.filter(|_| count > FEW) {
                know(&mut sizes, size);
            }
        }
    }
}

fn know(sizes: &mut BTreeSet<u8>, size: u8) {
    if !sizes.contains(&size) && sizes.len() == SIZES_MAX {
        sizes.clear();
    }
    sizes.insert(size);
}

impl fmt::Debug for Index {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("Index").field(&self.requests).finish()
    }
}

/// The least span that covers all ranges.
fn hull(parts: &[Part]) -> Span<Vec<u8>> {
    let spans = parts.iter().map(|(span, _)| span.clone());
    spans.reduce(Span::hull).unwrap_or_else(Span::all)
}

/// The start of a span as it stands in a key.
fn start(key: Option<&Vec<u8>>) -> String {
    key.map_or(String::new(), |key| digits(&key[..key.len().min(START_BYTES)]))
}

/// The hexadecimal digits of a key, and zeros behind them.
fn nibbles(key: Option<&Vec<u8>>) -> impl Iterator<Item = i16> {
    let bytes = key.into_iter().flatten();
    bytes.flat_map(|byte| [byte >> 4, byte & 0xf].map(i16::from)).chain(std::iter::repeat(0))
}

/// The size of a span.
fn size(span: &Span<Vec<u8>>) -> u8 {
    let Some(end) = span.end() else { return 0 };
    // The length's digits up to here, as a number: what follows changes it by less than one.
    let mut length = 0;
    for (size, (end, start)) in (0..SIZE_MAX).zip(nibbles(Some(end)).zip(nibbles(span.start()))) {
        length = 16 * length + end - start;
        match length {
            ..=1 => {}
            2..=15 => return size,
            _ => return size.saturating_sub(1),
        }
    }
    if length == 0 { SIZE_MAX } else { SIZE_MAX - 1 }
}

/// What the starts of neighbours of this size do not come before.
fn lower(span: &Span<Vec<u8>>, size: u8) -> String {
    let mut digits: Vec<i16> = nibbles(span.start()).take(size.into()).collect();
    for digit in digits.iter_mut().rev() {
        *digit -= 1;
        if *digit >= 0 {
            return digits.iter().fold(String::new(), |text, digit| text + &format!("{digit:x}"));
        }
        *digit = 15;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::cluster::portable::{Portable, encoded};
    use crate::range::raw::Access;
    use proptest::prelude::*;

    /// Whether a request of `span` finds one of `other`, if it knows these sizes.
    fn finds(span: &Span<Vec<u8>>, other: &Span<Vec<u8>>, sizes: &[u8]) -> bool {
        let index = Index::new("lock");
        index.sizes.lock().extend(sizes);
        let (key, _) = index.keys(&[(other.clone(), Access::Shared)], 1, 1);
        let reads = index.reads(&[(span.clone(), Access::Shared)]);
        let is_in = |read: &RequestOp| match &read.op {
            Some(Op::Range(range)) => key >= range.key && key < range.range_end,
            _ => false,
        };
        reads.iter().filter(|read| is_in(read)).count() > 0
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0_u8), Just(1), Just(0x0f), Just(0x10), Just(0xff), any::<u8>()];
        let few = prop::collection::vec(byte.clone(), 0..5);
        // Also longer ones than stand in a key.
        (few, 0..70_usize, prop::collection::vec(byte, 0..3)).prop_map(|(first, zeros, last)| {
            let zeros = if last.is_empty() { 0 } else { zeros };
            first.into_iter().chain(vec![0; zeros]).chain(last).collect()
        })
    }

    fn spans() -> impl Strategy<Value = Span<Vec<u8>>> {
        let end = || prop::option::weighted(0.9, bytes());
        (end(), end()).prop_filter_map("a range", |ends| match ends {
            (Some(a), Some(b)) if a < b => Span::new(a, b).ok(),
            (Some(a), Some(b)) => Span::new(b, a).ok(),
            (start, end) => Some(Span::of_ends(start, end)),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn what_overlaps_is_found(span in spans(), other in spans(), sizes in prop::collection::vec(0..=SIZE_MAX, 0..4)) {
            if span.overlaps(&other) {
                prop_assert!(finds(&span, &other, &sizes));
                prop_assert!(finds(&span, &other, &[size(&span), size(&other)]));
            }
        }

        #[test]
        fn numbers_find_what_overlaps(a: u64, near in 0..100_u64, long in 1..40_u64, other in 1..40_u64) {
            let a = a.min(u64::MAX - 200);
            let span = encoded(&Span::new(a, a + long).unwrap());
            let near = encoded(&Span::new(a + near, a + near + other).unwrap());
            if span.overlaps(&near) {
                prop_assert!(finds(&span, &near, &[size(&near)]) && finds(&near, &span, &[size(&span)]));
            }
        }
    }

    #[test]
    fn sizes_are_those_of_the_length() {
        let of = |start: u64, end: u64| size(&encoded(&Span::new(start, end).unwrap()));
        assert_eq!([of(0, 1), of(10, 20), of(0, 16), of(255, 257), of(0, 4096)], [15, 15, 14, 15, 12]);
        assert_eq!([of(0, 2), of(0x0f_ffff, 0x10_0001)], [15, 15]);
        assert_eq!((size(&Span::all()), size(&Span::from(7_u64.encode()))), (0, 0));
        assert_eq!(size(&Span::point(vec![7])), SIZE_MAX);
    }

    #[test]
    fn distant_requests_are_not_read() {
        let span = |start: u64| encoded(&Span::new(start, start + 10).unwrap());
        let long = encoded(&Span::new(0_u64, 1 << 20).unwrap());
        assert!(finds(&span(1000), &long, &[]) && finds(&span(1000), &span(990), &[]));
        assert!(!finds(&span(1000), &span(0), &[]) && !finds(&span(1000), &span(1010), &[]));
        let key = |number: u64| Index::new("lock").keys(&[(span(number), Access::Shared)], 1, number).0;
        let index = Index::new("lock");
        let keys: Vec<_> = (0..=FEW as u64).map(key).collect();
        index.learn(keys[1..].iter().map(|key| &**key));
        assert!(index.sizes.lock().is_empty(), "they are few");
        index.learn(keys.iter().map(|key| &**key));
        assert_eq!(index.sizes.lock().iter().collect::<Vec<_>>(), [&15]);
    }
}
