//! Whether the process is short of CPUs: one word that every waiter reads before it spins.
//!
//! A waiter does best to spin if the thread that it waits for runs. It does worst to spin if that
//! thread wishes to run and cannot: the waiter may be burning the very CPU that the other thread
//! needs. So there is one word for the process, and while it says that CPUs are short, the policies
//! of [`wait`](crate::wait) do not spin, nor do readers, writers and threads that stand by at a
//! lock. Mutexes find out by themselves whether their spins pay.
//!
//! The word is false until a caller says otherwise: by hand ([`set_short_of_cpus`]), or by keeping
//! it ([`keep_shortage`]).
//!
//! # How it is kept
//! A thread that has to wait for a lock or an event passes [`refresh_if_old`]. That is one load and
//! a comparison, until `PERIOD_NS` have passed since the last refresh; then one thread takes the
//! refresh upon itself, and the others go on. It reads how long the scheduler has kept *it* waiting
//! for a CPU (three system calls, 5 µs) and compares that with what it read the last time
//! (`estimate.rs` has the rule). So a refresh costs a process with however many threads 0.05 % of
//! one CPU at most. There is no thread for it: a process in which no thread waits spends nothing.
//!
//! Why the own wait in the run queue, and not the machine's count of runnable threads
//! ([`runnable`](crate::cpu::runnable())), which costs a fifth? Because that count is wrong in both
//! directions. Threads that are bound to one CPU, or whose group has used up its quota, wait while
//! other CPUs idle; a neighbour of low priority counts like any other and takes nothing from us.
//! And a thread's affinity says nothing either: threads bound to one CPU *each* spin rightly.
//!
//! Each sample needs the one before of the same thread. These *baselines* are in a small table by
//! the thread's number, because it is to work inside of programs that are not ours, where a
//! thread-local may allocate and a destructor runs late. Two threads may share a place in it: then
//! neither finds its own, and the next waiter is asked soon (`RETRY_NS`).
//!
//! Invariants:
//! 1. `DUE` is `NEVER` if and only if there is no keeper, but for the moments within
//!    [`keep_shortage`] and the drop of a keeper. A thread that refreshes has moved it from the
//!    past to the future, so within a period there is one such thread at most. (A thread that is
//!    kept from running for a whole period may meet the next one. They mix their numbers, but each
//!    of these numbers is only a hint.)
//! 2. Nothing here is locked, allocated or kept open, so a fork at any moment leaves a child
//!    nothing to wait for or to repair. Numbers of the parent's threads in its table belong to no
//!    thread.
//! 3. When the last keeper is gone, the word is false.
//!
//! # Memory orderings
//! The word is a hint and orders nothing: it is read and written relaxed, except for Invariant 3.
//! Baselines and the mean are hints of one thread at a time and relaxed. For Invariant 3 the last
//! keeper writes `DUE`, then the word; a refresh writes the word, then reads `DUE`. That is
//! Dekker's pattern, so these four steps are sequentially consistent: either the refresh sees that
//! there is no keeper any more, and takes back what it wrote, or the keeper's false comes after it.

use platform::atomic::{AtomicBool, Ordering};

platform::global! {
    static SHORT: AtomicBool = AtomicBool::new(false);
}

/// Says whether there are more runnable threads than CPUs for them. While the word is kept
/// ([`keep_shortage`]), this holds until it is refreshed.
///
/// ```
/// manx::cpu::set_short_of_cpus(true);
/// assert!(manx::cpu::short_of_cpus());
/// # manx::cpu::set_short_of_cpus(false);
/// ```
pub fn set_short_of_cpus(short: bool) {
    SHORT.store(short, Ordering::Relaxed);
}

/// Whether threads of this process wait for CPUs so much that spinning does not pay, as far as a
/// caller has said or a waiter has found out.
///
/// ```
/// let spins = if manx::cpu::short_of_cpus() { 0 } else { 100 };
/// # assert_eq!(spins, 100);
/// ```
#[inline]
pub fn short_of_cpus() -> bool {
    SHORT.load(Ordering::Relaxed)
}

