//! The leader, and the followers that see when it does not go on.
//!
//! If the kernel preempts the leader in the middle of its work, or wakes it and has no CPU for it
//! yet, all connections wait, beside busy neighbours for a time slice of each of them. So there are
//! followers. They sleep, and check every [`LOOK`] whether the leader has begun another round. If
//! not, a follower asks epoll itself; and if a connection is ready, the follower becomes the
//! leader, on whichever CPU the kernel gives it. The old leader sees that after it has served its
//! present connections, and becomes a follower.
//!
//! An idle server must not wake up a thousand times a second. Followers that have seen no round for
//! a while park, as long as a thread waits in epoll: that thread serves the next connection. When a
//! connection wakes it and no follower watches, it wakes a follower first, because serving may take
//! long. That follower then watches for a while, so on a busy server no thread has to be woken. Now
//! and then a round wakes all followers ([`WAKING`]).
//!
//! Each of these threads has a *slot*, which holds its state.
//!
//! Invariants:
//! 1. The slot that was the last to call [`Watch::take_over`] leads. So there is always one leader,
//!    and only the leader waits for events without a timeout.
//! 2. Two threads may serve for a moment, since the old leader goes on until its next check.
//!    Nothing depends on there being only one: each event goes to one thread, and one thread at a
//!    time serves a connection (`served.rs`).
//! 3. If no thread waits in epoll, a follower watches, unless all of them serve. A follower writes
//!    that it parks before it reads whether a thread waits ([`Watch::follow`]). The last thread
//!    that waits writes that it no longer does before it reads which followers are parked
//!    ([`Watch::end_wait`]). All this is in one order (SeqCst), so one of the two sees the other.
//!
//! All else is Relaxed: numbers and hints. A follower that reads an old number polls a round too
//! early.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a follower sleeps between two checks.
const LOOK: Duration = Duration::from_millis(1);
/// A follower parks after this number of checks in which nothing has happened.
const QUIET: u32 = 64;
/// Each round whose number is a multiple of this wakes all parked followers.
const WAKING: u64 = 32;

/// The slot's thread leads or serves connections.
const SERVING: u8 = 0;
/// It checks every [`LOOK`] whether the leader goes on.
const WATCHING: u8 = 1;
/// It sleeps until it is woken.
const PARKED: u8 = 2;

/// The leader and its followers.
pub(super) struct Watch {
    leader: AtomicUsize,
    /// Rounds that leaders have begun.
    rounds: AtomicU64,
    /// The number of threads that wait in epoll.
    waiting: AtomicUsize,
    slots: Box<[Slot]>,
}

#[derive(Default)]
struct Slot {
    state: AtomicU8,
    thread: Mutex<Option<Thread>>,
}

impl Slot {
    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_parked(&self) -> bool {
        self.state.load(Relaxed) == PARKED
    }

    #[cold]
    fn wake(&self) {
        // A thread that is not parked keeps its state.
        let _ = self.state.compare_exchange(PARKED, WATCHING, SeqCst, Relaxed);
        if let Some(thread) = &*self.thread() {
            thread.unpark();
        }
    }
}

impl Watch {
    /// With this number of slots; the first one leads.
    pub(super) fn new(slots: usize) -> Watch {
        let slots = (0..slots).map(|_| Slot::default()).collect();
        Watch { leader: AtomicUsize::new(0), rounds: AtomicU64::new(0), waiting: AtomicUsize::new(0), slots }
    }

    pub(super) fn leads(&self, slot: usize) -> bool {
        self.leader.load(Relaxed) == slot
    }

    /// This slot leads from now on. Its thread has connections to serve.
    pub(super) fn take_over(&self, slot: usize) {
        self.leader.store(slot, Relaxed);
        if self.waiting.load(SeqCst) == 0 {
            self.wake_one();
        }
    }

    /// The caller is about to wait in epoll.
    pub(super) fn begin_wait(&self) {
        self.waiting.fetch_add(1, SeqCst);
    }

    /// The caller no longer waits in epoll.
    pub(super) fn end_wait(&self) {
        // Invariant 3.
        if self.waiting.fetch_sub(1, SeqCst) == 1 {
            self.wake_one();
        }
    }

