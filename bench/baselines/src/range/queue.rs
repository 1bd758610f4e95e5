//! The waiters for ranges that others hold: a short line, in the order of arrival, that a release
//! searches for the waiters it concerns.
//!
//! A lock that keeps what is held, as the skip list does, does not know its waiters. This can stand
//! beside any such. A waiter stands in line with the span it wants, tries once more, and sleeps on
//! a word of its own. A release looks whether any thread waits at all. If so, it goes along the
//! line and wakes the first waiters whose spans overlap what it released. It leaves out waiters
//! that would only be in the way of one it has just woken.
//!
//! ```text
//!   released: [0, 10)            line:  A [0, 5)   B [20, 30)   C [5, 9)   D [3, 7)
//!                                       woken      does not     woken      conflicts with A and C,
//!                                                  overlap                 left asleep
//! ```
//!
//! | `word` of a waiter | meaning | changed by |
//! | --- | --- | --- |
//! | [`ASLEEP`] | it has to be told before it tries again | the waiter, before it tries |
//! | [`AWAKE`] | something was released since it last began to try | releases, under the line's mutex |
//!
//! Nothing is handed over: a waiter that is woken tries like a newcomer, and a newcomer may be
//! faster. So no waiter is promised a turn; what is promised is that no waiter sleeps on while the
//! range is free.
//!
//! Invariants:
//! 1. The line, and the links of the waiters in it, are used under the mutex only. A waiter is in
//!    the line from before its first try until it leaves, and lives on its own thread's stack for
//!    that time.
//! 2. `waiting` is the number of waiters in line.
//! 3. Of a waiter's try and a release that would let it succeed, one sees the other: the try finds
//!    the range released, or the release finds the waiter (see *Memory orderings*).
//! 4. A release leaves a waiter asleep that it concerns only if that waiter conflicts with another
//!    that stands before it and is awake. A waiter that is awake and fails wakes the first ones
//!    behind it that overlap its own span. A waiter that succeeds releases later, and that release
//!    concerns all that were left asleep because of it. So each of them is woken in the end, by
//!    induction along the line: no wake-up is lost, and no thread waits for a waiter that cannot go
//!    on.
//!
//! # Memory orderings
//! - A waiter increases `waiting` and passes a sequentially consistent fence before it tries; a
//!   release is a sequentially consistent read-modify-write, and then loads `waiting` so too. This
//!   is Dekker's pattern (see [`crate::wait::Event`]) and Invariant 3: whichever of the fence and
//!   the release is second in the single order sees what came before the first. To ask costs a
//!   release one load. (A lock that releases otherwise passes such a fence before it asks.)
//! - `word` is exchanged by both sides with acquire and release. If a release finds it awake
//!   already, the waiter's own exchange comes later, reads what the release wrote, and its try sees
//!   what was released.

use manx::lock::{FutexMutex, RawLock};
use manx::range::Access;
use manx::range::Key;
use manx::range::Span;
use manx::wait::short_of_cpus;
use platform::atomic::{AtomicU32, Ordering, fence};
use platform::cell::UnsafeCell;
use platform::{cpu, futex};
use std::cell::Cell;
use std::ptr;

/// It has to be told before it tries again.
const ASLEEP: u32 = 0;
/// Something was released since it last began to try.
const AWAKE: u32 = 1;

/// How often a waiter tries again before it stands in line.
const TRIES: u32 = 8;
/// How many pauses it makes before each of these.
const PAUSES: u32 = 8;
/// Of this number of waiters woken by one release it is known which others they would be in the way
/// of; the waiters behind are woken as well.
const REMEMBERED: usize = 8;

/// The line of waiters for ranges of one lock.
pub(super) struct WaitQueue<K> {
    waiting: AtomicU32,
    mutex: FutexMutex,
    line: UnsafeCell<Line<K>>,
}

// SAFETY: the line is used under the mutex (Invariant 1); of the waiters in it other threads use
// the spans, which are shared references to keys, and the words.
unsafe impl<K: Send + Sync> Send for WaitQueue<K> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync> Sync for WaitQueue<K> {}

/// Both ends, null if it is empty.
struct Line<K> {
    first: *const Waiter<K>,
    last: *const Waiter<K>,
}

/// One in line.
struct Waiter<K> {
    span: *const Span<K>,
    access: Access,
    word: AtomicU32,
    before: Cell<*const Waiter<K>>,
    behind: Cell<*const Waiter<K>>,
}

impl<K: Key> WaitQueue<K> {
    platform::const_fn! {
        /// Makes an empty line.
        pub(super) const fn new() -> Self {
            WaitQueue {
                waiting: AtomicU32::new(0),
                mutex: FutexMutex::new(),
                line: UnsafeCell::new(Line { first: ptr::null(), last: ptr::null() }),
            }
        }
    }

