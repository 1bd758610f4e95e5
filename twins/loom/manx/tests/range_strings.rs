//! The range lock of strings under loom: takers that have found their shard by an old scale,
//! against the thread that replaces it.
//!
//! There a scale is learnt from two ranges (`learn.rs`). So the main thread locks two, and with
//! that a better scale is known. From then on the first thread that comes tries to use it, while
//! the other one is anywhere on its way. Each key has a cell that loom watches.

mod common;

use common::check;
use loom::sync::Arc;
use loom::thread;
use manx_loom::range::{Access, Options, RangeLock, Span};
use platform::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KEYS: [&[u8]; 5] =
    [b"d-common-prefix/1", b"d-common-prefix/2", b"d-common-prefix/3", b"d-common-prefix/4", b"e"];

struct Guarded<const SHARDS: usize> {
    lock: RangeLock<&'static [u8], SHARDS, 1>,
    numbers: [UnsafeCell<u32>; KEYS.len() - 1],
}

// SAFETY: numbers are used by the holders of their keys; loom reports it if that is not enough.
unsafe impl<const SHARDS: usize> Sync for Guarded<SHARDS> {}
// SAFETY: as above.
unsafe impl<const SHARDS: usize> Send for Guarded<SHARDS> {}

impl<const SHARDS: usize> Guarded<SHARDS> {
    /// A better scale is known, and not in use.
    fn new(window: Duration) -> Arc<Self> {
        let numbers = std::array::from_fn(|_| UnsafeCell::new(0));
        let guarded = Guarded { lock: RangeLock::with(Options::new().window(window)), numbers };
        guarded.lock(0, 1);
        guarded.lock(3, 4);
        assert_eq!(guarded.lock.statistics().rescaled, 0);
        Arc::new(guarded)
    }

    fn lock(&self, first: usize, end: usize) {
        let span = Span::new(KEYS[first], KEYS[end]).expect("it has a key");
        let held = self.lock.lock_as(span, Access::Exclusive).expect("nothing is in the way for ever");
        for number in &self.numbers[first..end] {
            // SAFETY: held alone.
            number.with_mut(|number| unsafe { *number += 1 });
        }
        drop(held);
    }

    /// Checks that nothing is held or closed, no thread waits, and each key was used `times` times.
    /// Returns how many times the scale was replaced.
    fn assert_done(&self, times: [u32; KEYS.len() - 1]) -> u64 {
        let dump = self.lock.dump();
        assert!(dump.held.is_empty() && dump.waiting.is_empty(), "{dump}");
        let all = self
            .lock
            .try_lock_as(Span::all(), Access::Exclusive)
            .expect("what is free is had without waiting");
        // SAFETY: all are held.
        let found = self.numbers.each_ref().map(|number| number.with(|number| unsafe { *number }));
        drop(all);
        assert_eq!(found, times);
        self.lock.statistics().rescaled
    }
}

/// Two take ranges that overlap while the scale is replaced, or cannot be.
fn two_overlap<const SHARDS: usize>(window: Duration) {
    static RESCALED: AtomicU64 = AtomicU64::new(0);
    check(2, move || {
        let guarded = Guarded::<SHARDS>::new(window);
        let other = Arc::clone(&guarded);
        let other = thread::spawn(move || other.lock(1, 3));
        guarded.lock(2, 3);
        other.join().unwrap();
        RESCALED.fetch_add(guarded.assert_done([1, 1, 2, 1]), Ordering::Relaxed);
    });
    assert!(RESCALED.load(Ordering::Relaxed) > 0, "no scale was replaced, so that nothing was shown");
}

#[test]
fn two_overlap_in_two_shards_while_the_scale_changes() {
    two_overlap::<2>(Duration::MAX);
}

#[test]
fn no_waiter_is_overtaken_in_two_shards_while_the_scale_changes() {
    two_overlap::<2>(Duration::ZERO);
}

#[test]
fn two_overlap_in_one_shard_while_the_scale_changes() {
    two_overlap::<1>(Duration::MAX);
}
