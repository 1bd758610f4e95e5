//! The default range lock does what every range lock does, and what it promises beyond that: which
//! waiters may be overtaken, that no thread waits for a stranger, which deadlocks are reported, and
//! what is left as it was when something fails.
//!
//! Nothing here depends on how fast a thread is. Windows are empty or endless; and a test that
//! wants a thread to wait looks into the lock's dump until it does.

#[allow(dead_code, reason = "all locks here are exact")]
mod common;
#[path = "common/free.rs"]
mod free;

use free::assert_free;
use manx::range::{
    Access, InvalidRange, LockError, Options, RangeGuard, RangeLock, RangeMutex, Span, SpanSet,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use testing::until;

common::range::every_range_lock! {
    of_the_usual_size: manx::range::RangeLock, Exact;
    of_two_shards: manx::range::RangeLock<u64, 2, 1>, Exact;
    of_one_slot: manx::range::RangeLock<u64, 1, 1>, Exact;
}

/// Keys are blocks, so that there are ranges within one shard, over several, and wide ones.
const SMALL: Options = Options::new().block_log2(0);
/// No waiter may be overtaken …
const STRICT: Options = SMALL.window(Duration::ZERO);
/// … or every one for ever.
const LENIENT: Options = SMALL.window(Duration::MAX);

type Lock = RangeLock<u64, 8, 2>;
type Guard<'a> = RangeGuard<'a, u64, 8, 2>;

/// Returns once `count` wait, and all of them, or none, are starving.
fn until_waiting(lock: &Lock, count: usize, starving: bool) {
    until("waiters", || {
        let waiting = lock.dump().waiting;
        waiting.len() == count && waiting.iter().all(|waiter| waiter.starving == starving)
    });
}

// Which waiters may be overtaken.

/// A holds 1..3, B waits for 2..7, C comes for 4..5.
#[test]
fn a_waiter_is_overtaken_within_its_window() {
    let lock = Lock::with(LENIENT);
    let held = lock.lock(1..3).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| lock.lock(2..7).map(drop).unwrap());
        until_waiting(&lock, 1, false);
        for _ in 0..100 {
            drop(lock.try_lock(4..5).expect("C overtakes B"));
            drop(lock.lock(4..5).expect("C overtakes B"));
        }
        drop(held);
    });
    assert_free(&lock);
}

/// The same once B's window is over.
#[test]
fn no_thread_overtakes_a_starving_waiter() {
    let lock = Lock::with(STRICT);
    let order = std::sync::Mutex::new(Vec::new());
    let held = lock.lock(1..3).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let held = lock.lock(2..7).unwrap();
            order.lock().unwrap().push('B');
            drop(held);
        });
        until_waiting(&lock, 1, true);
        // The thread that holds 1..3 need not queue behind a waiter for that range; others do.
        let comes_later = scope.spawn(|| {
            assert_eq!(lock.try_lock(4..5).err(), Some(LockError::WouldBlock), "C does not overtake B");
            assert!(lock.try_lock_shared(6..7).is_err() && lock.try_lock(..).is_err());
            drop([lock.try_lock(7..9).expect("a stranger"), lock.try_lock(0..1).expect("another")]);
        });
        comes_later.join().unwrap();
        scope.spawn(|| {
            let held = lock.lock(4..5).unwrap();
            order.lock().unwrap().push('C');
            drop(held);
        });
        until_waiting(&lock, 2, true);
        drop(held);
    });
    assert_eq!(order.into_inner().unwrap(), ['B', 'C']);
    assert_free(&lock);
}

/// Waiters that want the same are served in their order.
#[test]
fn conflicting_waiters_are_served_in_the_order_of_arrival() {
    let lock = Lock::with(STRICT);
    let order = std::sync::Mutex::new(Vec::new());
    let held = lock.lock(0..8).unwrap();
    thread::scope(|scope| {
        let (lock, order) = (&lock, &order);
        for turn in 0..8 {
            scope.spawn(move || {
                // All of them have key 7.
                let held = lock.lock(turn % 5..8).unwrap();
                order.lock().unwrap().push(turn);
                drop(held);
            });
            until_waiting(lock, turn as usize + 1, true);
        }
        drop(held);
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(lock.statistics().handed_over + lock.statistics().given_up, 8, "{}", lock.statistics());
}

/// A waiter, in whatever state, does not hinder threads that want something else.
#[test]
fn strangers_never_wait() {
    for options in [STRICT, LENIENT] {
        let lock = Lock::with(options);
        let held = lock.lock(10..20).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| lock.lock(15..25).map(drop).unwrap());
            scope.spawn(|| lock.lock(12..40).map(drop).unwrap());
            until("waiters", || lock.dump().waiting.len() == 2);
            let low: Vec<Guard<'_>> = (0..10).map(|key| lock.try_lock(key..key + 1).unwrap()).collect();
            let high = lock.try_lock(40..).expect("a wide stranger");
            drop((held, low, high));
        });
        assert_free(&lock);
    }
}

