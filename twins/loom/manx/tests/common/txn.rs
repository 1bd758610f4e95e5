//! What every protocol keeps, under loom. The tests of the package `baselines-loom` use this, too.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use manx_loom::txn::coordinator::{Coordinator, Protocol, Session};

/// What transactions write: the writer's id, in two places.
pub struct Pair([AtomicU64; 2]);

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

pub fn new(protocol: Protocol) -> std::sync::Arc<Coordinator> {
    Coordinator::with_protocol(protocol, 4)
}

/// What is visible was written, whole, and what is not over is not visible.
pub fn half_a_commit(protocol: Protocol) {
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

/// Two that write at once: their ids differ, both ends are published, and each snapshot that shows
/// one as over shows it so for ever.
pub fn two_writers(protocol: Protocol) {
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
    // Two snapshots agree on which was first.
    assert!(seen.sees(other) || other_seen.sees(id), "each end is before the other");
    let last = one.snapshot();
    assert!(last.sees(id) && last.sees(other) && last.concurrent().is_empty());
}

/// One takes an id while another ends; the two share nothing else. It may be helped.
pub fn allocation(protocol: Protocol) {
    let coordinator = new(protocol);
    let mut one = coordinator.session().unwrap();
    let mut two = coordinator.session().unwrap();
    let first = one.allocate();
    let thread = thread::spawn(move || {
        let id = two.allocate();
        // No snapshot shows it before it is over.
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
