//! The leader, and the followers that see when it does not go on.
//!
//! A leader that the kernel has stopped in the middle of its work, or that was woken and has not
//! got a CPU yet, would stop all connections: beside busy neighbours for a slice of each of them.
//! So there are followers, which sleep and look each [`LOOK`] whether the leader has begun another
//! round. If not, a follower asks epoll itself; and if a connection is ready, it leads from then
//! on, on whichever CPU the kernel gives it. The old leader finds that out when it has served the
//! connections in its hands, and becomes a follower.
//!
//! A server that has nothing to do shall not wake up a thousand times a second. Followers that saw
//! nothing happen for a while park, as long as a thread waits in epoll: that thread serves the next
//! connection. When it is woken for one, and no follower watches, it wakes a follower first,
//! because what it is to do may take long. A follower then watches for a while, so on a busy server
//! no thread has to be woken; and all watch once there were many rounds.
//!
//! Invariants:
//! 1. The seat that was the last to call [`Watch::take_over`] leads. So there is always one, and
//!    only the leader waits for events without bound.
//! 2. Two may serve for a moment, since the old leader goes on until it looks. Nothing depends on
//!    there being only one: an event is told to one of them, and a connection is one's at a time
//!    (`served.rs`).
//! 3. If no thread waits in epoll, a follower watches, if one of them does not serve. A follower
//!    says that it parks before it looks whether a thread waits ([`Watch::attend`]). The last
//!    thread that waited says that it does not any more before it looks which followers park
//!    ([`Watch::returns`]). All this is in one order (SeqCst), so one of the two sees the other.
//!
//! All else is Relaxed: numbers and hints. A follower that reads an old one looks a round too
//! early.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often a follower looks.
const LOOK: Duration = Duration::from_millis(1);
/// A follower that has seen nothing happen this number of times parks.
const QUIET: u32 = 64;
/// Each round whose number is a multiple of this wakes all parked followers.
const WAKING: u64 = 32;

/// The seat's thread leads or serves.
const SERVING: u8 = 0;
/// It looks now and then.
const WATCHING: u8 = 1;
/// It looks when it is woken.
const PARKED: u8 = 2;

/// Leader and followers; each has a seat.
pub(super) struct Watch {
    leader: AtomicUsize,
    /// Rounds that leaders have begun.
    rounds: AtomicU64,
    /// The number of threads that wait in epoll.
    waiting: AtomicUsize,
    seats: Box<[Seat]>,
}

#[derive(Default)]
struct Seat {
    state: AtomicU8,
    thread: Mutex<Option<Thread>>,
}

impl Seat {
    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_parked(&self) -> bool {
        self.state.load(Relaxed) == PARKED
    }

    #[cold]
    fn wake(&self) {
        // What it has become meanwhile it stays.
        let _ = self.state.compare_exchange(PARKED, WATCHING, SeqCst, Relaxed);
        if let Some(thread) = &*self.thread() {
            thread.unpark();
        }
    }
}

impl Watch {
    /// Makes this number of seats; the first one leads.
    pub(super) fn new(seats: usize) -> Watch {
        let seats = (0..seats).map(|_| Seat::default()).collect();
        Watch { leader: AtomicUsize::new(0), rounds: AtomicU64::new(0), waiting: AtomicUsize::new(0), seats }
    }

    pub(super) fn leads(&self, seat: usize) -> bool {
        self.leader.load(Relaxed) == seat
    }

    /// This seat leads from now on, and has connections to serve.
    pub(super) fn take_over(&self, seat: usize) {
        self.leader.store(seat, Relaxed);
        if self.waiting.load(SeqCst) == 0 {
            self.wake_one();
        }
    }

    /// The caller is about to wait in epoll.
    pub(super) fn waits(&self) {
        self.waiting.fetch_add(1, SeqCst);
    }

    /// It does not wait any more.
    pub(super) fn returns(&self) {
        // Invariant 3.
        if self.waiting.fetch_sub(1, SeqCst) == 1 {
            self.wake_one();
        }
    }

    /// Wakes one parked follower, unless another one watches.
    fn wake_one(&self) {
        let mut parked = None;
        for seat in &self.seats {
            match seat.state.load(SeqCst) {
                WATCHING => return,
                PARKED => parked = Some(seat),
                _ => {}
            }
        }
        if let Some(seat) = parked {
            seat.wake();
        }
    }

