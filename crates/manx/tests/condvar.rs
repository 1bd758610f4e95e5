//! Condition variables on the machine: real threads, deadlines on both clocks, memory that is gone
//! after a broadcast.

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use manx::lock::condvar::Outcome;
use manx::lock::{Condvar, FutexMutex, Mutex, RawCondvar};
use platform::clock;
use platform::futex::{Clock, Deadline};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testing::until;

#[test]
fn items_pass_a_bounded_queue_once_each() {
    const ITEMS: u64 = 3_000;
    const ROOM: usize = 2;
    let (queue, filled, emptied) = (Mutex::new(Vec::new()), Condvar::new(), Condvar::new());
    let taken: u64 = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for item in 1..=ITEMS {
                    let mut items = queue.lock();
                    emptied.wait_while(&mut items, |items| items.len() == ROOM);
                    items.push(item);
                    drop(items);
                    filled.notify_one();
                }
            });
        }
        let takers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    (0..ITEMS).fold(0, |sum, _| {
                        let mut items = queue.lock();
                        filled.wait_while(&mut items, |items| items.is_empty());
                        let item = items.pop().expect("not empty");
                        drop(items);
                        emptied.notify_one();
                        sum + item
                    })
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().expect("takes")).sum()
    });
    assert_eq!(taken, 3 * ITEMS * (ITEMS + 1) / 2);
    assert!(queue.lock().is_empty());
    // A thread that comes to sleep just when another one is signalled is woken with it, and still
    // counts as waiting; the next signal uses that up.
    assert!((0..100).any(|_| !(filled.notify_one() | emptied.notify_one())), "somebody waits for ever");
}

#[test]
fn a_hundred_waiters_are_woken_by_one_broadcast() {
    let (state, changed) = (Mutex::new((0, false)), Condvar::new());
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let mut state_here = state.lock();
                state_here.0 += 1;
                changed.wait_while(&mut state_here, |(_, go)| !*go);
            });
        }
        until("a hundred waiters", || state.lock().0 == 100);
        // All of them have entered, because they did so before they released the mutex.
        state.lock().1 = true;
        assert_eq!(changed.notify_all(), 100);
    });
    assert_eq!(changed.notify_all(), 0);
}

#[test]
fn a_wait_with_a_limit_ends_by_it_and_by_a_notification() {
    let (mutex, changed) = (Mutex::new(false), Condvar::new());
    let limit = Duration::from_millis(2);
    let began = Instant::now();
    let mut guard = mutex.lock();
    assert!(changed.wait_for(&mut guard, limit).timed_out());
    assert!(began.elapsed() >= limit);
    let end = Instant::now() + limit;
    assert!(changed.wait_until(&mut guard, end).timed_out());
    assert!(Instant::now() >= end);
    assert!(changed.wait_while_for(&mut guard, |ready| !*ready, limit).timed_out());
    assert!(!changed.notify_one(), "who gave up is not waiting any more");
    thread::scope(|scope| {
        scope.spawn(|| {
            *mutex.lock() = true;
            changed.notify_one();
        });
        assert!(!changed.wait_while_for(&mut guard, |ready| !*ready, Duration::MAX).timed_out());
    });
    assert!(*guard);
}

#[test]
fn deadlines_hold_on_both_clocks() {
    let condvar = RawCondvar::new();
    for (clock, now) in
        [(Clock::Monotonic, clock::now_ns as fn() -> u64), (Clock::Realtime, clock::unix_time_ns)]
    {
        let deadline = Deadline { clock, ns: now() + 2_000_000 };
        let ticket = condvar.enter();
        assert_eq!(condvar.sleep(&ticket, Some(deadline)), Outcome::TimedOut);
        assert!(now() >= deadline.ns, "by {clock:?}");
        condvar.leave(ticket, Outcome::TimedOut);
        assert!(!condvar.signal(), "it took its token back");
    }
}

#[test]
fn a_signal_between_entering_and_sleeping_is_not_lost() {
    let condvar = RawCondvar::new();
    let ticket = condvar.enter();
    assert!(condvar.signal());
    assert_eq!(condvar.sleep(&ticket, None), Outcome::Woken, "it does not even fall asleep");
    let ticket = condvar.enter();
    assert_eq!(condvar.broadcast(), 1);
    assert_eq!(condvar.sleep(&ticket, None), Outcome::Woken);
}

