//! The workers of a pool serve the connections whose clients have sent something.
//!
//! There are as many event loops as workers (`loops.rs`). One job of the pool *leads* each: it asks
//! epoll which connections are ready (`ready.rs`), does their commands, then sends all answers, and
//! asks again. So a request takes a read and a write, and a part of one epoll call. No thread has
//! to wake another one for it, and a client on the same machine is woken once for several answers.
//! While no connection is ready, the leader waits in epoll. The pool knows that (`block_in_place`),
//! so another job may run in its place.
//!
//! A few further jobs watch, as *followers*, that each leader goes on (`watch.rs`). If the kernel
//! has preempted a leader, a follower leads, and serves what the leader has left of its batch
//! (`batch.rs`), also answers that it has not sent: so only the one client waits whose commands the
//! leader was doing. To the pool, followers are blocked too, so they take no place either.
//!
//! The pool has as many active workers as CPUs and does not shrink beside busy neighbours
//! ([`Control::Fixed`]): work that a server postpones is not less later, and its clients have
//! waited. The kernel divides the CPUs between the server and its neighbours.
//!
//! Connections that are ready are served together. If that takes long, clients with an answer do
//! not wait for the rest ([`DELAY`]). The clock is read between two connections, so a command that
//! takes long itself also delays the answers of the connections before it.
//!
//! Connections that are to receive a large command wait until there is room for it (`room.rs`,
//! `crowd.rs`).
//!
//! Answers that wait for a disk ([`Left::Late`]) are sent by further jobs, which wait for it: so
//! the disk delays neither a leader nor clients whose answers are ready.
//!
//! Invariants:
//! 1. The thread to which [`Served::notify`] returns true serves the connection or hands it over:
//!    no event is lost.
//! 2. Each of the jobs queues itself anew until [`Pool::end`]: a slot's job is queued, watches, or
//!    serves. A job that has connections to serve waits for nothing else.

mod batch;
mod connections;
mod crowd;
mod gather;
mod loops;
mod pace;
mod ready;
mod served;
mod watch;
mod woken;

use crate::connection::Connection;
use crate::peer::Peer;
use crate::shared::Shared;
use batch::{Batch, Batches};
use connections::Connections;
use crowd::Crowd;
use loops::{EventLoop, EventLoops};
use manx::pool::{Control, FriendlyPool, Shutdown, block_in_place};
use platform::clock::ThreadClock;
use ready::ReadyList;
use served::{Left, Served};
use smallvec::SmallVec;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watch::{WATCHERS, Watch, roams};

/// The number of followers. Most of them are parked, unless leaders are preempted.
const FOLLOWERS: usize = 8;
/// Answers are sent when the first of them has this age, even if there are others to serve.
const DELAY: Duration = Duration::from_micros(50);
/// Answers that are sent together, usually.
const TOGETHER: usize = 64;
/// After each of this number of rounds, a leader lets another worker do the jobs that are queued; …
const ROUNDS: u32 = 64;
/// … if there are none, and its own job has taken this time, it queues itself anew. Then the pool
/// may make its worker wait for the process' quota. Behind other jobs it would wait for them, too:
/// with eight busy loops for 10 to 70 ms.
const JOB: Duration = Duration::from_millis(20);
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
    loops: EventLoops,
    watch: Watch,
    batches: Batches,
    all: Connections,
    crowd: Crowd,
    is_over: AtomicBool,
}

/// A leader or a follower: its slot in [`Watch`], the loop that it serves or has served, and the
/// connections that it has to serve.
struct Worker {
    slot: usize,
    event_loop: usize,
    ready_list: ReadyList,
    notified: Vec<Arc<Served>>,
}

