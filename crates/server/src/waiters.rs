//! Clients that wait until a key has a list or a sorted set (BLPOP and the like), in the order in
//! which they came.
//!
//! ```text
//! a client: joins ──► looks: nothing ──► sleeps ──► woken: looks again ──► has it, and leaves
//! a writer:               commits a new list ──► wakes the first of the list's waiters
//! ```
//!
//! A client that is woken looks for itself, in a transaction as any other: so a client that does
//! not wait may be faster, and then the first one stays the first. Only a new collection wakes:
//! while one is there, no client that has looked since waits for it.
//!
//! Invariants:
//! 1. A client joins before it looks whether there is something, or whether anything was made since
//!    it has looked; a writer commits, and says that, before it asks whether a client waits.
//!    Between the two steps of each is a fence. So the writer sees the client, or the client sees
//!    what was written (Dekker's pattern).
//! 2. If a collection is there and clients wait for it, the first of them was woken and has not
//!    looked since. A new collection wakes it, and a waiter that leaves, for whatever reason, wakes
//!    those that are now the first for what it has waited for.

use crate::names::Name;
use crate::peer::Peer;
use crate::stop::Stop;
use crate::value::Kind;
use crate::waker::Waker;
use manx::lock::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

/// See [the module](self).
pub(crate) struct Waiters {
    waker: Arc<Waker>,
    /// How many wait.
    count: AtomicUsize,
    /// How often something was made that a client may wait for.
    version: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the last ticket.
    last: u64,
    /// The waiters of a key and a kind, by the numbers of their tickets.
    queues: HashMap<Name, BTreeMap<u64, Arc<Peer>>>,
    /// When waiters have waited for long enough: in the order of time.
    deadlines: BTreeMap<(Instant, u64), Arc<Peer>>,
}

/// What a waiter has; it leaves when this is dropped.
pub(crate) struct Ticket {
    waiters: Arc<Waiters>,
    peer: Arc<Peer>,
    number: u64,
    wanted: BTreeSet<Name>,
    deadline: Option<Instant>,
}

impl Ticket {
    /// The memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        memory_bytes(self.wanted.iter().map(|name| &name[..]))
    }

    /// Whether the client has waited for long enough.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// What a key takes beside its bytes: its names here and in its ticket, and its queue.
const KEY_BYTES: usize = 400;

/// The memory that waiting for these keys takes, about.
pub(crate) fn memory_bytes<'k>(keys: impl Iterator<Item = &'k [u8]>) -> usize {
    keys.map(|key| KEY_BYTES + 2 * key.len()).sum()
}

/// A key that has a collection of this kind, or may get one.
pub(crate) fn wanted(kind: Kind, key: &[u8]) -> Name {
    let mut name = Name::new();
    name.push(kind as u8);
    name.extend_from_slice(key);
    name
}

/// The peers that are to be woken.
type First = SmallVec<[Arc<Peer>; 4]>;

impl State {
    /// The first waiters for each of these.
    fn first<'n>(&self, names: impl IntoIterator<Item = &'n Name>) -> First {
        let first = |name| self.queues.get(name)?.values().next().map(Arc::clone);
        names.into_iter().filter_map(first).collect()
    }
}

