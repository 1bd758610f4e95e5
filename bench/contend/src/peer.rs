//! The competitors behind one trait. The measured loop is compiled for each of them, without an
//! indirect call.
//!
//! A peer receives the window of the calling thread: `None` from a thread on a big core, which
//! never lets others pass. Only [`manx::lock::Reorderable`] uses the window; [`manx::lock::Asl`]
//! looks up the class of the thread's core and its epoch by itself. Epochs are those of
//! [`manx::slo`], for LibASL as it is printed its own.

use baselines::lock::{Libasl, LibaslBlocking, LibaslOver, McsPark, Shfl, Tas, Ticket, libasl_epoch};
use contention::lock::Lock;
use manx::lock::{Asl, FutexMutex, Mcs, RawLock, Reorderable};
use manx::slo::{self, Percentile};

/// A mutual exclusion lock that protects nothing by itself.
pub trait Peer: Sync {
    /// A free one.
    fn new() -> Self;
    /// Runs `section` while this thread holds the lock; others may pass before for `window_ns`.
    fn with(&self, window_ns: Option<u64>, section: impl FnOnce());

    /// Begins an epoch on the calling thread.
    #[inline(always)]
    fn start(epoch: u64) {
        slo::start(epoch);
    }

    /// Ends it: this part of the epochs is to end within `slo_ns`.
    #[inline(always)]
    fn end(epoch: u64, slo_ns: u64, percentile: Percentile) {
        slo::end_at(epoch, slo_ns, percentile);
    }

    /// The window that the calling thread's next epoch would have, in nanoseconds.
    fn next_window_ns(epoch: u64) -> u64 {
        slo::start(epoch);
        let window_ns = slo::window_ns().unwrap_or(0);
        slo::abandon(epoch);
        window_ns
    }
}

/// What can be done once a peer's type is known.
pub trait Measured {
    /// What comes of it.
    type Output;
    /// Does it with this lock.
    fn with<P: Peer>(self) -> Self::Output;
}

/// A lock that takes no windows.
#[derive(Debug)]
pub struct Plain<L>(pub L);

impl<L: RawLock> Peer for Plain<L> {
    fn new() -> Self {
        Plain(L::new())
    }

    #[inline(always)]
    fn with(&self, _window_ns: Option<u64>, section: impl FnOnce()) {
        let held = self.0.lock();
        section();
        // SAFETY: this thread holds the lock by `held`.
        unsafe { self.0.unlock(held) };
    }
}

impl<L: RawLock, const SLEEPS: bool> Peer for LibaslOver<L, SLEEPS> {
    fn new() -> Self {
        RawLock::new()
    }

    #[inline(always)]
    fn with(&self, _window_ns: Option<u64>, section: impl FnOnce()) {
        let held = self.lock();
        section();
        // SAFETY: this thread holds the lock by `held`.
        unsafe { self.unlock(held) };
    }

    #[inline(always)]
    fn start(epoch: u64) {
        libasl_epoch::start(epoch as usize);
    }

    #[inline(always)]
    fn end(epoch: u64, slo_ns: u64, percentile: Percentile) {
        libasl_epoch::end(epoch as usize, slo_ns, percentile.hundredths());
    }

    fn next_window_ns(epoch: u64) -> u64 {
        libasl_epoch::window_ns_of(epoch as usize)
    }
}

impl<L: RawLock> Peer for Reorderable<L> {
    fn new() -> Self {
        RawLock::new()
    }

    #[inline(always)]
    fn with(&self, window_ns: Option<u64>, section: impl FnOnce()) {
        let held = match window_ns {
            None => self.lock_immediately(),
            Some(window_ns) => self.lock_reorder_ns_while(window_ns, || true),
        };
        section();
        // SAFETY: this thread holds the lock by `held`.
        unsafe { self.unlock(held) };
    }
}