impl Pool {
    pub(super) fn new(shared: Arc<Shared>) -> io::Result<Pool> {
        let builder = FriendlyPool::builder().name("manx").max_blocking_threads(MAX_BLOCKING_THREADS);
        let pool = builder.control(Control::Fixed).build().map_err(io::Error::other)?;
        let loops = EventLoops::new(pool.stats().target as usize)?;
        let watch = Watch::new(loops.all().len(), FOLLOWERS);
        let batches = Batches::new(watch.slots());
        let (all, crowd, is_over) = (Connections::new(), Crowd::default(), AtomicBool::new(false));
        let state = Arc::new(PoolState { shared, pool, loops, watch, batches, all, crowd, is_over });
        let to_wake = Arc::downgrade(&state);
        state.shared.waker.set(move |peer| {
            if let Some(state) = to_wake.upgrade() {
                state.wake(peer.id);
            }
        });
        for slot in 0..state.watch.slots() {
            let one = Arc::clone(&state);
            let worker = Worker { slot, event_loop: 0, ready_list: ReadyList::new(), notified: Vec::new() };
            state.pool.execute(move || one.run_rounds(worker)).map_err(io::Error::other)?;
        }
        Ok(Pool { state })
    }

    pub(super) fn adopt(&self, peer: Arc<Peer>) -> Result<(), String> {
        peer.socket.set_nonblocking(true).map_err(|error| format!("ERR {error}"))?;
        let number = peer.id;
        let connection = Connection::new(Arc::clone(&self.state.shared), Arc::clone(&peer))?;
        let PoolState { all, loops, .. } = &*self.state;
        let place = loops.place(number);
        let first = place.event_loop();
        all.add(Arc::new(Served::new(number, connection, place)));
        // After the insertion, so that the first event finds the connection.
        loops.add(&peer.socket, number, first).map_err(|error| {
            all.remove(number);
            format!("ERR {error}")
        })
    }

    pub(super) fn end(&self, timeout: Duration) {
        // Release: a thread that sees it sees that all connections have ended.
        self.state.is_over.store(true, Ordering::Release);
        self.state.loops.all().iter().for_each(|event_loop| event_loop.ready.end());
        self.state.watch.end();
        let _ = self.state.pool.shutdown(Shutdown::Drain, timeout);
    }
}

impl PoolState {
    fn is_over(&self) -> bool {
        // Acquire: see `end`.
        self.is_over.load(Ordering::Acquire)
    }

    /// Leads, or watches until there is something to do, for some rounds.
    fn run_rounds(self: Arc<PoolState>, mut worker: Worker) {
        let (began, clock) = (Instant::now(), ThreadClock::of_this_thread());
        for number in 1u32.. {
            if self.is_over() {
                return;
            }
            if let Some(led) = self.watch.led_by(worker.slot) {
                self.lead(led, &mut worker);
            } else if worker.notified.is_empty() {
                self.watch_leaders(&mut worker);
            }
            self.collect(&mut worker);
            if !worker.notified.is_empty() {
                let batch = Batch::new(Some(worker.event_loop), std::mem::take(&mut worker.notified));
                let pace = &self.loops.all()[worker.event_loop].pace;
                let round = pace.begin();
                self.serve(&self.batches.begin(worker.slot, clock, batch), &mut worker.notified);
                pace.end(round);
            }
            if number.is_multiple_of(ROUNDS) {
                if self.pool.has_queued() {
                    // Another worker may be active in place of this one, which goes on at once.
                    block_in_place(|| ());
                } else if began.elapsed() > JOB && worker.notified.is_empty() {
                    break;
                }
            }
        }
        let state = Arc::clone(&self);
        // Refused only at the end.
        let _ = self.pool.execute(move || state.run_rounds(worker));
    }

    /// Finds out which connections of this loop are ready, or waits if there is nothing to do.
    fn lead(self: &Arc<PoolState>, led: usize, worker: &mut Worker) {
        worker.event_loop = led;
        let event_loop = &self.loops.all()[led];
        event_loop.pace.rest();
        if event_loop.pace.is_short_of_cpus() {
            // A thread that has no CPU has left these, which have waited for longest.
            while let Some(batch) = self.batches.starved() {
                self.serve_left(&batch, &mut worker.notified);
            }
        }
        self.step(led);
        let round_max = event_loop.pace.round_max();
        event_loop.ready.look(&mut worker.ready_list, round_max);
        if worker.ready_list.is_empty() && worker.notified.is_empty() {
            event_loop.pace.pause();
            self.watch.begin_wait(led);
            block_in_place(|| event_loop.ready.wait(&mut worker.ready_list, round_max));
            // So that followers see a step, and do not park.
            self.step(led);
            self.watch.end_wait(led);
        }
        self.loops.is_here(led);
    }

