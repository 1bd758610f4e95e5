//! Each lock of this room as a [`::lock_api::RawMutex`].

use super::{Asl, FutexMutex, Mcs, RawLock, Reorderable};
use ::lock_api::RawMutex;

crate::for_lock_api! {
    [] Mcs;
    [] FutexMutex;
    [L: RawLock + RawMutex<Guard = <L as RawLock>::Held>] Reorderable<L>;
    [L: RawLock + RawMutex<Guard = <L as RawLock>::Held>] Asl<L>;
}

/// Locks that start without running anything, over each lock that does.
macro_rules! const_new {
    ($($lock:ident),*) => {$(
        impl<L: RawLock + RawMutex> $lock<L> {
            /// A free lock.
            pub const fn new() -> Self {
                $lock::over(<L as RawMutex>::INIT)
            }
        }
    )*};
}

const_new! { Reorderable, Asl }
