//! Keys with versions that a snapshot needs which is older than others, or was when it was looked.
//!
//! Behind an old snapshot the bins (`garbage.rs`) would fill with all that was written since it was
//! taken, though it needs one version of a key. So the collector takes from the bins what waits for
//! it, unlinks what no snapshot needs, and keeps the key here, under each snapshot that needs one
//! of its versions. When one of these snapshots is gone, its keys are looked at again, and no
//! others: so a look costs what was written since the last one, or became free.
//!
//! Invariants:
//! 1. A version that is behind another one is below a key in a bin, or of one that is here (or of
//!    one that a commit or the collector has just taken from there), or the version before it is of
//!    a transaction that has not put the key into a bin yet.
//! 2. A key is in `until` under the end of a snapshot that needs one of its versions, for each such
//!    version, since it was looked at.

use super::coordinator::Readers;
use super::retired::Retired;
use super::table::{Table, Written};
use super::versions::{Needed, Needs, Version};
use crossbeam_epoch as epoch;
use std::collections::{BTreeMap, HashMap};
use std::thread;

/// This number of keys is looked at, and then what they left is freed.
const LOOKED_AT: usize = 4_096;
/// How often it is looked which snapshots are in use, if a session is just taking one.
const LOOKS: usize = 4;

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Kept {
    readers: Readers,
    /// The keys to look at now.
    now: Keys,
    /// By the end of a snapshot that needs them.
    until: BTreeMap<u64, Keys>,
    /// What timestamps keep, and the oldest one when they were looked at.
    stamped: (u64, Keys),
    pub(super) retired: Retired<Version>,
}

/// Keys by the address of their rows, and the bytes that are kept of them.
#[derive(Debug, Default)]
struct Keys {
    keys: HashMap<usize, Written, foldhash::fast::RandomState>,
    bytes: usize,
}

impl Keys {
    fn add(&mut self, key: Written) {
        self.bytes += key.before_bytes;
        let at = key.row.address();
        if let Some(before) = self.keys.insert(at, key) {
            self.bytes -= before.before_bytes;
        }
    }

    fn append(&mut self, mut other: Keys) {
        if self.keys.is_empty() {
            std::mem::swap(self, &mut other);
        }
        other.keys.into_values().for_each(|key| self.add(key));
    }
}

impl Kept {
    pub(super) fn new(readers: Readers) -> Kept {
        Kept {
            readers,
            now: Keys::default(),
            until: BTreeMap::new(),
            stamped: (0, Keys::default()),
            retired: Retired::sealed_by_owner(),
        }
    }

    /// Finds out which snapshots are in use, and which keys are to be looked at for that.
    pub(super) fn begin(&mut self, oldest_timestamp: u64) {
        for _ in 0..LOOKS {
            if self.readers.look() {
                break;
            }
            // What was known before is on the safe side.
            thread::yield_now();
        }
        let Kept { readers, now, until, stamped, .. } = self;
        for (_, keys) in until.extract_if(.., |end, _| !readers.has_end(*end)) {
            now.append(keys);
        }
        if stamped.0 != oldest_timestamp {
            stamped.0 = oldest_timestamp;
            now.append(std::mem::take(&mut stamped.1));
        }
    }

    /// Whether what this transaction wrote can be looked at here.
    pub(super) fn may_take(&self, id: u64) -> bool {
        self.readers.all_see_later(id)
    }

    /// Takes a key that was in a bin.
    pub(super) fn take(&mut self, key: Written) {
        self.now.add(key);
    }

    /// Looks at keys, some of them if they are many. What all below `settled` wrote is settled.
    /// Returns whether there are more.
    pub(super) fn look(&mut self, table: &Table, settled: u64, oldest_timestamp: u64) -> bool {
        let guard = &epoch::pin();
        let mut kept = Vec::new();
        let Kept { readers, now, until, stamped, retired } = self;
        let needs = Needs { readers, oldest_timestamp, settled };
        for (_, mut key) in now.keys.extract_if(|_, _| true).take(LOOKED_AT) {
            now.bytes -= key.before_bytes;
            let keep = |needed, bytes| match kept.last_mut() {
                Some((before, sum)) if *before == needed => *sum += bytes,
                _ => kept.push((needed, bytes)),
            };
            table.prune(&key.row, needs, retired, guard, keep);
            for (needed, bytes) in kept.drain(..) {
                key.before_bytes = bytes;
                match needed {
                    Needed::Until(end) => until.entry(end).or_default().add(key.clone()),
                    Needed::ByTimestamp => stamped.1.add(key.clone()),
                }
            }
        }
        if now.keys.is_empty() {
            *now = Keys::default();
        }
        !now.keys.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &Keys> {
        self.until.values().chain([&self.now, &self.stamped.1])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.retired.is_empty() && self.all().all(|keys| keys.keys.is_empty())
    }

    /// The keys, some of them more than once, and the bytes of their versions.
    pub(super) fn left(&self) -> (usize, usize) {
        let sum = |(keys, bytes), some: &Keys| (keys + some.keys.len(), bytes + some.bytes);
        self.all().fold((0, self.retired.bytes()), sum)
    }
}
