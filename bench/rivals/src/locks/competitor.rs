//! The competitors. Each is used as its own documentation shows it; the measured loop is compiled
//! for each, so that no call in it is indirect.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use manx::lock::RawLock;

/// A mutual exclusion lock that protects nothing by itself.
pub trait Lock: Sync {
    /// A free one.
    fn new() -> Self;
    /// Runs `section` while this thread holds the lock.
    fn with(&self, section: impl FnOnce());
}

/// What can be done once a competitor's type is known.
pub trait Measured {
    /// What comes of it.
    type Output;
    /// Does it with this lock.
    fn with<L: Lock>(self) -> Self::Output;
}

/// A lock of this process by its name.
pub struct Competitor {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// Whether throughput is compared with it: the stock mutexes whose newcomers overtake waiters.
    pub barging: bool,
}

macro_rules! competitors {
    ($($name:literal, $barging:literal, $lock:ty;)*) => {
        /// All locks that this program holds, in the order of the tables.
        pub const COMPETITORS: &[Competitor] = &[$(Competitor { name: $name, barging: $barging }),*];

        /// Does it with the lock of this name; `None` if there is no such lock.
        pub fn measure<M: Measured>(name: &str, what: M) -> Option<M::Output> {
            match name {
                $($name => Some(what.with::<$lock>()),)*
                _ => None,
            }
        }
    };
}

competitors! {
    "manx", false, manx::lock::Mutex<()>;
    "std", true, std::sync::Mutex<()>;
    "parking_lot", true, parking_lot::Mutex<()>;
    "parking_lot-fair", false, FairParkingLot;
    "glibc", true, Pthread<{ libc::PTHREAD_MUTEX_DEFAULT }>;
    "glibc-adaptive", true, Pthread<PTHREAD_MUTEX_ADAPTIVE_NP>;
    "usync", false, usync::Mutex<()>;
    "spin", false, spin::Mutex<()>;
    "tas", false, Ours<baselines::lock::Tas>;
    "ttas", false, Ours<baselines::lock::Ttas>;
    "ticket", false, Ours<baselines::lock::Ticket>;
    "mcs", false, Ours<manx::lock::Mcs>;
    "mcs-park", false, Ours<baselines::lock::McsPark>;
    "futex-mutex", false, Ours<manx::lock::FutexMutex>;
    "shfl", false, Ours<baselines::lock::Shfl>;
    "cna", false, Ours<baselines::lock::Cna>;
    "asl-ticket", false, Ours<manx::lock::Asl<baselines::lock::Ticket>>;
    "asl-mcs", false, Ours<manx::lock::Asl<manx::lock::Mcs>>;
    "asl-mcs-park", false, Ours<manx::lock::Asl<baselines::lock::McsPark>>;
    "asl-cna", false, Ours<manx::lock::Asl<baselines::lock::Cna>>;
    "asl-futex", false, Ours<manx::lock::Asl<manx::lock::FutexMutex>>;
    "asl-mcs-10us", false, Within<manx::lock::Mcs, 10_000>;
    "asl-mcs-100us", false, Within<manx::lock::Mcs, 100_000>;
    "asl-mcs-1ms", false, Within<manx::lock::Mcs, 1_000_000>;
    "asl-futex-10us", false, Within<manx::lock::FutexMutex, 10_000>;
    "asl-futex-100us", false, Within<manx::lock::FutexMutex, 100_000>;
    "asl-futex-1ms", false, Within<manx::lock::FutexMutex, 1_000_000>;
    "mutable", false, Ours<baselines::lock::MutableLock>;
}

/// The kind of the C library that spins a while; the `libc` crate does not name it.
const PTHREAD_MUTEX_ADAPTIVE_NP: i32 = 3;

impl Lock for manx::lock::Mutex<()> {
    fn new() -> Self {
        Self::new(())
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        let _held = self.lock();
        section();
    }
}

impl Lock for std::sync::Mutex<()> {
    fn new() -> Self {
        Self::new(())
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        let _held = self.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        section();
    }
}

impl Lock for parking_lot::Mutex<()> {
    fn new() -> Self {
        Self::new(())
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        let _held = self.lock();
        section();
    }
}

impl Lock for usync::Mutex<()> {
    fn new() -> Self {
        Self::new(())
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        let _held = self.lock();
        section();
    }
}

impl Lock for spin::Mutex<()> {
    fn new() -> Self {
        Self::new(())
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        let _held = self.lock();
        section();
    }
}

/// `parking_lot` with every unlock a fair one.
struct FairParkingLot(parking_lot::Mutex<()>);

impl Lock for FairParkingLot {
    fn new() -> Self {
        Self(parking_lot::Mutex::new(()))
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        let held = self.0.lock();
        section();
        parking_lot::MutexGuard::unlock_fair(held);
    }
}

/// A lock of this project that is known by `RawLock`.
struct Ours<L>(L);

impl<L: RawLock> Lock for Ours<L> {
    fn new() -> Self {
        Self(L::new())
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        let held = self.0.lock();
        section();
        // SAFETY: this thread holds the lock by `held`.
        unsafe { self.0.unlock(held) };
    }
}

/// A lock whose slow threads always let others overtake them for this window.
struct Within<L, const WINDOW_NS: u64>(Ours<manx::lock::Asl<L>>);

impl<L: RawLock, const WINDOW_NS: u64> Lock for Within<L, WINDOW_NS> {
    fn new() -> Self {
        let lock = <Ours<manx::lock::Asl<L>> as Lock>::new();
        lock.0.set_window_ns_max(Some(WINDOW_NS));
        Self(lock)
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        self.0.with(section);
    }
}

/// The C library's mutex of a kind, or that of a library loaded before it. It stays in its box: the
/// C library may know its address.
struct Pthread<const KIND: i32>(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a mutex is made to be shared; it is only used through the C library's functions.
unsafe impl<const KIND: i32> Sync for Pthread<KIND> {}

impl<const KIND: i32> Lock for Pthread<KIND> {
    fn new() -> Self {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised before they are used and destroyed afterwards, and
        // no other thread has the mutex yet.
        let results = unsafe {
            [
                libc::pthread_mutexattr_init(attributes.as_mut_ptr()),
                libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), KIND),
                libc::pthread_mutex_init(mutex.get(), attributes.as_ptr()),
                libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()),
            ]
        };
        assert_eq!(results, [0; 4], "a mutex of kind {KIND} could not be made");
        Self(mutex)
    }

    #[inline(always)]
    fn with(&self, section: impl FnOnce()) {
        // SAFETY: the mutex is initialised and lives as long as `self`.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0, "pthread_mutex_lock failed");
        section();
        // SAFETY: as above, and this thread holds it.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0, "pthread_mutex_unlock failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Once;

    impl Measured for Once {
        type Output = u32;

        fn with<L: Lock>(self) -> u32 {
            let (lock, mut ran) = (L::new(), 0);
            lock.with(|| ran += 1);
            lock.with(|| ran += 1);
            ran
        }
    }

    #[test]
    fn every_lock_can_be_taken_again() {
        for competitor in COMPETITORS {
            assert_eq!(measure(competitor.name, Once), Some(2), "{}", competitor.name);
        }
        assert_eq!(measure("no-such", Once), None);
    }
}
