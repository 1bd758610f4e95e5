//! Who leads, and who sees that the leader does not go on.
//!
//! A leader that the kernel has stopped in the middle of its work, or that was woken and has not got a CPU yet, would stop all connections: beside busy
//! neighbours for a slice of each of them. So there are deputies, which sleep and look each [`LOOK`] whether the leader has begun another round. If not, a
//! deputy asks epoll itself; and if somebody is ready, it leads from then on, on whichever CPU the kernel gives it. The old leader
//! finds that out when it has served those whom it had in its hands, and becomes a deputy.
//!
//! A server that has nothing to do shall not wake up a thousand times a second. Deputies that saw nothing happen for a while doze, until a
//! leader has begun so many rounds that there seems to be something to watch.
//!
//! Invariants:
//! 1. The seat that was the last to call [`Watch::take_over`] leads. So there is always one, and only the leader waits for events without bound.
//! 2. Two may serve for a moment, since the old leader goes on until it looks. Nothing depends on there being only one: an event is told to one of them, and a
//!    connection is one's at a time (`served.rs`).
//!
//! All is Relaxed: numbers and hints. Who reads an old one looks a round too early, or is woken 32 rounds later.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often a deputy looks.
const LOOK: Duration = Duration::from_millis(1);
/// A deputy that has seen nothing happen so many times dozes.
const QUIET: u32 = 64;
/// Those who doze are woken by each round whose number is a multiple of this.
const WAKING: u64 = 32;

/// Leader and deputies, each of whom has a seat.
pub(super) struct Watch {
    leader: AtomicUsize,
    /// Rounds that leaders have begun.
    rounds: AtomicU64,
    seats: Box<[Seat]>,
}

#[derive(Default)]
struct Seat {
    dozes: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Seat {
    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn wake(&self) {
        self.dozes.store(false, Relaxed);
        if let Some(thread) = &*self.thread() {
            thread.unpark();
        }
    }
}

impl Watch {
    /// So many seats, of which the first one leads.
    pub(super) fn new(seats: usize) -> Watch {
        let seats = (0..seats).map(|_| Seat::default()).collect();
        Watch { leader: AtomicUsize::new(0), rounds: AtomicU64::new(0), seats }
    }

    pub(super) fn leads(&self, seat: usize) -> bool {
        self.leader.load(Relaxed) == seat
    }

    pub(super) fn take_over(&self, seat: usize) {
        self.leader.store(seat, Relaxed);
    }

    /// The leader begins a round.
    pub(super) fn begin_round(&self) {
        if self.rounds.fetch_add(1, Relaxed).is_multiple_of(WAKING) {
            self.seats.iter().filter(|seat| seat.dozes.load(Relaxed)).for_each(Seat::wake);
        }
    }

    /// Nobody is to watch any more.
    pub(super) fn end(&self) {
        self.seats.iter().for_each(Seat::wake);
    }

    /// Watches from this seat until the leader has not gone on for a while and `look`, which is asked then, says that this matters.
    pub(super) fn attend(&self, seat: usize, mut look: impl FnMut() -> bool) {
        let seat = &self.seats[seat];
        *seat.thread() = Some(thread::current());
        let mut quiet = 0;
        loop {
            let seen = self.rounds.load(Relaxed);
            if quiet < QUIET {
                thread::park_timeout(LOOK);
            } else {
                seat.dozes.store(true, Relaxed);
                thread::park();
                quiet = 0;
            }
            if self.rounds.load(Relaxed) != seen {
                quiet = 0;
            } else if look() {
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
    fn a_deputy_looks_when_no_round_begins() {
        let watch = Watch::new(2);
        let mut looks = 0;
        watch.attend(1, || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_deputy_that_dozes_is_woken_by_rounds_and_by_the_end() {
        for is_end in [false, true] {
            let watch = Arc::new(Watch::new(2));
            let (tell, told) = mpsc::channel();
            let deputy = thread::spawn({
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
            // It has looked so often that it dozes now, or will in a moment; nothing else wakes it.
            while told.recv().unwrap() < QUIET {}
            while !watch.seats[1].dozes.load(Relaxed) {
                thread::yield_now();
            }
            if is_end {
                watch.end();
            } else {
                (0..WAKING).for_each(|_| watch.begin_round());
            }
            assert_eq!(deputy.join().unwrap(), QUIET + 1);
        }
    }
}
