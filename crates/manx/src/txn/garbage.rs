//! Keys with versions that no transaction will need at some later time.
//!
//! A transaction that ends puts the keys that it has changed into a *bin*, and cleans some that
//! were put there long ago: one more than it has added. So no commit does the work of many, and
//! little is left. Versions that are still needed are looked at again later. Finding out what is
//! needed takes a look at all sessions. So it is done once for many commits, or for many bytes.
//!
//! There are as many bins as threads are likely to end transactions at once. Each session has one,
//! so a lock is hardly ever contended. A thread that holds one may not run, so a thread that finds
//! its bin locked takes the next one. The collector (`collector.rs`) cleans what no commit cleans,
//! and takes what waits for an old snapshot (`kept.rs`).
//!
//! Invariants:
//! 1. A bin that has something is looked at by the collector, or `sleeps` is set and the thread
//!    that puts something there wakes it. Both are read and written under the bin's lock.
//! 2. What is in a bin was put there after its transaction had ended.

use super::collector::{Collector, Look};
use super::coordinator::{Coordinator, Readers};
use super::kept::Kept;
use super::retired::{Retired, shrink};
use super::table::{Table, Written};
use super::timestamps::Timestamps;
use super::versions::Version;
use crate::lock::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// One transaction in this number finds out what is needed; so does a transaction that has changed
/// at least this number of keys …
const ONE_OF: u64 = 64;
/// … or that brings the bytes that a bin got since above this number.
const BYTES: usize = 256 * 1024;
/// Then it also cleans this number of keys.
const SOME: usize = 128;
/// The collector cleans this number of keys of a bin, and then lets others have it.
const COLLECTED: usize = 256;
/// It takes this number of them.
const TAKEN: usize = 16 * 1024;
/// The number of epochs after which what no thread has begun to read since is read no more.
const EPOCHS: usize = 3;

/// The keys of a store with their versions, and what tells which of these are needed.
pub(super) struct VersionStore {
    pub(super) table: Table,
    pub(super) ids: Arc<Coordinator>,
    pub(super) timestamps: Timestamps,
    horizon: Horizon,
    bins: Box<[Bin]>,
    /// Taken before a bin's lock.
    kept: Mutex<Kept>,
}

/// In lines of the cache of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Bin(Mutex<Garbage>);

/// What no transaction needs, as far as it was found out. It only grows, so a thread that knows
/// less is on the safe side.
#[derive(Debug, Default)]
struct Horizon {
    /// No transaction needs to tell ids below this one apart, and they are settled …
    id: AtomicU64,
    /// … or timestamps that are not above this one.
    timestamp: AtomicU64,
}

/// What is left to clean and to free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) keys: usize,
    pub(super) bytes: usize,
}

impl VersionStore {
    /// `readers` look for the collector.
    pub(super) fn new(table: Table, ids: Arc<Coordinator>, readers: Readers) -> VersionStore {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let bins = (0..(4 * cpus).next_power_of_two().min(256)).map(|_| Bin::default()).collect();
        let (timestamps, horizon) = (Timestamps::default(), Horizon::default());
        VersionStore { table, ids, timestamps, horizon, bins, kept: Mutex::new(Kept::new(readers)) }
    }

