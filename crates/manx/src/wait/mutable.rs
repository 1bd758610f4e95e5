//! The mutable policy: a few waiters spin and the others park; how many may spin learns from what
//! happens.
//!
//! The idea of Marotta and others' mutable locks (see [`super::window`]), as a way to wait for
//! anything. A sleeper is slow to come, by some 50 µs, and a spinner burns a CPU. So a small window
//! of waiters spins and takes what the signals bring, and sleepers are woken *ahead of time*, to
//! take the place of a spinner that is about to be served, not to be served themselves. If sleepers
//! come late nevertheless, the window grows; if spinners spin in vain, it shrinks.
//!
//! ```text
//!             room in the window                 spun in vain
//!   arrives ─────────────────────► spins ─────────────────────────► parks ◄─┐
//!      └───────── no room ──────────────────────────────────────────►  │    │ woken, not yet time, no room
//!                                    ▲                                  ├────┘
//!                                    └── woken, not yet time, room ─────┘
//! ```
//!
//! `coming` counts the sleepers that were woken and have not looked yet. One signal wakes as many
//! as the window has room for, beside the waiter that is served: `window + 1 - spinners - coming`.
//! If that is none, there is a waiter that spins or comes, and it will look.
//!
//! Invariants:
//! 1. The spinners in the window are exactly the waiters in [`Phase::Spinning`] (Invariant 1 of
//!    `window`): each leaves when its phase ends, also by being dropped.
//! 2. `coming` never exceeds the number of sleepers that were woken and have not looked yet: a
//!    signaller adds the sleepers that the kernel woke, after the kernel woke them, and each of
//!    them takes itself off before it looks. (It may be less for a moment, even negative, if they
//!    are faster than the signaller; then one more is woken than need be. Adding before waking
//!    would be an error: another signaller would rely on a sleeper that may not come.)
//! 3. A signal that wakes no thread although a waiter is parked saw a spinner or a sleeper that
//!    comes. The next look of that waiter is after the signal, so it sees the condition. A sleeper
//!    that comes takes itself off and passes a sequentially consistent fence before it looks. A
//!    spinner looks again and again and passes a fence when it registers to park. Until the waiter
//!    has looked after that, it `owes` a look, and if it gives up instead, it signals again.
//! 4. Everything else about lost wake-ups is [`Event`]'s.

use super::window::{WORTH_NS, Window};
use super::{Action, Backoff, Event, Parker, Policy, Waiter, short_of_cpus};
use crate::cpu::refresh_if_old;
use platform::atomic::{AtomicI32, AtomicU64, Ordering, fence};
use platform::{clock, cpu};

/// The number of pauses between two looks at the clock, since a look may cost a system call. All
/// together they take about a microsecond.
const PAUSES: u32 = platform::spin_bound(16);
/// In place of a gap: the last signal woke more threads than could ever spin.
const CROWD: u64 = u64::MAX;

/// Something that may happen, and its waiters: some spinning, the others parked.
///
/// ```
/// use manx::wait::Mutable;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// // A small lock: its waiters wait for the same condition, and use it up.
/// static TAKEN: AtomicBool = AtomicBool::new(false);
/// static FREED: Mutable = Mutable::new();
///
/// fn lock() {
///     let mut backoff = FREED.start();
///     while TAKEN.swap(true, Ordering::Acquire) {
///         backoff.wait();
///     }
/// }
/// fn unlock() {
///     TAKEN.store(false, Ordering::Release);
///     FREED.signal_one();
/// }
/// # let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(|| for _ in 0..100 { lock(); unlock() })).collect();
/// # for thread in threads { thread.join().unwrap(); }
/// # assert_eq!(FREED.spinners(), 0);
/// ```
#[derive(Debug)]
pub struct Mutable {
    event: Event,
    coming: AtomicI32,
    window: Window,
    /// When the last signal woke a sleeper, and how long after the signal before, or [`CROWD`].
    signalled_ns: AtomicU64,
    gap_ns: AtomicU64,
}

platform::os_only! {
    impl Default for Mutable {
        fn default() -> Self {
            Mutable::new()
        }
    }
}

impl Mutable {
    platform::const_fn! {
        /// Returns a policy without waiters; one may spin.
        pub const fn new() -> Self {
            Mutable {
                event: Event::new(),
                coming: AtomicI32::new(0),
                window: Window::new(),
                signalled_ns: AtomicU64::new(0),
                gap_ns: AtomicU64::new(u64::MAX - 1),
            }
        }
    }

