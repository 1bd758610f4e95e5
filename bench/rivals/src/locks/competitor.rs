//! The competitors. Each is used as its own documentation shows it; the measured loop is compiled
//! for each, so that no call in it is indirect.

use contend::peer::{Glibc, Measured, Peer, Plain};
use manx::lock::RawLock;
use std::time::Duration;

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
    "glibc", true, Glibc<false>;
    "glibc-adaptive", true, Glibc<true>;
    "usync", false, Usync;
    "spin", false, Spin;
    "tas", false, Plain<baselines::lock::Tas>;
    "ttas", false, Plain<baselines::lock::Ttas>;
    "ticket", false, Plain<baselines::lock::Ticket>;
    "mcs", false, Plain<manx::lock::Mcs>;
    "mcs-park", false, Plain<baselines::lock::McsPark>;
    "futex-mutex", false, Plain<manx::lock::FutexMutex>;
    "shfl", false, Plain<baselines::lock::Shfl>;
    "asl-ticket", false, Plain<manx::lock::Asl<baselines::lock::Ticket>>;
    "asl-mcs", false, Plain<manx::lock::Asl<manx::lock::Mcs>>;
    "asl-mcs-park", false, Plain<manx::lock::Asl<baselines::lock::McsPark>>;
    "asl-futex", false, Plain<manx::lock::Asl<manx::lock::FutexMutex>>;
    "asl-mcs-10us", false, Within<manx::lock::Mcs, 10_000>;
    "asl-mcs-100us", false, Within<manx::lock::Mcs, 100_000>;
    "asl-mcs-1ms", false, Within<manx::lock::Mcs, 1_000_000>;
    "asl-futex-10us", false, Within<manx::lock::FutexMutex, 10_000>;
    "asl-futex-100us", false, Within<manx::lock::FutexMutex, 100_000>;
    "asl-futex-1ms", false, Within<manx::lock::FutexMutex, 1_000_000>;
    "mutable", false, Plain<baselines::lock::MutableLock>;
}

/// A lock that its guard unlocks.
macro_rules! guarded {
    ($($name:ident, $lock:ty;)*) => {$(
        struct $name($lock);

        impl Peer for $name {
            fn new() -> Self {
                Self(<$lock>::new(()))
            }

            #[inline(always)]
            fn with(&self, _window_ns: Option<u64>, section: impl FnOnce()) {
                let _held = self.0.lock();
                section();
            }
        }
    )*};
}

guarded! {
    Usync, usync::Mutex<()>;
    Spin, spin::Mutex<()>;
}

/// `parking_lot` with every unlock a fair one.
struct FairParkingLot(parking_lot::Mutex<()>);

impl Peer for FairParkingLot {
    fn new() -> Self {
        Self(parking_lot::Mutex::new(()))
    }

    #[inline(always)]
    fn with(&self, _window_ns: Option<u64>, section: impl FnOnce()) {
        let held = self.0.lock();
        section();
        parking_lot::MutexGuard::unlock_fair(held);
    }
}

/// A lock whose slow threads always let others overtake them for this window.
struct Within<L, const WINDOW_NS: u64>(Plain<manx::lock::Asl<L>>);

impl<L: RawLock, const WINDOW_NS: u64> Peer for Within<L, WINDOW_NS> {
    fn new() -> Self {
        let lock = <Plain<manx::lock::Asl<L>> as Peer>::new();
        lock.0.set_window_max(Some(Duration::from_nanos(WINDOW_NS)));
        Self(lock)
    }

    #[inline(always)]
    fn with(&self, window_ns: Option<u64>, section: impl FnOnce()) {
        self.0.with(window_ns, section);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Once;

    impl Measured for Once {
        type Output = u32;

        fn with<P: Peer>(self) -> u32 {
            let (lock, mut ran) = (P::new(), 0);
            lock.with(None, || ran += 1);
            lock.with(None, || ran += 1);
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
