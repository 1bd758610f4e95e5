//! The workers of a pool serve those connections whose clients have sent something.
//!
//! One job of the pool *leads*: it asks epoll which connections are ready (`ready.rs`), does what
//! they ask for, then sends all their answers, and asks again. So a request takes a read and a
//! write, and a part of one epoll call; no thread has to wake another one for it, and clients get
//! their answers together and need not be woken for each. If many are ready, other workers do a
//! part. While no connection is ready, the leader waits in epoll, which the pool knows
//! (`block_in_place`), so its place is free for others.
//!
//! A few further jobs watch, as followers, that the leader goes on (`watch.rs`): a leader that the
//! kernel has stopped holds up only the clients that it is just serving. They are blocked, as the
//! pool sees it, so they take no place either.
//!
//! The pool has as many active workers as CPUs and does not shrink beside busy neighbours
//! ([`Control::Fixed`]). A server has as much to do as its clients ask for; what it leaves undone
//! now is there a moment later, and clients have waited. What neighbours are to get, the kernel
//! sees to.
//!
//! Connections that are ready are served together ([`SHARE`]). If that takes long, clients with an
//! answer do not wait for the rest ([`DELAY`]). The time is looked at between two connections, so a
//! command that takes long itself also keeps back the answers of the connections before it.
//!
//! Invariants:
//! 1. The thread that finds a connection called ([`Served::is_called`]) serves it or hands it over:
//!    no event is lost.
//! 2. Each of the jobs stays, and queues itself anew, until [`Pool::end`]: a seat's job is queued,
//!    watches, or serves.

mod ready;
mod served;
mod watch;

use super::Serve;
use crate::connection::Connection;
use crate::peer::Peer;
use crate::shared::Shared;
use manx::pool::{Control, FriendlyPool, Shutdown, block_in_place};
use ready::{Ready, ReadyList};
use served::{Left, Served};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use watch::Watch;

/// A leader, and followers.
const SEATS: usize = 4;
/// The maximum number of connections that are served together; further ones go to other jobs, as
/// many to each.
const SHARE: usize = 64;
/// Answers are sent when the first of them has this age, even if there are others to serve.
const DELAY: Duration = Duration::from_micros(500);
/// After this number of rounds the leader queues itself anew, which lets the pool decide whether
/// its worker goes on.
const ROUNDS: u32 = 64;
/// More workers than usual may stand in for workers that wait for a disk: a commit of many is as
/// dear as one.
const STAND_INS: usize = 256;

/// The pool.
pub(super) struct Pool {
    state: Arc<PoolState>,
}

/// What the jobs share.
struct PoolState {
    shared: Arc<Shared>,
    pool: FriendlyPool,
    ready: Ready,
    watch: Watch,
    all: Mutex<HashMap<u64, Arc<Served>>>,
    is_over: AtomicBool,
}

/// A leader or a follower: its seat, and the connections that it serves.
struct Worker {
    seat: usize,
    ready_list: ReadyList,
    called: Vec<Arc<Served>>,
}

impl Pool {
    pub(super) fn new(shared: Arc<Shared>) -> io::Result<Pool> {
        let builder = FriendlyPool::builder().name("manx").stand_ins(STAND_INS).control(Control::Fixed);
        let pool = builder.build().map_err(io::Error::other)?;
        let (ready, watch) = (Ready::new()?, Watch::new(SEATS));
        let (all, is_over) = (Mutex::default(), AtomicBool::new(false));
        let state = Arc::new(PoolState { shared, pool, ready, watch, all, is_over });
        for seat in 0..SEATS {
            let one = Arc::clone(&state);
            let worker = Worker { seat, ready_list: ReadyList::new(), called: Vec::new() };
            state
                .pool
                .execute(move || one.run_rounds(worker))
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(Pool { state })
    }
}

impl Serve for Pool {
    fn adopt(&self, peer: Arc<Peer>) -> Result<(), String> {
        peer.socket.set_nonblocking(true).map_err(|error| format!("ERR {error}"))?;
        let number = peer.id;
        let connection = Connection::new(Arc::clone(&self.state.shared), Arc::clone(&peer))?;
        self.state.all().insert(number, Arc::new(Served::new(number, connection)));
        // Behind it: the first event finds the connection.
        self.state.ready.add(&peer.socket, number).map_err(|error| {
            self.state.all().remove(&number);
            format!("ERR {error}")
        })
    }

    fn end(&mut self, timeout: Duration) {
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

    /// Leads, or watches until there is something to do, for some rounds.
    fn run_rounds(self: Arc<PoolState>, mut worker: Worker) {
        for _ in 0..ROUNDS {
            if self.is_over() {
                return;
            }
            if self.watch.leads(worker.seat) {
                self.lead(&mut worker.ready_list);
            } else {
                self.watch_leader(&mut worker);
            }
            self.collect(&mut worker);
            self.share_out(&mut worker.called);
            self.serve(&worker.called);
            worker.called.clear();
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
            self.watch.waits();
            block_in_place(|| self.ready.wait(ready_list));
            // A follower is not to think that this one still waits, nor to park any more.
            self.watch.begin_round();
            self.watch.returns();
        }
    }

    /// Watches, until some are ready and the leader does not go on.
    fn watch_leader(&self, Worker { seat, ready_list, .. }: &mut Worker) {
        block_in_place(|| {
            self.watch.attend(*seat, || {
                self.ready.look(ready_list);
                // At the end `ready_list` has that; a connection's number it is not.
                !ready_list.is_empty()
            });
        });
        self.watch.take_over(*seat);
    }

    /// Calls the connections that epoll has named.
    fn collect(&self, Worker { ready_list, called, .. }: &mut Worker) {
        let all = self.all();
        for (number, is_ending) in ready_list.drain(..) {
            // A connection that is not there has ended meanwhile.
            let Some(served) = all.get(&number) else { continue };
            if served.is_called(is_ending) {
                called.push(Arc::clone(served));
            }
        }
    }

    /// Leaves as many as are to be served together, and hands over the rest.
    fn share_out(self: &Arc<PoolState>, called: &mut Vec<Arc<Served>>) {
        // Commits that wait for a disk must not keep the leader from asking, nor those of one
        // connection another one's.
        let (own, share) = if self.shared.options.durable { (0, 1) } else { (SHARE, SHARE) };
        while called.len() > own {
            let rest = called.len().saturating_sub(share).max(own);
            self.hand_over(called.split_off(rest));
        }
    }

    fn hand_over(self: &Arc<PoolState>, some: Vec<Arc<Served>>) {
        let state = Arc::clone(self);
        // Refused only at the end, when there are no connections.
        let _ = self.pool.execute(move || state.serve(&some));
    }

    /// Serves connections that are QUEUED.
    fn serve(self: &Arc<PoolState>, mut some: &[Arc<Served>]) {
        while !some.is_empty() {
            let began = Instant::now();
            let mut received = 0;
            while received < some.len() && (received == 0 || began.elapsed() < DELAY) {
                some[received].receive();
                received += 1;
            }
            let (answered, rest) = some.split_at(received);
            for served in answered {
                match served.deliver() {
                    Left::Idle => {}
                    Left::More => self.hand_over(vec![Arc::clone(served)]),
                    Left::Over => drop(self.all().remove(&served.number)),
                }
            }
            some = rest;
        }
    }
}