#[test]
fn a_waiter_that_gives_up_after_a_signal_leaves_later_waiters_their_tokens() {
    let condvar = RawCondvar::new();
    let early = condvar.enter();
    assert!(condvar.signal());
    let late = condvar.enter();
    condvar.leave(early, Outcome::TimedOut);
    assert!(condvar.signal(), "the later one is still known");
    assert_eq!(condvar.sleep(&late, None), Outcome::Woken);

    let (cancelled, other) = (condvar.enter(), condvar.enter());
    assert!(condvar.signal());
    condvar.leave(cancelled, Outcome::Cancelled);
    assert!(!condvar.signal(), "the one who was cancelled has signalled for the other");
    assert_eq!(condvar.sleep(&other, None), Outcome::Woken);
}

#[test]
fn any_mutex_of_lock_api_will_do() {
    let (mutex, changed) = (lock_api::Mutex::<FutexMutex, _>::new(0), Condvar::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            *mutex.lock() = 7;
            changed.notify_all();
        });
        let mut number = mutex.lock();
        changed.wait_while(&mut number, |number| *number == 0);
        assert_eq!(*number, 7);
    });
}

#[test]
fn a_panic_in_a_condition_leaves_the_mutex_locked_by_its_guard_only() {
    let (mutex, changed) = (Mutex::new(0), Condvar::new());
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        changed.wait_while(&mut mutex.lock(), |_| panic!("in the condition"));
    }));
    assert!(panic.is_err());
    assert!(mutex.try_lock().is_some());
    assert!(!changed.notify_one());
}

/// A page with a condition variable in it.
struct Page(*const RawCondvar);

// SAFETY: the variable is shared by its address, and the test says when it may be used.
unsafe impl Sync for Page {}

impl Page {
    const LEN: usize = 4096;

    fn new() -> Page {
        let (protection, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), Page::LEN, protection, flags, -1, 0) };
        assert_ne!(page, MAP_FAILED);
        Page(page.cast())
    }

    fn condvar(&self) -> &RawCondvar {
        // SAFETY: a page of zeros is a variable that no thread waits for; the test uses it while it
        // is mapped only.
        unsafe { &*self.0 }
    }

    fn unmap(&self) {
        // SAFETY: mapped above, and used no more.
        assert_eq!(unsafe { libc::munmap(self.0.cast_mut().cast(), Page::LEN) }, 0);
    }
}

#[test]
fn the_memory_may_go_away_as_soon_as_the_broadcast_is_made() {
    // A waiter that touched the variable after it was woken, or before it sleeps, would end the
    // process.
    for round in 0..200_u32 {
        let page = Page::new();
        let entered = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let ticket = page.condvar().enter();
                    entered.fetch_add(1, Ordering::Release);
                    let outcome = page.condvar().sleep(&ticket, None);
                    assert_eq!(outcome, Outcome::Woken);
                    page.condvar().leave(ticket, outcome);
                });
            }
            until("three waiters", || entered.load(Ordering::Acquire) == 3);
            if round % 2 == 0 {
                // Asleep more often than not; otherwise often on the way.
                thread::sleep(Duration::from_micros(100));
            }
            assert_eq!(page.condvar().broadcast(), 3);
            page.unmap();
        });
    }
}

#[test]
fn the_memory_may_become_another_variable_as_soon_as_the_broadcast_is_made() {
    // As above, but the late sleeper finds zeros again, as its own variable was when it was new.
    for _ in 0..200 {
        let page = Page::new();
        let entered = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let ticket = page.condvar().enter();
                entered.store(1, Ordering::Release);
                assert_eq!(page.condvar().sleep(&ticket, None), Outcome::Woken);
            });
            while entered.load(Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
            assert_eq!(page.condvar().broadcast(), 1);
            // SAFETY: the waiter reaches the page through the kernel only.
            unsafe { page.0.cast_mut().cast::<[u8; 8]>().write_volatile([0; 8]) };
        });
        page.unmap();
    }
}
