//! What all transactions of a server share: stamps, cursors, and what the housekeeping has to know.

use crate::access::Access;
use crate::cursors::Cursors;
use crate::expired::Expired;
use crate::key_count::{KeyCount, Outcome};
use crate::names::{self, GENERATION, LANES, MEMBERS, TOMBSTONES};
use crate::options::Options;
use manx::txn::{Error, Isolation, Store};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// See [the module](self).
pub(crate) struct Keyspace {
    /// The next stamp, or the next incarnation. Begins at the time in nanoseconds, so that a
    /// restart repeats none.
    stamps: AtomicU64,
    /// Of the keys that there are (`names.rs`).
    generation: AtomicU64,
    /// The place of the commit that has begun it, until that is known to be durable; then 0.
    generation_place: AtomicU64,
    pub(crate) count: KeyCount,
    pub(crate) cursors: Cursors,
    pub(crate) expired: Expired,
    /// How keys are used, if eviction goes by that.
    pub(crate) access: Option<Access>,
    /// Whether any key may have an expiry.
    expires: AtomicBool,
    /// Whether there may be collections, or what is left of some.
    collections: AtomicBool,
}

impl Keyspace {
    /// Of a store, which may have something already if it is durable.
    pub(crate) fn new(store: &Store, options: &Options) -> Result<Keyspace, Error> {
        let may_have_keys = options.durable;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let newest = newest_incarnation(store)?;
        let generation = generation(store)?;
        // Also if the clock was set back: an incarnation that begins anew would find the members of
        // the old one.
        let first = u64::try_from(now.as_nanos())
            .unwrap_or(0)
            .max(newest.map_or(0, |newest| newest.saturating_add(1)));
        Ok(Keyspace {
            stamps: AtomicU64::new(first),
            generation: AtomicU64::new(generation),
            generation_place: AtomicU64::new(0),
            count: KeyCount::new(generation, !may_have_keys),
            cursors: Cursors::new(u64::try_from(now.as_micros()).unwrap_or(0)),
            expired: Expired::default(),
            access: options.memory_bytes_max.and_then(|max| Access::new(options.eviction, max)),
            expires: AtomicBool::new(may_have_keys),
            collections: AtomicBool::new(newest.is_some()),
        })
    }

    /// A number that no other call has given.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        // Relaxed: each stamp is taken once, which is all that is asked of it.
        self.stamps.fetch_add(1, Ordering::Relaxed)
    }

    /// Which generation the keys are of that a transaction sees that begins now.
    ///
    /// FLUSHALL commits the next one before it is here, and answers afterwards. So a transaction
    /// that still gets the old one has begun before FLUSHALL was over, and counts as one that was
    /// before it: no later one sees what it does.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        // Acquire: with the generation come its numbers.
        self.generation.load(Ordering::Acquire)
    }

    /// What has to be durable before a transaction is answered that goes by the generation; 0 if
    /// that is so. No such transaction reads what FLUSHALL wrote.
    #[inline]
    pub(crate) fn generation_place(&self) -> u64 {
        // Relaxed: stored before the generation, which the transaction has read.
        self.generation_place.load(Ordering::Relaxed)
    }

    /// All that was committed up to this place is durable.
    pub(crate) fn is_durable(&self, place: u64) {
        let old = |generation: u64| (generation <= place).then_some(0);
        // Relaxed: a thread that sees it late waits for nothing.
        let _ = self.generation_place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, old);
    }

    /// A transaction with this outcome is committed, and has this place.
    #[inline]
    pub(crate) fn committed(&self, outcome: Outcome, place: u64) {
        self.count.committed(outcome);
        if outcome.is_new {
            self.generation_place.fetch_max(place, Ordering::Relaxed);
            self.generation.fetch_max(outcome.generation, Ordering::Release);
        }
    }

    /// Whether any key may have an expiry.
    pub(crate) fn may_have_expiries(&self) -> bool {
        // Relaxed: the housekeeping may see it a round late.
        self.expires.load(Ordering::Relaxed)
    }

    /// Notes that a key is about to be given an expiry.
    pub(crate) fn note_expiry(&self) {
        if !self.may_have_expiries() {
            self.expires.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there may be collections that the calling transaction sees, or what is left of some.
    #[inline]
    pub(crate) fn may_have_collections(&self) -> bool {
        // Relaxed: it was stored before the collection's transaction was over. A transaction whose
        // snapshot shows that one as over has synchronized with its end.
        self.collections.load(Ordering::Relaxed)
    }

    /// A collection is about to be made.
    pub(crate) fn note_collection(&self) {
        if !self.may_have_collections() {
            self.collections.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns the highest number of the incarnations that have left something in the store.
fn newest_incarnation(store: &Store) -> Result<Option<u64>, Error> {
    let mut session = store.session()?;
    let mut transaction = session.begin(Isolation::Snapshot)?;
    let mut newest = None;
    for space in [MEMBERS, LANES, TOMBSTONES] {
        let range = names::all(space);
        let last = transaction.scan::<[u8], _>(names::bounds(&range)).rev().next().transpose()?;
        newest = newest.max(last.and_then(|(name, _)| names::incarnation_in(&name)));
    }
    Ok(newest)
}

/// Returns the generation that the store's keys are of.
fn generation(store: &Store) -> Result<u64, Error> {
    let mut session = store.session()?;
    let mut transaction = session.begin(Isolation::Snapshot)?;
    Ok(transaction.get(GENERATION)?.map_or(0, |value| names::number(&value)))
}