    /// Wakes one parked follower, unless another one watches.
    fn wake_one(&self) {
        let mut parked = None;
        for slot in &self.slots {
            match slot.state.load(SeqCst) {
                WATCHING => return,
                PARKED => parked = Some(slot),
                _ => {}
            }
        }
        if let Some(slot) = parked {
            slot.wake();
        }
    }

    /// The leader begins a round.
    pub(super) fn begin_round(&self) {
        if self.rounds.fetch_add(1, Relaxed).is_multiple_of(WAKING) {
            self.slots.iter().filter(|slot| slot.is_parked()).for_each(Slot::wake);
        }
    }

    /// Wakes all followers, which end.
    pub(super) fn end(&self) {
        self.slots.iter().for_each(Slot::wake);
    }

    /// Watches from this slot. Each time that the leader has begun no round since the last check,
    /// calls `look`, and returns once that returns true.
    pub(super) fn follow(&self, slot: usize, mut look: impl FnMut() -> bool) {
        let slot = &self.slots[slot];
        *slot.thread() = Some(thread::current());
        slot.state.store(WATCHING, SeqCst);
        let mut quiet = 0;
        loop {
            let seen = self.rounds.load(Relaxed);
            if quiet < QUIET {
                thread::park_timeout(LOOK);
            } else {
                slot.state.store(PARKED, SeqCst);
                // Invariant 3.
                if self.waiting.load(SeqCst) > 0 {
                    thread::park();
                }
                slot.state.store(WATCHING, SeqCst);
                quiet = 0;
            }
            if self.rounds.load(Relaxed) != seen {
                quiet = 0;
            } else if look() {
                slot.state.store(SERVING, SeqCst);
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
    fn the_last_thread_that_took_over_leads() {
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
        watch.follow(1, || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn no_worker_parks_while_no_connection_waits() {
        let watch = Arc::new(Watch::new(2));
        let (sender, receiver) = mpsc::channel();
        let follower = Arc::clone(&watch);
        thread::spawn(move || {
            let mut looks = 0;
            follower.follow(1, || {
                looks += 1;
                looks > 3 * QUIET
            });
            sender.send(looks)
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(3 * QUIET + 1));
    }

    #[test]
    fn one_parked_thread_is_woken_when_no_thread_waits_any_more() {
        const FOLLOWERS: usize = 3;
        let watch = Arc::new(Watch::new(1 + FOLLOWERS));
        let (sender, receiver) = mpsc::channel();
        watch.begin_wait();
        watch.begin_wait();
        for slot in 1..=FOLLOWERS {
            let (watch, sender) = (Arc::clone(&watch), sender.clone());
            thread::spawn(move || {
                let mut looks = 0;
                watch.follow(slot, || {
                    looks += 1;
                    looks > QUIET
                });
                sender.send(slot)
            });
        }
        let parked = || watch.slots.iter().filter(|slot| slot.is_parked()).count();
        while parked() < FOLLOWERS {
            thread::yield_now();
        }
        // Another one still waits.
        watch.end_wait();
        assert_eq!((parked(), receiver.try_recv()), (FOLLOWERS, Err(mpsc::TryRecvError::Empty)));
        watch.end_wait();
        let first = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(parked(), FOLLOWERS - 1);
        // A follower that takes over while no thread waits makes the next one watch.
        watch.take_over(first);
        let second = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_ne!(first, second);
        assert_eq!(parked(), FOLLOWERS - 2);
        // As long as one follower watches, no other one is woken for that.
        watch.slots[second].state.store(WATCHING, SeqCst);
        watch.begin_wait();
        watch.end_wait();
        assert_eq!(parked(), FOLLOWERS - 2);
        watch.end();
    }

    #[test]
    fn a_follower_that_dozes_is_woken_by_rounds_and_by_the_end() {
        for is_end in [false, true] {
            let watch = Arc::new(Watch::new(2));
            watch.begin_wait();
            let (sender, receiver) = mpsc::channel();
            let follower = thread::spawn({
                let watch = Arc::clone(&watch);
                move || {
                    let mut looks = 0;
                    watch.follow(1, || {
                        looks += 1;
                        sender.send(looks).is_err() || looks > QUIET
                    });
                    looks
                }
            });
            // It has looked so often that it parks now, or will in a moment; nothing else wakes it.
            while receiver.recv().unwrap() < QUIET {}
            while !watch.slots[1].is_parked() {
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
