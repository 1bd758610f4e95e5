//! The readers-writer lock on the machine: against a model, under stress with a record of the
//! threads inside, and its bound.

use lock_api::{RwLockUpgradableReadGuard, RwLockWriteGuard};
use manx::lock::bounded::{UNBOUNDED_NS, Wait};
use manx::lock::{RawRwLock, RwLock};
use manx::slo;
use platform::futex::Deadline;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testing::until;

/// What a single thread may do to a lock without waiting.
#[derive(Clone, Copy, Debug)]
enum Step {
    TryRead,
    TryWrite,
    ReadUntilNow,
    WriteUntilNow,
    ReleaseRead,
    ReleaseWrite,
    ReleaseReadFair,
    ReleaseWriteFair,
    Downgrade,
    TryReadUpgradably,
    ReadUpgradablyUntilNow,
    TryUpgrade,
    UpgradeUntilNow,
    ReleaseUpgradable,
    DowngradeUpgradable,
    DowngradeToUpgradable,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Step::*;
    let step = prop_oneof![
        Just(TryRead),
        Just(TryWrite),
        Just(ReadUntilNow),
        Just(WriteUntilNow),
        Just(ReleaseRead),
        Just(ReleaseWrite),
        Just(ReleaseReadFair),
        Just(ReleaseWriteFair),
        Just(Downgrade),
        Just(TryReadUpgradably),
        Just(ReadUpgradablyUntilNow),
        Just(TryUpgrade),
        Just(UpgradeUntilNow),
        Just(ReleaseUpgradable),
        Just(DowngradeUpgradable),
        Just(DowngradeToUpgradable),
    ];
    proptest::collection::vec(step, 0..100)
}

/// A wait that is over at once, as a starving one or not.
fn until_now(starving: bool) -> Wait<'static> {
    let window_ns = Some(if starving { 0 } else { UNBOUNDED_NS });
    Wait { window_ns, deadline: Some(Deadline::after(Duration::ZERO)), ..Wait::default() }
}

proptest! {
    #[test]
    fn it_does_what_a_count_of_readers_and_two_flags_do(steps in steps(), starving: bool) {
        let lock = RawRwLock::new();
        let (mut readers, mut upgradable, mut written) = (0_u32, false, false);
        for step in steps {
            match step {
                Step::TryRead | Step::ReadUntilNow => {
                    let entered = match step {
                        Step::TryRead => lock.try_read(),
                        _ => lock.read_slow(&until_now(starving)).is_ok(),
                    };
                    prop_assert_eq!(entered, !written, "{:?}", step);
                    readers += u32::from(entered);
                }
                Step::TryWrite | Step::WriteUntilNow => {
                    let entered = match step {
                        Step::TryWrite => lock.try_write(),
                        _ => lock.write_slow(&until_now(starving)).is_ok(),
                    };
                    prop_assert_eq!(entered, !written && !upgradable && readers == 0, "{:?}", step);
                    written |= entered;
                }
                Step::ReleaseRead if readers > 0 => {
                    // SAFETY: the model says that this thread reads.
                    unsafe { lock.release_read() };
                    readers -= 1;
                }
                Step::ReleaseReadFair if readers > 0 => {
                    // SAFETY: as above.
                    unsafe { lock.release_read_fair() };
                    readers -= 1;
                }
                Step::ReleaseWrite if written => {
                    // SAFETY: the model says that this thread writes.
                    unsafe { lock.release_write() };
                    written = false;
                }
                Step::ReleaseWriteFair if written => {
                    // SAFETY: as above.
                    unsafe { lock.release_write_fair() };
                    written = false;
                }
                Step::Downgrade if written => {
                    // SAFETY: as above.
                    unsafe { lock.downgrade() };
                    (readers, written) = (1, false);
                }
                Step::TryReadUpgradably | Step::ReadUpgradablyUntilNow => {
                    let entered = match step {
                        Step::TryReadUpgradably => lock.try_read_upgradably(),
                        _ => lock.read_upgradably_slow(&until_now(starving)).is_ok(),
                    };
                    prop_assert_eq!(entered, !written && !upgradable, "{:?}", step);
                    upgradable |= entered;
                }
                Step::TryUpgrade | Step::UpgradeUntilNow if upgradable => {
                    // SAFETY: the model says that this thread is the upgradable reader.
                    let upgraded = unsafe {
                        match step {
                            Step::TryUpgrade => lock.try_upgrade(),
                            _ => lock.upgrade_slow(&until_now(starving)).is_ok(),
                        }
                    };
                    prop_assert_eq!(upgraded, readers == 0, "{:?}", step);
                    (upgradable, written) = (!upgraded, upgraded);
                }
                Step::ReleaseUpgradable if upgradable => {
                    // SAFETY: as above.
                    unsafe { lock.release_upgradable() };
                    upgradable = false;
                }
                Step::DowngradeUpgradable if upgradable => {
                    // SAFETY: as above.
                    unsafe { lock.downgrade_upgradable() };
                    (readers, upgradable) = (readers + 1, false);
                }
                Step::DowngradeToUpgradable if written => {
                    // SAFETY: the model says that this thread writes.
                    unsafe { lock.downgrade_to_upgradable() };
                    (upgradable, written) = (true, false);
                }
                _ => {}
            }
            prop_assert_eq!(lock.is_written(), written);
            prop_assert_eq!(lock.is_held(), written || upgradable || readers > 0);
        }
    }
}

