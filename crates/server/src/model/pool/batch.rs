//! Connections that are served together, by one thread or by several.
//!
//! The thread that has a batch may be preempted in the middle of it. Then a thread that sees it
//! (see `watch.rs`) sends the answers that are ready, and serves the rest; also several do. A
//! cursor says which connection is the next. Each connection says whether it is owed its answers
//! (`served.rs`).
//!
//! A thread may also get too little of its CPU: each client of the real-time class that it answers
//! there preempts it, for example, and neighbours come next. Then it goes on all the time, and its
//! batch takes tens of milliseconds. So while the server is short of CPUs (`pace.rs`), each leader
//! begins a round with a look at all batches: it compares the CPU time of the thread with the time
//! that has passed since a leader first saw the batch, and serves the batches of starved threads.
//! (If followers did so, more threads of the server would want a CPU: p99 was three to four times
//! as long, with 0.73 to 0.95 of the requests.)
//!
//! Invariant: the cursor only grows, so each connection is taken once.

use super::served::Served;
use platform::clock::{ThreadClock, now_ns};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A thread is starved if its batch has been there for this time or longer, and the thread had a
/// CPU for less than half of that.
const STARVED_NS: u64 = 1_000_000;

/// See [the module](self).
#[derive(Default)]
pub(super) struct Batch {
    /// Whose they are, if a leader serves them.
    pub(super) event_loop: Option<usize>,
    all: Vec<Arc<Served>>,
    next: AtomicUsize,
    /// What its commands have woken (`woken.rs`).
    woken: Mutex<Vec<Arc<Served>>>,
    /// Of the thread that has it.
    clock: Option<ThreadClock>,
    /// When another thread first looked whether that one is starved, and the CPU time that it had
    /// used.
    seen_ns: OnceLock<(u64, u64)>,
}

impl Batch {
    /// These connections, of the loop of this number if a leader serves them.
    pub(super) fn new(event_loop: Option<usize>, all: Vec<Arc<Served>>) -> Batch {
        Batch { event_loop, all, ..Batch::default() }
    }

    /// The next connection, which is the caller's to serve.
    // Relaxed: what is in the batch was there before it was shared.
    pub(super) fn take(&self) -> Option<&Arc<Served>> {
        self.all.get(self.next.fetch_add(1, Relaxed))
    }

    /// The connections that were taken and are owed answers: a hint, since a connection may be in
    /// another batch by now.
    pub(super) fn owed(&self) -> impl Iterator<Item = &Arc<Served>> {
        let taken = self.next.load(Relaxed).min(self.all.len());
        self.all[..taken].iter().filter(|served| served.is_owed())
    }

    /// Whether the thread that has it gets too little CPU time.
    fn is_starved(&self) -> bool {
        let Some(clock) = self.clock.filter(|_| self.has_more()) else { return false };
        let now = (now_ns(), clock.ns());
        let seen = self.seen_ns.get_or_init(|| now);
        let (passed_ns, used_ns) = (now.0.saturating_sub(seen.0), now.1.saturating_sub(seen.1));
        passed_ns >= STARVED_NS && used_ns < passed_ns / 2
    }

    fn has_more(&self) -> bool {
        // A thread that is just adding one looks itself.
        let has_woken = || self.woken.try_lock().is_ok_and(|woken| !woken.is_empty());
        self.next.load(Relaxed) < self.all.len() || self.owed().next().is_some() || has_woken()
    }

    fn woken(&self) -> MutexGuard<'_, Vec<Arc<Served>>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command has woken this connection, which is QUEUED. The thread that takes it serves it.
    pub(super) fn add_woken(&self, served: Arc<Served>) {
        self.woken().push(served);
    }

    pub(super) fn take_woken(&self) -> Vec<Arc<Served>> {
        std::mem::take(&mut self.woken())
    }
}

/// The batch of each leader or follower.
pub(super) struct Batches(Box<[Mutex<Arc<Batch>>]>);

impl Batches {
    /// Of this number of slots.
    pub(super) fn new(slots: usize) -> Batches {
        Batches((0..slots).map(|_| Mutex::default()).collect())
    }

    fn at(&self, slot: usize) -> MutexGuard<'_, Arc<Batch>> {
        self.0[slot].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot's thread, which has this clock, is about to serve these.
    pub(super) fn begin(&self, slot: usize, clock: ThreadClock, batch: Batch) -> Arc<Batch> {
        let batch = Arc::new(Batch { clock: Some(clock), ..batch });
        *self.at(slot) = Arc::clone(&batch);
        batch
    }

