//! The locks of the comparisons by name.

crate::named! {
    /// A lock of the comparison.
    pub enum Lock {
        /// The standard library's.
        Std = "std",
        /// The C library's.
        Glibc = "glibc",
        /// Adaptive, and fair from time to time.
        ParkingLot = "parking_lot",
        /// Test and set.
        Tas = "tas",
        /// By tickets.
        Ticket = "ticket",
        /// Mellor-Crummey and Scott's queue.
        Mcs = "mcs",
        /// The same, with waiters that park.
        McsPark = "mcs-park",
        /// Drepper's, beneath which nothing is in order.
        Futex = "futex-mutex",
        /// Manx's default.
        Manx = "manx",
        /// One big core's turn to one little core's.
        Shfl1 = "shfl-1",
        /// 3 to 1.
        Shfl3 = "shfl-3",
        /// 5 to 1.
        Shfl5 = "shfl-5",
        /// 10 to 1.
        Shfl10 = "shfl-10",
        /// 20 to 1.
        Shfl20 = "shfl-20",
        /// 30 to 1.
        Shfl30 = "shfl-30",
        /// LibASL as it is printed.
        Libasl = "libasl",
        /// The same with threads that sleep, over the C library's mutex.
        LibaslBlocking = "libasl-blocking",
        /// Little cores stand by before an MCS lock, for the window of their epoch.
        AslMcs = "asl(mcs)",
        /// … before an MCS lock whose waiters park.
        AslMcsPark = "asl(mcs-park)",
        /// … before a lock without order.
        AslFutex = "asl(futex-mutex)",
        /// Little cores stand by before an MCS lock, for a fixed window.
        Static = "reorderable(mcs)",
    }
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

    /// The lock of this name; `None` if there is no such lock.
    ///
    /// ```
    /// use contention::lock::Lock;
    ///
    /// assert_eq!(Lock::named("mcs"), Some(Lock::Mcs));
    /// assert_eq!(Lock::named("no lock"), None);
    /// ```
    pub fn named(name: &str) -> Option<Lock> {
        Lock::ALL.iter().copied().find(|lock| lock.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_found_by_its_name() {
        assert!(Lock::ALL.iter().all(|lock| Lock::named(lock.name()) == Some(*lock)));
    }
}