/// The threads inside: the number of readers, or −1 for a writer.
#[derive(Default)]
struct Inside(AtomicI32);

impl Inside {
    fn read(&self, stay: u32) {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) >= 0, "a reader among writers");
        (0..stay).for_each(|_| std::hint::spin_loop());
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn write(&self, stay: u32) {
        assert_eq!(self.0.swap(-1, Ordering::Relaxed), 0, "a writer is not alone");
        (0..stay).for_each(|_| std::hint::spin_loop());
        assert_eq!(self.0.swap(0, Ordering::Relaxed), -1, "somebody came while a writer was inside");
    }
}

/// Writes once, and gives the guard back.
fn write<'a>(
    mut guard: RwLockWriteGuard<'a, RawRwLock, u64>,
    inside: &Inside,
    written: &AtomicU64,
) -> RwLockWriteGuard<'a, RawRwLock, u64> {
    inside.write(10);
    *guard += 1;
    written.fetch_add(1, Ordering::Relaxed);
    guard
}

#[test]
fn readers_share_and_writers_are_alone_whatever_is_mixed() {
    const ROUNDS: u32 = 2_000;
    let (lock, inside) = (RwLock::new(0_u64), Inside::default());
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let (lock, inside, written) = (&lock, &inside, &written);
            scope.spawn(move || {
                let write = |guard| drop(write(guard, inside, written));
                for round in 0..ROUNDS {
                    match (round + number) % 10 {
                        0 => write(lock.write()),
                        1 => {
                            let read =
                                RwLockWriteGuard::downgrade(self::write(lock.write(), inside, written));
                            let before = *read;
                            inside.read(10);
                            assert_eq!(*read, before);
                        }
                        2 => lock.try_write().into_iter().for_each(write),
                        3 => lock.try_write_for(Duration::from_micros(50)).into_iter().for_each(write),
                        4 => {
                            if let Some(guard) = lock.try_read_for(Duration::from_micros(50)) {
                                inside.read(10);
                                lock_api::RwLockReadGuard::unlock_fair(guard);
                            }
                        }
                        5 => RwLockWriteGuard::unlock_fair(self::write(lock.write(), inside, written)),
                        6 | 7 => {
                            let guard = lock.upgradable_read();
                            let before = *guard;
                            inside.read(10);
                            let limit = Duration::from_micros(50);
                            let upgraded = if round % 2 == 0 {
                                Ok(RwLockUpgradableReadGuard::upgrade(guard))
                            } else {
                                RwLockUpgradableReadGuard::try_upgrade_for(guard, limit)
                            };
                            match upgraded {
                                Ok(guard) => {
                                    assert_eq!(*guard, before, "no thread writes in between");
                                    let guard = self::write(guard, inside, written);
                                    let guard = RwLockWriteGuard::downgrade_to_upgradable(guard);
                                    inside.read(10);
                                    assert_eq!(*guard, before + 1);
                                }
                                Err(guard) => {
                                    let guard = RwLockUpgradableReadGuard::downgrade(guard);
                                    assert_eq!(*guard, before);
                                }
                            }
                        }
                        _ => {
                            let guard = lock.read();
                            let before = *guard;
                            inside.read(10);
                            assert_eq!(*guard, before, "nobody writes while somebody reads");
                        }
                    }
                }
            });
        }
    });
    assert_eq!(lock.into_inner(), written.into_inner());
}