    /// Tries until `attempt` succeeds, and sleeps in between. `attempt` tries to take `span` for
    /// `access`, once, and the lock asks [`released_by_rmw`](WaitQueue::released_by_rmw) after each
    /// release.
    pub(super) fn wait<T>(
        &self,
        span: &Span<K>,
        access: Access,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> T {
        for _ in 0..platform::spin_bound(TRIES) {
            if short_of_cpus() {
                break;
            }
            (0..PAUSES).for_each(|_| cpu::pause());
            if let Some(taken) = attempt() {
                return taken;
            }
        }
        self.wait_in_line(span, access, attempt)
    }

    #[cold]
    fn wait_in_line<T>(&self, span: &Span<K>, access: Access, mut attempt: impl FnMut() -> Option<T>) -> T {
        let (before, behind) = (Cell::new(ptr::null()), Cell::new(ptr::null()));
        let waiter =
            Waiter { span: ptr::from_ref(span), access, word: AtomicU32::new(ASLEEP), before, behind };
        let place = Place::enter(self, &waiter);
        let mut woken = false;
        loop {
            if let Some(taken) = attempt() {
                return taken;
            }
            if woken {
                place.hand_on();
            }
            while waiter.word.load(Ordering::Relaxed) == ASLEEP {
                futex::wait(&waiter.word, ASLEEP);
            }
            // Whatever was released before the word was set is seen by the next try.
            waiter.word.swap(ASLEEP, Ordering::AcqRel);
            woken = true;
        }
    }

    /// Returns whether a thread may wait for what the caller released by a sequentially consistent
    /// read-modify-write; then [`wake`](WaitQueue::wake) has to be called.
    #[inline]
    pub(super) fn released_by_rmw(&self) -> bool {
        super::sequential::after_rmw();
        self.waiting.load(Ordering::SeqCst) != 0
    }

    /// Wakes the first ones in line that overlap `span`, which was released.
    #[cold]
    pub(super) fn wake(&self, span: &Span<K>) {
        self.with_line(|line| {
            // SAFETY: under the mutex, and all in line are alive (Invariant 1).
            unsafe { wake_from(line.first, span) };
        });
    }

    /// How many are in line at this moment.
    pub(super) fn waiting(&self) -> u32 {
        // Relaxed: a number to look at.
        self.waiting.load(Ordering::Relaxed)
    }

    fn with_line<R>(&self, run: impl FnOnce(&mut Line<K>) -> R) -> R {
        /// Unlocks also if comparing keys panics.
        struct Locked<'a>(&'a FutexMutex);
        impl Drop for Locked<'_> {
            fn drop(&mut self) {
                if !platform::execution_failed() {
                    // SAFETY: locked below.
                    unsafe { RawLock::unlock(self.0, ()) };
                }
            }
        }
        RawLock::lock(&self.mutex);
        let _locked = Locked(&self.mutex);
        // SAFETY: under the mutex (Invariant 1).
        self.line.with_mut(|line| run(unsafe { &mut *line }))
    }
}

/// Wakes the waiters from `first` on that overlap `released`, but not those in conflict with one
/// woken before.
///
/// # Safety
/// The caller has the line's mutex, and `first` is in line or null.
unsafe fn wake_from<K: Key>(first: *const Waiter<K>, released: &Span<K>) {
    let mut woken: [*const Waiter<K>; REMEMBERED] = [ptr::null(); REMEMBERED];
    let mut count = 0;
    let mut next = first;
    // SAFETY: the caller has the mutex, so every waiter in line is alive and stays (Invariant 1).
    while let Some(waiter) = unsafe { next.as_ref() } {
        next = waiter.behind.get();
        // SAFETY: as above.
        let in_the_way = |&other: &*const Waiter<K>| unsafe { &*other }.conflicts(waiter);
        if !waiter.span().overlaps(released) || woken[..count].iter().any(in_the_way) {
            continue;
        }
        if waiter.word.swap(AWAKE, Ordering::AcqRel) == ASLEEP {
            futex::wake(&waiter.word, 1);
        }
        if count < REMEMBERED {
            woken[count] = waiter;
            count += 1;
        }
    }
}

impl<K: Key> Waiter<K> {
    fn span(&self) -> &Span<K> {
        // SAFETY: the waiter is alive, and its span is borrowed for longer than it is in line.
        unsafe { &*self.span }
    }

    fn conflicts(&self, other: &Waiter<K>) -> bool {
        self.access.conflicts_with(other.access) && self.span().overlaps(other.span())
    }
}

/// Being in line: left at the end, also if the try panics.
struct Place<'a, K: Key> {
    queue: &'a WaitQueue<K>,
    waiter: &'a Waiter<K>,
}

impl<'a, K: Key> Place<'a, K> {
    fn enter(queue: &'a WaitQueue<K>, waiter: &'a Waiter<K>) -> Self {
        queue.with_line(|line| {
            waiter.before.set(line.last);
            // SAFETY: under the mutex, and all in line are alive (Invariant 1).
            match unsafe { line.last.as_ref() } {
                Some(last) => last.behind.set(waiter),
                None => line.first = waiter,
            }
            line.last = waiter;
        });
        // Relaxed and a fence: see the module's text.
        queue.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Place { queue, waiter }
    }

    /// Wakes the first ones behind that were left asleep because of this one (Invariant 4).
    #[cold]
    fn hand_on(&self) {
        self.queue.with_line(|_| {
            // SAFETY: under the mutex, and this waiter is in line, so its links are right
            // (Invariant 1).
            unsafe { wake_from(self.waiter.behind.get(), self.waiter.span()) };
        });
    }
}

impl<K: Key> Drop for Place<'_, K> {
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        if std::thread::panicking() {
            self.hand_on();
        }
        let (before, behind) = (&self.waiter.before, &self.waiter.behind);
        self.queue.with_line(|line| {
            // SAFETY: under the mutex, so the neighbours are alive (Invariant 1).
            match unsafe { before.get().as_ref() } {
                Some(other) => other.behind.set(behind.get()),
                None => line.first = behind.get(),
            }
            // SAFETY: as above.
            match unsafe { behind.get().as_ref() } {
                Some(other) => other.before.set(before.get()),
                None => line.last = before.get(),
            }
        });
        // Relaxed: no thread is told anything by this.
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
