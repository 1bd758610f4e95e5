//! When a thread that releases a contended lock lets others run.
//!
//! When threads outnumber CPUs, most of the waiting is done by threads that wait for no lock: they
//! were preempted somewhere else, or were woken, and sit out the slices of all others, some
//! milliseconds each. No order in the lock's queue can help them. A thread that yields can: if each
//! runs for 100 µs and then lets the next one run, 32 threads on two CPUs all run every 1.6 ms.
//!
//! A yield costs half a microsecond, and more if caches are lost, and the thread's current piece of
//! work waits meanwhile. So it happens only after a release, when no other thread waits for this
//! one, and only as often as it pays:
//!
//! | of its time since it last gave its CPU away, the thread waited for locks | it yields after |
//! | --- | --- |
//! | at least an eighth | a slice, between [`SLICE_NS_MIN`] and [`SLICE_NS_MAX`], see below |
//! | at least a 64th | [`SLICE_NS_LIGHT`]: most pieces of work are never interrupted |
//! | less | never: its locks have nothing to do with how long it waits |
//!
//! A slice is so long that slice times time away is [`PRODUCT`]: few threads are interrupted
//! seldom, and many get their turn soon. Threads on one CPU come to the same slice by this. (A rule
//! with a threshold would leave a thread whose slice is shorter than the others' where it is.)
//!
//! # Beside neighbours
//! A thread that yields forfeits the rest of the scheduler's slice, about a millisecond, to
//! programs that do not yield: beside a program that computes, a program that yields every 100 µs
//! gets almost nothing. So, while threads are away for long, the process looks from time to time at
//! how much CPU it got. If that is less than [`SHARE_LOW_PERCENT`] of its CPUs, its threads yield
//! no more often than after [`SLICE_NS_NEIGHBOURS`], until the share has been above
//! [`SHARE_HIGH_PERCENT`] again. (Shorter slices of the scheduler's, which a thread can ask for
//! since Linux 6.12, did no better, and would be inherited by programs that this one starts.)
//!
//! # Other locks
//! A thread that yields while it holds another lock makes the waiters of that lock wait for another
//! thread's slice. So the locks that a thread holds are counted ([`Thread::on_acquire`],
//! [`Thread::on_release`]), and a release yields only if none is left. A lock that was taken in one
//! thread and released in another makes the first count too high and never too low: that thread
//! yields no more.
//!
//! Invariant: a [`Thread`] is used by its own thread only.

use core::cell::Cell;
use platform::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use platform::clock::{self, ns_to_ticks, ticks, ticks_to_ns};
use platform::thread::yield_now;
use platform::{cpu, global};

/// The shortest time that a thread runs before it yields.
pub const SLICE_NS_MIN: u64 = 50_000;
/// The longest.
pub const SLICE_NS_MAX: u64 = 200_000;
/// A slice times the time away that goes with it, in square nanoseconds: 100 µs for 800 µs, which
/// is 8 others.
const PRODUCT: u64 = 100_000 * 800_000;
/// A thread that was away for more than this sat out a whole slice of a thread that does not yield,
/// or there are very many threads.
const AWAY_NS_NEIGHBOURS: u64 = 2_000_000;
/// How long a thread that waits little for locks runs before it yields. (A yield falls into one of
/// the thread's pieces of work. With 0.8 ms more than one in a thousand of LevelDB's reads were
/// hit: a p99.9 of 800 µs instead of 3.)
pub const SLICE_NS_LIGHT: u64 = 2_000_000;
/// How long a thread runs before it yields beside neighbours, whatever it waits.
const SLICE_NS_NEIGHBOURS: u64 = 800_000;
/// A thread that waits for at least this part of its time waits much …
const MUCH: u64 = 8;
/// … and a thread that waits for less than this part, hardly at all.
const HARDLY: u64 = 64;

/// What the process looks at is how much CPU it got in at least this time …
const PERIOD_NS: u64 = 10_000_000;
/// … and at most this.
const PERIOD_NS_MAX: u64 = 200_000_000;
/// Below this share of its CPUs the process has neighbours beside it.
const SHARE_LOW_PERCENT: u64 = 65;
/// Above this share it is alone.
const SHARE_HIGH_PERCENT: u64 = 92;

/// A thread's account is noted for new threads if it differs by more than this from what is noted.
const OWED_TICKS_APART: u32 = 50_000;
/// [`Thread::counts`]: the unit of the number of locks that the thread took.
const TAKEN_ONE: u64 = 1 << 32;

