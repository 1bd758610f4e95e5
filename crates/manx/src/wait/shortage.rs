//! Whether the process is short of CPUs: one word that every spinning waiter reads.
//!
//! Whoever watches the machine keeps it up to date; until somebody does, there is no shortage. While
//! there is one, the thread that a waiter waits for is likely not running, and no waiter spins.

use platform::atomic::{AtomicBool, Ordering};

platform::global! {
    static SHORT: AtomicBool = AtomicBool::new(false);
}

/// Says whether there are more runnable threads than CPUs for them.
///
/// ```
/// manx::wait::set_short_of_cpus(true);
/// assert!(manx::wait::short_of_cpus());
/// # manx::wait::set_short_of_cpus(false);
/// ```
pub fn set_short_of_cpus(short: bool) {
    // Relaxed, here and below: a hint, which orders nothing.
    SHORT.store(short, Ordering::Relaxed);
}

/// Whether somebody said that there are more runnable threads than CPUs for them.
#[inline]
pub fn short_of_cpus() -> bool {
    SHORT.load(Ordering::Relaxed)
}
