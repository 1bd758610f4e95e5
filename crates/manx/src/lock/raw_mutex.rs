//! Each lock of this room as a [`::lock_api::RawMutex`].

use super::{Asl, FutexMutex, Mcs, RawLock, Reorderable};

crate::for_lock_api! {
    [] Mcs;
    [] FutexMutex;
    [L: RawLock] Reorderable<L>;
    [L: RawLock] Asl<L>;
}

/// A constructor for statics.
macro_rules! const_new {
    ($($lock:ident),*) => {$(
        impl<L: RawLock> $lock<L> {
            /// A free lock.
            pub const fn new() -> Self {
                $lock::over(L::INIT)
            }
        }
    )*};
}

const_new! { Reorderable, Asl }