/// What the lock remembers of each thread; all-zero to begin with.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Thread {
    /// When the thread last got its CPU by yielding or sleeping, in ticks.
    pub(super) began_ticks: Cell<u64>,
    /// When it last waited for a lock, in ticks.
    pub(super) contended_ticks: Cell<u64>,
    /// How long it may run before it yields, in ticks.
    pub(super) slice_ticks: Cell<u32>,
    /// How long it has waited for locks since `began_ticks`, without sleeping.
    waited_ticks: Cell<u32>,
    /// What a look at a lock's word costs, smoothed, in sixteenths of a tick.
    look: Cell<u32>,
    /// The account of its spins, in ticks that it owes, whatever the locks: see `spinning.rs`.
    owed_ticks: Cell<u32>,
    /// The number of locks that it holds, as far as they were counted; above [`TAKEN_ONE`] the
    /// number that it ever took. One word: each store before an atomic operation makes that longer.
    counts: Cell<u64>,
}

platform::os_only! {
    const _: () = assert!(size_of::<Thread>() == 40);
}

impl Thread {
    platform::const_fn! {
        /// A thread that has not waited yet.
        pub const fn new() -> Thread {
            Thread {
                began_ticks: Cell::new(0),
                contended_ticks: Cell::new(0),
                slice_ticks: Cell::new(0),
                waited_ticks: Cell::new(0),
                look: Cell::new(0),
                owed_ticks: Cell::new(0),
                counts: Cell::new(0),
            }
        }
    }

    /// The thread has taken a lock.
    #[inline(always)]
    pub fn on_acquire(&self) {
        self.counts.set(self.counts.get().wrapping_add(TAKEN_ONE | 1));
    }

    /// The thread is about to release a lock. A lock that it took before locks were counted was not
    /// counted.
    #[inline(always)]
    pub fn on_release(&self) {
        self.counts.set(self.counts.get() - u64::from(self.held() != 0));
    }

    /// How many locks the thread holds.
    #[inline(always)]
    pub fn held(&self) -> u32 {
        self.counts.get() as u32
    }

    /// The number of locks that the thread ever took, modulo 2³².
    #[inline(always)]
    pub fn taken(&self) -> u32 {
        (self.counts.get() / TAKEN_ONE) as u32
    }

    /// The thread waits for a lock.
    pub(super) fn met_contention(&self) {
        if self.slice_ticks.get() == 0 {
            clock::init();
            self.begin(SLICE_NS_MAX);
            self.owed_ticks.set(OWED_TICKS.load(Ordering::Relaxed));
        }
    }

    /// Notes that the thread has waited for this time, without sleeping, until now.
    pub(super) fn waited(&self, waited_ticks: u64, now_ticks: u64) {
        let waited_ticks = u32::try_from(waited_ticks).unwrap_or(u32::MAX);
        self.waited_ticks.set(self.waited_ticks.get().saturating_add(waited_ticks));
        self.contended_ticks.set(now_ticks);
    }

    /// The thread has slept, so it has given its CPU away.
    pub(super) fn slept(&self) {
        self.began_ticks.set(ticks());
        self.waited_ticks.set(0);
    }

    fn begin(&self, slice_ns: u64) {
        self.slice_ticks.set(u32::try_from(ns_to_ticks(slice_ns)).unwrap_or(u32::MAX));
        self.slept();
    }

    /// Whether the thread has run for a slice.
    pub(super) fn is_over(&self, now_ticks: u64) -> bool {
        now_ticks.wrapping_sub(self.began_ticks.get()) >= u64::from(self.slice_ticks.get())
    }

    /// The ticks that it owes for its spins.
    pub(super) fn owed_ticks(&self) -> u64 {
        u64::from(self.owed_ticks.get())
    }

    /// Notes what it owes.
    pub(super) fn owes(&self, ticks: u64) {
        let owed_ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
        self.owed_ticks.set(owed_ticks);
        // The word is written seldom.
        if OWED_TICKS.load(Ordering::Relaxed).abs_diff(owed_ticks) > OWED_TICKS_APART {
            OWED_TICKS.store(owed_ticks, Ordering::Relaxed);
        }
    }

    /// What a look costs, in ticks.
    pub(super) fn look_ticks(&self) -> u64 {
        u64::from(self.look.get() / 16)
    }

