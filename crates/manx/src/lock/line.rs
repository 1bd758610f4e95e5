//! A line of spinning waiters: one looks at the lock, each of the others at a place of its own.
//!
//! When all waiters look at a lock, each look takes the lock's cache line away from its holder; and
//! when they look seldom, a free lock waits for the next look. Here a waiter takes a ticket. Only
//! the *first* in the line looks at the lock, and all the time. When it takes the lock, or gives
//! up, it *tells* the next one, by a store that it does not wait for.
//!
//! The line is a hint. The lock's word alone says which thread holds the lock, and threads that
//! arrive while it is free still take it. So a waiter that was preempted in the line does not hold
//! up the others: the lock stays free for any running thread, and the waiter behind *takes over*
//! when nothing has moved for [`STILL_NS`]. Nor does it matter that locks share lines (they are
//! found by the lock's address), that a child of a fork finds tickets without threads, or that a
//! store is lost: each of them costs a few times `STILL_NS` once.
//!
//! | of a line | meaning | written by |
//! | --- | --- | --- |
//! | `next_ticket` | the ticket of the next thread to arrive | each arrival |
//! | `first` | the ticket that was told last, or that took over | the first; a waiter that takes over |
//! | `crowded_ticks` | when several threads last waited at once, to a quarter of `CROWD_NS` | the first |
//! | `places[ticket % PLACES]` | the ticket that was told last of those that share this place | the first |
//!
//! # When it pays
//! With two CPUs at most one waiter runs. It does better to look seldom, so that the holder can
//! take the lock again (`spinning.rs`), and so does a waiter that was the first when it
//! came and behind which no thread stands: two threads on a large machine. A thread that was told,
//! or behind which another one stands, shows that three threads are running. Then the lock goes
//! from one to the next at the cost of two transfers of its cache line. With three or four threads
//! a waiter is often alone for a moment. So all waiters look all the time until no two have waited
//! at once for `CROWD_NS`.
//!
//! # Siblings
//! Two CPUs of a core share it, and a waiter that spins takes a part of it from a holder there. In
//! a PAUSE it takes next to nothing. So waiters at the back of a line, whose turn cannot come soon,
//! pause for `BACK_NS` between two looks. A PAUSE takes 10 to 140 cycles, and a look at the clock
//! is work for the core. So a waiter doubles the number of its PAUSEs until they take that long.
//!
//! # Invariants
//! 1. A line decides nothing: a thread acquires a lock by the step 0 → held on its word only.
//! 2. Every wait in a line ends: the ticket is told, or `first` has passed it, or nothing has moved
//!    for at most [`FAR`] × `STILL_NS`, or the thread's time in the line is over.
//! 3. A waiter that was told, or that took over, tells the next ticket once, whether it acquires
//!    the lock or not. A waiter that leaves otherwise tells none: `first` is not its affair.
//! 4. Before it is told, a waiter accesses its lock's word once, when it arrives; and the first
//!    tells the next one by stores alone: what it needs first is the data that the lock protects.
//!
//! # Memory orderings
//! All relaxed (Invariant 1), but the comparison that acquires the lock.

use platform::atomic::{AtomicU32, AtomicU64, Ordering};
use platform::clock::{ns_to_ticks, ticks};
use platform::constant::Constant;
use platform::cpu::{self, pause};

/// A waiter checks after this time whether the line has moved. If it has not, the next in line
/// takes over. Longer than most holds.
pub(super) const STILL_NS: Constant = Constant::new("STILL_NS", 5_000);
/// A waiter that stands this far behind, or farther, takes over when nothing has moved for this
/// number of times `STILL_NS`.
pub(super) const FAR: Constant = Constant::new("FAR", 4);
/// A waiter behind this number of others …
const BACK: i32 = 10;
/// … pauses for this time between two looks, so that a thread on the other CPU of its core has the
/// core.
pub(super) const BACK_NS: Constant = Constant::new("BACK_NS", 400);
/// The most PAUSEs between two looks: enough for each CPU.
const PAUSES_MAX: u32 = 1024;
/// The number of lines. Two locks that share one wait for each other's waiters.
const LINES: usize = 1 << LINES_LOG2;
const LINES_LOG2: u32 = 6;
/// The places of a line. Waiters whose tickets differ by this number share one.
const PLACES: usize = 16;
/// For how long a waiter that is alone looks all the time after several have waited at once.
pub(super) const CROWD_NS: Constant = Constant::new("CROWD_NS", 100_000);
/// How often the first compares the word between two looks at the clock.
const COMPARISONS: u32 = 8;

/// Two cache lines of its own, since they are fetched in pairs.
#[repr(align(128))]
struct Apart(AtomicU32);

#[repr(align(128))]
struct ApartTicks(AtomicU64);

