//! What every lock of the room does: exclude, try, be moved, be dropped, be used by guards, and be used at
//! the end of a thread. And in which order those that are first in, first out let others in.

use manx::lock::{
    Asl, Cna, FutexMutex, Mcs, McsPark, MutableLock, QueueHeld, RawLock, RawMutex, Reorderable, Shfl, Tas,
    Ticket, Ttas,
};
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

fn a_held_lock_is_not_taken_by_a_try<L: RawLock>() {
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

fn many_are_held_at_once_and_released_in_any_order<L: RawLock>() {
    const COUNT: usize = 100;
    let locks: Vec<L> = (0..COUNT).map(|_| L::new()).collect();
    // A step that has no divisor in common with the count visits all of them, in an order of its own.
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

fn a_held_lock_may_be_moved_and_dropped<L: RawLock>() {
    let lock = L::new();
    let held = lock.lock();
    let moved = Box::new(lock);
    assert!(moved.is_locked() && moved.try_lock().is_none());
    unlock(&*moved, held);
    assert!(!moved.is_locked());
    std::mem::forget(moved.lock());
    drop(moved);
    // What the forgotten one held does not come back to anybody.
    a_held_lock_is_not_taken_by_a_try::<L>();
}

fn a_lock_works_while_the_threads_variables_are_destroyed<L: RawLock + 'static>() {
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
        // Variables are destroyed in the reverse order of their first use, or the same: both ways round.
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

fn a_panic_inside_unlocks<R: lock_api::RawMutex + Sync>() {
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
fn guards_move<R: lock_api::RawMutex>() {
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
    ($($name:ident: $lock:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn a_held_lock_is_not_taken_by_a_try() {
                super::a_held_lock_is_not_taken_by_a_try::<$lock>();
            }

            #[test]
            fn many_are_held_at_once_and_released_in_any_order() {
                super::many_are_held_at_once_and_released_in_any_order::<$lock>();
            }

            #[test]
            fn a_held_lock_may_be_moved_and_dropped() {
                super::a_held_lock_may_be_moved_and_dropped::<$lock>();
            }

            #[test]
            fn a_lock_works_while_the_threads_variables_are_destroyed() {
                super::a_lock_works_while_the_threads_variables_are_destroyed::<$lock>();
            }

            #[test]
            fn a_panic_inside_unlocks() {
                super::a_panic_inside_unlocks::<$lock>();
            }

            #[test]
            fn guards_move() {
                super::guards_move::<$lock>();
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

every_lock! {
    tas: Tas;
    ttas: Ttas;
    ticket: Ticket;
    mcs: Mcs;
    mcs_park: McsPark;
    futex_mutex: FutexMutex;
    default_mutex: RawMutex;
    mutable_lock: MutableLock;
    shfl: Shfl;
    shfl_that_alternates: Shfl<1>;
    cna: Cna;
    cna_that_alternates: Cna<1>;
    reorderable_ticket: Reorderable<Ticket>;
    reorderable_mcs: Reorderable<Mcs>;
    reorderable_mcs_park: Reorderable<McsPark>;
    reorderable_futex: Reorderable<FutexMutex>;
    reorderable_shfl: Reorderable<Shfl>;
    reorderable_cna: Reorderable<Cna>;
    asl_ticket: Asl<Ticket>;
    asl_mcs: Asl<Mcs>;
    asl_mcs_park: Asl<McsPark>;
    asl_futex: Asl<FutexMutex>;
    asl_shfl: Asl<Shfl>;
    asl_cna: Asl<Cna>;
}

#[test]
fn names_differ() {
    let mut names = [
        Tas::NAME,
        Ttas::NAME,
        Ticket::NAME,
        Mcs::NAME,
        McsPark::NAME,
        FutexMutex::NAME,
        MutableLock::NAME,
        <Shfl as RawLock>::NAME,
        <Cna as RawLock>::NAME,
        Reorderable::<Mcs>::NAME,
        Asl::<Mcs>::NAME,
    ];
    names.sort_unstable();
    assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
}

/// Whether a type is [`Send`], found at compile time: the inherent constant hides the trait's where it applies.
struct Sendable<T>(std::marker::PhantomData<T>);
trait NotSendable {
    const YES: bool = false;
}
impl<T> NotSendable for Sendable<T> {}
impl<T: Send> Sendable<T> {
    const YES: bool = true;
}

#[test]
fn a_place_in_a_queue_stays_in_its_thread() {
    const { assert!(!Sendable::<QueueHeld>::YES) };
    const { assert!(!Sendable::<lock_api::MutexGuard<'static, Mcs, u32>>::YES) };
    const { assert!(!Sendable::<lock_api::MutexGuard<'static, McsPark, u32>>::YES) };
    const { assert!(!Sendable::<lock_api::MutexGuard<'static, Cna, u32>>::YES) };
    // The others hold nothing that is a thread's.
    const { assert!(Sendable::<lock_api::MutexGuard<'static, Ticket, u32>>::YES) };
}

#[test]
fn who_holds_nothing_of_a_threads_may_unlock_in_another_one() {
    let mutex = lock_api::Mutex::<Ticket, u32>::new(0);
    let guard = mutex.lock();
    thread::scope(|scope| scope.spawn(move || drop(guard)).join().expect("it unlocks"));
    assert!(!mutex.is_locked());
}
