//! What a range lock needs of memory: nothing on the common path, little beyond, and all of it is
//! given back.

use manx::range::{Options, RangeLock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// How often this thread allocated, and what it has not given back.
    static ALLOCATED: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

/// The system's, with a count for each thread.
struct Counting;

fn count(times: u64, bytes: i64) {
    // A thread that ends has no counter any more, and none is needed.
    let _ = ALLOCATED.try_with(|counter| {
        let (so_far, live) = counter.get();
        counter.set((so_far + times, live + bytes));
    });
}

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocated() -> (u64, i64) {
    ALLOCATED.with(Cell::get)
}

#[test]
fn the_common_path_allocates_nothing() {
    let lock = RangeLock::<u64>::new();
    let (before, _) = allocated();
    for turn in 0..10_000_u64 {
        let one = lock.lock(turn..turn + 100).unwrap();
        let other = lock.try_lock_shared(turn << 20..(turn << 20) + 40_000);
        drop((one, other));
    }
    assert_eq!(allocated().0, before);
}

/// Returns how many pages, of 4 KiB or more, this process has in memory.
fn resident_pages() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second number")
}

/// Many pairs, with ranges on the heap, wide ones, and keys that are on the heap themselves.
#[test]
fn memory_does_not_grow_with_use() {
    let rounds = if testing::full() { 2_000_000 } else { 5_000 };
    let numbers = RangeLock::<u64, 4, 1>::with(Options::new().block_log2(0));
    let bytes = RangeLock::<Vec<u8>, 4, 1>::new();
    let key = |number: u64| number.to_be_bytes().to_vec();
    let use_up = |rounds: u64| {
        for round in 0..rounds {
            let few: Vec<_> = (0..12).map(|nth| numbers.lock(nth * 4..nth * 4 + 2).unwrap()).collect();
            let wide: Vec<_> = (0..3).map(|nth| numbers.lock_shared(100 + nth..900).unwrap()).collect();
            let names: Vec<_> = (0..6)
                .map(|nth| bytes.lock(key(round + nth * 2)..key(round + nth * 2 + 1)).unwrap())
                .collect();
            drop((few, wide, names));
            drop(bytes.lock(..).unwrap());
        }
    };
    use_up(100);
    let ((_, live), pages) = (allocated(), resident_pages());
    use_up(rounds);
    // The samples of a lock of strings come and go. One word that is lost in each round would be 40
    // KB.
    assert!(allocated().1 - live < 16384, "{} bytes more are not given back", allocated().1 - live);
    // The other test of this program runs meanwhile.
    assert!(resident_pages() - pages < 4096, "{} pages more", resident_pages() - pages);
    drop(numbers.lock(..).unwrap());
    assert!(numbers.statistics().spilled <= 16, "{}", numbers.statistics());
}
