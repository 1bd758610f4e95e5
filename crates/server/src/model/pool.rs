//! The workers of a pool serve the connections whose clients have sent something.
//!
//! One job of the pool *leads*: it asks epoll which connections are ready (`ready.rs`), does their
//! commands, then sends all answers, and asks again. So a request takes a read and a write, and a
//! part of one epoll call. No thread has to wake another one for it, and a client on the same
//! machine is woken once for several answers. If many connections are ready, other workers serve a
//! part. While no connection is ready, the leader waits in epoll. The pool knows that
//! (`block_in_place`), so another job may run in its place.
//!
//! A few further jobs watch, as *followers*, that the leader goes on (`watch.rs`). If the kernel
//! has preempted the leader, a follower leads, and serves what the leader has left of its batch
//! (`batch.rs`): only the clients wait whose answers the leader has and has not sent. To the pool,
//! followers are blocked too, so they take no place either.
//!
//! The pool has as many active workers as CPUs and does not shrink beside busy neighbours
//! ([`Control::Fixed`]): work that a server postpones is not less later, and its clients have
//! waited. The kernel divides the CPUs between the server and its neighbours.
//!
//! Connections that are ready are served together ([`SHARE`]). If that takes long, clients with an
//! answer do not wait for the rest ([`DELAY`]). The clock is read between two connections, so a
//! command that takes long itself also delays the answers of the connections before it.
//!
//! Invariants:
//! 1. The thread to which [`Served::notify`] returns true serves the connection or hands it over:
//!    no event is lost.
//! 2. Each of the jobs queues itself anew until [`Pool::end`]: a slot's job is queued, watches, or
//!    serves.

mod batch;
mod ready;
mod served;
mod watch;

use crate::connection::Connection;
use crate::peer::Peer;
use crate::shared::Shared;
use batch::{Batch, Batches};
use manx::pool::{Control, FriendlyPool, Shutdown, block_in_place};
use ready::{Ready, ReadyList};
use served::{Left, Served};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use watch::Watch;

/// A leader, and three followers.
const JOBS: usize = 4;
/// The maximum number of connections that a job serves together; further ones go to other jobs.
const SHARE: usize = 64;
/// Answers are sent when the first of them has this age, even if there are others to serve.
const DELAY: Duration = Duration::from_micros(50);
/// After this number of rounds the leader queues itself anew, which lets the pool decide whether
/// its worker goes on.
const ROUNDS: u32 = 64;
/// The maximum number of workers that replace workers which wait for a disk. It is higher than
/// usual, because one commit of many transactions costs as much as a commit of one.
const MAX_BLOCKING_THREADS: usize = 256;

/// The pool.
pub(crate) struct Pool {
    state: Arc<PoolState>,
}

/// What the jobs share.
struct PoolState {
    shared: Arc<Shared>,
    pool: FriendlyPool,
    ready: Ready,
    watch: Watch,
    batches: Batches,
    all: Mutex<HashMap<u64, Arc<Served>>>,
    is_over: AtomicBool,
}

/// A leader or a follower: its slot in [`Watch`], and the connections that it serves.
struct Worker {
    slot: usize,
    ready_list: ReadyList,
    notified: Vec<Arc<Served>>,
}

impl Pool {
    pub(super) fn new(shared: Arc<Shared>) -> io::Result<Pool> {
        let builder = FriendlyPool::builder().name("manx").max_blocking_threads(MAX_BLOCKING_THREADS);
        let pool = builder.control(Control::Fixed).build().map_err(io::Error::other)?;
        let (ready, watch, batches) = (Ready::new()?, Watch::new(JOBS), Batches::new(JOBS));
        let (all, is_over) = (Mutex::default(), AtomicBool::new(false));
        let state = Arc::new(PoolState { shared, pool, ready, watch, batches, all, is_over });
        for slot in 0..JOBS {
            let one = Arc::clone(&state);
            let worker = Worker { slot, ready_list: ReadyList::new(), notified: Vec::new() };
            state.pool.execute(move || one.run_rounds(worker)).map_err(io::Error::other)?;
        }
        Ok(Pool { state })
    }

    pub(super) fn adopt(&self, peer: Arc<Peer>) -> Result<(), String> {
        peer.socket.set_nonblocking(true).map_err(|error| format!("ERR {error}"))?;
        let number = peer.id;
        let connection = Connection::new(Arc::clone(&self.state.shared), Arc::clone(&peer))?;
        self.state.all().insert(number, Arc::new(Served::new(number, connection)));
        // After the insertion, so that the first event finds the connection.
        self.state.ready.add(&peer.socket, number).map_err(|error| {
            self.state.all().remove(&number);
            format!("ERR {error}")
        })
    }

