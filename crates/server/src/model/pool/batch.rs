//! Connections that are served together, by one thread or by several.
//!
//! The thread that has a batch may be preempted in the middle of it. Then a thread that sees it
//! (see `watch.rs`) sends the answers that are ready, and serves the rest; also several do. A
//! cursor says which connection is the next. Each connection says whether it is owed its answers
//! (`served.rs`).
//!
//! Invariant: the cursor only grows, so each connection is taken once.

use super::served::Served;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See [the module](self).
#[derive(Default)]
pub(super) struct Batch {
    /// Whose they are, if a leader serves them.
    pub(super) event_loop: Option<usize>,
    all: Vec<Arc<Served>>,
    next: AtomicUsize,
}

impl Batch {
    /// These connections, of the loop of this number if a leader serves them.
    pub(super) fn new(event_loop: Option<usize>, all: Vec<Arc<Served>>) -> Batch {
        Batch { event_loop, all, next: AtomicUsize::new(0) }
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

    fn has_more(&self) -> bool {
        self.next.load(Relaxed) < self.all.len() || self.owed().next().is_some()
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

    /// The slot's thread is about to serve these.
    pub(super) fn begin(&self, slot: usize, batch: Batch) -> Arc<Batch> {
        let batch = Arc::new(batch);
        *self.at(slot) = Arc::clone(&batch);
        batch
    }

    /// A batch of this loop that is not served to its end. Nothing waits here: a slot that is
    /// locked is about to get another batch.
    pub(super) fn unfinished(&self, event_loop: usize) -> Option<Arc<Batch>> {
        let is_open = |batch: &Batch| batch.event_loop == Some(event_loop) && batch.has_more();
        // Looked at without the lock, which the slot's own thread may be about to take.
        let open = |slot: &Mutex<Arc<Batch>>| {
            slot.try_lock().ok().map(|it| Arc::clone(&it)).filter(|it| is_open(it))
        };
        self.0.iter().find_map(open)
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

    #[test]
    fn each_connection_is_taken_once_by_whichever_thread() {
        const COUNT: usize = 400;
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
        let batches = Batches::new(3);
        assert!(batches.unfinished(5).is_none());
        let own = batches.begin(1, Batch::new(Some(5), (0..COUNT).map(served).collect()));
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
