//! Why a thread would have waited for ever, kept for its next question.

use manx::range::LockError;
use std::cell::RefCell;

thread_local! {
    /// Why the last `EDEADLK` was returned.
    static DEADLOCK: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what an error says, for a later question on this thread.
pub(super) fn remember(error: &LockError) {
    // A thread that is about to end asks no more.
    let _ = DEADLOCK.try_with(|text| *text.borrow_mut() = error.to_string());
}

/// Calls `look` with why the last `EDEADLK` was returned to this thread; `None` in a thread that is
/// about to end.
pub(super) fn with_last<R>(look: impl FnOnce(&str) -> R) -> Option<R> {
    DEADLOCK.try_with(|text| look(&text.borrow())).ok()
}
