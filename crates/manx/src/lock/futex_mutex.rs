//! The futex mutex: try, and sleep in the kernel until the lock is given back.
//!
//! Drepper's third mutex ("Futexes are tricky", 2004), which is also the GNU C library's default. A
//! waiter sleeps at once. The lock is free while a woken waiter is on its way, and any running
//! thread may take it in the meantime. That makes it fast with any number of threads, and unfair to
//! sleeping threads: a sleeper may wait for as long as others come back before it has woken up.
//!
//! | `word` | meaning |
//! | --- | --- |
//! | 0 | free |
//! | 1 | held |
//! | 2 | held, and perhaps a thread sleeps |
//!
//! Invariants:
//! 1. Between its change from 0 to something else and the next exchange for 0, `word` belongs to
//!    the thread that changed it, but for others turning 1 into 2.
//! 2. A thread that sleeps has seen or written a 2 since the lock was last given back, and sleeps
//!    only while it is 2. A thread that takes the lock after a wait leaves a 2, for others that may
//!    sleep as well. So an unlock that takes away a 1 has no thread to wake.
//! 3. After the exchange in `unlock` the lock may be gone. The kernel still gets its address, as a
//!    key: at worst a thread that sleeps elsewhere at the same address looks again.
//!
//! # Memory orderings
//! Every change of `word` is a read-modify-write, with acquire where it may take the lock and with
//! release where it gives it back. The kernel orders a sleeper's comparison against a waker's
//! exchange.

use super::RawLock;
use platform::atomic::{AtomicU32, Ordering};
use platform::futex;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A mutex of four bytes whose waiters sleep in the kernel at once.
///
/// It is fast with any number of threads, and unfair: running threads may overtake a sleeping
/// waiter without bound. For a bound take [`Mutex`](super::Mutex).
///
/// Source: Drepper, "Futexes are tricky" (2004), the third mutex.
///
/// ```
/// use manx::lock::FutexMutex;
///
/// static COUNT: lock_api::Mutex<FutexMutex, u32> = lock_api::Mutex::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
#[derive(Debug)]
pub struct FutexMutex {
    word: AtomicU32,
}

platform::os_only! {
    const _: () = assert!(size_of::<FutexMutex>() == 4);
}

impl FutexMutex {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            FutexMutex { word: AtomicU32::new(FREE) }
        }
    }

    #[inline]
    fn take(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_contended(&self) {
        // Invariant 2: what is taken here is taken as contended.
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            futex::wait(&self.word, CONTENDED);
        }
    }
}

#[cold]
fn wake_one(place: *const AtomicU32) {
    futex::wake(place, 1);
}

// SAFETY: by Invariant 1, and by the orderings in the module's text. Where the lock is matters only
// to the threads that wait for it.
unsafe impl RawLock for FutexMutex {
    type Held = ();
    const NAME: &'static str = "futex";
    platform::initial! { FutexMutex::new() }

    #[inline]
    fn lock(&self) {
        if !self.take() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.take().then_some(())
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        // SAFETY: the contract is the same.
        unsafe { self.unlock_and_look(()) };
    }

    #[inline]
    unsafe fn unlock_and_look(&self, (): ()) -> bool {
        let place = &raw const self.word;
        let waited = self.word.swap(FREE, Ordering::Release) == CONTENDED;
        if waited {
            // By Invariant 3.
            wake_one(place);
        }
        waited
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }
}
