//! Ids and snapshots under randomized schedules: more sessions than loom can have, which come and
//! go, for each protocol.
//!
//! Each session writes, looks, and asks for the oldest id, again and again. What the others have
//! done is noted in a ledger, so that each snapshot can be compared with what had happened before
//! it was asked for, and with what had not happened after. (A late helper once gave a transaction
//! an id that a snapshot had called over; two sessions and four steps at the wrong places were
//! enough.)

use manx_shuttle::txn::coordinator::{Coordinator, Protocol, Session, Snapshot, Unsettled};
use manx_shuttle::wait::{Adaptive, Policy, Yield};
use platform::explore::check;
use platform::{site, thread};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    AtWork,
    Ending,
    Over,
}

const UNPINNED: u64 = u64::MAX;

struct Ledger {
    coordinator: Arc<Coordinator>,
    states: Mutex<BTreeMap<u64, State>>,
    /// All that were ever taken.
    snapshots: Mutex<Vec<Snapshot>>,
    /// The oldest id that each session needs.
    pinned: Vec<AtomicU64>,
    /// The highest id that was told to be the oldest.
    oldest: AtomicU64,
}

impl Ledger {
    fn new(protocol: Protocol, sessions: usize) -> Arc<Ledger> {
        // A slot is left before it is taken again, so there are never more than that.
        Arc::new(Ledger {
            coordinator: Coordinator::with_protocol(protocol, sessions as u32),
            states: Mutex::new(BTreeMap::new()),
            snapshots: Mutex::new(Vec::new()),
            pinned: (0..sessions).map(|_| AtomicU64::new(UNPINNED)).collect(),
            oldest: AtomicU64::new(0),
        })
    }

    fn note(&self, id: u64, state: State) {
        let before = self.states.lock().unwrap().insert(id, state);
        assert!(before < Some(state), "{id} was {before:?} before it was {state:?}");
    }

    fn allocate(&self, session: &mut Session) -> u64 {
        let id = session.allocate();
        self.note(id, State::AtWork);
        for snapshot in self.snapshots.lock().unwrap().iter() {
            assert!(!snapshot.sees(id), "{id} has just begun, and {snapshot:?} says that it is over");
        }
        id
    }

    fn end(&self, session: &mut Session, number: usize, id: u64) {
        self.pinned[number].store(UNPINNED, Ordering::SeqCst);
        self.note(id, State::Ending);
        session.end();
        self.note(id, State::Over);
    }

    fn look(&self, session: &mut Session, number: usize) {
        let before = self.states.lock().unwrap().clone();
        let oldest = self.oldest.load(Ordering::SeqCst);
        self.pinned[number].store(UNPINNED, Ordering::SeqCst);
        let snapshot = session.snapshot().clone();
        assert!(oldest <= snapshot.oldest(), "{oldest} was the oldest before: {snapshot:?}");
        self.pinned[number].store(snapshot.oldest(), Ordering::SeqCst);
        let after = self.states.lock().unwrap().clone();
        for (&id, state) in &before {
            assert!(*state < State::Over || snapshot.sees(id), "{id} was over: {snapshot:?}");
        }
        for (&id, state) in &after {
            assert!(*state > State::AtWork || !snapshot.sees(id), "{id} is at work: {snapshot:?}");
        }
        self.snapshots.lock().unwrap().push(snapshot);
    }

    /// What is pinned later is above it as well.
    fn oldest(&self, session: &Session) {
        let oldest = session.oldest();
        for pinned in &self.pinned {
            let pinned = pinned.load(Ordering::SeqCst);
            assert!(oldest <= pinned, "{oldest} is the oldest, and {pinned} in use");
        }
        self.oldest.fetch_max(oldest, Ordering::SeqCst);
    }

    fn live(&self, number: usize, rounds: usize) {
        let mut session = self.coordinator.session().expect("a session for each");
        for round in 0..rounds {
            if (number + round).is_multiple_of(3) {
                self.look(&mut session, number);
            }
            let id = self.allocate(&mut session);
            if (number + round).is_multiple_of(2) {
                self.look(&mut session, number);
                self.oldest(&session);
            }
            self.end(&mut session, number, id);
            // It needs nothing itself now.
            self.oldest(&session);
            if number == 1 {
                drop(session);
                session = self.coordinator.session().expect("its slot is free");
            }
        }
        self.look(&mut session, number);
        self.pinned[number].store(UNPINNED, Ordering::SeqCst);
    }

