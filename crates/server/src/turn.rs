//! The last resort of a transaction that has conflicted for long: a turn, in which no other
//! transaction begins.
//!
//! The first writer of a key wins, so a long transaction among many short ones may lose for ever.
//! In its turn only those transactions are in its way that had begun before, and these end.
//!
//! The transaction that has the turn takes no retry lock, and others that wait for its end have no
//! transaction open. So it waits for no thread that waits for it.

use manx::lock::{Mutex, MutexGuard};
use manx::pool::block_in_place;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// See [the module](self).
#[derive(Default)]
pub(crate) struct Turn {
    // Relaxed: a transaction that sees it too late is one that had begun before.
    is_taken: AtomicBool,
    lock: Mutex<()>,
}

/// A transaction's turn, until it is dropped.
pub(crate) struct Taken<'t> {
    turn: &'t Turn,
    _guard: MutexGuard<'t, ()>,
}

impl Turn {
    /// Waits for the end of another transaction's turn, if there is one.
    #[inline]
    pub(crate) fn respect(&self) {
        if self.is_taken.load(Relaxed) {
            drop(self.lock());
        }
    }

    #[cold]
    fn lock(&self) -> MutexGuard<'_, ()> {
        block_in_place(|| self.lock.lock())
    }

    /// Waits until it is the calling transaction's turn. It is not open, and has no retry lock.
    pub(crate) fn take(&self) -> Taken<'_> {
        let guard = self.lock();
        self.is_taken.store(true, Relaxed);
        Taken { turn: self, _guard: guard }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.turn.is_taken.store(false, Relaxed);
    }
}
