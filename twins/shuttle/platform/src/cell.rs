//! Shared memory whose users keep order among themselves; two that do not are reported.
//!
//! An access says when it begins and ends, and others may go first in between. A thread that begins
//! to write while another one uses the cell, or to read while another one writes, panics. That
//! finds accesses that overlap in some order of steps, and not those that only a weaker memory
//! order lets overlap: shuttle has none.

use std::sync::atomic::{AtomicIsize, Ordering};

/// Nobody uses the cell.
const FREE: isize = 0;
/// Somebody writes. Positive numbers count those who read.
const WRITTEN: isize = -1;

/// A cell that is used through closures.
#[derive(Debug, Default)]
pub struct UnsafeCell<T: ?Sized> {
    // The standard library's atomic: the bookkeeping is no step of the program.
    users: AtomicIsize,
    value: core::cell::UnsafeCell<T>,
}

impl<T> UnsafeCell<T> {
    /// A cell with this value.
    pub const fn new(value: T) -> Self {
        UnsafeCell { users: AtomicIsize::new(FREE), value: core::cell::UnsafeCell::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `read` with the value's address.
    ///
    /// # Panics
    /// If somebody writes meanwhile.
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        let users = self.users.load(Ordering::Relaxed);
        assert!(users != WRITTEN, "a cell is read while another thread writes it");
        let _visit = self.visit(1);
        read(self.value.get())
    }

    /// Calls `write` with the value's address.
    ///
    /// # Panics
    /// If somebody reads or writes meanwhile.
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        let users = self.users.load(Ordering::Relaxed);
        assert!(users == FREE, "a cell is written while another thread uses it");
        let _visit = self.visit(WRITTEN);
        write(self.value.get())
    }

    /// Is in the cell until the result is dropped.
    fn visit(&self, mine: isize) -> Visit<'_> {
        self.users.fetch_add(mine, Ordering::Relaxed);
        let visit = Visit { users: &self.users, mine };
        crate::chance::step();
        visit
    }
}

/// An access in progress.
struct Visit<'a> {
    users: &'a AtomicIsize,
    mine: isize,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.users.fetch_sub(self.mine, Ordering::Relaxed);
    }
}