    /// Checks that any two snapshots agree on which was over first.
    fn agree(&self) {
        let (states, snapshots) = (self.states.lock().unwrap(), self.snapshots.lock().unwrap());
        let seen = |snapshot: &Snapshot| states.keys().map(|&id| snapshot.sees(id)).collect::<Vec<_>>();
        let mut all: Vec<_> = snapshots.iter().map(seen).collect();
        all.sort_by_key(|seen| seen.iter().filter(|&&seen| seen).count());
        for two in all.windows(2) {
            assert!(two[0].iter().zip(&two[1]).all(|(one, other)| one <= other), "a long fork: {two:?}");
        }
    }
}

fn sessions(protocol: Protocol, sessions: usize, rounds: usize) {
    let ledger = Ledger::new(protocol, sessions);
    let threads: Vec<_> = (0..sessions)
        .map(|number| {
            let ledger = ledger.clone();
            thread::spawn(move || ledger.live(number, rounds))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    ledger.agree();
    assert_eq!(ledger.coordinator.oldest(), ledger.coordinator.current(), "nobody needs anything");
}

#[test]
fn sessions_that_help() {
    check(site!(), || sessions(Protocol::Help, 4, 2));
}

#[test]
fn many_sessions_that_help() {
    check(site!(), || sessions(Protocol::Help, 6, 1));
}

/// By any of the other protocols, drawn each time.
#[test]
fn sessions_that_wait() {
    check(site!(), || {
        let yielding = Protocol::Wait(|is_taken| {
            Yield.until(is_taken);
        });
        let others = [Protocol::Adaptive(Adaptive::DEFAULT), yielding];
        sessions(others[thread_rng().gen_range(0..others.len())], 4, 2);
    });
}

/// Transactions that have a place, end, and are durable later, in the order of their places.
struct Places {
    coordinator: Arc<Coordinator>,
    unsettled: Unsettled,
    /// The places so far, by id.
    places: Mutex<BTreeMap<u64, u64>>,
    durable: AtomicU64,
}

impl Places {
    fn commit(&self, session: &mut Session) -> u64 {
        let id = session.allocate();
        let place = {
            let mut places = self.places.lock().unwrap();
            let place = places.len() as u64 + 1;
            places.insert(id, place);
            place
        };
        self.unsettled.add(id, place);
        session.end();
        place
    }

    fn wait(&self, place: u64) {
        self.durable.fetch_max(place, Ordering::SeqCst);
        self.unsettled.settle(place);
    }

    /// Whatever is seen is durable, or its place is known.
    fn look(&self, session: &mut Session) {
        let snapshot = session.snapshot().clone();
        let places = self.places.lock().unwrap().clone();
        for (id, place) in places.into_iter().filter(|(id, _)| snapshot.sees(*id)) {
            let told = self.unsettled.place_of(id);
            let durable = self.durable.load(Ordering::SeqCst);
            assert!(told == place || told == 0 && durable >= place, "{id}: {told} for {place}, {durable}");
        }
        session.unpin();
    }

    /// What no transaction needs is over, and durable.
    fn give_up(&self) {
        let over = self.coordinator.oldest();
        let oldest = over.min(self.unsettled.oldest());
        let durable = self.durable.load(Ordering::SeqCst);
        for (id, place) in self.places.lock().unwrap().range(..oldest) {
            assert!(durable >= *place, "{id} is below {oldest}, and {place} above {durable}");
        }
    }
}

#[test]
fn what_is_seen_is_durable_or_its_place_is_known() {
    check(site!(), || {
        const THREADS: usize = 4;
        let shared = Arc::new(Places {
            coordinator: Coordinator::new(THREADS as u32),
            unsettled: Unsettled::default(),
            places: Mutex::default(),
            durable: AtomicU64::new(0),
        });
        let live = |number: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut session = shared.coordinator.session().unwrap();
                for round in 0..2 {
                    let place = shared.commit(&mut session);
                    shared.look(&mut session);
                    if (number + round).is_multiple_of(2) {
                        shared.give_up();
                    }
                    shared.wait(place);
                }
                shared.give_up();
            })
        };
        let threads: Vec<_> = (0..THREADS).map(live).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.unsettled.oldest(), u64::MAX, "all was waited for");
    });
}
