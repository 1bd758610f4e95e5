//! Shared memory whose users keep order among themselves.

/// [`core::cell::UnsafeCell`], used through closures, so that a model checker can see when an
/// access begins and ends.
///
/// ```
/// let cell = platform::cell::UnsafeCell::new(1);
/// // SAFETY: nobody else knows of the cell.
/// cell.with_mut(|value| unsafe { *value += 1 });
/// assert_eq!(cell.into_inner(), 2);
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T: ?Sized>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell with this value.
    #[inline(always)]
    pub const fn new(value: T) -> Self {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    /// The value.
    #[inline(always)]
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `read` with the value's address. The caller makes sure that no
    /// thread writes meanwhile.
    #[inline(always)]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with the value's address. The caller makes sure that no
    /// other thread reads or writes meanwhile.
    #[inline(always)]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
