//! Ids and snapshots under loom: every order of steps that the memory model allows, for each protocol.

mod common;

use common::{check, check_no_more};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use manx_loom::txn::coordinator::{Coordinator, Protocol, Session};
use manx_loom::wait::Adaptive;

/// What transactions write: the id of who did, in two places.
struct Pair([AtomicU64; 2]);

impl Pair {
    fn new() -> Pair {
        Pair([AtomicU64::new(0), AtomicU64::new(0)])
    }

    /// A transaction.
    fn write(&self, session: &mut Session) -> u64 {
        let id = session.allocate();
        // Relaxed: what is published orders them.
        self.0.iter().for_each(|place| place.store(id, Ordering::Relaxed));
        session.end();
        id
    }

    fn ids(&self) -> [u64; 2] {
        [self.0[0].load(Ordering::Relaxed), self.0[1].load(Ordering::Relaxed)]
    }
}

fn new(protocol: Protocol) -> std::sync::Arc<Coordinator> {
    Coordinator::new(protocol, 4)
}

/// What is visible was written, whole, and what is not over is not visible.
fn half_a_commit(protocol: Protocol) {
    let coordinator = new(protocol);
    let pair = Arc::new(Pair::new());
    let mut writer = coordinator.session().unwrap();
    let mut reader = coordinator.session().unwrap();
    let its = pair.clone();
    let thread = thread::spawn(move || its.write(&mut writer));
    let seen = reader.snapshot().clone();
    let ids = pair.ids();
    let id = thread.join().unwrap();
    if seen.sees(id) {
        assert_eq!(ids, [id, id], "half a commit");
    }
    assert!(reader.snapshot().sees(id), "it is over");
    assert_eq!(pair.ids(), [id, id]);
}

#[test]
fn a_snapshot_never_sees_half_a_commit() {
    for protocol in Protocol::ALL {
        check(3, move || half_a_commit(protocol));
    }
}

/// Two that write at once: their ids differ, both ends are published, and each snapshot that shows one as over shows it so for ever.
fn two_writers(protocol: Protocol) {
    let coordinator = new(protocol);
    let mut one = coordinator.session().unwrap();
    let mut two = coordinator.session().unwrap();
    let thread = thread::spawn(move || {
        let id = two.allocate();
        assert!(!two.snapshot().sees(id), "not over");
        two.end();
        let seen = two.snapshot().clone();
        assert!(seen.sees(id), "its own end");
        (id, seen)
    });
    let id = one.allocate();
    one.end();
    let seen = one.snapshot().clone();
    assert!(seen.sees(id), "its own end");
    let (other, other_seen) = thread.join().unwrap();
    assert_ne!(id, other);
    // Two snapshots agree on who was first.
    assert!(seen.sees(other) || other_seen.sees(id), "each end is before the other");
    let last = one.snapshot();
    assert!(last.sees(id) && last.sees(other) && last.concurrent().is_empty());
}

#[test]
fn ends_at_once_are_all_published() {
    for protocol in Protocol::ALL {
        check(2, move || two_writers(protocol));
    }
}

/// Two that write at once, and two that look: never does one see only the first, and the other only the second.
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
    for protocol in [Protocol::Adaptive(Adaptive::DEFAULT), Protocol::Help] {
        check_no_more(2, move || long_fork(protocol));
    }
}

/// One takes an id while another ends, with whom nothing else is shared: it may be helped.
fn allocation(protocol: Protocol) {
    let coordinator = new(protocol);
    let mut one = coordinator.session().unwrap();
    let mut two = coordinator.session().unwrap();
    let first = one.allocate();
    let thread = thread::spawn(move || {
        let id = two.allocate();
        // Nobody sees it before it is over.
        let mine = two.snapshot().sees(id);
        (two, id, mine)
    });
    one.end();
    let seen = one.snapshot().clone();
    let (mut two, id, mine) = thread.join().unwrap();
    assert!(first != id && !mine);
    assert!(seen.sees(first) && !seen.sees(id), "it is still at work");
    assert_eq!(two.id(), Some(id));
    two.end();
    assert!(one.snapshot().sees(id), "now it is over");
}

#[test]
fn an_id_is_hidden_from_the_moment_it_is_taken() {
    for protocol in Protocol::ALL {
        check(3, move || allocation(protocol));
    }
}

/// What is published is not freed while somebody reads it, and the oldest id is below what anybody uses.
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
fn the_oldest_id_waits_for_who_uses_a_snapshot() {
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

/// One takes ids again and again, and is helped: neither what a late helper took for the transaction before becomes this one's id, nor is it overlooked
/// who was helped before the others could see that it is at work.
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
fn who_helps_late_helps_nobody() {
    check(3, late_help);
}