    /// The leader begins a round.
    pub(super) fn begin_round(&self) {
        if self.rounds.fetch_add(1, Relaxed).is_multiple_of(WAKING) {
            self.seats.iter().filter(|seat| seat.is_parked()).for_each(Seat::wake);
        }
    }

    /// Wakes all followers: none is to watch any more.
    pub(super) fn end(&self) {
        self.seats.iter().for_each(Seat::wake);
    }

    /// Watches from this seat until the leader has not gone on for a while and `look`, which is
    /// asked then, says that this matters.
    pub(super) fn attend(&self, seat: usize, mut look: impl FnMut() -> bool) {
        let seat = &self.seats[seat];
        *seat.thread() = Some(thread::current());
        seat.state.store(WATCHING, SeqCst);
        let mut quiet = 0;
        loop {
            let seen = self.rounds.load(Relaxed);
            if quiet < QUIET {
                thread::park_timeout(LOOK);
            } else {
                seat.state.store(PARKED, SeqCst);
                // Invariant 3.
                if self.waiting.load(SeqCst) > 0 {
                    thread::park();
                }
                seat.state.store(WATCHING, SeqCst);
                quiet = 0;
            }
            if self.rounds.load(Relaxed) != seen {
                quiet = 0;
            } else if look() {
                seat.state.store(SERVING, SeqCst);
                return;
            } else {
                quiet += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;

    #[test]
    fn the_last_who_took_over_leads() {
        let watch = Watch::new(3);
        assert!(watch.leads(0) && !watch.leads(1));
        watch.take_over(2);
        watch.take_over(1);
        assert!(watch.leads(1) && !watch.leads(0) && !watch.leads(2));
    }

    #[test]
    fn a_follower_looks_when_no_round_begins() {
        let watch = Watch::new(2);
        let mut looks = 0;
        watch.attend(1, || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn nobody_parks_while_nobody_waits() {
        let watch = Arc::new(Watch::new(2));
        let (tell, told) = mpsc::channel();
        let follower = Arc::clone(&watch);
        thread::spawn(move || {
            let mut looks = 0;
            follower.attend(1, || {
                looks += 1;
                looks > 3 * QUIET
            });
            tell.send(looks)
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(3 * QUIET + 1));
    }

    #[test]
    fn one_of_those_who_park_is_woken_when_nobody_waits_any_more() {
        const FOLLOWERS: usize = 3;
        let watch = Arc::new(Watch::new(1 + FOLLOWERS));
        let (tell, told) = mpsc::channel();
        watch.waits();
        watch.waits();
        for seat in 1..=FOLLOWERS {
            let (watch, tell) = (Arc::clone(&watch), tell.clone());
            thread::spawn(move || {
                let mut looks = 0;
                watch.attend(seat, || {
                    looks += 1;
                    looks > QUIET
                });
                tell.send(seat)
            });
        }
        let parked = || watch.seats.iter().filter(|seat| seat.is_parked()).count();
        while parked() < FOLLOWERS {
            thread::yield_now();
        }
        // Another one still waits.
        watch.returns();
        assert_eq!((parked(), told.try_recv()), (FOLLOWERS, Err(mpsc::TryRecvError::Empty)));
        watch.returns();
        let first = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(parked(), FOLLOWERS - 1);
        // A follower that takes over while no thread waits has the next one watch.
        watch.take_over(first);
        let second = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_ne!(first, second);
        assert_eq!(parked(), FOLLOWERS - 2);
        // As long as one follower watches, no other one is woken for that.
        watch.seats[second].state.store(WATCHING, SeqCst);
        watch.waits();
        watch.returns();
        assert_eq!(parked(), FOLLOWERS - 2);
        watch.end();
    }

    #[test]
    fn a_follower_that_dozes_is_woken_by_rounds_and_by_the_end() {
        for is_end in [false, true] {
            let watch = Arc::new(Watch::new(2));
            watch.waits();
            let (tell, told) = mpsc::channel();
            let follower = thread::spawn({
                let watch = Arc::clone(&watch);
                move || {
                    let mut looks = 0;
                    watch.attend(1, || {
                        looks += 1;
                        tell.send(looks).is_err() || looks > QUIET
                    });
                    looks
                }
            });
            // It has looked so often that it parks now, or will in a moment; nothing else wakes it.
            while told.recv().unwrap() < QUIET {}
            while !watch.seats[1].is_parked() {
                thread::yield_now();
            }
            if is_end {
                watch.end();
            } else {
                (0..WAKING).for_each(|_| watch.begin_round());
            }
            assert_eq!(follower.join().unwrap(), QUIET + 1);
        }
    }
}
