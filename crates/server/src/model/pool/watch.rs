//! The leader of each event loop, and the followers that see when one does not go on.
//!
//! If the kernel preempts a leader in the middle of its work, or wakes it and has no CPU for it
//! yet, all connections of its loop wait, beside busy neighbours for a time slice of each of them.
//! So there are followers. They sleep, and check every [`LOOK`] whether each leader has made a
//! *step*: it has begun another round, or is about to send answers. If one has not, a follower asks
//! epoll itself; and if a connection is ready, the follower becomes the leader, on whichever CPU
//! the kernel gives it. The old leader sees that after it has served its present connections, and
//! becomes a follower. A leader whose rounds are long, because all its connections are busy, keeps
//! its loop.
//!
//! A follower needs a CPU too, and beside busy neighbours the kernel gives one soonest to a thread
//! that has slept. With three followers the 99.9th percentile was twice that with eight, if the
//! neighbours were of the same session. Otherwise the kernel divides the CPUs by session
//! (autogroup), and more threads get no more.
//!
//! The kernel wakes a thread where it ran last, so after some time all threads of a server may be
//! on the CPU of a client. If the server's share of that CPU is too small for its clients, all of
//! its threads then wait for it, and none asks for a share of another CPU; this lasts, because
//! threads that wait do not sleep. So half of the followers *roam*: one that finds a leader that
//! does not go on, on its own CPU, moves to another CPU before it looks. If all of them did so,
//! they would be on one CPU again (the 99.9th percentile was three times that with half).
//!
//! But an idle server must not wake up a thousand times a second, and an undisturbed one not many
//! thousand times. Followers that have seen no step for a while park, as long as a thread waits in
//! epoll for each loop: that thread serves the next connection. When a connection wakes it and no
//! follower watches, it wakes a follower first, because serving may take long. On a busy server one
//! ([`WATCHERS`]) goes on watching, so no thread has to be woken; now and then a step sees to it
//! that it does ([`WAKING`]). The others park, until the server is short of CPUs (`pace.rs`) and a
//! leader is found preempted: then all watch for a while. On other servers a leader is preempted
//! for a moment by a client or by another leader, and eight followers would cost both more time
//! than they save (8 % of a CPU).
//!
//! Each of these threads has a *slot*, which holds its state.
//!
//! Invariants:
//! 1. The slot that was the last to call [`Watch::take_over`] for a loop leads it. So each loop
//!    always has one leader, and only the leader waits for its events without a timeout. Only a
//!    follower takes over, so a slot leads one loop at most.
//! 2. Two threads may serve a loop for a moment, since the old leader goes on until its next check.
//!    Nothing depends on there being only one: each event goes to one thread, and one thread at a
//!    time serves a connection (`served.rs`).
//! 3. If no thread waits in epoll for some loop, a follower watches, unless all of them serve. A
//!    follower writes that it parks before it reads whether a thread waits for each loop, or
//!    another follower watches ([`Watch::follow`]). The last thread that waits for a loop writes
//!    that it no longer does before it reads which followers are parked ([`Watch::end_wait`]), and
//!    so does a follower that no longer watches. All this is in one order (SeqCst), so one of the
//!    two sees the other.
//!
//! All else is Relaxed: numbers and hints. A follower that reads an old number asks epoll
//! too early.

use smallvec::SmallVec;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a follower sleeps between two checks.
const LOOK: Duration = Duration::from_millis(1);
/// A follower parks after this number of checks in which nothing has happened.
const QUIET: u32 = 64;
/// The number of followers that watch while the server is busy, unless it is short of CPUs.
pub(super) const WATCHERS: usize = 1;
/// Each step whose number is a multiple of this wakes parked followers, if fewer watch than that.
const WAKING: u64 = 32;

/// The slot's thread leads or serves connections.
const SERVING: u8 = 0;
/// It checks every [`LOOK`] whether the leader goes on.
const WATCHING: u8 = 1;
/// It sleeps until it is woken.
const PARKED: u8 = 2;

/// Whether the follower of this slot leaves the CPU of a leader that does not go on.
pub(super) fn roams(slot: usize) -> bool {
    slot % 2 == 1
}

/// The leaders and their followers.
pub(super) struct Watch {
    loops: Box<[Led]>,
    slots: Box<[Slot]>,
}

