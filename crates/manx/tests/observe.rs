//! What locks tell when a caller asks: numbers that are right, deadlocks with threads, locks and
//! places, and nothing at all when no caller asks.
//!
//! What is observed is observed in the whole process, so these tests take turns.

use lock_api::{RwLockUpgradableReadGuard, RwLockWriteGuard};
use manx::lock::{LockStatistics, Mutex, Observe, RwLock, name, observe, observed, statistics, unname};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Barrier, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
use testing::until;

/// Observes this until the result is dropped; no other test does meanwhile.
fn observing(what: Observe) -> impl Drop {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    struct Turn(#[allow(dead_code)] MutexGuard<'static, ()>);
    impl Drop for Turn {
        fn drop(&mut self) {
            observe(Observe::NOTHING);
        }
    }
    let turn = Turn(TURN.lock().unwrap_or_else(PoisonError::into_inner));
    observe(what);
    assert_eq!(observed(), what);
    turn
}

/// The row of this name.
fn row(name: &str) -> LockStatistics {
    let statistics = statistics();
    let row = statistics.locks.iter().find(|row| row.name.as_deref() == Some(name));
    row.unwrap_or_else(|| panic!("no row for {name}:\n{statistics}")).clone()
}

/// What a panic said, if `run` panics.
fn panic_of(run: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    Some(*panic.downcast::<String>().expect("a formatted message"))
}

/// Runs each step in a thread of its own name, and returns what the panics said, sorted by thread.
fn panics_of<const N: usize>(steps: [(&str, &(dyn Fn() + Sync)); N]) -> Vec<(String, String)> {
    thread::scope(|scope| {
        let started: Vec<_> = steps
            .into_iter()
            .map(|(name, step)| {
                let thread = thread::Builder::new().name(name.to_owned());
                (name, thread.spawn_scoped(scope, move || panic_of(step)).expect("starts"))
            })
            .collect();
        let ended = started.into_iter().map(|(name, thread)| (name, thread.join().expect("caught")));
        ended.filter_map(|(name, panic)| Some((name.to_owned(), panic?))).collect()
    })
}

#[test]
fn two_threads_that_would_deadlock_are_named_with_their_locks_and_places() {
    let _turn = observing(Observe::DEADLOCKS);
    let (first, second) = (Mutex::new(0), Mutex::new(0));
    name(&first, "accounts");
    name(&second, "journal");
    let both = Barrier::new(2);
    let panics = panics_of([
        ("teller", &|| {
            let _held = first.lock();
            both.wait();
            drop(second.lock());
        }),
        ("auditor", &|| {
            let _held = second.lock();
            both.wait();
            drop(first.lock());
        }),
    ]);
    let [(_, message)] = &panics[..] else { panic!("one of the two ends it: {panics:?}") };
    for part in [
        "deadlock: 2 threads",
        "thread \"teller\"",
        "thread \"auditor\"",
        "lock \"accounts\"",
        "lock \"journal\"",
        "holds since",
        "waits at",
    ] {
        assert!(message.contains(part), "{part} is missing:\n{message}");
    }
    let places = message.matches(concat!(file!(), ":")).count();
    assert_eq!(places, 4, "two where they wait, and two where they took:\n{message}");
    assert!(first.try_lock().is_some() && second.try_lock().is_some(), "who panicked released what it held");
}

#[test]
fn three_threads_in_a_ring_are_found() {
    let _turn = observing(Observe::DEADLOCKS);
    let locks = [const { Mutex::new(0) }; 3];
    let all = Barrier::new(3);
    let step = |number: usize| {
        let _held = locks[number].lock();
        all.wait();
        drop(locks[(number + 1) % 3].lock());
    };
    let panics = panics_of([("a", &|| step(0)), ("b", &|| step(1)), ("c", &|| step(2))]);
    assert_eq!(panics.len(), 1, "one of the three ends it: {panics:?}");
    let message = &panics[0].1;
    assert!(message.contains("deadlock: 3 threads"), "{message}");
    for thread in ["\"a\"", "\"b\"", "\"c\""] {
        assert!(message.contains(thread), "{message}");
    }
    for lock in &locks {
        let address = format!("{:#x}", manx::lock::Nameable::address(lock));
        assert!(message.contains(&address), "a lock without a name goes by its address:\n{message}");
    }
}

#[test]
fn a_thread_that_would_wait_for_itself_panics() {
    let _turn = observing(Observe::DEADLOCKS);
    let mutex = Mutex::new(0);
    let held = mutex.lock();
    let message = panic_of(|| drop(mutex.lock())).expect("would never end");
    assert!(message.contains("would wait for itself"), "{message}");
    drop(held);
    drop(mutex.lock());

    let lock = RwLock::new(0);
    let read = lock.read();
    let message = panic_of(|| drop(lock.write())).expect("would never end");
    assert!(message.contains("reads since"), "{message}");
    drop(read);
    drop(lock.write());
}

#[test]
fn a_reader_that_reads_again_behind_a_writer_panics() {
    let _turn = observing(Observe::BOTH);
    let lock = RwLock::new(0);
    name(&lock, "twice");
    thread::scope(|scope| {
        let read = lock.read();
        let writer = scope.spawn(|| panic_of(|| drop(lock.write())));
        // The writer is starving at some time, and then no thread reads anew.
        let mut again = None;
        until("a deadlock", || {
            again = panic_of(|| drop(lock.read()));
            again.is_some()
        });
        let message = again.expect("found");
        assert!(message.contains("waits as a writer at"), "{message}");
        assert!(message.contains("lock \"twice\""), "{message}");
        drop(read);
        assert_eq!(writer.join().expect("caught"), None, "the writer goes on");
    });
    unname(&lock);
}

#[test]
fn a_waiter_with_a_deadline_is_in_no_deadlock() {
    let _turn = observing(Observe::DEADLOCKS);
    let (first, second) = (Mutex::new(0), Mutex::new(0));
    let both = Barrier::new(2);
    let panics = panics_of([
        ("limited", &|| {
            let _held = first.lock();
            both.wait();
            assert!(second.try_lock_for(Duration::from_millis(20)).is_none());
        }),
        ("patient", &|| {
            let _held = second.lock();
            both.wait();
            drop(first.lock());
        }),
    ]);
    assert_eq!(panics, [], "the limited one gives up, and the other goes on");
}

#[test]
fn locks_that_are_taken_in_one_order_are_no_deadlock() {
    let _turn = observing(Observe::DEADLOCKS);
    let (outer, inner, table) = (Mutex::new(0_u32), Mutex::new(0_u32), RwLock::new(0_u32));
    let work = || {
        for round in 0..500 {
            let mut outer = outer.lock();
            *outer += 1;
            let mut inner = inner.lock();
            *inner += 1;
            drop(outer);
            if round % 4 == 0 {
                *table.write() += 1;
            } else {
                let (one, other) = (table.try_read(), table.try_read());
                drop((one, other));
            }
        }
    };
    assert_eq!(panics_of([("a", &work), ("b", &work), ("c", &work)]), []);
    assert_eq!((*outer.lock(), *inner.lock()), (1_500, 1_500));
}

#[test]
fn locks_taken_before_observation_close_no_false_cycle() {
    let (first, second) = (Mutex::new(0), Mutex::new(0));
    let turn = observing(Observe::DEADLOCKS);
    let before = first.lock();
    // Forgets that this thread holds it, and sees it released.
    observe(Observe::NOTHING);
    observe(Observe::DEADLOCKS);
    drop(before);
    let _second = second.lock();
    thread::scope(|scope| {
        scope.spawn(|| drop(first.lock()));
    });
    drop(first.lock());
    drop(turn);
}

#[test]
fn counts_are_right() {
    let _turn = observing(Observe::STATISTICS);
    let (mutex, table) = (Mutex::new(0), RwLock::new(0));
    name(&mutex, "counted mutex");
    name(&table, "counted table");
    for _ in 0..10 {
        *mutex.lock() += 1;
    }
    assert!(mutex.try_lock().is_some());
    for _ in 0..5 {
        let (_one, _other) = (table.read(), table.read());
    }
    let guard = table.write();
    drop(lock_api::RwLockWriteGuard::downgrade(guard));

    let counted = row("counted mutex");
    assert_eq!((counted.acquisitions, counted.shared, counted.contended), (11, 0, 0));
    assert_eq!((counted.hold.count(), counted.wait.count(), counted.gave_up), (11, 0, 0));
    assert!(counted.hold.sum() >= counted.hold.max() && counted.hold.max() > Duration::ZERO);
    let counted = row("counted table");
    assert_eq!((counted.acquisitions, counted.shared), (11, 10));
    assert_eq!(counted.hold.count(), 12, "ten reads, a write, and what it became");
}

#[test]
fn waits_that_end_and_waits_that_time_out_are_counted() {
    let _turn = observing(Observe::STATISTICS);
    let mutex = Mutex::new(());
    name(&mutex, "waited for");
    let held = mutex.lock();
    assert!(mutex.try_lock().is_none());
    thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock_for(Duration::from_millis(2)).is_none()));
    });
    assert_eq!(row("waited for").gave_up, 1);
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        scope.spawn({
            let mutex = &mutex;
            move || {
                tell.send(()).expect("heard");
                drop(mutex.lock());
            }
        });
        told.recv().expect("told");
        // Until its window is over, and so that its wait is one.
        thread::sleep(Duration::from_millis(20));
        drop(held);
    });
    let counted = row("waited for");
    assert_eq!((counted.acquisitions, counted.gave_up), (2, 1));
    // It waited, unless it did not get to its wait within those 20 ms.
    assert_eq!(counted.contended, counted.wait.count());
    assert!(counted.contended <= 1 && counted.contended_share() <= 0.5);
}