#[test]
fn readers_are_inside_together() {
    let lock = RwLock::new(());
    let both = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _guard = lock.read();
                // Returns only if both are in here.
                both.wait();
            });
        }
    });
}

#[test]
fn a_writer_is_served_though_readers_never_leave_the_lock_free() {
    let lock = RwLock::new(false);
    let (started, served) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // Each holds one guard until it has the next one, so that all three together never
                // let the lock be free unless they are kept out: then they give theirs up.
                let mut guard = Some(lock.read());
                started.fetch_add(1, Ordering::Relaxed);
                while !served.load(Ordering::Relaxed) {
                    let next = lock.try_read();
                    if next.is_none() {
                        drop(guard.take());
                        guard = Some(lock.read());
                    } else {
                        guard = next;
                    }
                }
            });
        }
        until("three readers", || started.load(Ordering::Relaxed) == 3);
        *lock.write() = true;
        served.store(true, Ordering::Relaxed);
    });
    assert!(lock.into_inner());
}

#[test]
fn a_reader_is_served_though_writers_never_stop() {
    let (lock, served) = (RwLock::new(0_u64), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !served.load(Ordering::Relaxed) {
                    *lock.write() += 1;
                }
            });
        }
        while *lock.read() < 1_000 {}
        for _ in 0..20 {
            drop(lock.read());
        }
        served.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_starving_writer_keeps_new_readers_out_and_opens_its_gate_when_it_gives_up() {
    let lock = RawRwLock::new();
    lock.read();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let wait = Wait {
                window_ns: Some(0),
                deadline: Some(Deadline::after(Duration::from_millis(50))),
                ..Wait::default()
            };
            lock.write_slow(&wait).is_ok()
        });
        // It is starving at once, and until it gives up no other thread comes in.
        while lock.try_read() && !writer.is_finished() {
            // SAFETY: entered by the condition.
            unsafe { lock.release_read() };
            thread::yield_now();
        }
        assert!(!writer.join().expect("gives up"), "a reader is inside");
    });
    assert!(lock.try_read(), "the gate is open again");
}

#[test]
fn starving_readers_and_writers_take_turns() {
    // Every thread is starving as soon as it waits: neither kind may keep the other out for ever.
    let lock = RawRwLock::new();
    let inside = Inside::default();
    thread::scope(|scope| {
        for number in 0..6 {
            let (lock, inside) = (&lock, &inside);
            scope.spawn(move || {
                let wait = Wait { window_ns: Some(0), ..Wait::default() };
                for _ in 0..500 {
                    if number % 2 == 0 {
                        lock.write_slow(&wait).expect("no deadline");
                        inside.write(10);
                        // SAFETY: this thread writes.
                        unsafe { lock.release_write() };
                    } else {
                        lock.read_slow(&wait).expect("no deadline");
                        inside.read(10);
                        // SAFETY: this thread reads.
                        unsafe { lock.release_read() };
                    }
                }
            });
        }
    });
    assert!(!lock.is_held() && lock.try_write(), "no gate is left closed");
}

#[test]
fn a_wait_with_a_limit_is_not_shorter_than_it() {
    let lock = RwLock::new(());
    let limit = Duration::from_millis(2);
    let guard = lock.write();
    thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            assert!(lock.try_read_for(limit).is_none());
            assert!(began.elapsed() >= limit);
            let end = Instant::now() + limit;
            assert!(lock.try_write_until(end).is_none());
            assert!(Instant::now() >= end);
        });
    });
    drop(guard);
    assert!(lock.try_write_for(limit).is_some());
    assert!(lock.try_read_until(Instant::now()).is_some());
}