    /// The calling thread serves this loop, and goes on.
    fn step(&self, event_loop: usize) {
        self.watch.step(event_loop);
        self.loops.step(event_loop);
    }

    /// Watches until a leader does not go on, and connections are ready or are left of its batch;
    /// and serves what is left.
    fn watch_leaders(self: &Arc<PoolState>, Worker { slot, event_loop, ready_list, notified }: &mut Worker) {
        let mut left = None;
        let look = |stopped: usize| {
            let EventLoop { pace, ready, .. } = &self.loops.all()[stopped];
            if pace.is_resting() {
                return None;
            }
            if roams(*slot) && self.loops.all()[stopped].is_on_this_cpu() {
                platform::cpu::leave();
            }
            ready.look(ready_list, pace.round_max());
            left = self.batches.unfinished(stopped);
            // At the end, `ready_list` has a number that is no connection's.
            let is_found = !ready_list.is_empty() || left.is_some();
            is_found.then(|| if pace.is_short_of_cpus() { FOLLOWERS } else { WATCHERS })
        };
        *event_loop = block_in_place(|| self.watch.follow(*slot, look));
        if !ready_list.is_empty() {
            self.watch.take_over(*event_loop, *slot);
        }
        // These have waited for longest.
        while let Some(batch) = left {
            self.serve_left(&batch, notified);
            left = self.batches.unfinished(*event_loop);
        }
    }

    /// Notifies the connections that epoll has named.
    fn collect(&self, Worker { ready_list, notified, .. }: &mut Worker) {
        for (number, is_ending) in ready_list.drain(..) {
            // A connection that is not there has ended meanwhile.
            let Some(served) = self.all.get(number) else { continue };
            if served.notify(is_ending) {
                notified.push(served);
            }
        }
    }

    /// Has a connection served that has more to do, or not, though its client has sent nothing.
    fn wake(self: &Arc<PoolState>, number: u64) {
        let woken = self.all.get(number).filter(|served| served.wake());
        if let Some(served) = woken.and_then(woken::keep) {
            self.hand_over(vec![served]);
        }
    }

    fn hand_over(self: &Arc<PoolState>, some: Vec<Arc<Served>>) {
        let state = Arc::clone(self);
        // Refused only at the end, when there are no connections.
        let _ = self.pool.execute(move || {
            let mut again = Vec::new();
            state.serve(&Arc::new(Batch::new(None, some)), &mut again);
            if !again.is_empty() {
                state.hand_over(again);
            }
        });
    }

    /// Serves connections that are QUEUED, as many as other threads leave. Those that have more to
    /// do, and stay QUEUED, are added to `again`, and those that their commands have woken.
    fn serve(self: &Arc<PoolState>, batch: &Arc<Batch>, again: &mut Vec<Arc<Served>>) {
        woken::collect(batch, again, |again| self.serve_all(batch, again));
    }

    fn serve_all(self: &Arc<PoolState>, batch: &Batch, again: &mut Vec<Arc<Served>>) {
        let mut answered = SmallVec::<[&Arc<Served>; TOGETHER]>::new();
        loop {
            let began = Instant::now();
            while answered.is_empty() || began.elapsed() < DELAY {
                let Some(next) = batch.take() else { break };
                next.receive(&self.loops);
                answered.push(next);
            }
            if answered.is_empty() {
                return;
            }
            if let Some(event_loop) = batch.event_loop {
                self.step(event_loop);
            }
            self.answer(answered.drain(..), again);
        }
    }

