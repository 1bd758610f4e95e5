//! When a thread that releases a contended lock lets others run.
//!
//! When threads outnumber CPUs, most of the waiting is done by threads that wait for no lock: they were preempted
//! somewhere else, or were woken, and sit out the slices of all others, some milliseconds each. No
//! order in the lock's queue can help them. A thread that yields can: if each runs for 100 µs
//! and then lets the next one run, 32 threads on two CPUs all run every 1.6 ms.
//!
//! A yield costs half a microsecond, and more if caches are lost; so it happens where all of this holds:
//! - the thread has just released a lock, so nobody waits for it while it is away;
//! - it met contention at least [`CONTENTIONS_MIN`] times since it last gave its CPU away: threads that mostly do
//!   something else are left alone;
//! - it has run for a slice, which is between [`SLICE_NS_MIN`] and [`SLICE_NS_MAX`]: so long that slice times
//!   time away is [`PRODUCT`]. Few threads are interrupted seldom, and many get their turn soon. Threads on one
//!   CPU come to the same slice by this: who has a shorter one than the others is away for longer than they are
//!   only by the difference, and a rule with a threshold would leave it there.
//!
//! # Beside strangers
//! A thread that yields forfeits the rest of its slice, some milliseconds, to whoever does not yield:
//! beside a program that computes, a program that yields gets almost nothing. So, while threads are away for long, the
//! process looks from time to time at how much CPU it got; if that is less than [`SHARE_LOW_PERCENT`] of its
//! CPUs, its threads ask the scheduler for slices of [`SHORT_NS`], of which little can be forfeited, and
//! give them back when the share has been above [`SHARE_HIGH_PERCENT`] again. (On kernels that know no slices of
//! different lengths, before 6.12, a yield forfeits next to nothing.)
//!
//! Invariant: a [`Thread`] is used by its own thread only.

use core::cell::Cell;
use platform::atomic::{AtomicBool, AtomicU64, Ordering};
use platform::clock::{self, ns_to_ticks, ticks, ticks_to_ns};
use platform::thread::{set_slice_ns, yield_now};
use platform::{cpu, global};

/// The shortest time that a thread runs before it yields.
pub const SLICE_NS_MIN: u64 = 50_000;
/// The longest.
pub const SLICE_NS_MAX: u64 = 200_000;
/// A slice times the time away that goes with it, in square nanoseconds: 100 µs for 800 µs, which is 8 others.
const PRODUCT: u64 = 100_000 * 800_000;
/// A thread that was away for more than this sat out a whole slice of somebody who does not yield, or there
/// are very many threads.
const AWAY_NS_STRANGE: u64 = 2_000_000;
/// How often a thread must meet contention within its slice, to yield at the end.
pub const CONTENTIONS_MIN: u32 = 2;

/// What the process looks at is how much CPU it got in at least this time …
const PERIOD_NS: u64 = 10_000_000;
/// … and at most this.
const PERIOD_NS_MAX: u64 = 200_000_000;
/// Below this share of its CPUs the process has strangers beside it.
const SHARE_LOW_PERCENT: u64 = 65;
/// Above this share it is alone.
const SHARE_HIGH_PERCENT: u64 = 92;
/// The scheduler's slices beside strangers.
const SHORT_NS: u64 = 200_000;

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
    /// Waits since `began_ticks`.
    pub(super) contentions: Cell<u32>,
    /// What a look at a lock's word costs, smoothed, in sixteenths of a tick.
    look: Cell<u32>,
    /// 1 if the scheduler was asked for short slices, 2 if it would not give them.
    short: Cell<u32>,
}

platform::os_only! {
    const _: () = assert!(size_of::<Thread>() == 40 || size_of::<Thread>() == 32);
}

impl Thread {
    platform::const_fn! {
        /// A thread that has not waited yet.
        pub const fn new() -> Thread {
            Thread {
                began_ticks: Cell::new(0),
                contended_ticks: Cell::new(0),
                slice_ticks: Cell::new(0),
                contentions: Cell::new(0),
                look: Cell::new(0),
                short: Cell::new(0),
            }
        }
    }

    /// The thread waits for a lock.
    pub(super) fn met_contention(&self) {
        if self.slice_ticks.get() == 0 {
            clock::init();
            self.begin(SLICE_NS_MAX);
        }
        self.contentions.set(self.contentions.get().wrapping_add(1));
    }

    /// The thread has slept, so it has given its CPU away.
    pub(super) fn slept(&self) {
        self.began_ticks.set(ticks());
        self.contentions.set(0);
    }

    fn begin(&self, slice_ns: u64) {
        self.slice_ticks.set(u32::try_from(ns_to_ticks(slice_ns)).unwrap_or(u32::MAX));
        self.slept();
    }

    /// Whether the thread has run for a slice.
    pub(super) fn is_over(&self, now_ticks: u64) -> bool {
        now_ticks.wrapping_sub(self.began_ticks.get()) >= u64::from(self.slice_ticks.get())
    }

    /// What a look costs, in ticks.
    pub(super) fn look_ticks(&self) -> u64 {
        u64::from(self.look.get() / 16)
    }

    /// A look cost so much.
    pub(super) fn looked(&self, cost_ticks: u64) {
        // Beyond this the thread was preempted.
        let cost = cost_ticks.min(4096) as u32 * 16;
        let look = self.look.get();
        self.look.set(look - look / 8 + cost / 8);
    }
}

/// After a release: yields, if it is time to.
pub(super) fn maybe_yield(thread: &Thread) {
    let now_ticks = ticks();
    if thread.slice_ticks.get() == 0 || !thread.is_over(now_ticks) {
        return;
    }
    if thread.contentions.get() < CONTENTIONS_MIN {
        thread.slept();
        return;
    }
    if BESIDE_STRANGERS.load(Ordering::Relaxed) != (thread.short.get() == 1) {
        change_slice(thread);
    }
    yield_now();
    let away_ns = ticks_to_ns(ticks().wrapping_sub(now_ticks));
    let slice_ns = ticks_to_ns(u64::from(thread.slice_ticks.get()));
    let fitting_ns = PRODUCT / away_ns.max(1);
    thread.begin(((slice_ns + fitting_ns.min(SLICE_NS_MAX)) / 2).max(SLICE_NS_MIN));
    look_around(away_ns >= AWAY_NS_STRANGE);
}

#[cold]
fn change_slice(thread: &Thread) {
    let wanted = BESIDE_STRANGERS.load(Ordering::Relaxed);
    match (thread.short.get(), wanted) {
        (0, true) => thread.short.set(if set_slice_ns(SHORT_NS) { 1 } else { 2 }),
        (1, false) => {
            set_slice_ns(0);
            thread.short.set(0);
        }
        _ => {}
    }
}

global! {
    /// The process gets less CPU than it could use.
    static BESIDE_STRANGERS: AtomicBool = AtomicBool::new(false);
    /// When the process last looked, in ticks.
    static LOOKED_TICKS: AtomicU64 = AtomicU64::new(0);
    /// How much CPU it had used by then.
    static USED_NS: AtomicU64 = AtomicU64::new(0);
}

/// Finds out whether there are strangers, if nobody did for a while. `strange`: the thread was away for long.
// Relaxed throughout: hints, of which none orders anything; one thread a period gets past the exchange.
fn look_around(strange: bool) {
    let beside = BESIDE_STRANGERS.load(Ordering::Relaxed);
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
        BESIDE_STRANGERS.store(false, Ordering::Relaxed);
    } else if !beside && share_percent < SHARE_LOW_PERCENT {
        BESIDE_STRANGERS.store(true, Ordering::Relaxed);
    }
}