#[test]
fn a_critical_section_that_panics_releases_the_lock() {
    let lock = RwLock::new(0);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut guard = lock.write();
        *guard = 1;
        panic!("in the critical section");
    }));
    assert!(panic.is_err());
    assert_eq!(*lock.try_read().expect("free"), 1, "there is no poisoning");
}

#[test]
fn five_hundred_threads_pass_one_lock() {
    let lock = RwLock::new(0_u32);
    thread::scope(|scope| {
        for number in 0..500 {
            let lock = &lock;
            let small = thread::Builder::new().stack_size(64 * 1024);
            let run = move || {
                if number % 2 == 0 {
                    *lock.write() += 1;
                } else {
                    drop(lock.read());
                }
            };
            small.spawn_scoped(scope, run).expect("starts");
        }
    });
    assert_eq!(lock.into_inner(), 250);
}

/// A thread waits for as long as a writer holds the lock: was it starving?
fn is_starving(lock: &RawRwLock, hold: Duration, wait: fn() -> Wait<'static>) -> bool {
    lock.write();
    thread::scope(|scope| {
        let (begins, began) = std::sync::mpsc::channel();
        let waiter = scope.spawn(move || {
            let wait = wait();
            begins.send(()).expect("somebody listens");
            let got = lock.read_slow(&wait).expect("no deadline");
            // SAFETY: this thread reads.
            unsafe { lock.release_read() };
            got.starving
        });
        began.recv().expect("it begins");
        thread::sleep(hold);
        // SAFETY: this thread writes.
        unsafe { lock.release_write() };
        waiter.join().expect("it reads")
    })
}

/// Holds the lock for longer and longer until a waiter is starving, and returns how long that was.
/// On a busy machine the waiter comes late.
fn starves(lock: &RawRwLock, wait: fn() -> Wait<'static>) -> Duration {
    let mut holds = (0..13).map(|power| Duration::from_millis(1 << power));
    holds.find(|&hold| is_starving(lock, hold, wait)).expect("starving at last")
}

#[test]
fn a_lock_keeps_a_window_of_its_own() {
    starves(&RawRwLock::with_window(Duration::from_nanos(5)), Wait::default);
    let hold = starves(&RawRwLock::new(), Wait::default);
    assert!(!is_starving(&RawRwLock::with_window(Duration::MAX), hold, Wait::default));
    // A window that the caller asks for is the first.
    starves(&RawRwLock::with_window(Duration::MAX), || Wait { window_ns: Some(0), ..Wait::default() });
}

#[test]
fn a_window_of_its_own_is_there_whatever_has_happened() {
    let lock = RawRwLock::with_window(Duration::MAX);
    for _ in 0..3 {
        assert!(lock.try_write() && !lock.try_read() && lock.is_written());
        // SAFETY: this thread writes, and then reads.
        unsafe { lock.downgrade() };
        assert!(lock.try_read() && !lock.try_write());
        // SAFETY: this thread reads, twice.
        unsafe {
            lock.release_read();
            lock.release_read_fair();
        }
        assert!(!lock.is_held());
    }
    assert!(!is_starving(&lock, starves(&RawRwLock::new(), Wait::default), Wait::default));
}

#[test]
fn an_epochs_window_stands_in_for_the_default_one_only() {
    // A target that is met long before widens the window to its longest.
    slo::set_window_max(Duration::from_secs(3600));
    let in_epoch: fn() -> Wait<'static> = || {
        for _ in 0..10 {
            slo::start(1);
            slo::end(1, u64::MAX);
        }
        slo::start(1);
        Wait::default()
    };
    let hold = starves(&RawRwLock::new(), Wait::default);
    assert!(!is_starving(&RawRwLock::new(), hold, in_epoch));
    starves(&RawRwLock::with_window(Duration::from_nanos(5)), in_epoch);
}
