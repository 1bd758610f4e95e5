//! Shared memory whose users keep order among themselves: an access is a step.
//!
//! A change of such memory is a load and a store of one line. It holds the program up no more than
//! a store does: CPUs go on with what does not need the value.

use crate::atomic::access;
use crate::lines::Access;

/// A cell that is used through closures.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T: ?Sized>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell with this value.
    pub const fn new(value: T) -> Self {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `read` with the value's address.
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get().addr(), Access::Load);
        read(self.0.get())
    }

    /// Calls `write` with the value's address.
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get().addr(), Access::Store);
        write(self.0.get())
    }
}