/// A loop.
struct Led {
    leader: AtomicUsize,
    /// Steps of its leaders.
    steps: AtomicU64,
    /// The number of threads that wait in epoll.
    waiting: AtomicUsize,
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
        self.state.load(SeqCst) == PARKED
    }

    fn watches(&self) -> bool {
        self.state.load(SeqCst) == WATCHING
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
    /// With this number of loops, each led by the slot of its number, and of slots that follow.
    pub(super) fn new(loops: usize, followers: usize) -> Watch {
        let led = |slot| Led {
            leader: AtomicUsize::new(slot),
            steps: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
        };
        let slots = (0..loops + followers).map(|_| Slot::default()).collect();
        Watch { loops: (0..loops).map(led).collect(), slots }
    }

    /// The number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The loop that this slot leads.
    pub(super) fn led_by(&self, slot: usize) -> Option<usize> {
        self.loops.iter().position(|led| led.leader.load(Relaxed) == slot)
    }

    /// This slot, a follower, leads this loop from now on. Its thread has connections to serve.
    pub(super) fn take_over(&self, event_loop: usize, slot: usize) {
        let led = &self.loops[event_loop];
        led.leader.store(slot, Relaxed);
        if led.waiting.load(SeqCst) == 0 {
            self.wake_one();
        }
    }

    /// The caller is about to wait in epoll for this loop.
    pub(super) fn begin_wait(&self, event_loop: usize) {
        self.loops[event_loop].waiting.fetch_add(1, SeqCst);
    }

    /// The caller no longer waits in epoll.
    pub(super) fn end_wait(&self, event_loop: usize) {
        // Invariant 3.
        if self.loops[event_loop].waiting.fetch_sub(1, SeqCst) == 1 {
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

    /// The leader of this loop begins a round, or is about to send answers.
    pub(super) fn step(&self, event_loop: usize) {
        if self.loops[event_loop].steps.fetch_add(1, Relaxed).is_multiple_of(WAKING) {
            self.wake(WATCHERS.saturating_sub(self.watching()));
        }
    }

    fn watching(&self) -> usize {
        self.slots.iter().filter(|slot| slot.watches()).count()
    }

    /// Wakes as many parked followers, if there are.
    fn wake(&self, count: usize) {
        self.slots.iter().filter(|slot| slot.is_parked()).take(count).for_each(Slot::wake);
    }

    /// Wakes all followers, which end.
    pub(super) fn end(&self) {
        self.slots.iter().for_each(Slot::wake);
    }

    /// Watches from this slot. Calls `look` for each loop whose leader has made no step since the
    /// last check, and returns the first one for which that returns something: the number of
    /// followers that are to watch now.
    pub(super) fn follow(&self, slot: usize, mut look: impl FnMut(usize) -> Option<usize>) -> usize {
        let slot = &self.slots[slot];
        *slot.thread() = Some(thread::current());
        slot.state.store(WATCHING, SeqCst);
        let steps = |led: &Led| led.steps.load(Relaxed);
        let mut seen: SmallVec<[u64; 16]> = self.loops.iter().map(steps).collect();
        let mut quiet = 0;
        loop {
            if quiet < QUIET {
                thread::park_timeout(LOOK);
            } else {
                slot.state.store(PARKED, SeqCst);
                // Invariant 3.
                if self.watching() > 0 || self.loops.iter().all(|led| led.waiting.load(SeqCst) > 0) {
                    thread::park();
                }
                slot.state.store(WATCHING, SeqCst);
                quiet = 0;
            }
            quiet += 1;
            let is_spare = self.watching() > WATCHERS;
            for (number, seen) in seen.iter_mut().enumerate() {
                let now = steps(&self.loops[number]);
                if std::mem::replace(seen, now) != now {
                    quiet = if is_spare { quiet } else { 0 };
                } else if let Some(wanted) = look(number) {
                    slot.state.store(SERVING, SeqCst);
                    self.wake(wanted.max(1).saturating_sub(self.watching()));
                    return number;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, mpsc};

    #[test]
    fn the_last_thread_that_took_over_leads() {
        let watch = Watch::new(2, 2);
        let leads = |watch: &Watch| [0, 1, 2, 3].map(|slot| watch.led_by(slot));
        assert_eq!(leads(&watch), [Some(0), Some(1), None, None]);
        watch.take_over(0, 2);
        watch.take_over(0, 3);
        assert_eq!(leads(&watch), [None, Some(1), None, Some(0)]);
    }

    #[test]
    fn a_follower_takes_over_the_loop_that_does_not_go_on() {
        let watch = Watch::new(2, 1);
        let mut looks = Vec::new();
        let found = watch.follow(2, |event_loop| {
            looks.push(event_loop);
            // The other one goes on.
            watch.step(0);
            (looks.len() > 3).then_some(1)
        });
        assert_eq!((found, &looks[looks.len() - 3..]), (1, &[1, 1, 1][..]));
    }

    #[test]
    fn a_follower_looks_when_no_step_is_made() {
        let watch = Watch::new(1, 1);
        let mut looks = 0;
        watch.follow(1, |_| {
            looks += 1;
            (looks == 3).then_some(1)
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn no_worker_parks_while_no_connection_waits() {
        let watch = Arc::new(Watch::new(1, 1));
        let (sender, receiver) = mpsc::channel();
        let follower = Arc::clone(&watch);
        thread::spawn(move || {
            let mut looks = 0;
            follower.follow(1, |_| {
                looks += 1;
                (looks > 3 * QUIET).then_some(1)
            });
            sender.send(looks)
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(3 * QUIET + 1));
    }

    #[test]
    fn followers_are_woken_when_no_thread_waits_any_more() {
        const FOLLOWERS: usize = 3;
        let watch = Arc::new(Watch::new(1, FOLLOWERS));
        let (sender, receiver) = mpsc::channel();
        watch.begin_wait(0);
        watch.begin_wait(0);
        for slot in 1..=FOLLOWERS {
            let (watch, sender) = (Arc::clone(&watch), sender.clone());
            thread::spawn(move || {
                let mut looks = 0;
                watch.follow(slot, |_| {
                    looks += 1;
                    (looks > QUIET).then_some(FOLLOWERS)
                });
                sender.send(slot)
            });
        }
        let parked = || watch.slots.iter().filter(|slot| slot.is_parked()).count();
        while parked() < FOLLOWERS {
            thread::yield_now();
        }
        // Another one still waits.
        watch.end_wait(0);
        assert_eq!((parked(), receiver.try_recv()), (FOLLOWERS, Err(mpsc::TryRecvError::Empty)));
        watch.end_wait(0);
        // One is woken. It finds the leader preempted, so the others watch too.
        let mut woken: Vec<usize> =
            (0..FOLLOWERS).map(|_| receiver.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
        woken.sort_unstable();
        assert!(woken.into_iter().eq(1..=FOLLOWERS));
    }

    #[test]
    fn a_follower_that_leads_leaves_as_many_that_watch_as_are_wanted() {
        for (wanted, watching) in [(0, 1), (1, 1), (2, 2), (8, 3)] {
            let watch = Watch::new(1, 4);
            watch.slots[2..].iter().for_each(|slot| slot.state.store(PARKED, SeqCst));
            watch.follow(1, |_| Some(wanted));
            assert_eq!(watch.watching(), watching);
        }
    }

    #[test]
    fn as_long_as_one_follower_watches_no_other_one_is_woken() {
        let watch = Watch::new(1, 2);
        for (slot, state) in [(1, WATCHING), (2, PARKED)] {
            watch.slots[slot].state.store(state, SeqCst);
        }
        watch.begin_wait(0);
        watch.end_wait(0);
        assert!(watch.slots[2].is_parked());
        watch.slots[1].state.store(SERVING, SeqCst);
        watch.begin_wait(0);
        watch.end_wait(0);
        assert!(!watch.slots[2].is_parked());
    }

    #[test]
    fn on_a_busy_server_few_watch_until_a_leader_is_preempted() {
        const FOLLOWERS: usize = WATCHERS + 4;
        let watch = Arc::new(Watch::new(1, FOLLOWERS));
        let is_preempted = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        for slot in 1..=FOLLOWERS {
            let (watch, is_preempted, sender) =
                (Arc::clone(&watch), Arc::clone(&is_preempted), sender.clone());
            thread::spawn(move || {
                watch.follow(slot, |_| is_preempted.load(SeqCst).then_some(FOLLOWERS));
                sender.send(slot)
            });
        }
        // A busy leader.
        while watch.slots.iter().filter(|slot| slot.is_parked()).count() < FOLLOWERS - WATCHERS {
            watch.step(0);
        }
        assert!(watch.watching() <= WATCHERS);
        is_preempted.store(true, SeqCst);
        for _ in 0..FOLLOWERS {
            receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    }

    #[test]
    fn a_follower_that_dozes_is_woken_by_steps_and_by_the_end() {
        for is_end in [false, true] {
            let watch = Arc::new(Watch::new(1, 1));
            watch.begin_wait(0);
            let (sender, receiver) = mpsc::channel();
            let follower = thread::spawn({
                let watch = Arc::clone(&watch);
                move || {
                    let mut looks = 0;
                    watch.follow(1, |_| {
                        looks += 1;
                        (sender.send(looks).is_err() || looks > QUIET).then_some(1)
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
                (0..WAKING).for_each(|_| watch.step(0));
            }
            assert_eq!(follower.join().unwrap(), QUIET + 1);
        }
    }
}