    /// Notes what a look cost.
    pub(super) fn looked(&self, cost_ticks: u64) {
        // Beyond this the thread was preempted.
        let cost = cost_ticks.min(4096) as u32 * 16;
        let look = self.look.get();
        self.look.set(look - look / 8 + cost / 8);
    }
}

/// After a release: yields, if it is time to and the thread holds no other lock.
pub(super) fn maybe_yield(thread: &Thread) {
    if thread.held() != 0 {
        return;
    }
    let now_ticks = ticks();
    if thread.slice_ticks.get() == 0 || !thread.is_over(now_ticks) {
        return;
    }
    let beside = BESIDE_NEIGHBOURS.load(Ordering::Relaxed);
    let ran_ticks = now_ticks.wrapping_sub(thread.began_ticks.get());
    let waited_ticks = u64::from(thread.waited_ticks.get());
    let light = waited_ticks * MUCH < ran_ticks && ran_ticks < ns_to_ticks(SLICE_NS_LIGHT);
    if light || beside && ran_ticks < ns_to_ticks(SLICE_NS_NEIGHBOURS) {
        return;
    }
    if waited_ticks * HARDLY < ran_ticks {
        thread.slept();
        return;
    }
    yield_now();
    let away_ns = ticks_to_ns(ticks().wrapping_sub(now_ticks));
    let slice_ns = ticks_to_ns(u64::from(thread.slice_ticks.get()));
    let fitting_ns = PRODUCT / away_ns.max(1);
    thread.begin(((slice_ns + fitting_ns.min(SLICE_NS_MAX)) / 2).max(SLICE_NS_MIN));
    sample_cpu_share(away_ns >= AWAY_NS_NEIGHBOURS);
}

global! {
    /// The process gets less CPU than it could use.
    static BESIDE_NEIGHBOURS: AtomicBool = AtomicBool::new(false);
    /// When the process last looked, in ticks.
    static LOOKED_TICKS: AtomicU64 = AtomicU64::new(0);
    /// How much CPU it had used by then.
    static USED_NS: AtomicU64 = AtomicU64::new(0);
    /// The account with which a new thread begins, another thread's: a thread that waits once in
    /// its life learns nothing from its own spins.
    static OWED_TICKS: AtomicU32 = AtomicU32::new(0);
}

/// Finds out whether there are neighbours, if no thread did for a while. `strange`: the thread was
/// away for long.
// Relaxed throughout: hints that order nothing; one thread a period gets past the exchange.
fn sample_cpu_share(strange: bool) {
    let beside = BESIDE_NEIGHBOURS.load(Ordering::Relaxed);
    if !strange && !beside {
        return;
    }
    let now_ticks = ticks();
    let looked_ticks = LOOKED_TICKS.load(Ordering::Relaxed);
    let period_ns = ticks_to_ns(now_ticks.wrapping_sub(looked_ticks));
    if period_ns < PERIOD_NS
        || LOOKED_TICKS
            .compare_exchange(looked_ticks, now_ticks, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
    {
        return;
    }
    let used_ns = clock::process_cpu_ns();
    let got_ns = used_ns.saturating_sub(USED_NS.swap(used_ns, Ordering::Relaxed));
    if period_ns > PERIOD_NS_MAX {
        return;
    }
    let share_percent = got_ns * 100 / (period_ns * cpu::count() as u64).max(1);
    if beside && share_percent > SHARE_HIGH_PERCENT {
        BESIDE_NEIGHBOURS.store(false, Ordering::Relaxed);
    } else if !beside && share_percent < SHARE_LOW_PERCENT {
        BESIDE_NEIGHBOURS.store(true, Ordering::Relaxed);
    }
}

platform::os_only! {
    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_thread_that_holds_another_lock_does_not_yield() {
            clock::init();
            let thread = Thread::new();
            thread.met_contention();
            let long_ago = ticks() - ns_to_ticks(10 * SLICE_NS_LIGHT);
            thread.began_ticks.set(long_ago);
            thread.waited_ticks.set(u32::try_from(ns_to_ticks(5 * SLICE_NS_LIGHT)).expect("a few ms"));
            thread.on_acquire();
            thread.on_acquire();
            thread.on_release();
            maybe_yield(&thread);
            assert_eq!(thread.began_ticks.get(), long_ago, "yielded with a lock in its hands");
            thread.on_release();
            maybe_yield(&thread);
            assert_ne!(thread.began_ticks.get(), long_ago, "its slice was over");
            thread.on_release();
            assert_eq!(thread.held(), 0, "a lock that was never counted");
        }
    }
}
