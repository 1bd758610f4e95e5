//! The competitors behind one trait. The measured loop is compiled for each of them, without an
//! indirect call.
//!
//! A peer receives the window of the calling thread: `None` from a thread on a big core, which
//! never lets others pass. Only [`manx::lock::Reorderable`] uses the window; [`manx::lock::Asl`]
//! looks up the class of the thread's core and its epoch by itself.

use std::cell::UnsafeCell;

use baselines::lock::{McsPark, Shfl, Tas, Ticket};
use manx::lock::{Asl, FutexMutex, Mcs, RawLock, Reorderable};

/// A mutual exclusion lock that protects nothing by itself.
pub trait Peer: Sync {
    /// A free one.
    fn new() -> Self;
    /// Runs `section` while this thread holds the lock; others may pass before for `window_ns`.
    fn with(&self, window_ns: Option<u64>, section: impl FnOnce());
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

macro_rules! locks {
    ($($(#[$words:meta])* $variant:ident, $name:literal, $peer:ty;)*) => {
        /// A lock of the comparison.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Lock {
            $($(#[$words])* $variant),*
        }

        impl Lock {
            /// All of them.
            pub const ALL: &[Lock] = &[$(Lock::$variant),*];

            /// The name in tables.
            pub fn name(self) -> &'static str {
                match self { $(Lock::$variant => $name),* }
            }

            /// Does it with this lock.
            pub fn measure<M: Measured>(self, what: M) -> M::Output {
                match self { $(Lock::$variant => what.with::<$peer>()),* }
            }
        }
    };
}

locks! {
    /// The standard library's.
    Std, "std", std::sync::Mutex<()>;
    /// The C library's.
    Glibc, "glibc", Glibc<false>;
    /// Adaptive, and fair from time to time.
    ParkingLot, "parking_lot", parking_lot::Mutex<()>;
    /// Test and set.
    Tas, "tas", Plain<Tas>;
    /// By tickets.
    Ticket, "ticket", Plain<Ticket>;
    /// Mellor-Crummey and Scott's queue.
    Mcs, "mcs", Plain<Mcs>;
    /// The same, with waiters that park.
    McsPark, "mcs-park", Plain<McsPark>;
    /// Drepper's, beneath which nothing is in order.
    Futex, "futex-mutex", Plain<FutexMutex>;
    /// Manx's default.
    Manx, "manx", manx::lock::Mutex<()>;
    /// One big core's turn to one little core's.
    Shfl1, "shfl-1", Plain<Shfl<1>>;
    /// 3 to 1.
    Shfl3, "shfl-3", Plain<Shfl<3>>;
    /// 5 to 1.
    Shfl5, "shfl-5", Plain<Shfl<5>>;
    /// 10 to 1.
    Shfl10, "shfl-10", Plain<Shfl<10>>;
    /// 20 to 1.
    Shfl20, "shfl-20", Plain<Shfl<20>>;
    /// 30 to 1.
    Shfl30, "shfl-30", Plain<Shfl<30>>;
    /// Little cores stand by before an MCS lock, for the window of their epoch.
    AslMcs, "asl(mcs)", Plain<Asl<Mcs>>;
    /// … before an MCS lock whose waiters park.
    AslMcsPark, "asl(mcs-park)", Plain<Asl<McsPark>>;
    /// … before a lock without order.
    AslFutex, "asl(futex-mutex)", Plain<Asl<FutexMutex>>;
    /// Little cores stand by before an MCS lock, for a fixed window.
    Static, "reorderable(mcs)", Reorderable<Mcs>;
}

impl Lock {
    /// The locks that Manx's are compared with where threads do not outnumber the CPUs.
    pub const PEERS: [Lock; 8] = [
        Lock::Std,
        Lock::Glibc,
        Lock::ParkingLot,
        Lock::Tas,
        Lock::Ticket,
        Lock::Mcs,
        Lock::McsPark,
        Lock::Shfl10,
    ];
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
    fn every_lock_can_be_taken_again_and_has_a_name_of_its_own() {
        for (at, lock) in Lock::ALL.iter().enumerate() {
            assert_eq!(lock.measure(Twice), 2, "{}", lock.name());
            assert!(Lock::ALL[..at].iter().all(|other| other.name() != lock.name()));
        }
    }
}