    /// A bin that no other thread uses, the session's own if possible.
    #[inline]
    pub(super) fn bin(&self, session: usize) -> MutexGuard<'_, Garbage> {
        let at = |index: usize| &self.bins[index & (self.bins.len() - 1)].0;
        // The thread that has the lock may not run: another bin is as good.
        (0..self.bins.len())
            .find_map(|next| at(session + next).try_lock())
            .unwrap_or_else(|| at(session).lock())
    }

    /// A transaction of this id has changed the keys, and has ended. Wakes the collector, if it
    /// would not find them.
    #[inline]
    pub(super) fn discard(
        self: &Arc<Self>,
        session: usize,
        id: u64,
        keys: &mut Vec<Written>,
        collector: &Collector,
    ) {
        let mut bin = self.bin(session);
        bin.add(id, keys, self);
        if std::mem::take(&mut bin.sleeps) {
            drop(bin);
            let its = Arc::clone(self);
            collector.wake(move || its.collect());
        }
    }

    /// Finds out what no transaction needs.
    #[cold]
    fn advance_horizon(&self) {
        // Release, and Acquire below: a thread that cleans by it does so behind all that was looked
        // at.
        let over = self.ids.oldest();
        // In this order: a transaction is among the unsettled ones before it is over.
        self.horizon.id.fetch_max(over.min(self.settled()), Ordering::Release);
        self.horizon.timestamp.fetch_max(self.timestamps.oldest(), Ordering::Release);
    }

    /// What transactions below this id wrote is settled, if they are over. What is not stays in the
    /// table (`component.rs`).
    fn settled(&self) -> u64 {
        self.table.data.as_ref().map_or(u64::MAX, |data| data.settled_below())
    }

    /// Cleans and frees what no transaction needs and no thread reads, some of it if it is much.
    pub(super) fn collect(&self) -> Look {
        self.advance_horizon();
        let kept = &mut *self.kept.lock();
        let oldest_timestamp = self.horizon.timestamp.load(Ordering::Acquire);
        kept.begin(oldest_timestamp);
        // After it, as above.
        let settled = self.settled();
        let (mut has_more, mut has_some) = (false, false);
        for bin in &self.bins {
            let Some(mut bin) = bin.0.try_lock() else {
                has_some = true;
                continue;
            };
            has_more |= bin.clean(COLLECTED, self) || bin.give(TAKEN, settled, kept);
            bin.retired.seal(&crossbeam_epoch::pin());
        }
        has_more |= kept.look(&self.table, settled, oldest_timestamp);
        kept.retired.seal(&crossbeam_epoch::pin());
        pass_epochs();
        kept.retired.free(usize::MAX);
        kept.retired.shrink();
        has_some |= !kept.is_empty();
        for bin in &self.bins {
            let Some(mut bin) = bin.0.try_lock() else { continue };
            bin.retired.free(usize::MAX);
            bin.retired.shrink();
            shrink(&mut bin.keys);
            has_some |= !bin.is_empty();
        }
        match (has_more, has_some || !self.sleep()) {
            (true, _) => Look::More,
            (false, true) => Look::Later,
            (false, false) => Look::Done,
        }
    }

    /// The collector is about to sleep. Returns false if something has come; then no commit has to
    /// wake it.
    fn sleep(&self) -> bool {
        let sleeps = self.bins.iter().all(|bin| {
            let mut bin = bin.0.lock();
            bin.sleeps = bin.is_empty();
            bin.sleeps
        });
        if !sleeps {
            self.bins.iter().for_each(|bin| bin.0.lock().sleeps = false);
        }
        sleeps
    }

    pub(super) fn left(&self) -> Left {
        let (keys, bytes) = self.kept.lock().left();
        self.bins.iter().fold(Left { keys, bytes }, |sum, bin| {
            let bin = bin.0.lock();
            Left { keys: sum.keys + bin.keys.len(), bytes: sum.bytes + bin.bytes() }
        })
    }
}

/// Lets the epochs pass, as far as the threads that read allow it.
fn pass_epochs() {
    (0..EPOCHS).for_each(|_| crossbeam_epoch::pin().flush());
}

/// The keys that transactions have changed, the oldest first.
#[derive(Debug)]
pub(super) struct Garbage {
    keys: VecDeque<(u64, Written)>,
    /// The horizon when a thread last looked at them, and how many it has not looked at.
    seen: (u64, u64),
    unseen: usize,
    /// What was written over in `keys`, …
    keys_bytes: usize,
    /// … and since this bin's transactions last found out what is needed.
    came_bytes: usize,
    /// What was cut off, and is to be freed.
    pub(super) retired: Retired<Version>,
    /// Invariant 1. No thread of a new store looks.
    sleeps: bool,
}

