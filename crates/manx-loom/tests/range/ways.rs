//! What is done with ranges beyond taking them and giving them back: futures, guards that change, upgrades.

use super::*;
use platform::atomic::{AtomicU32, Ordering};
use platform::futex;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

/// Wakes a thread that waits for it on a futex.
struct Flag(AtomicU32);

impl Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(1, Ordering::Release);
        futex::wake(&self.0, 1);
    }
}

impl Flag {
    fn new() -> std::sync::Arc<Flag> {
        std::sync::Arc::new(Flag(AtomicU32::new(0)))
    }

    fn wait(&self) {
        // Who fails has not stored anything: loom cannot tell that the waker's store comes after an exchange of 0 for 0.
        while self.0.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_err() {
            futex::wait(&self.0, 0);
        }
    }
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let flag = Flag::new();
    let waker = Waker::from(std::sync::Arc::clone(&flag));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        flag.wait();
    }
}

/// A future gets its range from a thread, and the other way round.
fn a_task_waits(window_ns: u64, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<1, 1>::new(window_ns);
        let other = spawn(&guarded, |guarded| {
            let held = block_on(guarded.lock.lock_async(span((1, 3)), Exclusive)).unwrap();
            guarded.work((1, 3), Exclusive);
            drop(held);
        });
        guarded.lock((0, 2), Exclusive);
        guarded.lock((2, 4), Exclusive);
        other.join().unwrap();
        guarded.assert_done([1, 2, 2, 1]);
    });
}

#[test]
fn a_task_and_a_thread_wait_for_each_other() {
    a_task_waits(PATIENT, 2);
    a_task_waits(OVERDUE, 2);
}

/// A future is dropped while its range is released, handed to it, or wanted by one behind it.
fn a_task_is_cancelled(window_ns: u64, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<1, 1>::new(window_ns);
        let held = guarded.hold((1, 2), Exclusive);
        let task = spawn(&guarded, |guarded| {
            let mut future = pin!(guarded.lock.lock_async(span((0, 3)), Exclusive));
            let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if poll.is_ready() {
                guarded.work((0, 3), Exclusive);
            }
            u32::from(poll.is_ready())
        });
        let behind = spawn(&guarded, |guarded| guarded.lock((2, 3), Exclusive));
        guarded.work((1, 2), Exclusive);
        drop(held);
        let had = task.join().unwrap();
        behind.join().unwrap();
        guarded.assert_done([had, 1 + had, 1 + had, 0]);
    });
}

#[test]
fn a_task_is_cancelled_while_its_range_is_handed_over() {
    a_task_is_cancelled(PATIENT, 1);
    a_task_is_cancelled(OVERDUE, 1);
}

/// What is cut, made smaller, shared and had alone again is nobody else's in between, and who waits for a part of it gets that.
fn a_guard_changes(window_ns: u64, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<1, 4>::new(window_ns);
        let other = spawn(&guarded, |guarded| guarded.lock((1, 2), Exclusive));
        let held = guarded.hold((0, 3), Exclusive);
        let (low, high) = held.split_at(2).unwrap();
        guarded.work((0, 2), Exclusive);
        let low = low.shrink(0..1).unwrap();
        guarded.work((0, 1), Exclusive);
        guarded.work((2, 3), Exclusive);
        other.join().unwrap();
        drop((low, high));
        guarded.assert_done([2, 2, 1, 0]);
    });
}

#[test]
fn a_guard_is_cut_and_made_smaller_while_somebody_waits() {
    a_guard_changes(PATIENT, 2);
    a_guard_changes(OVERDUE, 2);
}

fn a_guard_is_shared(window_ns: u64, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<1, 2>::new(window_ns);
        let reader = spawn(&guarded, |guarded| guarded.lock((0, 2), Shared));
        let held = guarded.hold((0, 2), Exclusive);
        guarded.work((0, 2), Exclusive);
        let held = held.downgrade().unwrap();
        guarded.work((0, 2), Shared);
        let held = held.upgrade().unwrap();
        guarded.work((0, 2), Exclusive);
        drop(held);
        reader.join().unwrap();
        guarded.assert_done([2, 2, 0, 0]);
    });
}

#[test]
fn a_guard_is_downgraded_and_upgraded_beside_a_reader() {
    a_guard_is_shared(PATIENT, 2);
    a_guard_is_shared(OVERDUE, 2);
}

/// Shares a range, then wants it alone; whether that was possible.
fn upgrades(guarded: &Guarded<1, 4>, keys: Keys) -> bool {
    let held = guarded.hold(keys, Shared);
    guarded.work(keys, Shared);
    match held.upgrade() {
        Ok(held) => {
            guarded.work(keys, Exclusive);
            drop(held);
            true
        }
        Err(unchanged) => {
            assert_eq!(unchanged.error, LockError::UpgradeDeadlock);
            assert_eq!(unchanged.guard.access(), Shared);
            guarded.work(keys, Shared);
            false
        }
    }
}

/// Two that share want it alone: at most one of them is told, and the other has it as soon as that one gives up its share.
fn two_upgrade(window_ns: u64, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<1, 4>::new(window_ns);
        let other = spawn(&guarded, |guarded| u32::from(upgrades(guarded, (0, 2))));
        let had = u32::from(upgrades(&guarded, (1, 3)));
        let other_had = other.join().unwrap();
        assert!(had + other_had > 0, "one of them goes on");
        guarded.assert_done([other_had, had + other_had, had, 0]);
    });
}

#[test]
fn one_of_two_that_upgrade_goes_on() {
    two_upgrade(PATIENT, 2);
    two_upgrade(OVERDUE, 2);
}