/// One wants everything, the others always a key of their own.
#[test]
fn a_request_for_all_keys_is_served_among_small_ones() {
    for options in [STRICT, SMALL] {
        let lock = Lock::with(options);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (lock, stop) = (&lock, &stop);
            for me in 0..8 {
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        drop(lock.lock(me..me + 1).unwrap());
                    }
                });
            }
            for _ in 0..20 {
                let all = lock.lock(..).unwrap();
                assert_eq!(lock.dump().held.len(), 1);
                drop(all);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_free(&lock);
    }
}

/// A starving waiter waits for a thread's range; that thread takes more of what the waiter wants.
#[test]
fn a_thread_does_not_queue_behind_a_waiter_for_it() {
    let lock = Lock::with(STRICT);
    let mut held = vec![lock.lock_shared(0..2).unwrap()];
    thread::scope(|scope| {
        scope.spawn(|| lock.lock(0..30).map(drop).unwrap());
        until_waiting(&lock, 1, true);
        // Again, elsewhere, and waiting for another holder.
        held.push(lock.lock_shared(0..1).unwrap());
        held.push(lock.lock(20..22).unwrap());
        let set = SpanSet::disjoint([Span::point(25), Span::point(28)]).unwrap();
        let many = lock.lock_many(set).unwrap();
        drop((held, many));
    });
    assert_free(&lock);
}

#[test]
fn an_owner_does_not_queue_behind_a_waiter_for_it() {
    let lock = Lock::with(STRICT);
    let mut owner = lock.owner();
    owner.lock(0..2).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| lock.lock(0..30).map(drop).unwrap());
        until_waiting(&lock, 1, true);
        let mut other = lock.owner();
        assert!(other.try_lock(20..22).is_err(), "another one does");
        owner.lock(20..22).unwrap();
        owner.try_lock_shared(25..26).unwrap();
        owner.lock(1..2).unwrap();
        drop(owner);
    });
    assert_free(&lock);
}

/// All lock in the order of keys, and one thread wants two ranges at once. The second owner queues
/// behind that thread, which waits for the first; when the first comes to wait for the second, the
/// second has to be let pass.
#[test]
fn a_circle_by_way_of_a_waiter_for_several_is_opened() {
    let lock = Lock::with(STRICT);
    let mut first = lock.owner();
    first.lock(0..1).unwrap();
    let mut second = lock.owner();
    second.lock(10..11).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let set = SpanSet::disjoint([Span::point(0), Span::point(20)]).unwrap();
            drop(lock.lock_many(set).unwrap());
        });
        until_waiting(&lock, 1, true);
        scope.spawn(move || second.lock(20..21).unwrap());
        until_waiting(&lock, 2, true);
        first.lock(10..11).unwrap();
        drop(first);
    });
    assert_free(&lock);
}

/// A waiter that gives up leaves nothing closed, and lets the waiters behind it go on.
#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    for options in [STRICT, LENIENT] {
        let lock = Lock::with(options);
        let held = lock.lock(0..1).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(lock.lock_timeout(..9, Duration::from_millis(2)).err(), Some(LockError::TimedOut));
            });
            scope.spawn(|| lock.lock(3..5).map(drop).unwrap());
        });
        assert_eq!(lock.statistics().waiting, 0);
        assert!(lock.try_lock(1..9).is_ok(), "nothing is closed");
        drop(held);
        assert_free(&lock);
    }
}

// Errors, and failures that leave everything as it was.

