//! Transactions that are published and not known to be durable.
//!
//! A transaction has its place in the order of all, and then ends: others see what it wrote, and
//! write over it, while the disk or the network has not answered. What has seen it may not be told
//! to have succeeded before that answer. So it is here from before it ends until it is *settled*,
//! and a transaction that sees what it wrote asks for its place, to wait for that.
//!
//! Nearly all that is read was settled long ago. So the lowest id is in a word of its own, and only
//! a transaction that sees that id or a later one takes the lock.
//!
//! Invariants:
//! 1. `oldest` is the lowest id in `places`, or the highest number if there is none. Both change
//!    under the lock alone.
//! 2. A transaction is here, or its place is settled, when it ends. (One that is added behind the
//!    wait of another one, for a later place, is settled already.)
//!
//! # Memory orderings
//! A thread whose snapshot shows that a transaction is over has synchronized with its end, and so
//! with its [`Unsettled::add`]: it reads the `oldest` of then, or a later one. A later one is above
//! the id only if it was settled, and then the thread has synchronized with that (release, and
//! acquire).

use crate::lock::RawMutex;
use platform::atomic::{AtomicU64, Ordering};
use platform::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::fmt;

/// Which transactions are published and not known to be durable, and their places.
pub struct Unsettled {
    oldest: AtomicU64,
    /// Up to this place all is settled.
    settled: AtomicU64,
    lock: RawMutex,
    /// By id; under the lock.
    places: UnsafeCell<BTreeMap<u64, u64>>,
}

// SAFETY: the map is used under the lock.
unsafe impl Sync for Unsettled {}
// SAFETY: it is a map and numbers.
unsafe impl Send for Unsettled {}

impl fmt::Debug for Unsettled {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Unsettled").field("oldest", &self.oldest()).finish_non_exhaustive()
    }
}

impl Default for Unsettled {
    fn default() -> Unsettled {
        let (oldest, settled) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Unsettled { oldest, settled, lock: RawMutex::default(), places: UnsafeCell::new(BTreeMap::new()) }
    }
}

impl Unsettled {
    /// A transaction of this id has this place, and is about to end.
    pub fn add(&self, id: u64, place: u64) {
        self.locked(|places| {
            // Relaxed, here and below: under the lock (Invariants 1 and 2).
            if place <= self.settled.load(Ordering::Relaxed) {
                return;
            }
            places.insert(id, place);
            if id < self.oldest.load(Ordering::Relaxed) {
                // Release: see *Memory orderings*.
                self.oldest.store(id, Ordering::Release);
            }
        });
    }

    /// All up to this place is as durable as it is to be.
    pub fn settle(&self, place: u64) {
        // Relaxed: another thread has done it, or is about to. Release, and Acquire in the lock:
        // with `add`, Invariant 2.
        if self.settled.load(Ordering::Relaxed) >= place
            || self.settled.fetch_max(place, Ordering::AcqRel) >= place
        {
            return;
        }
        self.locked(|places| {
            places.retain(|_, its| *its > place);
            let oldest = places.first_key_value().map_or(u64::MAX, |(id, _)| *id);
            // Release: see *Memory orderings*.
            self.oldest.store(oldest, Ordering::Release);
        });
    }

    /// The lowest id that is not settled.
    #[inline]
    pub fn oldest(&self) -> u64 {
        // Acquire: see *Memory orderings*.
        self.oldest.load(Ordering::Acquire)
    }

    /// The place that a transaction has to wait for that has seen what this one wrote; 0 if that is
    /// settled.
    #[inline]
    pub fn place_of(&self, id: u64) -> u64 {
        if id < self.oldest() { 0 } else { self.look_up(id) }
    }

    #[cold]
    fn look_up(&self, id: u64) -> u64 {
        self.locked(|places| places.get(&id).copied().unwrap_or(0))
    }

    fn locked<T>(&self, work: impl FnOnce(&mut BTreeMap<u64, u64>) -> T) -> T {
        self.lock.acquire();
        // SAFETY: under the lock. (`work` does not panic: it is above.)
        let done = self.places.with_mut(|places| work(unsafe { &mut *places }));
        // SAFETY: acquired here.
        unsafe { self.lock.release() };
        done
    }
}
