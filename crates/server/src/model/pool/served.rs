//! A connection of the pool, and which thread has it now.
//!
//! | state | meaning |
//! | --- | --- |
//! | [`IDLE`] | no thread has it |
//! | [`QUEUED`] | a thread will serve it |
//! | [`RUNNING`] | a thread serves it |
//! | [`AGAIN`] | a thread serves it, and something has come since |
//!
//! Invariants:
//! 1. The thread that brings a connection from IDLE to QUEUED serves it or queues a job that does;
//!    so one thread at a time serves it.
//! 2. A connection becomes IDLE only from RUNNING, after a turn that found nothing to read or could
//!    not write. What came since made it AGAIN.
//! 3. Between [`Served::receive`] and [`Served::deliver`] it stays RUNNING or AGAIN. The thread to
//!    which [`Served::claim`] returns true delivers, or hands that over; it may be another one.
//! 4. A panic inside a connection ends that connection and no other.
//! 5. `has_come` is set before the state says so, and again after a turn that has not read all. So
//!    where a turn finds it unset, nothing has come since a turn that has read all: others have
//!    woken the connection, and there is nothing to read.

use super::loops::{EventLoops, Place};
use crate::connection::{Connection, Turn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const AGAIN: u8 = 3;

/// The number of turns in a row; then other connections come first.
const TURNS: u32 = 16;

/// A connection.
pub(super) struct Served {
    pub(super) number: u64,
    state: AtomicU8,
    /// The client sends no more. Kept here, because epoll reports it only once.
    is_ending: AtomicBool,
    /// Something may have come from the client (Invariant 5).
    has_come: AtomicBool,
    /// Something was received, and no thread has claimed to deliver.
    is_owed: AtomicBool,
    inner: Mutex<Inner>,
}

struct Inner {
    /// None after its end.
    connection: Option<Connection>,
    /// What was received and is to be delivered.
    received: Turn,
    place: Place,
}

impl Inner {
    /// Runs `work` on the connection, and drops the connection if `work` panics or ends it.
    fn attempt(&mut self, work: impl FnOnce(&mut Connection) -> Turn) -> Turn {
        let Some(connection) = &mut self.connection else { return Turn::Over };
        // Invariant 4. A connection that has panicked is dropped, so no thread sees it half
        // changed. What connections share stays consistent if a thread panics.
        let turn = catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or(Turn::Over);
        if turn == Turn::Over {
            let ended = self.connection.take();
            // The panic hook has reported it.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
        }
        turn
    }
}

/// The state of a connection after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// No thread has it, until something comes.
    Idle,
    /// It is QUEUED: there is more to do, but other connections come first.
    More,
    /// It is QUEUED: there is more to receive, but no room for it.
    Crowded,
    /// It is RUNNING: there are further answers to deliver, which wait for a disk.
    Late,
    /// It has ended.
    Over,
}

impl Served {
    pub(super) fn new(number: u64, connection: Connection, place: Place) -> Served {
        let inner = Inner { connection: Some(connection), received: Turn::Read, place };
        let (state, inner) = (AtomicU8::new(IDLE), Mutex::new(inner));
        let [is_ending, has_come, is_owed] = [false; 3].map(AtomicBool::new);
        Served { number, state, is_ending, has_come, is_owed, inner }
    }

    /// No thread ever waits for it (Invariant 1).
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something came; `is_ending`: the end of what the client sends. Returns whether
    /// the caller has to see that the connection is served.
    pub(super) fn notify(&self, is_ending: bool) -> bool {
        if is_ending {
            // Relaxed: what follows is Release.
            self.is_ending.store(true, Ordering::Relaxed);
        }
        // Release: the turn that takes it sees whether that was the end.
        self.has_come.store(true, Ordering::Release);
        self.wake()
    }

