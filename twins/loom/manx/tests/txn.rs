//! Ids and snapshots under loom: every order of steps that the memory model allows, for each
//! protocol.

mod common;
#[path = "common/txn.rs"]
mod txn;

use common::{check, check_no_more};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use manx_loom::txn::coordinator::{Protocol, Session, Unsettled};
use txn::{allocation, half_a_commit, new, two_writers};

#[test]
fn a_snapshot_never_sees_half_a_commit() {
    for protocol in Protocol::ALL {
        check(3, move || half_a_commit(protocol));
    }
}

#[test]
fn ends_at_once_are_all_published() {
    for protocol in Protocol::ALL {
        check(2, move || two_writers(protocol));
    }
}

/// Two that write at once, and two that look: never does one see only the first, and the other only
/// the second.
fn long_fork(protocol: Protocol) {
    let coordinator = new(protocol);
    let mut sessions: Vec<Session> = (0..3).map(|_| coordinator.session().unwrap()).collect();
    let (mut reader, mut two, mut one) =
        (sessions.pop().unwrap(), sessions.pop().unwrap(), sessions.pop().unwrap());
    let first = one.allocate();
    let second = two.allocate();
    let end = thread::spawn(move || {
        one.end();
        let seen = one.snapshot();
        (seen.sees(first), seen.sees(second))
    });
    let look = thread::spawn(move || {
        let seen = reader.snapshot();
        (seen.sees(first), seen.sees(second))
    });
    two.end();
    let seen = two.snapshot();
    let all = [(seen.sees(first), seen.sees(second)), end.join().unwrap(), look.join().unwrap()];
    assert!(!(all.contains(&(true, false)) && all.contains(&(false, true))), "a long fork: {all:?}");
}

#[test]
fn there_is_no_long_fork() {
    for protocol in Protocol::ALL {
        check_no_more(2, move || long_fork(protocol));
    }
}

#[test]
fn an_id_is_hidden_from_the_moment_it_is_taken() {
    for protocol in Protocol::ALL {
        check(3, move || allocation(protocol));
    }
}

/// What is published is not freed while a session reads it, and the oldest id is below what any
/// session uses.
#[test]
fn what_is_in_use_is_kept() {
    check(2, || {
        let coordinator = new(Protocol::Help);
        let mut writer = coordinator.session().unwrap();
        let mut reader = coordinator.session().unwrap();
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                writer.allocate();
                writer.end();
            }
            let oldest = writer.oldest();
            // What it replaced is given back.
            drop(writer);
            oldest
        });
        let used = reader.snapshot().oldest();
        let during = reader.oldest();
        let after = thread.join().unwrap();
        assert!(during <= used, "{during} {used}");
        assert!(after <= used, "{after} {used}");
        reader.snapshot();
        reader.unpin();
        assert_eq!(coordinator.oldest(), coordinator.current());
    });
}

/// A pinned snapshot's oldest id is never passed.
#[test]
fn the_oldest_id_waits_for_the_user_of_a_snapshot() {
    check(3, || {
        let coordinator = new(Protocol::Help);
        let mut writer = coordinator.session().unwrap();
        let mut reader = coordinator.session().unwrap();
        let thread = thread::spawn(move || {
            let used = reader.snapshot().oldest();
            (reader, used)
        });
        writer.allocate();
        writer.end();
        let oldest = writer.oldest();
        let (reader, used) = thread.join().unwrap();
        assert!(oldest <= used && coordinator.oldest() <= used, "in use");
        drop(reader);
    });
}

/// One takes ids again and again, and is helped. What a late helper took for the transaction before
/// does not become this one's id. And a session that was helped before the others could see that it
/// is at work is not overlooked.
fn late_help() {
    let coordinator = new(Protocol::Help);
    let mut helper = coordinator.session().unwrap();
    let mut helped = coordinator.session().unwrap();
    helper.allocate();
    let thread = thread::spawn(move || helper.end());
    let before = helped.allocate();
    helped.end();
    let id = helped.allocate();
    assert!(before < id);
    let seen = helped.snapshot();
    assert!(!seen.sees(id), "{id} is at work: {seen:?}");
    thread.join().unwrap();
    assert!(!helped.snapshot().sees(id), "it is at work");
}

#[test]
fn a_late_helper_changes_nothing() {
    check(3, late_help);
}

/// A transaction that is seen is durable, or its place is known; two are settled at once.
#[test]
fn what_is_seen_is_durable_or_its_place_is_known() {
    check_no_more(2, || {
        let coordinator = new(Protocol::Help);
        let shared = Arc::new((Unsettled::default(), AtomicU64::new(0)));
        let (mut one, mut other) = (coordinator.session().unwrap(), coordinator.session().unwrap());
        let id = one.allocate();
        let its = shared.clone();
        let writer = thread::spawn(move || {
            its.0.add(id, 1);
            one.end();
            // Relaxed: what is settled orders it.
            its.1.store(1, Ordering::Relaxed);
            its.0.settle(1);
        });
        if other.snapshot().sees(id) {
            let place = shared.0.place_of(id);
            assert!(place == 1 || shared.1.load(Ordering::Relaxed) == 1, "{place}");
        }
        shared.0.settle(0);
        writer.join().unwrap();
        assert_eq!((shared.0.oldest(), shared.0.place_of(id)), (u64::MAX, 0));
    });
}
