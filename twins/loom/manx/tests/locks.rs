//! The locks of the room under loom: every order of steps that the memory model allows.

mod common;
#[allow(dead_code, reason = "the package baselines-loom uses all of it")]
#[path = "common/locks.rs"]
mod locks;

use locks::two_take_turns;
use manx_loom::lock::{FutexMutex, Mcs, RawLock, RawMutex};

locks::every_lock! {
    mcs: Mcs;
    futex_mutex: FutexMutex;
    default_mutex: RawMutex;
}

locks::every_queue! {
    mcs: Mcs, 3;
    futex_mutex: FutexMutex, 4;
}

#[test]
fn places_of_two_queues_are_given_back_in_any_order() {
    locks::places_of_two_queues_are_given_back_in_any_order::<Mcs>();
}

/// A lock that forgets to order memory.
struct Forgetful(platform::atomic::AtomicBool);

// SAFETY: it is not: that is the point. Used on a cell that loom watches, and nowhere else.
unsafe impl RawLock for Forgetful {
    type Held = ();
    const NAME: &'static str = "forgetful";
    platform::initial! { Forgetful(platform::atomic::AtomicBool::new(false)) }

    fn lock(&self) {
        while self.try_lock().is_none() {
            platform::cpu::pause();
        }
    }

    fn try_lock(&self) -> Option<()> {
        use platform::atomic::Ordering::Relaxed;
        self.0.compare_exchange(false, true, Relaxed, Relaxed).ok().map(drop)
    }

    unsafe fn unlock(&self, (): ()) {
        self.0.store(false, platform::atomic::Ordering::Relaxed);
    }

    fn is_locked(&self) -> bool {
        self.0.load(platform::atomic::Ordering::Relaxed)
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_would_find_a_lock_that_does_not_order_memory() {
    two_take_turns::<Forgetful>(2);
}