struct Line {
    next_ticket: Apart,
    first: Apart,
    crowded_ticks: ApartTicks,
    places: [Apart; PLACES],
}

platform::const_fn! {
    const fn apart() -> Apart {
        Apart(AtomicU32::new(0))
    }
}

platform::const_fn! {
    const fn never() -> ApartTicks {
        ApartTicks(AtomicU64::new(0))
    }
}

platform::os_only! {
    static ALL: [Line; LINES] =
        [const {
            Line {
                next_ticket: apart(),
                first: apart(),
                crowded_ticks: never(),
                places: [const { apart() }; PLACES],
            }
        }; LINES];
}

platform::twins_only! {
    platform::global! {
        // A model checker pays for each atomic.
        static ALL: Vec<Line> = (0..if platform::spin_bound(2) == 2 { LINES } else { 2 })
            .map(|_| Line {
                next_ticket: apart(),
                first: apart(),
                crowded_ticks: never(),
                places: core::array::from_fn(|_| apart()),
            })
            .collect();
    }
}

platform::global! {
    /// The CPUs, modulo 64, on which threads have waited; all if the first one may use more than
    /// two.
    static CPUS: AtomicU64 = AtomicU64::new(0);
}

/// Whether threads of this process use more than two CPUs.
pub(super) fn pays() -> bool {
    let seen = CPUS.load(Ordering::Relaxed);
    if seen.count_ones() > 2 {
        return true;
    }
    if seen == 0 && cpu::count() > 2 {
        CPUS.store(u64::MAX, Ordering::Relaxed);
        return true;
    }
    // Threads that are bound to one CPU each are seen here.
    let own = 1 << (cpu::current() % 64);
    if seen & own == 0 {
        CPUS.fetch_or(own, Ordering::Relaxed);
    }
    false
}

/// A waiter's place in the line of its lock.
pub(super) struct Turn {
    line: &'static Line,
    ticket: u32,
}

/// How a wait in a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// The thread was the first when it came.
    First,
    /// It was told, or took over.
    Told,
    /// The line has passed it.
    Passed,
    /// Its time is over.
    Late,
}

impl Turn {
    /// Takes a ticket of the line of the lock with this word.
    pub(super) fn take(word: &AtomicU32) -> Turn {
        let address = core::ptr::from_ref(word).addr() as u64;
        // Fibonacci hashing: the upper bits are the best.
        let at = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LINES_LOG2);
        Turn::take_of(&ALL[at as usize % ALL.len()])
    }

    fn take_of(line: &'static Line) -> Turn {
        Turn { line, ticket: line.next_ticket.0.fetch_add(1, Ordering::Relaxed) }
    }

    /// Whether no thread has come since.
    pub(super) fn is_last(&self) -> bool {
        self.line.next_ticket.0.load(Ordering::Relaxed) == self.ticket.wrapping_add(1)
    }

    /// Whether several threads have waited here lately.
    pub(super) fn is_crowded(&self, now_ticks: u64) -> bool {
        let since_ticks = now_ticks.wrapping_sub(self.line.crowded_ticks.0.load(Ordering::Relaxed));
        since_ticks < ns_to_ticks(CROWD_NS.get())
    }

    /// Several threads wait here.
    pub(super) fn note_crowd(&self, now_ticks: u64) {
        let since_ticks = now_ticks.wrapping_sub(self.line.crowded_ticks.0.load(Ordering::Relaxed));
        if since_ticks > ns_to_ticks(CROWD_NS.get()) / 4 {
            self.line.crowded_ticks.0.store(now_ticks, Ordering::Relaxed);
        }
    }

    /// Waits until it is this thread's turn to look at the lock. `is_over`: whether a thread that
    /// has waited for this number of ticks has waited long enough; asked every `STILL_NS`.
    pub(super) fn wait(&self, is_over: impl Fn(u64) -> bool) -> Came {
        let place = &self.line.places[self.ticket as usize % PLACES].0;
        let is_told = || place.load(Ordering::Relaxed) == self.ticket;
        if is_told() {
            return Came::First;
        }
        let (still_ticks, spins) = (ns_to_ticks(STILL_NS.get()), platform::spin_bound(1) != 0);
        let mut first = self.line.first.0.load(Ordering::Relaxed);
        let mut before = self.ticket.wrapping_sub(first) as i32;
        let began_ticks = ticks();
        let (mut moved_ticks, mut checked_ticks, mut looked_ticks) = (began_ticks, began_ticks, began_ticks);
        let (back_ticks, mut pauses) = (ns_to_ticks(BACK_NS.get()), 1);
        loop {
            (0..pauses).for_each(|_| pause());
            if is_told() {
                return Came::Told;
            }
            let now_ticks = ticks();
            // It comes to the front no sooner than it looks again at `first`.
            if before <= BACK {
                pauses = 1;
            } else if now_ticks.wrapping_sub(looked_ticks) < back_ticks {
                pauses = (pauses * 2).min(PAUSES_MAX);
            }
            looked_ticks = now_ticks;
            if now_ticks.wrapping_sub(checked_ticks) < still_ticks && spins {
                continue;
            }
            checked_ticks = now_ticks;
            let first_now = self.line.first.0.load(Ordering::Relaxed);
            before = self.ticket.wrapping_sub(first_now) as i32;
            if before < 0 {
                return Came::Passed;
            }
            if is_over(now_ticks.wrapping_sub(began_ticks)) {
                return Came::Late;
            }
            let patience_ticks = still_ticks * (before as u64).min(FAR.get());
            if first_now != first {
                (first, moved_ticks) = (first_now, now_ticks);
            } else if now_ticks.wrapping_sub(moved_ticks) >= patience_ticks || !spins {
                self.line.first.0.store(self.ticket, Ordering::Relaxed);
                return Came::Told;
            }
        }
    }

    /// Tells the next one.
    pub(super) fn tell_next(&self) {
        let next = self.ticket.wrapping_add(1);
        self.line.places[next as usize % PLACES].0.store(next, Ordering::Relaxed);
        self.line.first.0.store(next, Ordering::Relaxed);
    }
}

