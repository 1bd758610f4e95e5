//! How long a waiter of the default lock spins before it sleeps, and how often it looks.
use super::bounded::{MARKED, OFFERED, Thread};
use platform::atomic::{AtomicU32, Ordering};
use platform::cpu::pause;

const POLLS: u32 = 100;

/// Spins until the lock could be taken (true), or that does not seem to pay.
pub(super) fn until_acquired(word: &AtomicU32, _side: &AtomicU32, _thread: &Thread) -> bool {
    for _ in 0..platform::spin_bound(POLLS) {
        let seen = word.load(Ordering::Relaxed);
        if seen == 0 && super::bounded::try_acquire(word) {
            return true;
        }
        if seen & MARKED != 0 {
            return false;
        }
        pause();
    }
    false
}

/// Spins a little after a wake-up. Who takes the lock then leaves behind that somebody may sleep.
pub(super) fn after_sleep(word: &AtomicU32) -> bool {
    for _ in 0..platform::spin_bound(POLLS) {
        let seen = word.load(Ordering::Relaxed);
        if seen == 0 && word.compare_exchange(0, 2, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return true;
        }
        if seen & MARKED != 0 {
            return false;
        }
        pause();
    }
    false
}

/// Spins until there is an offer (true), or that does not seem to pay.
pub(super) fn until_offered(side: &AtomicU32) -> bool {
    for _ in 0..platform::spin_bound(POLLS) {
        if side.load(Ordering::Relaxed) & OFFERED != 0 {
            return true;
        }
        pause();
    }
    false
}
