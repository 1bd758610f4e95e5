//! The mutex of one word whose waiters park in a queue of their own, and which is fair from time to
//! time: what the crate `parking_lot` has.
//!
//! It is here for machines on which `parking_lot` cannot run: the simulated ones. Two differences:
//! each lock has its queue, which there lies in a table of the process by the lock's address; and
//! the times of fairness are drawn by another generator.
//!
//! A waiter looks ten times, with longer and longer pauses, and yields the last seven times. Then
//! it parks. A release that finds parked threads wakes the first one, which has to try again like
//! all others. If the last fair release was long ago (0 to 1 ms, drawn each time), the lock is
//! handed over to the first one instead.
//!
//! | bit of `word` | meaning |
//! | --- | --- |
//! | 1 | held |
//! | 2 | perhaps a thread is parked |
//!
//! Invariants:
//! 1. The thread that sets bit 1, or whose place was told `HANDED`, holds the lock until it takes
//!    the bit away, or tells another place `HANDED`.
//! 2. The queue is used under `bucket` only. A place is in it from the moment when its owner has
//!    seen both bits set until a release takes it out, and is told once after that.
//! 3. Bit 2 is set while the queue has a place: it is taken away under `bucket`, if the queue is
//!    empty. So a release that sees it clear has no thread to wake.
//! 4. When a place has been told, it may be gone. The kernel still gets its address, as a key.
//!
//! # Memory orderings
//! Bit 1 is set with acquire and taken away with release. A place is told with release and read
//! with acquire. The queue is ordered by `bucket`.

use super::SpinFutex;
use crate::xorshift::xorshift;
use manx::lock::RawLock;
use platform::atomic::{AtomicU32, Ordering};
use platform::cell::UnsafeCell;
use platform::clock::now_ns;
use platform::{cpu, futex, thread};
use std::ptr::null;

const HELD: u32 = 1;
const PARKED: u32 = 2;

/// A place's word: it is parked; it may try again; it has the lock.
const WAITS: u32 = 0;
const TOLD: u32 = 1;
const HANDED: u32 = 2;

/// Looks before a waiter parks: as many with pauses, the others with a yield.
const LOOKS: u32 = 10;
const PAUSES: u32 = 3;
/// The longest time between two fair releases.
const FAIR_NS: u64 = 1_000_000;

/// The place of a waiter.
struct Place {
    word: AtomicU32,
    next: UnsafeCell<*const Place>,
}

/// The waiters, and when a release is fair next.
#[derive(Debug)]
struct Queue {
    first: *const Place,
    last: *const Place,
    fair_at_ns: u64,
    chance: u64,
}

/// `parking_lot`'s algorithm. See the module's text.
#[derive(Debug)]
pub struct Parked {
    word: AtomicU32,
    bucket: SpinFutex,
    queue: UnsafeCell<Queue>,
}

// SAFETY: the queue is used under `bucket` (Invariant 2), and places are shared by their atomics.
unsafe impl Send for Parked {}
// SAFETY: as above.
unsafe impl Sync for Parked {}

impl Parked {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            let queue = Queue { first: null(), last: null(), fair_at_ns: 0, chance: 1 };
            Parked { word: AtomicU32::new(0), bucket: SpinFutex::new(), queue: UnsafeCell::new(queue) }
        }
    }

    fn take(&self, seen: u32) -> bool {
        self.word.compare_exchange(seen, seen | HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_contended(&self) {
        let mut looks = 0;
        loop {
            // Relaxed: nothing is done because of it but a change that compares.
            let seen = self.word.load(Ordering::Relaxed);
            if seen & HELD == 0 {
                if self.take(seen) {
                    return;
                }
            } else if seen & PARKED == 0 && looks < platform::spin_bound(LOOKS) {
                looks += 1;
                if looks <= PAUSES {
                    (0..1 << looks).for_each(|_| cpu::pause());
                } else {
                    thread::yield_now();
                }
            } else if seen & PARKED != 0
                || self
                    .word
                    .compare_exchange(seen, seen | PARKED, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                if self.park() {
                    return;
                }
                looks = 0;
            }
        }
    }

    /// Parks, if the lock is held and says so. Returns whether the lock was handed over.
    fn park(&self) -> bool {
        let place = Place { word: AtomicU32::new(WAITS), next: UnsafeCell::new(null()) };
        self.bucket.lock();
        let parks = self.word.load(Ordering::Relaxed) == HELD | PARKED;
        if parks {
            // SAFETY: under `bucket`; a place in the queue is there until it is told (Invariant 2).
            self.queue.with_mut(|queue| unsafe {
                match (*queue).last.as_ref() {
                    None => (*queue).first = &place,
                    Some(last) => last.next.with_mut(|next| *next = &place),
                }
                (*queue).last = &place;
            });
        }
        // SAFETY: locked above.
        unsafe { self.bucket.unlock(()) };
        if !parks {
            return false;
        }
        loop {
            match place.word.load(Ordering::Acquire) {
                WAITS => _ = futex::wait(&place.word, WAITS),
                told => return told == HANDED,
            }
        }
    }

    #[cold]
    fn unlock_contended(&self) {
        self.bucket.lock();
        // SAFETY: under `bucket`; a place in the queue is there until it is told (Invariant 2).
        let (first, is_fair, is_last) = self.queue.with_mut(|queue| unsafe {
            let first = (*queue).first;
            if let Some(place) = first.as_ref() {
                (*queue).first = place.next.with(|next| *next);
            }
            let is_last = (*queue).first.is_null();
            if is_last {
                (*queue).last = null();
            }
            (first, (*queue).is_fair(), is_last)
        });
        let parked = if is_last { 0 } else { PARKED };
        let is_handed = is_fair && !first.is_null();
        self.word.store(parked | if is_handed { HELD } else { 0 }, Ordering::Release);
        // SAFETY: locked above.
        unsafe { self.bucket.unlock(()) };
        if !first.is_null() {
            // SAFETY: it has not been told yet (Invariant 2).
            let word = unsafe { &raw const (*first).word };
            // SAFETY: as above. After the store only the address is used (Invariant 4).
            unsafe { (*word).store(if is_handed { HANDED } else { TOLD }, Ordering::Release) };
            futex::wake(word, 1);
        }
    }
}

impl Queue {
    /// Whether this release is fair, and draws when the next one is.
    fn is_fair(&mut self) -> bool {
        let now_ns = now_ns();
        let is_fair = now_ns > self.fair_at_ns;
        if is_fair {
            self.chance = xorshift(self.chance);
            self.fair_at_ns = now_ns + self.chance % FAIR_NS;
        }
        is_fair
    }
}

// SAFETY: by Invariant 1, and by the orderings in the module's text.
unsafe impl RawLock for Parked {
    type Held = ();
    const NAME: &'static str = "parked";
    platform::initial! { Parked::new() }

    #[inline]
    fn lock(&self) {
        if !self.take(0) {
            self.lock_contended();
        }
    }

    fn try_lock(&self) -> Option<()> {
        let seen = self.word.load(Ordering::Relaxed);
        (seen & HELD == 0 && self.take(seen)).then_some(())
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        if self.word.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.unlock_contended();
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & HELD != 0
    }
}
