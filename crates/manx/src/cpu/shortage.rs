//! Whether the process is short of CPUs: one word that every waiter reads before it spins.
//!
//! A waiter does best to spin if the thread that it waits for runs. It does worst to spin if that
//! thread wishes to run and cannot: the waiter may be burning the very CPU that the other thread
//! needs. So there is one word for the process, and while it says that CPUs are short, the policies
//! of [`wait`](crate::wait) do not spin, and the locks spin less.
//!
//! The word is false until a caller says otherwise: by hand ([`set_short_of_cpus`]), or by keeping
//! it ([`keep_shortage`]). While it is kept, waiters keep it up to date themselves, in their slow
//! paths, each for all: see `keeper.rs` for how, and `estimate.rs` for the rule. There is no thread
//! for it, so a process in which no thread waits spends nothing on it.
//!
//! # Memory orderings
//! The word is a hint and orders nothing: it is read and written relaxed, but where `keeper.rs`
//! says why not.

use platform::atomic::{AtomicBool, Ordering};

platform::os_only! {
    mod estimate;
    mod keeper;

    pub use keeper::{ShortageKeeper, keep_shortage, refresh_if_old, refresh_if_old_at};
}

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

platform::twins_only! {
    /// Refreshes the word if it is kept and old: a twin has no machine to look at.
    #[inline(always)]
    pub fn refresh_if_old() {}

    /// Refreshes the word if it is kept and old: a twin has no machine to look at.
    #[inline(always)]
    pub fn refresh_if_old_at(_now_ticks: u64) {}
}