platform::timed! {
    mod estimate;

    use estimate::{share, smooth, verdict};
    use platform::atomic::{AtomicU32, AtomicU64};
    use platform::clock::{self, ns_to_ticks, ticks, ticks_to_ns};

    /// How old the word may be: two samples are enough to see a clear shortage.
    const PERIOD_NS: u64 = 10_000_000;
    /// How soon another thread is asked if a thread had nothing to compare with.
    const RETRY_NS: u64 = 2_000_000;
    /// A sample is of at least so much time …
    const SPAN_NS_MIN: u64 = 4_000_000;
    /// … and of at most so much: before that, the thread may have been in another life.
    const SPAN_NS_MAX: u64 = 1_000_000_000;
    /// If there was no sample for this long, no thread waited, and what was known does not hold any
    /// more.
    const STALE_NS: u64 = 250_000_000;
    /// How soon it is tried again where the kernel does not tell.
    const BLIND_NS: u64 = 10_000_000_000;

    /// [`DUE`]: there is no keeper.
    const NEVER: u64 = u64::MAX;

    platform::global! {
        /// When the word is to be refreshed, in ticks.
        static DUE: AtomicU64 = AtomicU64::new(NEVER);
        /// How many keep the word.
        static KEEPERS: AtomicU32 = AtomicU32::new(0);
        /// The smoothed samples.
        static MEAN: AtomicU32 = AtomicU32::new(0);
        /// When the last sample was taken, in ticks.
        static SAMPLED_TICKS: AtomicU64 = AtomicU64::new(0);
        /// What threads read the last time that they refreshed the word.
        static BASELINES: [Baseline; PLACES] = [const { Baseline::none() }; PLACES];
    }

    /// How many threads have a baseline; a power of two.
    const PLACES: usize = 64;

    /// What a thread read the last time that it refreshed the word.
    #[derive(Debug)]
    struct Baseline {
        thread: AtomicU32,
        wait_ns: AtomicU64,
        read_ticks: AtomicU64,
    }

    impl Baseline {
        /// No thread has the number 0.
        const fn none() -> Baseline {
            Baseline { thread: AtomicU32::new(0), wait_ns: AtomicU64::new(0), read_ticks: AtomicU64::new(0) }
        }
    }

    /// As long as there is one, the word is kept up to date: see [`keep_shortage`].
    #[derive(Debug)]
    #[must_use = "the word is kept until this is dropped"]
    pub struct ShortageKeeper(());

    /// Keeps the word [`short_of_cpus`](short_of_cpus) up to date until the keeper is dropped, or
    /// for ever if it is forgotten. There may be any number of keepers; when the last one is gone,
    /// the word is false.
    ///
    /// No thread is started: threads that wait refresh the word. Where the kernel does not tell how
    /// long a thread has waited for a CPU (`/proc` is hidden, or has no scheduler statistics), the
    /// word stays as it is.
    ///
    /// ```
    /// let keeper = manx::cpu::keep_shortage();
    /// // … threads that wait for Manx's locks and events …
    /// drop(keeper);
    /// assert!(!manx::cpu::short_of_cpus());
    /// ```
    pub fn keep_shortage() -> ShortageKeeper {
        // Ticks from before are not comparable; a thread that comes with such ticks is told that it
        // is not due.
        clock::init();
        KEEPERS.fetch_add(1, Ordering::SeqCst);
        begin();
        ShortageKeeper(())
    }

    fn begin() {
        let _ = DUE.compare_exchange(NEVER, ticks(), Ordering::SeqCst, Ordering::SeqCst);
    }

    impl Drop for ShortageKeeper {
        fn drop(&mut self) {
            if KEEPERS.fetch_sub(1, Ordering::SeqCst) == 1 {
                DUE.store(NEVER, Ordering::SeqCst);
                MEAN.store(0, Ordering::Relaxed);
                SHORT.store(false, Ordering::SeqCst);
                // Another keeper may have come between the first two steps.
                if KEEPERS.load(Ordering::SeqCst) > 0 {
                    begin();
                }
            }
        }
    }

    /// Refreshes the word [`short_of_cpus`](short_of_cpus) if it is kept and old: to be called by a
    /// thread that is about to wait. One load while there is no keeper; one more comparison, with
    /// the time, while it is fresh; about 6 µs otherwise, at most every 2 ms and usually every 10.
    /// Makes no system call that can block, allocates nothing and leaves `errno` alone.
    #[inline]
    pub fn refresh_if_old() {
        let due_ticks = DUE.load(Ordering::Relaxed);
        if due_ticks != NEVER {
            refresh_if_due(due_ticks, ticks());
        }
    }

    /// As [`refresh_if_old`], for callers that know the time, in ticks of `platform::clock`.
    #[cfg(feature = "lock")]
    #[inline]
    pub(crate) fn refresh_if_old_at(now_ticks: u64) {
        refresh_if_due(DUE.load(Ordering::Relaxed), now_ticks);
    }

    #[inline]
    fn refresh_if_due(due_ticks: u64, now_ticks: u64) {
        if now_ticks >= due_ticks {
            refresh(due_ticks, now_ticks);
        }
    }

    #[cold]
    fn refresh(due_ticks: u64, now_ticks: u64) {
        let next_ticks = now_ticks.saturating_add(ns_to_ticks(PERIOD_NS));
        // Invariant 1. A failure: another thread was first, or there is no keeper any more.
        // Relaxed: it orders nothing.
        if DUE.compare_exchange(due_ticks, next_ticks, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let sampled_ticks = SAMPLED_TICKS.load(Ordering::Relaxed);
        if ticks_to_ns(now_ticks.saturating_sub(sampled_ticks)) > STALE_NS {
            MEAN.store(0, Ordering::Relaxed);
            SAMPLED_TICKS.store(now_ticks, Ordering::Relaxed);
            say(false);
        }
        let again_ns = match own_wait_ns().map(|wait_ns| sample(wait_ns, now_ticks)) {
            Some(Some(sample)) => {
                let mean = smooth(MEAN.load(Ordering::Relaxed), sample);
                MEAN.store(mean, Ordering::Relaxed);
                SAMPLED_TICKS.store(now_ticks, Ordering::Relaxed);
                return say(verdict(SHORT.load(Ordering::Relaxed), mean));
            }
            Some(None) => RETRY_NS,
            None => BLIND_NS,
        };
        let again_ticks = now_ticks.saturating_add(ns_to_ticks(again_ns));
        // Only if it is still this refresh's: Invariant 1.
        let _ = DUE.compare_exchange(next_ticks, again_ticks, Ordering::Relaxed, Ordering::Relaxed);
    }

    platform::os_only! {
        use crate::cpu::ThreadPressure;
        use platform::thread::id as own_number;

        /// How long the calling thread has waited for a CPU since it began; `None` where the kernel
        /// does not tell.
        fn own_wait_ns() -> Option<u64> {
            let times = ThreadPressure::of_this_thread()?.times()?;
            Some(clock::duration_ns(times.wait_time))
        }
    }
    platform::twins_only! {
        use platform::thread::{id as own_number, own_wait_ns};
    }

    /// Which part of the time since its baseline the calling thread, which has waited for `wait_ns`
    /// in all, waited; `None` if it has none that is fit. Sets a new one.
    fn sample(wait_ns: u64, now_ticks: u64) -> Option<u32> {
        let own = own_number();
        let place = &BASELINES[own as usize % PLACES];
        let span_ns = ticks_to_ns(now_ticks.saturating_sub(place.read_ticks.load(Ordering::Relaxed)));
        let is_own = place.thread.load(Ordering::Relaxed) == own;
        if is_own && span_ns < SPAN_NS_MIN {
            return None;
        }
        place.thread.store(own, Ordering::Relaxed);
        place.read_ticks.store(now_ticks, Ordering::Relaxed);
        let before_ns = place.wait_ns.swap(wait_ns, Ordering::Relaxed);
        (is_own && span_ns <= SPAN_NS_MAX).then(|| share(wait_ns.saturating_sub(before_ns), span_ns))
    }

    /// Says it, unless that is known, or there is no keeper any more (Invariant 3).
    fn say(short: bool) {
        if SHORT.load(Ordering::Relaxed) != short {
            SHORT.store(short, Ordering::SeqCst);
            if DUE.load(Ordering::SeqCst) == NEVER {
                SHORT.store(false, Ordering::SeqCst);
            }
        }
    }
}

platform::untimed! {
    /// Refreshes the word if it is kept and old: no time passes here.
    #[inline(always)]
    pub fn refresh_if_old() {}

    /// Refreshes the word if it is kept and old: no time passes here.
    #[cfg(feature = "lock")]
    #[inline(always)]
    pub(crate) fn refresh_if_old_at(_now_ticks: u64) {}
}