    /// Serves what another thread has left of its batch: the answers that it has not sent, which
    /// have waited for longest, and the rest.
    fn serve_left(self: &Arc<PoolState>, batch: &Arc<Batch>, again: &mut Vec<Arc<Served>>) {
        self.answer(batch.owed(), again);
        self.serve(batch, again);
    }

    /// Sends the answers of these connections, as far as no other thread does.
    fn answer<'s>(
        self: &Arc<PoolState>,
        some: impl Iterator<Item = &'s Arc<Served>>,
        again: &mut Vec<Arc<Served>>,
    ) {
        let mut late = Vec::new();
        for served in some.filter(|served| served.claim()) {
            if served.awaits_disk() {
                late.push(Arc::clone(served));
                continue;
            }
            match self.deliver(served) {
                Left::Late => late.push(Arc::clone(served)),
                Left::More => again.push(Arc::clone(served)),
                Left::Crowded => self.wait_for_room(Arc::clone(served)),
                Left::Idle | Left::Over => {}
            }
        }
        self.deliver_later(late);
    }

    /// Serves this connection again when there is room for what it is to receive. One job waits for
    /// all of them, so that they take no workers from others.
    fn wait_for_room(self: &Arc<PoolState>, served: Arc<Served>) {
        if !self.crowd.join(served) {
            return;
        }
        let state = Arc::clone(self);
        // Refused only at the end, when there are no connections.
        let _ = self.pool.execute(move || {
            while !state.is_over()
                && let Some(admitted) = state.crowd.admit(|served| served.has_room())
            {
                if admitted.is_empty() {
                    block_in_place(|| state.shared.room.wait());
                } else {
                    state.hand_over(admitted);
                }
            }
        });
    }

    fn deliver(&self, served: &Served) -> Left {
        let left = served.deliver();
        if left == Left::Over {
            self.all.remove(served.number);
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
            let mut again = Vec::new();
            late.retain(|served| {
                let left = state.deliver(served);
                match left {
                    Left::More => again.push(Arc::clone(served)),
                    Left::Crowded => state.wait_for_room(Arc::clone(served)),
                    Left::Late | Left::Idle | Left::Over => {}
                }
                left == Left::Late
            });
            if !again.is_empty() {
                state.hand_over(again);
            }
            state.deliver_later(late);
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::options::{Model, Options};
    use crate::server::Server;
    use manx::txn::Store;
    use platform::cpu;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::Duration;

    /// Their connections move between the loops, in a test after each turn.
    #[test]
    fn clients_that_change_their_cpu_are_answered() {
        const CLIENTS: usize = 6;
        const REQUESTS: usize = 600;
        let listen = "127.0.0.1:0".parse().unwrap();
        let options = Options { listen, model: Model::Pool, ..Options::default() };
        let store = Store::in_memory(manx::txn::Options::default());
        let server = Server::start(options, store).unwrap();
        let allowed = cpu::allowed();
        let is_allowed = |at: &usize| allowed[at / 64] & 1 << (at % 64) != 0;
        let cpus: Vec<usize> = (0..cpu::COUNT_MAX).filter(is_allowed).take(4).collect();
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (cpus, address) = (&cpus, server.address());
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.set_nodelay(true).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    for request in 0..REQUESTS {
                        let at = cpus[(client + request / 3) % cpus.len()];
                        let mut mask = [0; cpu::COUNT_MAX / 64];
                        mask[at / 64] = 1 << (at % 64);
                        assert!(cpu::bind(&mask));
                        // Every other one comes in two parts.
                        let parts: &[&[u8]] =
                            if request % 2 == 0 { &[b"PING\r\n"] } else { &[b"PI", b"NG\r\n"] };
                        parts.iter().for_each(|part| stream.write_all(part).unwrap());
                        let mut answer = [0; 7];
                        stream.read_exact(&mut answer).unwrap();
                        assert_eq!(&answer, b"+PONG\r\n");
                    }
                });
            }
        });
        server.stop();
        server.wait();
    }
}
