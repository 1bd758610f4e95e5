//! Ids and snapshots under ThreadSanitizer: what a transaction wrote before its end is there for
//! every session with a snapshot that calls it over, and what lies below the oldest id is not in
//! use any more.
//!
//! The coordinator's fences decide which snapshot a session reads, which ThreadSanitizer does not
//! see; what was written for its readers is ordered by the slots, the pins and the published
//! pointer, which it does. (The store is not among them: its versions are freed by epochs, which
//! are fences.)

use manx::txn::coordinator::{Coordinator, Protocol, Session, Snapshot};
use platform::atomic::{AtomicU64, Ordering};
use platform::cell::UnsafeCell;
use platform::thread;
use std::sync::Arc;

const THREADS: u64 = 4;
const TURNS: u64 = 400;
/// There may be gaps: a helper may take an id that no transaction bears.
const IDS: usize = (8 * THREADS * TURNS) as usize;

/// What each transaction wrote, with no protection but the coordinator's.
struct Written {
    coordinator: Arc<Coordinator>,
    has_gaps: bool,
    /// At each id, itself, once its transaction has written it. Nothing, if it was not written, or
    /// was cleaned.
    ids: Vec<UnsafeCell<u64>>,
    /// All below belong to the sessions that cleaned them.
    cleaned: AtomicU64,
}

// SAFETY: what an id has is its transaction's until it ends; then it is read by sessions whose
// snapshot sees it and is not past it, and written by the session that found that it is below the
// oldest id.
unsafe impl Sync for Written {}

impl Written {
    fn at(&self, id: u64) -> &UnsafeCell<u64> {
        &self.ids[id as usize]
    }

    /// A transaction.
    fn write(&self, session: &mut Session) {
        let id = session.allocate();
        // SAFETY: this transaction's alone before the end.
        self.at(id).with_mut(|it| unsafe {
            assert_eq!(*it, 0, "{id} was given twice");
            *it = id;
        });
        session.end();
        let now = session.snapshot();
        assert!(now.sees(id), "{id} is over: {now:?}");
        // SAFETY: its own, as long as it is not cleaned; no session cleans what the snapshot sees
        // above its oldest id.
        let is_there = || self.at(id).with(|it| unsafe { *it });
        assert!(id < now.oldest() || is_there() == id);
    }

    /// What is over in a snapshot was written, and whole.
    fn read(&self, snapshot: &Snapshot, from: u64) {
        for id in (from..snapshot.current()).filter(|&id| snapshot.sees(id)) {
            // SAFETY: it is over.
            let found = self.at(id).with(|it| unsafe { *it });
            assert!(found == id || found == 0 && self.has_gaps, "{found} in the place of {id}");
        }
    }

    /// Takes away what no session needs.
    fn clean(&self, session: &Session) {
        let oldest = session.oldest();
        // AcqRel: a session that takes them has them after the session that took the ids below.
        let before = self.cleaned.fetch_max(oldest, Ordering::AcqRel);
        for id in before..oldest {
            // SAFETY: below the oldest id, and taken by no other session.
            self.at(id).with_mut(|it| unsafe { *it = 0 });
        }
    }

    fn live(&self, me: u64, cleans: bool) {
        let mut session = self.coordinator.session().expect("a session for each");
        for turn in 0..TURNS {
            match (me + turn) % 4 {
                0 => self.write(&mut session),
                1 => {
                    let snapshot = session.snapshot().clone();
                    // The clone is pinned as long as nothing else is done.
                    self.read(&snapshot, if cleans { snapshot.oldest() } else { 1 });
                    if turn % 8 == 1 {
                        session.unpin();
                    }
                }
                2 if cleans => self.clean(&session),
                _ => self.write(&mut session),
            }
            if turn % 50 == 49 {
                // What it replaced is left to others, and so is its slot.
                drop(session);
                session = self.coordinator.session().expect("its slot is free");
            }
        }
    }
}

fn orders_memory(protocol: Protocol, cleans: bool) {
    let written: &'static Written = Box::leak(Box::new(Written {
        coordinator: Coordinator::with_protocol(protocol, THREADS as u32),
        has_gaps: matches!(protocol, Protocol::Help),
        ids: (0..IDS).map(|_| UnsafeCell::new(0)).collect(),
        cleaned: AtomicU64::new(1),
    }));
    let threads: Vec<_> = (0..THREADS).map(|me| thread::spawn(move || written.live(me, cleans))).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("all turns"));
    let coordinator = &written.coordinator;
    assert_eq!(coordinator.oldest(), coordinator.current(), "nobody needs anything");
    let last = coordinator.session().expect("all have left").snapshot().clone();
    // SAFETY: the other threads have ended.
    let found =
        (1..last.current()).filter(|&id| written.at(id).with(|it| unsafe { *it }) == id).count() as u64;
    let writes = THREADS * TURNS * 3 / 4;
    assert!(cleans || found == writes, "{found} of {writes}");
}

#[test]
fn every_protocol_orders_memory() {
    for protocol in Protocol::ALL {
        orders_memory(protocol, false);
        orders_memory(protocol, true);
    }
}

/// Also when no session has a snapshot: the next one will have that transaction as concurrent.
#[test]
fn the_oldest_id_is_that_of_a_transaction_at_work() {
    let coordinator = Coordinator::new(3);
    let session = || coordinator.session().expect("a session for each");
    let (mut slow, mut fast, mut reader) = (session(), session(), session());
    let id = slow.allocate();
    fast.allocate();
    fast.end();
    assert_eq!(coordinator.oldest(), id);
    assert_eq!(reader.snapshot().oldest(), id);
    reader.unpin();
    slow.end();
    assert_eq!(coordinator.oldest(), coordinator.current());
}
