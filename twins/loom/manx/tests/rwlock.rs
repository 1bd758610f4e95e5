//! The readers-writer lock under loom: every order of steps that the memory model allows.
//!
//! Loom reports accesses to what the lock protects that are not ordered, and a deadlock if a
//! wake-up is lost: a waiter with an unbounded window sleeps without a limit, and so does a
//! starving one. These are the waits of programs: the lock has no other way to sleep, and only the
//! spins before a sleep are left out. A window of 0 makes a waiter starving at once, so gates,
//! turns and counts are all walked through. That loom would find what these tests look for is a
//! test of its own, at the end.

// The tests of both checkers call the twin of manx by one name.
extern crate manx_loom as manx;

mod common;
#[path = "common/rwlock.rs"]
mod rwlock;

use common::{check, check_no_more, join, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use manx::lock::RawRwLock;
use manx::lock::bounded::{UNBOUNDED_NS, Wait};
use platform::futex::{Clock, Deadline};
use rwlock::Shared;
use std::time::Duration;

/// As the lock says.
const NOT_TOLD: Wait = Wait { window_ns: None, turns: None, deadline: None, trusting: false };
/// May be overtaken for ever: asleep, never starving.
const PATIENT: Wait = Wait { window_ns: Some(UNBOUNDED_NS), turns: None, deadline: None, trusting: false };
/// Is starving as soon as it waits.
const STARVING: Wait = Wait { window_ns: Some(0), turns: None, deadline: None, trusting: false };
const SOON: Option<Deadline> = Some(Deadline { clock: Clock::Monotonic, ns: 2_000_000_000 });
/// Gives up: asleep, and starving.
const HASTY: Wait = Wait { window_ns: Some(UNBOUNDED_NS), turns: None, deadline: SOON, trusting: false };
const HASTY_STARVING: Wait = Wait { window_ns: Some(0), turns: None, deadline: SOON, trusting: false };

/// What a thread does.
#[derive(Clone, Copy)]
enum Role {
    Read(Wait<'static>),
    Write(Wait<'static>),
    Downgrade(Wait<'static>),
    /// Reads upgradably, and leaves as an ordinary reader.
    Upgradable(Wait<'static>),
    /// Reads upgradably, and upgrades by the second wait.
    Upgrade(Wait<'static>, Wait<'static>),
}

use Role::{Downgrade, Read, Upgradable, Upgrade, Write};

/// Each role in a thread of its own, the first one in this.
fn all_pass<const N: usize>(preemptions: usize, roles: [Role; N]) {
    all_pass_by(preemptions, Shared::new, roles);
}

fn all_pass_by<const N: usize>(
    preemptions: usize,
    shared: impl Fn() -> Arc<Shared> + Send + Sync + 'static,
    roles: [Role; N],
) {
    check(preemptions, move || {
        let shared = shared();
        let play = |shared: &Shared, role| match role {
            Read(wait) => shared.read(&wait),
            Write(wait) => shared.write(&wait),
            Downgrade(wait) => shared.write_and_downgrade(&wait),
            Upgradable(wait) => shared.read_upgradably(&wait),
            Upgrade(wait, upgrade) => shared.upgrade(&wait, &upgrade),
        };
        let others: Vec<_> = roles[1..]
            .iter()
            .map(|role| {
                let (shared, role) = (Arc::clone(&shared), *role);
                thread::spawn(move || play(&shared, role))
            })
            .collect();
        play(&shared, roles[0]);
        join(others);
        shared.assert_free();
    });
}

#[test]
fn writers_exclude_each_other() {
    all_pass(3, [Write(PATIENT), Write(PATIENT)]);
    all_pass(3, [Write(STARVING), Write(STARVING)]);
    all_pass(3, [Write(STARVING), Write(PATIENT)]);
}

#[test]
fn three_writers_all_pass() {
    all_pass(2, [Write(PATIENT), Write(PATIENT), Write(PATIENT)]);
    all_pass(2, [Write(STARVING), Write(STARVING), Write(STARVING)]);
    all_pass(2, [Write(STARVING), Write(PATIENT), Write(STARVING)]);
    all_pass(2, [Write(PATIENT), Write(PATIENT), Write(STARVING)]);
}

#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    all_pass(3, [Read(PATIENT), Write(PATIENT)]);
    all_pass(3, [Read(STARVING), Write(STARVING)]);
    all_pass(3, [Read(PATIENT), Write(STARVING)]);
    all_pass(3, [Read(STARVING), Write(PATIENT)]);
}

#[test]
fn two_readers_and_a_writer_all_pass() {
    all_pass(2, [Read(PATIENT), Read(PATIENT), Write(PATIENT)]);
    all_pass(2, [Read(STARVING), Read(STARVING), Write(STARVING)]);
    all_pass(2, [Read(PATIENT), Read(STARVING), Write(STARVING)]);
    all_pass(2, [Read(PATIENT), Read(PATIENT), Write(STARVING)]);
    all_pass(2, [Read(STARVING), Read(STARVING), Write(PATIENT)]);
}

#[test]
fn a_reader_and_two_writers_all_pass() {
    all_pass(2, [Read(PATIENT), Write(PATIENT), Write(PATIENT)]);
    all_pass(2, [Read(STARVING), Write(STARVING), Write(STARVING)]);
    all_pass(2, [Read(PATIENT), Write(STARVING), Write(PATIENT)]);
    all_pass(2, [Read(STARVING), Write(PATIENT), Write(STARVING)]);
    all_pass(2, [Read(STARVING), Write(PATIENT), Write(PATIENT)]);
}

#[test]
fn a_writer_that_becomes_a_reader_lets_no_writer_in_between() {
    all_pass(3, [Downgrade(PATIENT), Write(PATIENT)]);
    all_pass(2, [Downgrade(PATIENT), Write(STARVING), Read(PATIENT)]);
    all_pass(2, [Downgrade(STARVING), Write(PATIENT), Read(STARVING)]);
    all_pass(2, [Downgrade(STARVING), Write(STARVING), Read(STARVING)]);
}

#[test]
fn an_upgradable_reader_and_a_writer_exclude_each_other() {
    for wait in [PATIENT, STARVING] {
        all_pass(3, [Upgradable(wait), Write(PATIENT)]);
        all_pass(3, [Upgradable(wait), Write(STARVING)]);
        all_pass(3, [Upgradable(wait), Upgradable(PATIENT)]);
        all_pass(3, [Upgrade(wait, PATIENT), Upgrade(STARVING, wait)]);
        all_pass(3, [Upgrade(wait, PATIENT), Write(wait)]);
    }
}

// With three threads, an upgrade has many interleavings: each case has one combination of waits.

#[test]
fn an_upgrade_waits_for_the_readers_and_no_thread_writes_in_between() {
    for wait in [PATIENT, STARVING] {
        all_pass(3, [Upgrade(PATIENT, wait), Read(PATIENT)]);
        all_pass(3, [Upgrade(PATIENT, wait), Read(STARVING)]);
    }
    all_pass(2, [Upgrade(PATIENT, STARVING), Read(PATIENT), Read(STARVING)]);
    all_pass(2, [Upgrade(STARVING, PATIENT), Read(PATIENT), Write(STARVING)]);
    all_pass(2, [Upgrade(PATIENT, STARVING), Read(STARVING), Write(PATIENT)]);
}

#[test]
fn three_with_upgradable_readers_all_pass() {
    all_pass(2, [Upgradable(PATIENT), Upgradable(PATIENT), Write(PATIENT)]);
    all_pass(2, [Upgradable(STARVING), Read(STARVING), Write(STARVING)]);
    all_pass(2, [Upgradable(PATIENT), Upgradable(STARVING), Upgrade(PATIENT, STARVING)]);
    all_pass(2, [Upgradable(STARVING), Upgrade(PATIENT, PATIENT), Read(PATIENT)]);
    all_pass(2, [Write(STARVING), Upgradable(STARVING), Read(STARVING)]);
}

#[test]
fn an_upgrade_that_gives_up_lets_the_others_in() {
    for hasty in [HASTY, HASTY_STARVING] {
        all_pass(3, [Upgrade(PATIENT, hasty), Read(PATIENT)]);
    }
    all_pass(2, [Upgrade(PATIENT, HASTY_STARVING), Read(PATIENT), Read(PATIENT)]);
    all_pass(2, [Upgrade(PATIENT, HASTY), Read(PATIENT), Write(PATIENT)]);
    all_pass(2, [Upgrade(HASTY_STARVING, PATIENT), Write(PATIENT), Read(STARVING)]);
    all_pass(2, [Upgrade(HASTY, STARVING), Upgradable(PATIENT), Read(PATIENT)]);
}

#[test]
fn a_waiter_that_gives_up_takes_no_wake_up_of_others() {
    all_pass(2, [Write(PATIENT), Write(PATIENT), Write(HASTY)]);
    all_pass(2, [Write(PATIENT), Read(PATIENT), Write(HASTY)]);
    all_pass(2, [Write(PATIENT), Write(PATIENT), Read(HASTY)]);
    all_pass(2, [Write(PATIENT), Read(PATIENT), Read(HASTY)]);
}

#[test]
fn a_waiter_that_gives_up_opens_its_gate() {
    all_pass(3, [Read(PATIENT), Write(HASTY_STARVING)]);
    all_pass(2, [Read(PATIENT), Read(PATIENT), Write(HASTY_STARVING)]);
    all_pass(2, [Write(PATIENT), Read(PATIENT), Write(HASTY_STARVING)]);
    all_pass(2, [Write(PATIENT), Write(STARVING), Read(HASTY_STARVING)]);
    all_pass(2, [Write(STARVING), Write(STARVING), Write(HASTY_STARVING)]);
    all_pass(2, [Write(STARVING), Read(STARVING), Write(HASTY_STARVING)]);
}

#[test]
fn the_next_holder_may_free_the_lock() {
    for last in [Read(PATIENT), Read(STARVING), Write(PATIENT), Write(STARVING)] {
        the_last_holder_frees(Write(PATIENT), None, last);
    }
    // What a reader shares it cannot free.
    for last in [Write(PATIENT), Write(STARVING)] {
        the_last_holder_frees(Read(PATIENT), None, last);
        the_last_holder_frees(Downgrade(PATIENT), None, last);
    }
}

#[test]
fn the_last_of_two_waiters_may_free_the_lock() {
    // Three threads, so fewer preemptions.
    for (other, last) in [
        (Write(PATIENT), Write(PATIENT)),
        (Write(STARVING), Write(STARVING)),
        (Read(PATIENT), Write(PATIENT)),
        (Read(STARVING), Write(STARVING)),
        (Write(STARVING), Read(STARVING)),
    ] {
        the_last_holder_frees(Write(PATIENT), Some(other), last);
    }
}

/// This thread has the lock and leaves it. Others wait for it; when all that wait have had it, the
/// last one frees its memory, whether or not the releases of the others have returned.
fn the_last_holder_frees(first: Role, other: Option<Role>, last: Role) {
    let preemptions = if other.is_none() { 4 } else { 2 };
    check_no_more(preemptions, move || {
        // Never really freed: loom's record of an atomic stays where it is.
        let lock: &'static RawRwLock = Box::leak(Box::new(RawRwLock::new()));
        let passed = Arc::new(AtomicU32::new(u32::from(other.is_none())));
        assert!(if matches!(first, Read(_)) { lock.try_read() } else { lock.try_write() });
        let pass = move |role, passed: &AtomicU32| {
            match role {
                Read(wait) => lock.read_slow(&wait).unwrap(),
                Write(wait) | Downgrade(wait) => lock.write_slow(&wait).unwrap(),
                Upgradable(_) | Upgrade(..) => unreachable!("these do not end alone"),
            };
            // Relaxed: the lock orders it.
            let is_last = passed.load(Ordering::Relaxed) == 1;
            passed.store(1, Ordering::Relaxed);
            if is_last {
                free(lock);
            } else {
                leave(lock, role);
            }
        };
        let others: Vec<_> = other
            .into_iter()
            .chain([last])
            .map(|role| spawn(&passed, move |passed| pass(role, passed)))
            .collect();
        leave(lock, first);
        join(others);
    });
}

/// By the last holder: no other thread uses the lock from here on, or loom reports it.
fn free(lock: &'static RawRwLock) {
    let word = std::ptr::from_ref(lock).cast_mut().cast::<AtomicU64>();
    // SAFETY: this is the lock's only field, which is leaked; and loom checks that no other thread
    // uses it.
    unsafe { (*word).with_mut(|_| ()) };
}

/// By the holder.
fn leave(lock: &RawRwLock, role: Role) {
    // SAFETY: the caller has entered in this role.
    unsafe {
        match role {
            Read(_) => lock.release_read(),
            Write(_) => lock.release_write(),
            Downgrade(_) => {
                lock.downgrade();
                lock.release_read();
            }
            Upgradable(_) | Upgrade(..) => unreachable!("these do not end alone"),
        }
    }
}

#[test]
fn a_lock_with_a_window_of_its_own_loses_no_wake_up() {
    let roles = [Write(NOT_TOLD), Read(NOT_TOLD), Write(NOT_TOLD)];
    for window in [Duration::MAX, Duration::from_nanos(5)] {
        all_pass_by(2, move || Shared::by(RawRwLock::with_window(window)), roles);
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_would_find_a_wake_up_that_is_lost() {
    check(2, || {
        // The standard library's: loom's own cannot be dropped once an execution has failed.
        let lock = std::sync::Arc::new(RawRwLock::new());
        lock.write();
        let waiter = thread::spawn({
            let lock = std::sync::Arc::clone(&lock);
            move || lock.read_slow(&PATIENT).is_ok()
        });
        // Never released.
        waiter.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_would_find_a_write_among_readers() {
    check(2, || {
        let shared = Shared::new();
        let reader = spawn(&shared, move |shared| shared.read(&PATIENT));
        shared.add_one();
        reader.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_would_find_a_release_that_touches_a_freed_lock() {
    check(3, || {
        let lock: &'static RawRwLock = Box::leak(Box::new(RawRwLock::new()));
        lock.write();
        let last = thread::spawn(move || {
            lock.write_slow(&PATIENT).unwrap();
            free(lock);
        });
        leave(lock, Write(PATIENT));
        // As a release would that looks at the state once more.
        lock.is_held();
        last.join().unwrap();
    });
}
