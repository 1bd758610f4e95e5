//! Keeps versions that were cut off, and that a thread may still be reading, until they are freed:
//! a few by each commit.
//!
//! Epochs (crossbeam-epoch) tell when no thread reads any more what could be read. Given the
//! versions themselves, they free them in bursts: a thread that looks at the wrong moment frees up
//! to five hundred, cold and of any size, in the middle of its transaction. That was one commit of
//! a hundred, and with values of a kilobyte it took 50 to 300 µs. So the epochs get
//! *batches*. For a batch, the epochs only set a number. Each bin (`garbage.rs`) frees the versions
//! that were cut off there: two for each version that comes, so that nothing piles up.
//!
//! Invariants:
//! 1. Whatever is in a batch, or in an earlier one, was in no list any more when the epochs got
//!    that batch. So once `safe` is above a batch's number, no thread reads anything of it or of an
//!    earlier one.
//! 2. What is here is here alone, and is freed once.

use crossbeam_epoch::{Guard, Owned, Shared};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of versions in a batch, …
const BATCH: usize = 16;
/// … unless fewer have this number of bytes.
const BATCH_BYTES: usize = 64 * 1024;

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Retired<V> {
    /// The batch, and what is in it; the oldest first.
    versions: VecDeque<(u64, Unlinked<V>)>,
    /// Of all of them.
    bytes: usize,
    /// The batch that is being filled, …
    batch: u64,
    /// … how many are in it, …
    filled: usize,
    /// … and their bytes.
    filled_bytes: usize,
    /// The number of versions that came since some were freed.
    came: usize,
    /// No thread reads any batch below this one.
    safe: Arc<AtomicU64>,
    /// The owner ends each batch.
    is_sealed_by_owner: bool,
}

/// A version that is in no list, and its bytes.
#[derive(Debug)]
struct Unlinked<V>(*const V, usize);

// SAFETY: it can be dropped by any thread, as what is in it can.
unsafe impl<V: Send> Send for Unlinked<V> {}

impl<V> Default for Retired<V> {
    fn default() -> Retired<V> {
        Retired {
            versions: VecDeque::new(),
            bytes: 0,
            batch: 0,
            filled: 0,
            filled_bytes: 0,
            came: 0,
            safe: Arc::default(),
            is_sealed_by_owner: false,
        }
    }
}

impl<V> Retired<V> {
    /// For an owner that takes many at once, and seals them: the epochs take few batches at a time.
    pub(super) fn sealed_by_owner() -> Retired<V> {
        let mut retired = Retired::default();
        retired.is_sealed_by_owner = true;
        retired
    }

    /// Takes a version of this number of bytes.
    ///
    /// # Safety
    /// It is in no list any more, and no other code frees it.
    pub(super) unsafe fn take(&mut self, version: Shared<'_, V>, bytes: usize, guard: &Guard) {
        self.versions.push_back((self.batch, Unlinked(version.as_raw(), bytes)));
        self.bytes += bytes;
        self.came += 1;
        self.filled += 1;
        self.filled_bytes += bytes;
        if !self.is_sealed_by_owner && (self.filled >= BATCH || self.filled_bytes >= BATCH_BYTES) {
            self.seal(guard);
        }
    }

    /// Ends the batch that is being filled, so that what is in it can be freed.
    pub(super) fn seal(&mut self, guard: &Guard) {
        if self.filled == 0 {
            return;
        }
        (self.filled, self.filled_bytes) = (0, 0);
        self.batch += 1;
        let (safe, batch) = (Arc::clone(&self.safe), self.batch);
        // Release: a thread that sees it frees behind all reads. A maximum: batches of another
        // thread's time with the bin may come later (Invariant 1).
        guard.defer(move || _ = safe.fetch_max(batch, Ordering::Release));
        // Else it would wait on this thread for some tens of others.
        guard.flush();
    }

    /// Frees some that no thread reads any more: two for each that came since, and two more.
    pub(super) fn free_some(&mut self) {
        let most = 2 * (std::mem::take(&mut self.came) + 1);
        self.free(most);
    }