    /// Begins a wait.
    #[inline]
    pub const fn start(&self) -> Backoff<MutableWaiter<'_>> {
        let parker = Parker::new(&self.event, 0);
        let phase = Phase::Arrived;
        let mutable = self;
        Backoff::new(MutableWaiter { mutable, phase, parker, began_ns: 0, owes: false, may_give_up: false })
    }

    /// Tells all waiters to look again. Call it after the condition has become true.
    #[inline]
    pub fn signal_all(&self) {
        if self.event.anybody_parked() {
            self.grant(u32::MAX);
        }
    }

    /// Tells one waiter to look again, and readies others to follow: for conditions that one waiter
    /// uses up, such as a free lock. All waiters must wait for the same condition then.
    #[inline]
    pub fn signal_one(&self) {
        if self.event.anybody_parked() {
            self.signal_one_slow();
        }
    }

    /// How many may spin at once.
    pub fn window(&self) -> u32 {
        self.window.size()
    }

    /// How many spin at this moment.
    pub fn spinners(&self) -> u32 {
        self.window.spinners()
    }

    /// How many are parked or about to be, at this moment.
    pub fn parked(&self) -> u32 {
        self.event.parked()
    }

    #[cold]
    fn signal_one_slow(&self) {
        // Both loads are behind the fence in `anybody_parked`: Invariant 3.
        let coming = self.coming.load(Ordering::Relaxed).max(0).unsigned_abs();
        let looking = self.spinners().saturating_add(coming);
        let wanted = self.window().saturating_add(1).saturating_sub(looking);
        if wanted > 0 {
            self.grant(wanted);
        }
    }

    /// Wakes up to `wanted`, and counts them (Invariant 2).
    fn grant(&self, wanted: u32) {
        let now_ns = clock::now_ns();
        let before_ns = self.signalled_ns.swap(now_ns, Ordering::Relaxed);
        // A crowd is late whatever the window is: it has too few CPUs to spin on, and teaches
        // nothing. A signal to one never wakes more than a full window and the waiter that is
        // served.
        let size_max = self.window.size_max();
        let crowd = wanted > size_max.saturating_add(1) && self.parked() > size_max;
        let gap_ns = if crowd { CROWD } else { now_ns.saturating_sub(before_ns) };
        self.gap_ns.store(gap_ns, Ordering::Relaxed);
        let woken = self.event.wake(wanted);
        if woken > 0 {
            self.coming.fetch_add(woken as i32, Ordering::Relaxed);
        }
    }
}

impl Policy for Mutable {
    type Waiter<'a> = MutableWaiter<'a>;

    #[inline]
    fn start(&self) -> Backoff<MutableWaiter<'_>> {
        Mutable::start(self)
    }
}

/// What a waiter does. See the diagram in the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Arrived,
    Spinning { until_ns: u64, pauses_left: u32 },
    Parking,
}

/// A thread that waits by [`Mutable`].
#[derive(Debug)]
pub struct MutableWaiter<'a> {
    mutable: &'a Mutable,
    phase: Phase,
    parker: Parker<'a>,
    began_ns: u64,
    /// A signal may have relied on this waiter and woken no other waiter, and this one has not
    /// surely looked since (Invariant 3).
    owes: bool,
    may_give_up: bool,
}

impl MutableWaiter<'_> {
    /// Spins if there is room, otherwise registers to be woken.
    #[cold]
    fn settle(&mut self, now_ns: u64) {
        let spin_ns = if platform::spin_bound(1) == 0 { 0 } else { WORTH_NS };
        if !short_of_cpus() && self.mutable.window.enter() {
            self.parker.unregister();
            self.owes = true;
            self.phase = Phase::Spinning { until_ns: now_ns.saturating_add(spin_ns), pauses_left: PAUSES };
        } else {
            self.phase = Phase::Parking;
        }
    }

    /// Whether spinning would have been cheap for what the last signal brought.
    fn should_have_spun(&self) -> bool {
        // Relaxed: advice.
        match self.mutable.gap_ns.load(Ordering::Relaxed) {
            CROWD => false,
            gap_ns => clock::now_ns().saturating_sub(self.began_ns).min(gap_ns) < WORTH_NS,
        }
    }

    fn stop_spinning(&mut self) {
        self.phase = Phase::Parking;
        self.mutable.window.leave();
    }

    fn park(&mut self, timeout_ns: u64) -> Action {
        // A waiter that parks now has registered in the round before, and looked since. A waiter
        // that registers now has not.
        self.owes &= !self.parker.is_registered();
        let action = self.parker.round(timeout_ns);
        if self.parker.was_woken() {
            self.owes = true;
            self.mutable.coming.fetch_sub(1, Ordering::Relaxed);
            // Invariant 3: if a signaller still saw this waiter coming, the next look sees what
            // that signaller wrote.
            fence(Ordering::SeqCst);
        }
        action
    }
}

impl Waiter for MutableWaiter<'_> {
    #[inline]
    fn round(&mut self, timeout_ns: u64) -> Action {
        self.may_give_up |= timeout_ns != u64::MAX;
        match self.phase {
            Phase::Arrived => {
                refresh_if_old();
                self.began_ns = clock::now_ns();
                self.settle(self.began_ns);
                Action::Spin
            }
            Phase::Spinning { until_ns, pauses_left } => {
                if short_of_cpus() {
                    self.stop_spinning();
                } else if pauses_left > 0 {
                    cpu::pause();
                    self.phase = Phase::Spinning { until_ns, pauses_left: pauses_left - 1 };
                } else if clock::now_ns() >= until_ns {
                    self.stop_spinning();
                    self.mutable.window.spinner_failed();
                } else {
                    self.phase = Phase::Spinning { until_ns, pauses_left: PAUSES };
                }
                Action::Spin
            }
            Phase::Parking => {
                if self.parker.was_woken() {
                    // It was woken to spin, looked, and must wait on.
                    self.settle(clock::now_ns());
                    if self.phase != Phase::Parking {
                        return Action::Spin;
                    }
                }
                self.park(timeout_ns)
            }
        }
    }
}

impl Drop for MutableWaiter<'_> {
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        match self.phase {
            Phase::Arrived => {}
            Phase::Spinning { .. } => {
                self.stop_spinning();
                self.mutable.window.wait_succeeded();
            }
            Phase::Parking if self.parker.was_woken() => {
                if self.should_have_spun() {
                    self.mutable.window.sleeper_was_late();
                } else {
                    self.mutable.window.wait_succeeded();
                }
            }
            Phase::Parking => self.mutable.window.wait_succeeded(),
        }
        if self.owes && (self.may_give_up || std::thread::panicking()) {
            // Invariant 4 of `event`, and our Invariant 3; the parker hands on nothing then.
            self.parker.unregister();
            self.mutable.signal_one();
        }
    }
}
