//! LibASL's lock as it is printed: threads on big cores stand in line, threads on little cores poll
//! for a window first.
//!
//! Liu and others, "Asymmetry-aware scalable locking" (PPoPP 2022), Algorithms 1 and 3; Algorithm 2
//! is [`super::libasl_epoch`]. [`manx::lock::Asl`] is Manx's lock for the same purpose, which
//! decides in other ways when a thread polls and whether it should; the benches compare both.
//!
//! | Algorithm 1, by its lines | here |
//! | --- | --- |
//! | 2: `lock_immediately` enqueues | [`Libasl::lock_immediately`] |
//! | 7: `lock_reorder` enqueues at once if the lock is free | a look at the queue, not an attempt |
//! | 9: until the window is over it waits | it reads the clock, or sleeps |
//! | 11: now and then it checks whether the lock is free | after one round of 9, two, four, and so on |
//! | 12: binary exponential back-off | the double number of rounds, or the double sleep; no limit |
//! | 16: it enqueues, because the lock is free or the window is over | the lock beneath |
//! | 20: unlock is that of the lock beneath | the same |
//!
//! A thread that finds the lock free enqueues. It may then wait behind others that have found the
//! same, in the order of the lock beneath.
//!
//! Algorithm 3: a thread on a big core calls `lock_immediately`. A thread on a little core calls
//! `lock_reorder` with the window of its epoch, or with the longest window outside of any epoch
//! ([`WINDOW_NS_MAX`], section 4).
//!
//! Two forms, as in the paper's evaluation:
//! - spinning, over the MCS lock ([`Libasl`]);
//! - blocking, for more threads than CPUs ([`LibaslBlocking`]): the MCS lock is replaced by a mutex
//!   that sleeps, and the waiting of line 9 by `nanosleep` "in a back-off manner" (section 4.1,
//!   Bench-6, and footnote 3). The paper's mutex is the GNU C library's; here it is
//!   [`FutexMutex`], the algorithm of that mutex, which also runs on simulated machines.
//!
//! The paper leaves some values open. Chosen here: the first sleep is [`SLEEP_NS_FIRST`]. A
//! sleep does not exceed the rest of the window. Under model checkers, where no time passes by
//! itself, the spinning form sleeps, too.
//!
//! Invariant 1: what is held is held as the lock beneath gave it, so exclusion, attempts and
//! unlocking are its own.

use super::libasl_epoch::{self, WINDOW_NS_MAX};
use manx::cpu::{Class, class};
use manx::lock::{FutexMutex, Mcs, RawLock};
use platform::clock::now_ns;
use platform::thread;

/// The first sleep of the blocking form; the kernel's timer slack is 50 times as long.
const SLEEP_NS_FIRST: u64 = 1_000;

/// LibASL's lock as it is printed, over a lock `L`. See the module's text.
///
/// ```
/// use baselines::lock::Libasl;
/// use manx::cpu::{Class, set_class_of_this_thread};
/// use manx::lock::RawLock;
///
/// set_class_of_this_thread(Some(Class::Little));
/// let lock = Libasl::new();
/// let held = lock.lock();
/// // SAFETY: held by this thread.
/// unsafe { lock.unlock(held) };
/// ```
#[derive(Debug)]
pub struct LibaslOver<L, const SLEEPS: bool> {
    lock: L,
}

/// The form that spins, over the MCS lock.
pub type Libasl = LibaslOver<Mcs, false>;

/// The form that sleeps, over the C library's mutex.
pub type LibaslBlocking = LibaslOver<FutexMutex, true>;

impl<L: RawLock, const SLEEPS: bool> LibaslOver<L, SLEEPS> {
    platform::const_fn! {
        /// Makes the lock over `lock`, which no thread may hold.
        pub const fn over(lock: L) -> Self {
            LibaslOver { lock }
        }
    }

    /// Returns the lock that threads stand in line for.
    pub fn beneath(&self) -> &L {
        &self.lock
    }

    /// Algorithm 1: stands in line at once.
    #[inline]
    pub fn lock_immediately(&self) -> L::Held {
        self.lock.lock()
    }

    /// Algorithm 1: lets others pass for `window_ns` at most while the lock is held, then stands in
    /// line.
    #[inline]
    pub fn lock_reorder(&self, window_ns: u64) -> L::Held {
        if self.lock.is_locked() {
            self.stand_by(window_ns);
        }
        self.lock.lock()
    }

    /// Polls until the lock is free or the window is over.
    #[cold]
    fn stand_by(&self, window_ns: u64) {
        let begun_ns = now_ns();
        let left_ns = || window_ns.saturating_sub(now_ns().saturating_sub(begun_ns));
        let (mut rounds, mut sleep_ns) = (1_u64, SLEEP_NS_FIRST);
        loop {
            if SLEEPS || platform::spin_bound(2) < 2 {
                match left_ns() {
                    0 => return,
                    left_ns => thread::sleep_ns(sleep_ns.min(left_ns)),
                }
                sleep_ns = sleep_ns.saturating_mul(2);
            } else if !(0..rounds).all(|_| left_ns() > 0) {
                return;
            }
            if !self.lock.is_locked() {
                return;
            }
            rounds = rounds.saturating_mul(2);
        }
    }
}

// SAFETY: by Invariant 1 this is the promise of the lock beneath.
unsafe impl<L: RawLock, const SLEEPS: bool> RawLock for LibaslOver<L, SLEEPS> {
    type Held = L::Held;
    const NAME: &'static str = if SLEEPS { "libasl-blocking" } else { "libasl" };
    platform::initial! { L => LibaslOver::over }

    /// Algorithm 3.
    #[inline]
    fn lock(&self) -> L::Held {
        match class() {
            Class::Big => self.lock_immediately(),
            Class::Little => self.lock_reorder(libasl_epoch::window_ns().unwrap_or(WINDOW_NS_MAX)),
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<L::Held> {
        self.lock.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self, held: L::Held) {
        // SAFETY: the contract is the same.
        unsafe { self.lock.unlock(held) }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}