impl Waiters {
    pub(crate) fn new(waker: &Arc<Waker>) -> Arc<Waiters> {
        let (waker, state) = (Arc::clone(waker), Mutex::default());
        Arc::new(Waiters { waker, count: AtomicUsize::new(0), version: AtomicU64::new(0), state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// How many clients wait.
    pub(crate) fn count(&self) -> usize {
        // Relaxed: a figure.
        self.count.load(Ordering::Relaxed)
    }

    /// Changes after each collection that is made.
    pub(crate) fn version(&self) -> u64 {
        // Acquire: what was made before is there.
        self.version.load(Ordering::Acquire)
    }

    /// The client waits for one of these from now on. Before it sleeps it looks, or knows that the
    /// version is what it was before it has looked.
    pub(crate) fn join(
        self: &Arc<Waiters>,
        peer: &Arc<Peer>,
        wanted: BTreeSet<Name>,
        timeout: Option<Duration>,
        stop: &Stop,
    ) -> Ticket {
        peer.begin_wait();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        for name in &wanted {
            state.queues.entry(name.clone()).or_default().insert(number, Arc::clone(peer));
        }
        let mut is_next = false;
        if let Some(deadline) = deadline {
            state.deadlines.insert((deadline, number), Arc::clone(peer));
            is_next = state.deadlines.first_key_value().is_some_and(|(first, _)| first.1 == number);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(state);
        if is_next {
            stop.ask_again();
        }
        // Invariant 1.
        fence(Ordering::SeqCst);
        Ticket { waiters: Arc::clone(self), peer: Arc::clone(peer), number, wanted, deadline }
    }

    /// The client waits no more.
    fn leave(&self, Ticket { peer, number, wanted, deadline, .. }: &Ticket) {
        peer.end_wait();
        let mut state = self.state();
        for name in wanted {
            if let Some(queue) = state.queues.get_mut(name) {
                queue.remove(number);
                if queue.is_empty() {
                    state.queues.remove(name);
                }
            }
        }
        if let Some(deadline) = deadline {
            state.deadlines.remove(&(*deadline, *number));
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        // Invariant 2.
        let first = state.first(wanted);
        drop(state);
        self.wake(&first);
    }

    fn wake(&self, peers: &First) {
        peers.iter().for_each(|peer| self.waker.wake(peer));
    }

    /// These are there now: the caller has committed them.
    #[inline]
    pub(crate) fn made(&self, names: &[Name]) {
        if names.is_empty() {
            return;
        }
        // Release: see `version`.
        self.version.fetch_add(1, Ordering::Release);
        // Invariant 1.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 {
            let first = self.state().first(names);
            self.wake(&first);
        }
    }

    /// Wakes the clients that have waited for long enough. Returns when the next one has.
    fn wake_late(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut late = First::new();
        let mut state = self.state();
        let next = loop {
            match state.deadlines.first_entry() {
                Some(first) if first.key().0 <= now => late.push(first.remove()),
                first => break first.map(|first| first.key().0),
            }
        };
        drop(state);
        self.wake(&late);
        next
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.state().deadlines.first_key_value().map(|((deadline, _), _)| *deadline)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.waiters.leave(self);
    }
}

/// Wakes the clients that have waited for long enough, until the server stops.
pub(crate) fn keep_deadlines(waiters: &Waiters, stop: &Stop) {
    loop {
        let next = waiters.wake_late();
        // Without a deadline: until there is one.
        let pause = next.map_or(Duration::MAX, |next| next.saturating_duration_since(Instant::now()));
        if stop.wait_or(pause, || waiters.next_deadline() != next) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::shared::Shared;
    use manx::txn::Store;
    use socket2::{Domain, Socket, Type};

    /// A server that no client has, and the numbers of the peers that were woken.
    fn recorded() -> (Shared, Arc<Mutex<Vec<u64>>>) {
        let store = Store::in_memory(manx::txn::Options::default());
        let shared = Shared::new(Options::default(), store).unwrap();
        let woken = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&woken);
        shared.waker.set(move |peer| record.lock().push(peer.id));
        (shared, woken)
    }

    fn peer(shared: &Shared, id: u64) -> Arc<Peer> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let user = Arc::clone(shared.acl.default_user());
        Arc::new(Peer::new(id, socket, ("".into(), "".into()), false, user))
    }

    fn name(number: usize) -> Name {
        wanted(if number.is_multiple_of(2) { Kind::List } else { Kind::SortedSet }, &[number as u8 / 2])
    }

    /// The first of these waiters, in their order, for each of the names.
    fn first(all: &[(u64, BTreeSet<Name>, Ticket)], names: impl Iterator<Item = Name>) -> Vec<u64> {
        let first = |name: Name| all.iter().find(|waiter| waiter.1.contains(&name)).map(|waiter| waiter.0);
        names.filter_map(first).collect()
    }

    #[test]
    fn the_first_is_woken_and_one_that_leaves_wakes_the_next() {
        const NAMES: usize = 6;
        let (shared, woken) = recorded();
        let (waiters, mut rng) = (&shared.waiters, fastrand::Rng::with_seed(7));
        let mut all: Vec<(u64, BTreeSet<Name>, Ticket)> = Vec::new();
        for id in 0..3_000 {
            let names: BTreeSet<Name> = (0..rng.usize(1..4)).map(|_| name(rng.usize(..NAMES))).collect();
            let expected = match rng.u8(..3) {
                0 if all.len() < 20 => {
                    let ticket = waiters.join(&peer(&shared, id), names.clone(), None, &shared.stop);
                    all.push((id, names, ticket));
                    Vec::new()
                }
                1 if !all.is_empty() => {
                    let (_, names, ticket) = all.remove(rng.usize(..all.len()));
                    drop(ticket);
                    first(&all, names.into_iter())
                }
                _ => {
                    let made: Vec<Name> = names.into_iter().collect();
                    waiters.made(&made);
                    first(&all, made.into_iter())
                }
            };
            assert_eq!(std::mem::take(&mut *woken.lock()), expected);
            assert_eq!(waiters.count(), all.len());
        }
        drop(all);
        assert!(waiters.state().queues.is_empty(), "nothing is left of those that were here");
    }

    #[test]
    fn waiters_are_woken_when_their_time_is_over() {
        let (shared, woken) = recorded();
        let waiters = &shared.waiters;
        let names = || BTreeSet::from([name(0)]);
        let join = |id, timeout| waiters.join(&peer(&shared, id), names(), timeout, &shared.stop);
        let hour = Duration::from_secs(3600);
        let tickets =
            [join(1, None), join(2, Some(hour)), join(3, Some(Duration::ZERO)), join(4, Some(hour))];
        let next = waiters.wake_late();
        assert_eq!(*woken.lock(), [3]);
        assert_eq!(next, tickets[1].deadline);
        assert_eq!(tickets.each_ref().map(Ticket::is_late), [false, false, true, false]);
        // Each is told once.
        assert_eq!(waiters.wake_late(), next);
        assert_eq!(*woken.lock(), [3]);
        let [first, second, third, fourth] = tickets;
        drop(second);
        assert_eq!(waiters.next_deadline(), fourth.deadline);
        drop([first, third, fourth]);
        assert_eq!(waiters.next_deadline(), None);
    }

    #[test]
    fn a_deadline_that_is_sooner_than_the_others_is_kept() {
        let (shared, woken) = recorded();
        std::thread::scope(|scope| {
            scope.spawn(|| keep_deadlines(&shared.waiters, &shared.stop));
            let names = || BTreeSet::from([name(0)]);
            let join =
                |id, timeout| shared.waiters.join(&peer(&shared, id), names(), Some(timeout), &shared.stop);
            let late = join(1, Duration::from_secs(3600));
            let soon = join(2, Duration::from_millis(5));
            while woken.lock().is_empty() {
                std::thread::yield_now();
            }
            assert!(soon.is_late() && !late.is_late());
            assert_eq!(*woken.lock(), [2]);
            shared.stop.stop();
        });
    }
}