    /// The connection is to be served, though nothing may have come. Returns whether the caller has
    /// to see to it.
    pub(super) fn wake(&self) -> bool {
        let next = |state| Some(if matches!(state, IDLE | QUEUED) { QUEUED } else { AGAIN });
        // Release, even if the state stays the same: the event, and what it said, is before the
        // turn that follows. Acquire: the thread that serves it next sees what the last one did.
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// Reads and does what has come, of a connection that is QUEUED, and moves it to the loop near
    /// its client. The answers are [`Served::deliver`]'s.
    pub(super) fn receive(&self, loops: &EventLoops) {
        // Acquire: what the last one did with the connection. (The mutex says so too.)
        self.state.swap(RUNNING, Ordering::Acquire);
        let mut inner = self.inner();
        inner.received = inner.attempt(|connection| self.read(connection));
        let Inner { connection, place, .. } = &mut *inner;
        if let Some(connection) = connection {
            loops.settle(place, &connection.peer().socket, self.number);
        }
        drop(inner);
        // Release: a thread that claims it sees what was done. (The mutex says so too.)
        self.is_owed.store(true, Ordering::Release);
    }

    /// Reads and does what has come. The connection is RUNNING.
    fn read(&self, connection: &mut Connection) -> Turn {
        // Acquire: see `notify`. It comes first: an event may be noted between the two.
        let has_come = self.has_come.swap(false, Ordering::Acquire);
        // Relaxed, here and below: behind that or the state's Acquire, before its next Release.
        if self.is_ending.load(Ordering::Relaxed) {
            connection.expect_end();
        }
        let received = connection.receive(has_come);
        if matches!(received, Turn::Again | Turn::Crowded) {
            self.has_come.store(true, Ordering::Relaxed);
        }
        received
    }

    /// Whether answers may be there that no thread has claimed.
    pub(super) fn is_owed(&self) -> bool {
        // Relaxed: a hint.
        self.is_owed.load(Ordering::Relaxed)
    }

    /// Whether the caller is to deliver; to one thread it says so (Invariant 3).
    pub(super) fn claim(&self) -> bool {
        self.is_owed.swap(false, Ordering::Acquire)
    }

    /// Whether the rest of a large command may be received now. Of a connection that is QUEUED.
    pub(super) fn has_room(&self) -> bool {
        self.inner().connection.as_mut().is_none_or(Connection::claim)
    }

    /// Whether its answers wait for a disk.
    pub(super) fn awaits_disk(&self) -> bool {
        self.inner().connection.as_ref().is_some_and(Connection::awaits_disk)
    }

    /// Sends the answers, and does what has come since.
    pub(super) fn deliver(&self) -> Left {
        let mut inner = self.inner();
        let received = inner.received;
        let mut turn = inner.attempt(|connection| connection.deliver(received));
        for _ in 0..TURNS {
            match turn {
                // The state stays RUNNING, so no thread serves it again.
                Turn::Over => return Left::Over,
                Turn::Again => {}
                Turn::Crowded => {
                    // Release: as below.
                    self.state.store(QUEUED, Ordering::Release);
                    return Left::Crowded;
                }
                Turn::Read | Turn::Write => {
                    // Release: the thread that serves it next sees what was done. Acquire: what
                    // came since is seen by the next turn.
                    let idle =
                        self.state.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
                    if idle.is_ok() {
                        return Left::Idle;
                    }
                    // Acquire, as above: AGAIN, by an event that came meanwhile (Invariant 2).
                    self.state.swap(RUNNING, Ordering::Acquire);
                }
            }
            let mut late = None;
            turn = inner.attempt(|connection| {
                let received = self.read(connection);
                if connection.awaits_disk() {
                    // Others' answers may be ready.
                    late = Some(received);
                    return received;
                }
                connection.deliver(received)
            });
            if let Some(received) = late.filter(|_| turn != Turn::Over) {
                inner.received = received;
                return Left::Late;
            }
        }
        if turn == Turn::Over {
            return Left::Over;
        }
        // Release: as above. What the last turn found is found again by the next one.
        self.state.store(QUEUED, Ordering::Release);
        Left::More
    }
}
