//! What every lock does: exclude, try, be moved, be dropped, be used by guards, and be used at the
//! end of a thread.
//!
//! A test file names its locks, and has all of the tests for each:
//!
//! ```text
//! locks::every_lock! {
//!     mcs: Mcs;
//! }
//! ```

use manx::lock::RawLock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Unlocks what was just locked by the calling thread.
fn unlock<L: RawLock>(lock: &L, held: L::Held) {
    // SAFETY: `held` comes from this lock, and the tests below give it back once.
    unsafe { lock.unlock(held) };
}

fn try_in_another_thread<L: RawLock>(lock: &L) -> bool {
    thread::scope(|scope| {
        let tries = scope.spawn(|| {
            let held = lock.try_lock();
            held.map(|held| unlock(lock, held)).is_some()
        });
        tries.join().expect("a try ends")
    })
}

pub fn a_held_lock_is_not_taken_by_a_try<L: RawLock>() {
    let lock = L::new();
    assert!(!lock.is_locked());
    let held = lock.lock();
    assert!(lock.is_locked());
    assert!(lock.try_lock().is_none());
    assert!(!try_in_another_thread(&lock));
    unlock(&lock, held);
    assert!(!lock.is_locked());
    assert!(try_in_another_thread(&lock));
    let held = lock.try_lock().expect("it is free");
    assert!(lock.is_locked());
    assert!(!try_in_another_thread(&lock));
    unlock(&lock, held);
    assert!(!lock.is_locked());
}

pub fn many_are_held_at_once_and_released_in_any_order<L: RawLock>() {
    const COUNT: usize = 100;
    let locks: Vec<L> = (0..COUNT).map(|_| L::new()).collect();
    // A step that has no divisor in common with the count visits all of them, in an order of its
    // own.
    for step in [1, 7, 37, COUNT - 1] {
        let mut held: Vec<_> = locks.iter().map(|lock| Some(lock.lock())).collect();
        for turn in 0..COUNT {
            let at = turn * step % COUNT;
            assert!(locks[at].is_locked());
            unlock(&locks[at], held[at].take().expect("each once"));
            assert!(!locks[at].is_locked());
        }
    }
}

pub fn a_held_lock_may_be_moved_and_dropped<L: RawLock>() {
    let lock = L::new();
    let held = lock.lock();
    let moved = Box::new(lock);
    assert!(moved.is_locked() && moved.try_lock().is_none());
    unlock(&*moved, held);
    assert!(!moved.is_locked());
    std::mem::forget(moved.lock());
    drop(moved);
    // What the forgotten one held does not come back to any thread.
    a_held_lock_is_not_taken_by_a_try::<L>();
}

pub fn a_lock_works_while_the_threads_variables_are_destroyed<L: RawLock + 'static>() {
    struct AtTheEnd<L: RawLock>(L);
    impl<L: RawLock> Drop for AtTheEnd<L> {
        fn drop(&mut self) {
            let held = self.0.lock();
            assert!(self.0.is_locked());
            let second = L::new();
            let also = second.lock();
            unlock(&self.0, held);
            unlock(&second, also);
            assert!(!self.0.is_locked());
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Box<dyn std::any::Any>>> = const { std::cell::RefCell::new(None) };
    }
    for lock_before in [false, true] {
        // Variables are destroyed in the reverse order of their first use, or the same: both ways
        // round.
        let thread = thread::spawn(move || {
            let first = L::new();
            if lock_before {
                let held = first.lock();
                unlock(&first, held);
            }
            LATE.with(|late| *late.borrow_mut() = Some(Box::new(AtTheEnd(L::new()))));
            let held = first.lock();
            unlock(&first, held);
        });
        thread.join().expect("a destructor that locks does no harm");
    }
}

pub fn a_panic_inside_unlocks<R: lock_api::RawMutex + Sync>() {
    let mutex = lock_api::Mutex::<R, u32>::new(0);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut number = mutex.lock();
        *number += 1;
        panic!("inside of the critical section");
    }));
    assert!(outcome.is_err());
    assert!(!mutex.is_locked());
    thread::scope(|scope| {
        scope.spawn(|| *mutex.lock() += 1).join().expect("no poison");
    });
    assert_eq!(mutex.try_lock().map(|number| *number), Some(2));
}

/// A guard moves like any other value, and unlocks where it ends.
pub fn guards_move<R: lock_api::RawMutex>() {
    let mutexes = [0, 1, 2].map(lock_api::Mutex::<R, u32>::new);
    let mut guards: Vec<_> = mutexes.iter().map(|mutex| mutex.lock()).collect();
    guards.swap(0, 2);
    let first = guards.remove(0);
    assert_eq!(*first, 2);
    drop(first);
    assert!(!mutexes[2].is_locked() && mutexes[0].is_locked() && mutexes[1].is_locked());
    drop(guards);
    assert!(mutexes.iter().all(|mutex| !mutex.is_locked()));
}

macro_rules! every_lock {
    (@ $lock:ty; $($test:ident)*) => {$(
        #[test]
        fn $test() {
            crate::locks::$test::<$lock>();
        }
    )*};
    ($($name:ident: $lock:ty;)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "a lock may be named in full")]
            use super::*;

            crate::locks::every_lock! { @ $lock;
                a_held_lock_is_not_taken_by_a_try
                many_are_held_at_once_and_released_in_any_order
                a_held_lock_may_be_moved_and_dropped
                a_lock_works_while_the_threads_variables_are_destroyed
                a_panic_inside_unlocks
                guards_move
            }

            #[test]
            fn a_static_needs_no_start() {
                static MUTEX: lock_api::Mutex<$lock, u32> = lock_api::Mutex::new(5);
                *MUTEX.lock() += 1;
                assert_eq!(*MUTEX.lock(), 6);
            }
        }
    )*};
}

pub(crate) use every_lock;

/// Whether a type is [`Send`], found at compile time: the inherent constant hides the trait's where
/// it applies.
pub struct Sendable<T>(std::marker::PhantomData<T>);
pub trait NotSendable {
    const YES: bool = false;
}
impl<T> NotSendable for Sendable<T> {}
impl<T: Send> Sendable<T> {
    pub const YES: bool = true;
}