    /// A batch of any loop whose thread gets too little CPU time for it.
    pub(super) fn starved(&self) -> Option<Arc<Batch>> {
        self.0.iter().filter_map(Batches::look).find(|batch| batch.is_starved())
    }

    /// A batch of this loop that is not served to its end.
    pub(super) fn unfinished(&self, event_loop: usize) -> Option<Arc<Batch>> {
        let is_open = |batch: &Arc<Batch>| batch.event_loop == Some(event_loop) && batch.has_more();
        self.0.iter().filter_map(Batches::look).find(is_open)
    }

    /// What the slot has. Nothing waits here: a slot that is locked is about to get another batch,
    /// and a batch is looked at without the lock.
    fn look(slot: &Mutex<Arc<Batch>>) -> Option<Arc<Batch>> {
        slot.try_lock().ok().map(|batch| Arc::clone(&batch))
    }
}

#[cfg(test)]
mod tests {
    use super::super::loops::EventLoops;
    use super::*;
    use crate::connection::Connection;
    use crate::options::Options;
    use crate::peer::Peer;
    use crate::shared::Shared;
    use manx::txn::Store;
    use socket2::{Domain, Socket, Type};
    use std::time::Duration;

    /// Of the loop 5.
    fn batch(count: usize) -> Batch {
        let store = Store::in_memory(manx::txn::Options::default());
        let shared = Arc::new(Shared::new(Options::default(), store).unwrap());
        let loops = EventLoops::new(1).unwrap();
        let served = |number: usize| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            let user = Arc::clone(shared.acl.default_user());
            let peer = Arc::new(Peer::new(number as u64, socket, ("".into(), "".into()), false, user));
            let connection = Connection::new(Arc::clone(&shared), peer).unwrap();
            Arc::new(Served::new(number as u64, connection, loops.place(0)))
        };
        Batch::new(Some(5), (0..count).map(served).collect())
    }

    #[test]
    fn a_thread_is_starved_if_its_batch_lasts_and_it_has_no_cpu() {
        let clock = ThreadClock::of_this_thread();
        let batches = Batches::new(2);
        let is_starved = || batches.starved().is_some();
        assert!(!is_starved());
        loop {
            batches.begin(0, clock, batch(2));
            let began_ns = now_ns();
            assert!(!is_starved(), "it has just begun");
            let used_ns = clock.ns();
            while clock.ns() - used_ns < 2 * STARVED_NS {}
            let found = is_starved();
            if now_ns() - began_ns < 3 * STARVED_NS {
                assert!(!found, "it had a CPU");
                break;
            }
            // The machine is busy: once more.
        }
        let (one, other) = (batches.begin(0, clock, batch(1)), batches.begin(1, clock, batch(1)));
        // A look finds at most one, and none that it is the first to see.
        assert!(!is_starved());
        std::thread::sleep(Duration::from_nanos(20 * STARVED_NS));
        assert!(is_starved());
        assert!(one.take().is_some() && other.take().is_some());
        assert!(!is_starved(), "they have no more to do");
    }

    #[test]
    fn what_its_commands_have_woken_is_found_until_a_thread_takes_it() {
        let batches = Batches::new(1);
        let own = batches.begin(0, ThreadClock::of_this_thread(), batch(1));
        let woken = Arc::clone(own.take().unwrap());
        assert!(batches.unfinished(5).is_none());
        own.add_woken(woken);
        let found = batches.unfinished(5).expect("it has more to do");
        assert_eq!(found.take_woken().len(), 1);
        assert!(batches.unfinished(5).is_none() && own.take_woken().is_empty());
    }

    #[test]
    fn each_connection_is_taken_once_by_whichever_thread() {
        const COUNT: usize = 400;
        let batches = Batches::new(3);
        assert!(batches.unfinished(5).is_none());
        let own = batches.begin(1, ThreadClock::of_this_thread(), batch(COUNT));
        assert!(batches.unfinished(6).is_none());
        let taken = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(batch) = batches.unfinished(5) {
                        if let Some(one) = batch.take() {
                            taken.lock().unwrap().push(one.number);
                        }
                    }
                });
            }
            while let Some(one) = own.take() {
                taken.lock().unwrap().push(one.number);
            }
        });
        let mut taken = taken.into_inner().unwrap();
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..COUNT as u64));
        assert!(batches.unfinished(5).is_none() && own.take().is_none());
    }
}
