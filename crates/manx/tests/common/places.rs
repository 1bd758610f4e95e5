//! Places in queues are used again, and none is left behind: not by threads that end, not by
//! threads that hold many locks at once, and not at the end of a thread.
//!
//! This file's allocator counts them, by a layout that nothing else here asks for.

use manx::lock::RawLock;
use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How large a place is, and how it is aligned.
const SIZE: usize = 128;

fn is_place(layout: Layout) -> bool {
    (layout.size(), layout.align()) == (SIZE, SIZE)
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);
static EVER: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator, and numbers beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_place(layout) {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            EVER.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_place(layout) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn alive() -> usize {
    ALIVE.load(Ordering::Relaxed)
}

/// Holds all of these locks at once.
fn hold_all<L: RawLock>(locks: &[L]) {
    let held: Vec<_> = locks.iter().map(RawLock::lock).collect();
    for (lock, held) in locks.iter().zip(held) {
        // SAFETY: locked above, by what it returned.
        unsafe { lock.unlock(held) };
    }
}

fn in_a_thread(run: impl FnOnce() + Send + 'static) {
    // Joined, so that the thread's variables are gone too.
    thread::spawn(run).join().expect("it ends");
}

/// For one test of a process at a time, because the numbers are the process'.
pub fn none_is_left_behind<L: RawLock + lock_api::RawMutex + 'static>() {
    let before_all = alive();
    let left = || alive() - before_all;

    for count in [1, 5, 50] {
        in_a_thread(move || {
            let locks: Vec<L> = (0..count).map(|_| RawLock::new()).collect();
            hold_all(&locks);
            let kept = alive() - before_all;
            assert!(kept <= count.min(16), "{kept} are kept by a thread that held {count} at once");
        });
        assert_eq!(left(), 0, "after the end of a thread that held {count}");
    }

    in_a_thread(|| {
        let lock: [L; 1] = [RawLock::new()];
        let before = EVER.load(Ordering::Relaxed);
        for _ in 0..10_000 {
            hold_all(&lock);
            hold_all(&lock);
        }
        assert_eq!(EVER.load(Ordering::Relaxed) - before, 1, "the same place each time");
    });

    for _ in 0..200 {
        in_a_thread(|| hold_all::<L>(&[RawLock::new(), RawLock::new()]));
    }
    assert_eq!(left(), 0, "after many threads");

    struct AtTheEnd<L: RawLock>(Vec<L>);
    impl<L: RawLock> Drop for AtTheEnd<L> {
        fn drop(&mut self) {
            hold_all(&self.0);
        }
    }
    thread_local! {
        static EARLY: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
        static LATE: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }
    in_a_thread(|| {
        let two = || vec![RawLock::new(), RawLock::new()];
        EARLY.with(|early| *early.borrow_mut() = Some(Box::new(AtTheEnd::<L>(two()))));
        hold_all::<L>(&two());
        LATE.with(|late| *late.borrow_mut() = Some(Box::new(AtTheEnd::<L>(two()))));
    });
    assert_eq!(left(), 0, "after destructors that lock");

    // A guard that is forgotten keeps its place for ever, and nothing else.
    in_a_thread(|| {
        let mutex = lock_api::Mutex::<L, u32>::new(0);
        std::mem::forget(mutex.lock());
    });
    assert_eq!(left(), 1);
}