#[test]
fn a_circle_of_waiters_is_reported_with_its_ranges() {
    let lock = Lock::with(LENIENT.detecting_deadlocks());
    let mut owners: Vec<_> = (0..3).map(|_| lock.owner()).collect();
    for (key, owner) in (0..).zip(&mut owners) {
        owner.lock(key * 10..key * 10 + 1).unwrap();
    }
    let mut last = owners.pop().unwrap();
    let names: Vec<String> = owners.iter().map(|owner| owner.holder().to_string()).collect();
    thread::scope(|scope| {
        for (key, mut owner) in (0..).zip(owners) {
            // Each waits for the next one.
            scope.spawn(move || {
                let next = (key + 1) * 10;
                owner.lock(next..next + 1).unwrap();
            });
        }
        until("waiters", || lock.dump().waiting.len() == 2);
        let error = last.lock(0..5).unwrap_err();
        let LockError::Deadlock(circle) = &error else { panic!("{error}") };
        assert_eq!(circle.links.len(), 3);
        assert_eq!((circle.links[0].waiter, circle.links[2].holder), (last.holder(), last.holder()));
        assert_eq!((&*circle.links[0].wants, &*circle.links[0].holds), ("0..5", "0..1"));
        assert!(names.iter().all(|name| error.to_string().contains(name)), "{error}");
        assert_eq!(last.held().count(), 1, "what was held is held");
        drop(last);
    });
    assert_free(&lock);
}

#[test]
fn a_thread_that_would_wait_for_itself_gets_an_error() {
    let lock = Lock::with(LENIENT.detecting_deadlocks());
    let held = lock.lock(0..2).unwrap();
    assert!(matches!(lock.lock(1..3), Err(LockError::Deadlock(_))));
    drop(held);
    assert_free(&lock);
}

#[test]
fn the_second_upgrade_gets_an_error_and_keeps_its_share() {
    for options in [STRICT, LENIENT] {
        let lock = Lock::with(options);
        let one = lock.lock_shared(0..4).unwrap();
        let other = lock.lock_shared(2..6).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let alone = one.upgrade().unwrap();
                assert_eq!((alone.access(), alone.span()), (Access::Exclusive, &Span::new(0, 4).unwrap()));
            });
            until("waiters", || lock.dump().waiting.len() == 1);
            let unchanged = other.upgrade().unwrap_err();
            assert_eq!(unchanged.error, LockError::UpgradeDeadlock);
            let other = unchanged.guard;
            assert_eq!((other.access(), other.span()), (Access::Shared, &Span::new(2, 6).unwrap()));
            assert!(lock.try_lock(5..6).is_err(), "it is held still");
            drop(other);
        });
        assert_free(&lock);
    }
}

#[test]
fn a_change_that_fails_changes_nothing() {
    let lock = RangeLock::<u64, 1, 1>::with(SMALL.spill_max(0));
    let held = lock.lock(10..20).unwrap();
    let full = LockError::TooMany { limit: 0 };
    let unchanged = held.split_at(15).unwrap_err();
    assert_eq!(unchanged.error, full);
    let unchanged = unchanged.guard.shrink(11..12).unwrap_err();
    assert_eq!(unchanged.error, full);
    let unchanged = unchanged.guard.downgrade().unwrap_err();
    assert_eq!(unchanged.error, full);
    let unchanged = unchanged.guard.split_at(10).unwrap_err();
    assert_eq!(unchanged.error, LockError::InvalidRange(InvalidRange::Empty));
    let unchanged = unchanged.guard.shrink(19..21).unwrap_err();
    assert_eq!(unchanged.error, LockError::NotHeld);
    let held = unchanged.guard;
    assert_eq!((held.span().to_string().as_str(), held.access()), ("10..20", Access::Exclusive));
    assert!(lock.try_lock(10..20).is_err());
    assert_eq!(lock.dump().held.len(), 1);
    assert_eq!(lock.try_lock(0..1).err(), Some(full));
    drop(held);
    assert!(lock.try_lock(..).is_ok());
}

#[test]
fn nothing_is_split_off_before_the_lowest_key() {
    let lock = Lock::with(SMALL);
    let unchanged = lock.lock(..5).unwrap().split_at(0).unwrap_err();
    assert_eq!(unchanged.error, LockError::InvalidRange(InvalidRange::Empty));
    assert_eq!(unchanged.guard.span().to_string(), "..5");
}