    /// Frees up to `most` that no thread reads any more.
    pub(super) fn free(&mut self, most: usize) {
        if self.versions.is_empty() {
            return;
        }
        // Acquire: see `seal`.
        let safe = self.safe.load(Ordering::Acquire);
        for _ in 0..most {
            match self.versions.pop_front() {
                Some((batch, cut)) if batch < safe => {
                    self.bytes -= cut.1;
                    // SAFETY: Invariants 1 and 2.
                    unsafe { cut.free() }
                }
                Some(young) => {
                    self.versions.push_front(young);
                    break;
                }
                None => break,
            }
        }
    }

    /// Gives back memory that more of them needed once.
    pub(super) fn shrink(&mut self) {
        shrink(&mut self.versions);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Gives back memory that a queue needed once, if a quarter of it is in use at most.
pub(super) fn shrink<T>(queue: &mut VecDeque<T>) {
    const KEPT: usize = 1024;
    if queue.capacity() > KEPT && queue.len() < queue.capacity() / 4 {
        queue.shrink_to((2 * queue.len()).max(KEPT));
    }
}

impl<V> Unlinked<V> {
    /// # Safety
    /// No thread reads it, and it is freed once.
    unsafe fn free(self) {
        // SAFETY: the caller's promise; it was made as an `Owned`.
        drop(unsafe { Owned::from_raw(self.0.cast_mut()) });
    }
}

impl<V> Drop for Retired<V> {
    fn drop(&mut self) {
        for (_, cut) in self.versions.drain(..) {
            // SAFETY: it goes with the store: no thread reads.
            unsafe { cut.free() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::versions::Version;
    use super::*;
    use crate::txn::{Isolation, Options, Store, Value};
    use std::sync::Weak;

    /// Writes over `count` values by one session of the store; returns the session and those
    /// values.
    fn written_over(store: &Store, count: usize) -> (crate::txn::Session, Vec<Weak<[u8]>>) {
        let mut session = store.session().expect("one of many");
        let mut values = Vec::new();
        for round in 0..=count {
            let value: Value = round.to_be_bytes().into();
            values.push(Arc::downgrade(&value));
            let mut it = session.begin(Isolation::Snapshot).expect("no limit");
            it.put_shared(b"key", value).expect("nobody else writes");
            it.commit().expect("in memory");
        }
        values.pop();
        (session, values)
    }

    fn alive(values: &[Weak<[u8]>]) -> usize {
        values.iter().filter(|value| value.strong_count() > 0).count()
    }

    #[test]
    fn versions_that_a_thread_may_read_are_not_freed_even_if_their_session_ends() {
        // A thread reads.
        let guard = crossbeam_epoch::pin();
        let store = Store::in_memory(Options::default());
        let (session, values) = written_over(&store, 300);
        assert_eq!(alive(&values), 300);
        drop(session);
        assert_eq!(alive(&values), 300, "the reader has not gone on");
        drop(guard);
        drop(store);
        assert_eq!(alive(&values), 0);
    }

    #[test]
    fn a_batch_is_freed_when_the_epochs_are_past_it_and_no_sooner() {
        let mut retired = Retired::default();
        let mut values = Vec::new();
        let mut take = |retired: &mut Retired<Version>, count: usize| {
            let guard = crossbeam_epoch::pin();
            for _ in 0..count {
                let value: Value = [0; 8].into();
                values.push(Arc::downgrade(&value));
                let version = Owned::new(Version::first(1, Some(value))).into_shared(&guard);
                // SAFETY: it was in no list, and is ours.
                unsafe { retired.take(version, 8, &guard) };
            }
            values.clone()
        };
        let values = take(&mut retired, BATCH + 5);
        // Others read, too.
        for _ in 0..10_000_000 {
            if retired.safe.load(Ordering::Acquire) > 0 {
                break;
            }
            crossbeam_epoch::pin().flush();
        }
        for _ in 0..BATCH {
            retired.free_some();
        }
        assert_eq!(alive(&values), 5, "the epochs know nothing of those yet");
        drop(retired);
        assert_eq!(alive(&values), 0);
    }
}