/// As the first in line: compares the word until the lock was acquired by setting the word to `to`,
/// or the time is over. Returns which, and when it looked at the clock last.
///
/// While one thread alone compares, the line of the word stays with it until the holder releases:
/// that takes two transfers. With a load first it would take three.
pub(super) fn insist(word: &AtomicU32, to: u32, spin_ns: u64) -> (bool, u64) {
    let (began_ticks, spin_ticks) = (ticks(), ns_to_ticks(spin_ns));
    let mut now_ticks = began_ticks;
    loop {
        for _ in 0..=platform::spin_bound(COMPARISONS) {
            // Acquire pairs with the release of the holder that made it 0.
            if word.compare_exchange(0, to, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return (true, now_ticks);
            }
            pause();
        }
        now_ticks = ticks();
        if platform::spin_bound(1) == 0 || now_ticks.wrapping_sub(began_ticks) > spin_ticks {
            return (false, now_ticks);
        }
    }
}

platform::os_only! {
    #[cfg(test)]
    mod tests {
        use super::*;

        fn line() -> &'static Line {
            platform::clock::init();
            Box::leak(Box::new(Line {
                next_ticket: apart(),
                first: apart(),
                crowded_ticks: never(),
                places: [const { apart() }; PLACES],
            }))
        }

        #[test]
        fn each_is_told_by_the_one_before_and_an_empty_line_has_no_wait() {
            let line = line();
            for _ in 0..3 * PLACES {
                let turn = Turn::take_of(line);
                assert!(turn.is_last());
                assert_eq!(turn.wait(|_| true), Came::First);
                turn.tell_next();
            }
            let (one, two) = (Turn::take_of(line), Turn::take_of(line));
            assert!(!one.is_last() && two.is_last());
            assert_eq!(one.wait(|_| true), Came::First);
            std::thread::scope(|scope| {
                // Unless this thread is kept from running for so long that the other takes over.
                let waiter = scope.spawn(|| two.wait(|_| false));
                one.tell_next();
                assert!([Came::First, Came::Told].contains(&waiter.join().unwrap()));
            });
        }

        #[test]
        fn a_thread_that_went_away_is_passed() {
            let line = line();
            let _gone: Vec<Turn> = (0..3 * FAR.get()).map(|_| Turn::take_of(line)).collect();
            let (far, near) = (Turn::take_of(line), Turn::take_of(line));
            assert_eq!(far.wait(|_| false), Came::Told, "nothing moves, so it takes over");
            far.tell_next();
            assert_eq!(near.wait(|_| false), Came::First);
            near.tell_next();
            assert_eq!(far.wait(|_| false), Came::Passed);
            assert_eq!(Turn::take_of(line).wait(|_| false), Came::First);
        }

        #[test]
        fn a_thread_whose_time_is_over_leaves_the_line() {
            let line = line();
            let (_gone, waiter) = (Turn::take_of(line), Turn::take_of(line));
            assert_eq!(waiter.wait(|_| true), Came::Late);
        }

        #[test]
        fn the_first_takes_the_lock_or_gives_up() {
            platform::clock::init();
            let word = AtomicU32::new(0);
            assert!(insist(&word, 1, 0).0);
            assert!(!insist(&word, 1, 0).0);
            assert_eq!(word.load(Ordering::Relaxed), 1);
        }
    }
}