#[test]
fn an_owner_without_room_keeps_what_it_has() {
    let lock = RangeLock::<u64, 1, 2>::with(SMALL.spill_max(0));
    let mut owner = lock.owner();
    owner.lock(0..10).unwrap();
    owner.lock_shared(20..30).unwrap();
    assert_eq!(owner.lock(40..41), Err(LockError::TooMany { limit: 0 }));
    assert_eq!(owner.release(4..6), Err(LockError::TooMany { limit: 0 }));
    assert_eq!(owner.unlock(0..9), Err(LockError::NotHeld));
    assert_eq!(owner.held().count(), 2);
    assert!(lock.try_lock(4..6).is_err());
    owner.unlock(0..10).unwrap();
    owner.lock(40..41).unwrap();
    drop(owner);
    assert!(lock.try_lock(..).is_ok());
}

/// More ranges of one shard than it has slots, in one set and one by one, are on the heap, and the
/// heap's slots are given back.
#[test]
fn a_set_that_needs_the_heap_is_taken() {
    for count in [2, 3, 9, 17, 40] {
        let lock = RangeLock::<u64, 1, 1>::new();
        let set = SpanSet::disjoint((0..count).map(|key| Span::point(key * 2))).unwrap();
        let held = lock.lock_many(set).unwrap();
        assert_eq!(lock.dump().held.len() as u64, count);
        assert_eq!(lock.statistics().acquired, count);
        drop(held);
        drop(lock.lock(..).unwrap());
        assert_eq!(lock.statistics().spilled, 0);
    }
    let wide = RangeLock::<u64, 4, 1>::with(SMALL);
    let set = SpanSet::disjoint((0..40).map(|nth| Span::new(nth * 100, nth * 100 + 50).unwrap())).unwrap();
    let held = wide.lock_many(set).unwrap();
    assert!(wide.try_lock(1049..1050).is_err() && wide.try_lock(1050..1100).is_ok());
    drop(held);
    assert!(wide.try_lock(..).is_ok());
}

// What other range locks get wrong.

#[test]
fn the_ends_of_the_key_space_can_be_locked() {
    let lock = Lock::new();
    let low = lock.lock(..=0).unwrap();
    let high = lock.lock(u64::MAX..=u64::MAX).unwrap();
    let rest = lock.lock(1..u64::MAX).expect("all the others");
    assert!(lock.try_lock(u64::MAX..).is_err() && lock.try_lock(..1).is_err());
    drop((low, high, rest));
    let signed = RangeLock::<i64>::new();
    let lowest = signed.lock(..=i64::MIN).unwrap();
    assert!(signed.try_lock(i64::MIN + 1..=i64::MAX).is_ok() && signed.try_lock(..).is_err());
    drop(lowest);
}

#[test]
fn a_range_without_keys_is_refused_and_locks_nothing() {
    let lock = Lock::new();
    assert_eq!(lock.lock(5..5).err(), Some(LockError::InvalidRange(InvalidRange::Empty)));
    #[allow(clippy::reversed_empty_ranges, reason = "that is what is tested")]
    let inverted = [lock.lock(6..5).err(), lock.try_lock_shared(6..5).err(), lock.owner().lock(9..3).err()];
    assert_eq!(inverted, [const { Some(LockError::InvalidRange(InvalidRange::Inverted)) }; 3]);
    assert_free(&lock);
}

/// `..0` has no key of integers, which the lock cannot tell. Whatever it is taken for, its waiter
/// is woken.
#[test]
fn a_waiter_for_a_range_up_to_the_lowest_key_is_woken() {
    let lock = Lock::with(LENIENT);
    let held = lock.lock(0..1).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (lock, done) = (&lock, &done);
        scope.spawn(move || {
            drop(lock.lock(..0).unwrap());
            done.store(true, Ordering::Relaxed);
        });
        until("waiters", || lock.dump().waiting.len() == 1 || done.load(Ordering::Relaxed));
        drop(held);
    });
    assert_free(&lock);
}

/// Escalation does not take what a starving waiter waits for.
#[test]
fn an_escalating_owner_does_not_overtake_a_starving_waiter() {
    let lock = Lock::with(STRICT);
    let mut owner = lock.owner();
    owner.lock(1..2).unwrap();
    owner.lock(9..10).unwrap();
    let held = lock.lock(15..16).unwrap();
    thread::scope(|scope| {
        let set = SpanSet::disjoint([Span::new(4, 8).unwrap(), Span::point(15)]).unwrap();
        scope.spawn(|| lock.lock_many(set).map(drop).unwrap());
        until_waiting(&lock, 1, true);
        assert_eq!(owner.escalate(), 0, "a starving waiter wants what lies between");
        drop(held);
    });
    assert_eq!(owner.escalate(), 1);
}