#[test]
fn locks_of_one_name_are_one_row_and_the_table_says_so() {
    let _turn = observing(Observe::STATISTICS);
    let shards = [const { Mutex::new(0) }; 3];
    for shard in &shards {
        name(shard, "shard");
        drop(shard.lock());
    }
    let nameless = Mutex::new(0);
    drop(nameless.lock());
    let counted = row("shard");
    assert_eq!((counted.locks, counted.acquisitions), (3, 3));
    let text = statistics().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("lock ") && lines[0].contains("contended"), "{text}");
    assert!(text.contains("shard (x3)"), "{text}");
    assert!(text.contains(file!()), "a lock without a name goes by where it was first taken:\n{text}");
    let wide = |line: &&str| line.chars().count();
    assert!(lines.iter().all(|line| wide(line) == wide(&lines[0])), "columns are aligned:\n{text}");
    shards.iter().for_each(unname);
}

#[test]
fn more_locks_than_there_is_room_for_are_counted_as_dropped() {
    let _turn = observing(Observe::STATISTICS);
    let locks: Vec<Mutex<u8>> = (0..manx::lock::observe::CAPACITY + 100).map(|_| Mutex::new(0)).collect();
    locks.iter().for_each(|lock| drop(lock.lock()));
    let statistics = statistics();
    assert!(statistics.locks.len() <= manx::lock::observe::CAPACITY);
    let kept: u64 = statistics.locks.iter().map(|row| row.acquisitions).sum();
    assert!(statistics.dropped >= 100 && kept >= 500, "{} kept, {} dropped", kept, statistics.dropped);
    assert!(statistics.to_string().contains("found no room"));
}