    pub(super) fn end(&self, timeout: Duration) {
        // Release: a thread that sees it sees that all connections have ended.
        self.state.is_over.store(true, Ordering::Release);
        self.state.ready.end();
        self.state.watch.end();
        let _ = self.state.pool.shutdown(Shutdown::Drain, timeout);
    }
}

impl PoolState {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Arc<Served>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        // Acquire: see `end`.
        self.is_over.load(Ordering::Acquire)
    }

    /// Leads, or watches until there is something to do, for [`ROUNDS`] rounds.
    fn run_rounds(self: Arc<PoolState>, mut worker: Worker) {
        for _ in 0..ROUNDS {
            if self.is_over() {
                return;
            }
            if self.watch.leads(worker.slot) {
                self.lead(&mut worker.ready_list);
            } else {
                self.watch_leader(&mut worker);
            }
            self.collect(&mut worker);
            self.share_out(&mut worker.notified);
            if !worker.notified.is_empty() {
                let own = self.batches.begin(worker.slot, std::mem::take(&mut worker.notified));
                self.serve(&own);
            }
        }
        let state = Arc::clone(&self);
        // Refused only at the end.
        let _ = self.pool.execute(move || state.run_rounds(worker));
    }

    /// Finds out which connections are ready, or waits.
    fn lead(&self, ready_list: &mut ReadyList) {
        self.watch.begin_round();
        self.ready.look(ready_list);
        if ready_list.is_empty() {
            self.watch.begin_wait();
            block_in_place(|| self.ready.wait(ready_list));
            // So that followers see a round, and do not park.
            self.watch.begin_round();
            self.watch.end_wait();
        }
    }

    /// Watches until the leader does not go on, and connections are ready or are left of its batch;
    /// and serves what is left.
    fn watch_leader(self: &Arc<PoolState>, Worker { slot, ready_list, .. }: &mut Worker) {
        let mut left = None;
        block_in_place(|| {
            self.watch.follow(*slot, || {
                self.ready.look(ready_list);
                left = self.batches.unfinished();
                // At the end, `ready_list` has a number that is no connection's.
                !ready_list.is_empty() || left.is_some()
            });
        });
        if !ready_list.is_empty() {
            self.watch.take_over(*slot);
        }
        // These have waited for longest.
        while let Some(batch) = left {
            self.serve(&batch);
            left = self.batches.unfinished();
        }
    }

    /// Notifies the connections that epoll has named.
    fn collect(&self, Worker { ready_list, notified, .. }: &mut Worker) {
        let all = self.all();
        for (number, is_ending) in ready_list.drain(..) {
            // A connection that is not there has ended meanwhile.
            let Some(served) = all.get(&number) else { continue };
            if served.notify(is_ending) {
                notified.push(Arc::clone(served));
            }
        }
    }

    /// Keeps the connections that this job serves, and hands over the rest.
    fn share_out(self: &Arc<PoolState>, notified: &mut Vec<Arc<Served>>) {
        while notified.len() > SHARE {
            let rest = notified.len().saturating_sub(SHARE).max(SHARE);
            self.hand_over(notified.split_off(rest));
        }
    }

    fn hand_over(self: &Arc<PoolState>, some: Vec<Arc<Served>>) {
        let state = Arc::clone(self);
        // Refused only at the end, when there are no connections.
        let _ = self.pool.execute(move || state.serve(&Batch::new(some)));
    }

    /// Serves connections that are QUEUED, as many as other threads leave.
    fn serve(self: &Arc<PoolState>, batch: &Batch) {
        let mut answered = SmallVec::<[&Arc<Served>; SHARE]>::new();
        loop {
            let began = Instant::now();
            while answered.is_empty() || began.elapsed() < DELAY {
                let Some(next) = batch.take() else { break };
                next.receive();
                answered.push(next);
            }
            if answered.is_empty() {
                return;
            }
            let mut late = Vec::new();
            for served in answered.drain(..) {
                if served.awaits_disk() || self.deliver(served) == Left::Late {
                    late.push(Arc::clone(served));
                }
            }
            self.deliver_later(late);
        }
    }

    fn deliver(self: &Arc<PoolState>, served: &Arc<Served>) -> Left {
        let left = served.deliver();
        match left {
            Left::Idle | Left::Late => {}
            Left::More => self.hand_over(vec![Arc::clone(served)]),
            Left::Over => drop(self.all().remove(&served.number)),
        }
        left
    }

    /// Lets another worker wait for the disk and send these answers: that must delay neither the
    /// leader nor other connections. What is committed together is waited for together.
    fn deliver_later(self: &Arc<PoolState>, mut late: Vec<Arc<Served>>) {
        if late.is_empty() {
            return;
        }
        let state = Arc::clone(self);
        // Refused only at the end, when there are no connections.
        let _ = self.pool.execute(move || {
            late.retain(|served| state.deliver(served) == Left::Late);
            state.deliver_later(late);
        });
    }
}
