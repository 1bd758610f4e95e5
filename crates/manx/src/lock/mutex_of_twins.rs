//! The default mutex around data, on twins: of the interface of `lock_api`, which needs a constant
//! that makes a lock, what rooms use that run there.
//!
//! 1. A guard exists only while its thread holds the mutex, so the data has one user at a time.

use super::RawMutex;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The default mutex around data.
#[derive(Default)]
pub struct Mutex<T> {
    raw: RawMutex,
    data: UnsafeCell<T>,
}

// SAFETY: by Invariant 1 the data is used by one thread at a time, and goes from one to another.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A mutex that no thread holds.
    pub fn new(data: T) -> Mutex<T> {
        Mutex { raw: RawMutex::new(), data: UnsafeCell::new(data) }
    }

    /// Waits until the calling thread holds the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.raw.acquire();
        MutexGuard { mutex: self }
    }

    /// Returns the data.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// The guard of a locked [`Mutex`]: gives access to the data, and unlocks when it is dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Invariant 1.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Invariant 1.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `Mutex::lock` has acquired it.
        unsafe { self.mutex.raw.release() };
    }
}
