//! The locks that manx's own ones are compared with, each as its authors describe it and made
//! correct.
//!
//! All of them are [`RawLock`](manx::lock::RawLock)s and, on the machine, `lock_api::RawMutex`es,
//! so each may stand beneath [`Reorderable`](manx::lock::Reorderable) and [`Asl`](manx::lock::Asl).
//! Those in the order of arrival collapse when threads outnumber CPUs; they are here to show that.

mod libasl;
pub mod libasl_epoch;
mod mcs_park;
mod mutable_lock;
mod parked;
mod shfl;
mod spin_futex;
mod tas;
mod ticket;

pub use libasl::{Libasl, LibaslBlocking, LibaslOver};
pub use libasl_epoch::WINDOW_NS_MAX;
pub use mcs_park::McsPark;
pub use mutable_lock::MutableLock;
pub use parked::Parked;
pub use shfl::Shfl;
pub use spin_futex::SpinFutex;
pub use tas::{Tas, TestAndSet, Ttas};
pub use ticket::Ticket;

platform::os_only! {
    manx::for_lock_api! {
        [const LOOKS: bool] TestAndSet<LOOKS>;
        [] Ticket;
        [] McsPark;
        [] MutableLock;
        [] Parked;
        [] SpinFutex;
        [const BIG: u32] Shfl<BIG>;
        [L: manx::lock::RawLock, const SLEEPS: bool] LibaslOver<L, SLEEPS>;
    }
}