impl Default for Garbage {
    fn default() -> Garbage {
        Garbage {
            keys: VecDeque::new(),
            seen: (0, 0),
            unseen: 0,
            keys_bytes: 0,
            came_bytes: 0,
            retired: Retired::default(),
            sleeps: true,
        }
    }
}

impl Garbage {
    fn add(&mut self, id: u64, keys: &mut Vec<Written>, store: &VersionStore) {
        let added = keys.len();
        for key in keys.drain(..) {
            self.keys_bytes += key.before_bytes;
            self.came_bytes += key.before_bytes;
            self.keys.push_back((id, key));
        }
        self.unseen += added;
        let is_much = self.came_bytes > BYTES;
        let mut cleaned = added + 1;
        if is_much || id.is_multiple_of(ONE_OF) || added as u64 >= ONE_OF {
            self.came_bytes = 0;
            store.advance_horizon();
            cleaned = cleaned.max(SOME);
        }
        self.clean(cleaned, store);
        if is_much {
            self.retired.seal(&crossbeam_epoch::pin());
            pass_epochs();
            self.retired.free(SOME);
        }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.retired.is_empty()
    }

    fn bytes(&self) -> usize {
        self.keys_bytes + self.retired.bytes()
    }

    /// Gives away keys that wait for an old snapshot, `most` of them. Returns whether there may be
    /// more.
    fn give(&mut self, most: usize, settled: u64, to: &mut Kept) -> bool {
        for _ in 0..most {
            let Some((_, key)) = self.keys.pop_front_if(|(id, _)| *id < settled && to.may_take(*id)) else {
                return false;
            };
            self.unseen = self.unseen.min(self.keys.len());
            self.keys_bytes -= key.before_bytes;
            to.take(key);
        }
        true
    }

    /// Cleans at most `most` keys. Returns whether there may be more to clean now.
    fn clean(&mut self, most: usize, store: &VersionStore) -> bool {
        let oldest = store.horizon.id.load(Ordering::Acquire);
        let oldest_timestamp = store.horizon.timestamp.load(Ordering::Acquire);
        if self.seen != (oldest, oldest_timestamp) {
            self.seen = (oldest, oldest_timestamp);
            self.unseen = self.keys.len();
        }
        let guard = &crossbeam_epoch::pin();
        for _ in 0..most.min(self.unseen) {
            let Some((id, key)) = self.keys.pop_front() else { break };
            if id >= oldest {
                // So are those behind it, as good as all.
                self.keys.push_front((id, key));
                self.unseen = 0;
                break;
            }
            self.unseen -= 1;
            if store.table.clean(&key.row, oldest, oldest_timestamp, &mut self.retired, guard) {
                self.keys_bytes -= key.before_bytes;
            } else {
                // A transaction may read at a timestamp.
                self.keys.push_back((id, key));
            }
        }
        self.retired.free_some();
        self.unseen > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Isolation, Options, Store};
    use super::*;

    /// Else each commit to an empty bin would wake it for nothing.
    #[test]
    fn commits_wake_the_collector_only_if_it_sleeps() {
        let store = Store::in_memory(Options::default().collect_every(None));
        // Not the first bin's.
        let mut sessions: Vec<_> = (0..3).map(|_| store.session().unwrap()).collect();
        let versions = &store.0.versions;
        let count = |is: fn(&Garbage) -> bool| versions.bins.iter().filter(|bin| is(&bin.0.lock())).count();
        assert!(versions.sleep());
        for value in [b"old", b"new"] {
            let mut transaction = sessions[2].begin(Isolation::Snapshot).unwrap();
            transaction.put(b"key", value).unwrap();
            transaction.commit().unwrap();
        }
        assert_eq!(count(|bin| !bin.is_empty()), 1);
        assert!(!versions.sleep());
        assert_eq!(count(|bin| bin.sleeps), 0);
        while versions.collect() != Look::Done {}
        assert_eq!(count(|bin| bin.sleeps), versions.bins.len());
    }
}
