//! What is done with ranges beyond taking them and giving them back: futures, guards that change,
//! upgrades.

use super::*;
use crate::block_on::block_on;
use manx_loom::range::task;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

/// A future gets its range from a thread, and the other way round.
#[test]
fn a_task_and_a_thread_wait_for_each_other() {
    in_both_windows(2, |window| {
        let guarded = Guarded::<1, 1>::new(window);
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

/// A future is dropped while its range is released, handed to it, or wanted by one behind it.
#[test]
fn a_task_is_cancelled_while_its_range_is_handed_over() {
    in_both_windows(1, |window| {
        let guarded = Guarded::<1, 1>::new(window);
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
        let acquired = task.join().unwrap();
        behind.join().unwrap();
        guarded.assert_done([acquired, 1 + acquired, 1 + acquired, 0]);
    });
}

/// A task that is waited for, by a thread or by another task, takes more of what the waiter wants.
/// Without an identity it would queue behind a waiter that waits for it.
fn a_task_is_waited_for(by_a_task: bool, window: Duration, preemptions: usize) {
    check(preemptions, move || {
        let guarded = Guarded::<1, 4>::new(window);
        let waiter = spawn(&guarded, move |guarded| {
            if by_a_task {
                let held = block_on(task(guarded.lock.lock_async(span((0, 3)), Exclusive))).unwrap();
                guarded.work((0, 3), Exclusive);
                drop(held);
            } else {
                guarded.lock((0, 3), Exclusive);
            }
        });
        block_on(task(async {
            let low = guarded.lock.lock_async(span((0, 1)), Exclusive).await.unwrap();
            guarded.work((0, 1), Exclusive);
            let high = guarded.lock.lock_async(span((2, 3)), Exclusive).await.unwrap();
            guarded.work((2, 3), Exclusive);
            drop((low, high));
        }));
        waiter.join().unwrap();
        guarded.assert_done([2, 1, 2, 0]);
    });
}

#[test]
fn a_task_does_not_queue_behind_a_thread_that_waits_for_it() {
    a_task_is_waited_for(false, PATIENT, 2);
    a_task_is_waited_for(false, STARVING, 2);
}

#[test]
fn a_task_does_not_queue_behind_a_task_that_waits_for_it() {
    a_task_is_waited_for(true, PATIENT, 1);
    a_task_is_waited_for(true, STARVING, 1);
}

/// An owner's wait is cancelled while its range is released or handed over: what it held before it
/// holds.
#[test]
fn an_owners_wait_is_cancelled_while_its_range_is_handed_over() {
    in_both_windows(2, |window| {
        let guarded = Guarded::<1, 4>::new(window);
        let other = spawn(&guarded, |guarded| guarded.lock((1, 3), Exclusive));
        let mut owner: Owner<'_, u64, 1, 4> = guarded.lock.owner();
        owner.lock_shared(0..1).unwrap();
        let acquired = {
            let mut future = pin!(owner.lock_as_async(span((0, 2)), Exclusive));
            future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        match acquired {
            true => guarded.work((0, 2), Exclusive),
            false => guarded.work((0, 1), Shared),
        }
        assert_eq!(owner.held().count(), 1 + usize::from(acquired));
        drop(owner);
        other.join().unwrap();
        let acquired = u32::from(acquired);
        guarded.assert_done([acquired, 1 + acquired, 1, 0]);
    });
}

/// Two owners without a thread share a range and want it alone.
fn two_owners_upgrade(window: Duration, preemptions: usize) {
    let upgrades = |guarded: &Guarded<1, 4>, keys: Keys| {
        let mut owner = guarded.lock.owner();
        block_on(owner.lock_as_async(span(keys), Shared)).unwrap();
        guarded.work(keys, Shared);
        match block_on(owner.lock_as_async(span(keys), Exclusive)) {
            Ok(()) => guarded.work(keys, Exclusive),
            Err(error) => {
                assert_eq!((error, owner.held().count()), (LockError::UpgradeDeadlock, 1));
                guarded.work(keys, Shared);
            }
        }
        u32::from(owner.held().count() == 2)
    };
    check(preemptions, move || {
        let guarded = Guarded::<1, 4>::new(window);
        let other = spawn(&guarded, move |guarded| upgrades(guarded, (0, 2)));
        let acquired = upgrades(&guarded, (1, 3));
        let other_acquired = other.join().unwrap();
        assert!(acquired + other_acquired > 0, "one of them goes on");
        guarded.assert_done([other_acquired, acquired + other_acquired, acquired, 0]);
    });
}

#[test]
fn one_of_two_owners_that_upgrade_without_a_thread_goes_on() {
    two_owners_upgrade(PATIENT, 1);
    two_owners_upgrade(STARVING, 1);
}

/// What is cut, made smaller, shared and had alone again is no other thread's in between, and a
/// thread that waits for a part of it gets that.
#[test]
fn a_guard_is_cut_and_made_smaller_while_a_thread_waits() {
    in_both_windows(2, |window| {
        let guarded = Guarded::<1, 4>::new(window);
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
fn a_guard_is_downgraded_and_upgraded_beside_a_reader() {
    in_both_windows(2, |window| {
        let guarded = Guarded::<1, 2>::new(window);
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

/// Two that share want it alone: at most one of them is told, and the other has it as soon as that
/// one gives up its share.
#[test]
fn one_of_two_that_upgrade_goes_on() {
    in_both_windows(2, |window| {
        let guarded = Guarded::<1, 4>::new(window);
        let other = spawn(&guarded, |guarded| u32::from(upgrades(guarded, (0, 2))));
        let acquired = u32::from(upgrades(&guarded, (1, 3)));
        let other_acquired = other.join().unwrap();
        assert!(acquired + other_acquired > 0, "one of them goes on");
        guarded.assert_done([other_acquired, acquired + other_acquired, acquired, 0]);
    });
}
