//! The range locks under ThreadSanitizer: what holders of a key write, and what becomes of the nodes that stand for
//! ranges, is ordered.
//!
//! `Map` is not among them: it is under a mutex of the standard library, which is not instrumented.

use manx::range::baseline::{
    Bitmap, IntervalTree, Kogan, KoganRw, Segments, SkipList, SkipListPublished, Song,
};
use manx::range::{Access, Options, RangeLock, RawRangeLock, Span};
use platform::cell::UnsafeCell;
use platform::thread;

const THREADS: u64 = 4;
const TURNS: u64 = 400;
const KEYS: u64 = 16;

struct Guarded<L> {
    lock: L,
    keys: [UnsafeCell<u64>; KEYS as usize],
}

// SAFETY: keys are used by who holds them.
unsafe impl<L: RawRangeLock> Sync for Guarded<L> {}

impl<L: RawRangeLock> Guarded<L> {
    /// Takes keys from `first` up to, and without, `end`, and writes or reads them.
    fn visit(&self, first: u64, end: u64, access: Access) {
        let span = Span::new(first, end).expect("first < end");
        let held = self.lock.try_lock(&span, access).unwrap_or_else(|| self.lock.lock(&span, access));
        for key in &self.keys[first as usize..end as usize] {
            match access {
                // SAFETY: held alone.
                Access::Exclusive => key.with_mut(|number| unsafe { *number += 1 }),
                // SAFETY: held by those who read.
                Access::Shared => assert!(key.with(|number| unsafe { *number }) <= THREADS * TURNS),
            }
        }
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }
}

fn orders_memory<L: RawRangeLock + 'static>() {
    orders_memory_by(L::with_space(KEYS));
}

fn orders_memory_by<L: RawRangeLock + 'static>(lock: L) {
    let guarded: &'static Guarded<L> =
        Box::leak(Box::new(Guarded { lock, keys: std::array::from_fn(|_| UnsafeCell::new(0)) }));
    let threads: Vec<_> = (0..THREADS)
        .map(|me| {
            thread::spawn(move || {
                for turn in 0..TURNS {
                    let first = (me * 5 + turn * 7) % KEYS;
                    let end = (first + 1 + turn % 4).min(KEYS);
                    match turn % 8 {
                        0 => guarded.visit(0, KEYS, Access::Exclusive),
                        1..4 => guarded.visit(first, end, Access::Shared),
                        _ => guarded.visit(first, end, Access::Exclusive),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("all turns"));
    // SAFETY: the other threads have ended.
    let least = guarded.keys.iter().map(|key| key.with(|number| unsafe { *number })).min();
    assert!(least >= Some(THREADS * TURNS / 8), "{}: all keys were written with all others", L::NAME);
}

/// In one shard, on the heap, over several shards and wide; with waiters that are handed their ranges and others that are told to
/// look.
#[test]
fn the_default_range_lock_orders_memory() {
    orders_memory::<RangeLock>();
    let options = Options::new().block_log2(0);
    for options in [options, options.window_ns(0), options.window_ns(u64::MAX)] {
        orders_memory_by(RangeLock::<u64, 1, 1>::with(options));
        orders_memory_by(RangeLock::<u64, 4, 1>::with(options));
        orders_memory_by(RangeLock::<u64, 64, 8>::with(options));
    }
}

#[test]
fn range_locks_order_memory() {
    orders_memory::<Song>();
    orders_memory::<IntervalTree>();
    orders_memory::<Kogan>();
    orders_memory::<KoganRw>();
    orders_memory::<Segments>();
    orders_memory::<Bitmap>();
    orders_memory::<SkipList>();
    orders_memory::<SkipListPublished>();
}