#[test]
fn statistics_begin_anew_and_stay_readable() {
    let turn = observing(Observe::STATISTICS);
    let mutex = Mutex::new(());
    name(&mutex, "anew");
    drop(mutex.lock());
    observe(Observe::NOTHING);
    drop(mutex.lock());
    assert_eq!(row("anew").acquisitions, 1, "what happens while nobody observes is not counted");
    observe(Observe::STATISTICS);
    drop(mutex.lock());
    assert_eq!(row("anew").acquisitions, 1);
    drop(turn);
}

#[test]
fn a_lock_may_be_used_while_observation_is_switched() {
    let turn = observing(Observe::NOTHING);
    let mutex = Mutex::new(0_u64);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..3_000 {
                        *mutex.lock() += 1;
                    }
                })
            })
            .collect();
        for what in [Observe::STATISTICS, Observe::DEADLOCKS, Observe::BOTH, Observe::NOTHING].repeat(20) {
            observe(what);
            thread::yield_now();
        }
        workers.into_iter().for_each(|worker| worker.join().expect("no false deadlock"));
    });
    assert_eq!(*mutex.lock(), 9_000);
    drop(turn);
}

#[test]
fn an_upgrade_is_no_deadlock_unless_its_thread_reads_too() {
    let _turn = observing(Observe::BOTH);
    let lock = RwLock::new(0);
    let upgraded = RwLockUpgradableReadGuard::upgrade(lock.upgradable_read());
    drop(RwLockWriteGuard::downgrade_to_upgradable(upgraded));
    // A reader is in the way, and leaves.
    let reader = lock.read();
    thread::scope(|scope| {
        let upgrade = scope.spawn(|| *RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()) += 1);
        until("an upgradable reader", || lock.try_upgradable_read().is_none());
        drop(reader);
        upgrade.join().expect("no deadlock");
    });
    let reader = lock.read();
    let own = lock.upgradable_read();
    let message = panic_of(|| drop(RwLockUpgradableReadGuard::upgrade(own))).expect("would never end");
    assert!(message.contains("would wait for itself"), "{message}");
    drop(reader);
}
