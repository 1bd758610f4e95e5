//! What range locks take from the heap they give back, and use does not make it more.
//!
//! One test in a process of its own, because all of its allocations are counted.

use manx::range::baseline::{Bitmap, IntervalTree, Kogan, KoganRw, Map, Segments, SkipList, Song};
use manx::range::{Access, RangeLock, RawRangeLock, Span};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Barrier;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;

/// The system's allocator, and how many bytes it has lent.
struct Counting;

static LENT: AtomicIsize = AtomicIsize::new(0);

// SAFETY: everything is done by the system's allocator; counting changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LENT.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LENT.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the contract is the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const THREADS: u64 = 4;
const KEYS: u64 = 1024;

fn lent() -> isize {
    LENT.load(Ordering::Relaxed)
}

/// Threads take ranges, some of them four at once, some together, some in each other's way.
fn use_it<L: RawRangeLock>(lock: &L, pairs: u64) {
    let together = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for me in 0..THREADS {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                for turn in 0..pairs / 5 {
                    // Nobody else's, nor the common ones: who holds a range and waits for another one may wait for
                    // those who wait behind the first.
                    let own = 128 + me * 200;
                    let held = [1, 17, 9, 25].map(|key| {
                        let key = own + key + turn % 7;
                        lock.lock(&Span::point(key), Access::Exclusive)
                    });
                    for held in held {
                        // SAFETY: just locked.
                        unsafe { lock.unlock(held) };
                    }
                    let access = if turn % 3 == 0 { Access::Exclusive } else { Access::Shared };
                    let common = Span::new(turn % 100, turn % 100 + 20).expect("a range");
                    let held = lock.lock(&common, access);
                    // SAFETY: just locked.
                    unsafe { lock.unlock(held) };
                }
            });
        }
    });
}

/// As many bytes as the heap may have lent more than before: what threads keep for later, and what the test harness
/// needs.
const SLACK: isize = 2 * 1024 * 1024;

fn gives_all_back<L: RawRangeLock>() {
    let more = if std::env::var_os("MANX_FULL").is_some() { 40 } else { 1 };
    // What is made once, for as many threads as there are.
    use_it(&L::with_space(KEYS), 1_000);
    let before = lent();
    let lock = L::with_space(KEYS);
    use_it(&lock, 50_000 * more);
    let used = lent() - before;
    // A node of 32 bytes for each pair would be 6.4 MB at least.
    assert!(used < SLACK, "{}: {used} bytes after {THREADS} times {} pairs", L::NAME, 50_000 * more);
    drop(lock);
    for _ in 0..20 {
        use_it(&L::with_space(KEYS), 500);
        // Whoever forgets what it holds keeps nobody from dropping the lock.
        let lock = L::with_space(KEYS);
        (0..100).for_each(|key| drop(lock.try_lock(&Span::point(key), Access::Exclusive)));
    }
    let left = lent() - before;
    assert!(left < SLACK, "{}: {left} bytes after all were dropped", L::NAME);
}

#[test]
fn nothing_grows_with_use_and_nothing_is_left() {
    gives_all_back::<RangeLock<u64>>();
    gives_all_back::<Map>();
    gives_all_back::<Song>();
    gives_all_back::<IntervalTree>();
    gives_all_back::<Kogan>();
    gives_all_back::<KoganRw>();
    gives_all_back::<Segments>();
    gives_all_back::<Bitmap>();
    gives_all_back::<SkipList>();
}