/// What is released on another thread than it was locked on wakes its waiter.
#[test]
fn a_guard_is_released_elsewhere() {
    let lock = Lock::with(LENIENT);
    for _ in 0..200 {
        let held = lock.lock(3..6).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| lock.lock(5..9).map(drop).unwrap());
            until("waiters", || lock.dump().waiting.len() == 1);
            scope.spawn(move || drop(held));
        });
    }
    assert_free(&lock);
}

/// A thread's last guard may go when its thread-locals do.
#[test]
fn a_guard_is_released_at_the_end_of_a_thread() {
    use std::cell::RefCell;
    static LOCK: Lock = Lock::with(STRICT);
    thread_local! {
        static KEPT: RefCell<Option<Guard<'static>>> = const { RefCell::new(None) };
    }
    let held = LOCK.lock(0..1).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| LOCK.lock(0..4).map(drop).unwrap());
        until_waiting(&LOCK, 1, true);
        scope.spawn(|| KEPT.with(|kept| *kept.borrow_mut() = Some(LOCK.lock(8..9).unwrap())));
        scope.spawn(move || KEPT.with(|kept| *kept.borrow_mut() = Some(held)));
    });
    assert_free(&LOCK);
}

/// Elements of a slice are lent to one thread at a time, or to several readers.
#[test]
fn elements_are_lent_disjointly() {
    let numbers = RangeMutex::new(vec![0_u32; 64]);
    let added = AtomicU32::new(0);
    thread::scope(|scope| {
        for me in 0..4_usize {
            let (numbers, added) = (&numbers, &added);
            scope.spawn(move || {
                for turn in 0..500 {
                    let first = (me * 7 + turn * 13) % 60;
                    let mut part = numbers.lock(first..first + 4).unwrap();
                    part.iter_mut().for_each(|number| *number += 1);
                    added.fetch_add(4, Ordering::Relaxed);
                    drop(part);
                    assert!(numbers.lock_shared(first..first + 4).unwrap().iter().all(|number| *number > 0));
                }
            });
        }
    });
    assert_eq!(numbers.lock(..).unwrap().iter().sum::<u32>(), added.into_inner());
    assert!(matches!(numbers.lock(60..65), Err(LockError::InvalidRange(InvalidRange::Outside))));
    assert!(numbers.lock(64..64).unwrap().is_empty());
}

/// Outlines are coarse in a block of 2^20 positions: those of neighbours overlap.
#[test]
fn neighbours_with_the_same_outline_do_not_conflict() {
    let lock = RangeLock::<u64, 1, 4>::with(Options::new().block_log2(20));
    let low = lock.try_lock(0..8).expect("nothing is held");
    let high = lock.try_lock_shared(8..16).expect("only a neighbour is there");
    assert_eq!(lock.try_lock(7..9).err(), Some(LockError::WouldBlock));
    assert!(lock.try_lock_shared(9..12).is_ok());
    drop(low);
    assert!(lock.try_lock(0..8).is_ok());
    assert_eq!(lock.try_lock(15..20).err(), Some(LockError::WouldBlock));
    drop(high);
    assert!(lock.try_lock(0..20).is_ok());
}

/// A holder takes its next range in the same slot, so a waiter that watched the slot would wait for
/// that range as well.
#[test]
fn a_waiter_does_not_wait_for_the_holders_next_range() {
    const ROUNDS: usize = 100;
    let to_the_room = (0..ROUNDS).filter(|_| {
        let lock = RangeLock::<u64, 1, 8>::with(Options::new().window(Duration::MAX));
        let (waits, done) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let first = lock.lock(0..8).unwrap();
            scope.spawn(|| {
                waits.store(true, Ordering::Relaxed);
                drop(lock.lock(4..5).unwrap());
                done.store(true, Ordering::Relaxed);
            });
            until("a waiter", || waits.load(Ordering::Relaxed));
            thread::yield_now();
            drop(first);
            let _next = lock.lock(8..16).unwrap();
            until("the end", || done.load(Ordering::Relaxed));
        });
        lock.statistics().waits > 0
    });
    // A thread that was kept from running for longer than a millisecond came to the room. On a busy
    // machine that happens to many.
    let to_the_room = to_the_room.count();
    assert!(to_the_room < ROUNDS, "all waiters came to the room");
}
