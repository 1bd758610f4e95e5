//! Cancellation of a thread that waits for a condition: the C library's types of it around
//! [`platform::cancel::wait`].

use super::real;
use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use platform::futex::{self, Deadline, Outcome};

/// `PTHREAD_CANCEL_DEFERRED`
const DEFERRED: c_int = 0;

/// As [`platform::cancel::wait`]; where the C library has no cancellation, as [`futex::wait_set`].
pub(super) fn wait(
    word: &AtomicU32,
    expected: u32,
    deadline: Option<Deadline>,
    type_before: &mut c_int,
) -> Outcome {
    match real::setcanceltype() {
        Some(set_type) => platform::cancel::wait(word, expected, deadline, set_type, type_before),
        None => futex::wait_set(word, expected, futex::ANY_SET, deadline),
    }
}

/// Back to the type of cancellation that the thread had.
pub(super) fn restore(type_before: c_int) {
    if let Some(set_type) = real::setcanceltype()
        && type_before == DEFERRED
    {
        let mut ignored = 0;
        set_type(type_before, &mut ignored);
    }
}