platform::os_only! {
    use std::cell::UnsafeCell;

    impl Peer for manx::lock::Mutex<()> {
        fn new() -> Self {
            Self::new(())
        }

        #[inline(always)]
        fn with(&self, _window_ns: Option<u64>, section: impl FnOnce()) {
            let _held = self.lock();
            section();
        }
    }

    impl Peer for std::sync::Mutex<()> {
        fn new() -> Self {
            Self::new(())
        }

        #[inline(always)]
        fn with(&self, _window_ns: Option<u64>, section: impl FnOnce()) {
            let _held = self.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            section();
        }
    }

    impl Peer for parking_lot::Mutex<()> {
        fn new() -> Self {
            Self::new(())
        }

        #[inline(always)]
        fn with(&self, _window_ns: Option<u64>, section: impl FnOnce()) {
            let _held = self.lock();
            section();
        }
    }

    /// The C library's mutex, or the one that spins a while. It is never moved once it was locked:
    /// peers are shared by reference between the threads of a run.
    #[derive(Debug)]
    pub struct Glibc<const SPINS: bool>(UnsafeCell<libc::pthread_mutex_t>);

    // SAFETY: the C library's functions may be called with one mutex by all threads at once.
    unsafe impl<const SPINS: bool> Sync for Glibc<SPINS> {}

    impl<const SPINS: bool> Peer for Glibc<SPINS> {
        fn new() -> Self {
            Glibc(UnsafeCell::new(match SPINS {
                false => libc::PTHREAD_MUTEX_INITIALIZER,
                true => libc::PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP,
            }))
        }

        #[inline(always)]
        fn with(&self, _window_ns: Option<u64>, section: impl FnOnce()) {
            // SAFETY: the mutex was initialised and stays where it is while it is held.
            let refused = unsafe { libc::pthread_mutex_lock(self.0.get()) };
            debug_assert_eq!(refused, 0);
            section();
            // SAFETY: this thread locked the mutex above.
            unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        }
    }
}

// Other libraries' locks are here themselves.
platform::os_only! {
    type Std = std::sync::Mutex<()>;
    type ParkingLot = parking_lot::Mutex<()>;
    type CLibrary = Glibc<false>;
    type Manx = manx::lock::Mutex<()>;
}
// On a twin there are their algorithms.
platform::twins_only! {
    type Std = Plain<baselines::lock::SpinFutex>;
    type ParkingLot = Plain<baselines::lock::Parked>;
    type CLibrary = Plain<FutexMutex>;
    type Manx = Plain<manx::lock::RawMutex>;
}

/// Does it with this lock.
pub fn with<M: Measured>(lock: Lock, what: M) -> M::Output {
    match lock {
        Lock::Std => what.with::<Std>(),
        Lock::Glibc => what.with::<CLibrary>(),
        Lock::ParkingLot => what.with::<ParkingLot>(),
        Lock::Tas => what.with::<Plain<Tas>>(),
        Lock::Ticket => what.with::<Plain<Ticket>>(),
        Lock::Mcs => what.with::<Plain<Mcs>>(),
        Lock::McsPark => what.with::<Plain<McsPark>>(),
        Lock::Futex => what.with::<Plain<FutexMutex>>(),
        Lock::Manx => what.with::<Manx>(),
        Lock::Shfl1 => what.with::<Plain<Shfl<1>>>(),
        Lock::Shfl3 => what.with::<Plain<Shfl<3>>>(),
        Lock::Shfl5 => what.with::<Plain<Shfl<5>>>(),
        Lock::Shfl10 => what.with::<Plain<Shfl<10>>>(),
        Lock::Shfl20 => what.with::<Plain<Shfl<20>>>(),
        Lock::Shfl30 => what.with::<Plain<Shfl<30>>>(),
        Lock::Libasl => what.with::<Libasl>(),
        Lock::LibaslBlocking => what.with::<LibaslBlocking>(),
        Lock::AslMcs => what.with::<Plain<Asl<Mcs>>>(),
        Lock::AslMcsPark => what.with::<Plain<Asl<McsPark>>>(),
        Lock::AslFutex => what.with::<Plain<Asl<FutexMutex>>>(),
        Lock::Static => what.with::<Reorderable<Mcs>>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Twice;

    impl Measured for Twice {
        type Output = u32;

        fn with<P: Peer>(self) -> u32 {
            let (lock, mut ran) = (P::new(), 0);
            lock.with(None, || ran += 1);
            lock.with(Some(1_000), || ran += 1);
            ran
        }
    }

    #[test]
    fn every_lock_can_be_taken_again() {
        for lock in Lock::ALL {
            assert_eq!(with(lock, Twice), 2, "{}", lock.name());
        }
    }
}
