//! What system calls take that do next to nothing.
//!
//! `getppid` enters the kernel, reads a number and returns: what every call takes. A futex call
//! with nothing to do takes that, and what it needs to find the word's queue: a wait for a word
//! that has changed returns at once, and so does a wake-up of a word at which no thread waits.

use super::samples::{Samples, batches};
use platform::atomic::AtomicU32;
use platform::{futex, syscall};
use std::hint::black_box;

/// A system call.
pub fn call() -> Samples {
    batches(300, 200, || {
        // SAFETY: the call takes no argument and changes nothing.
        black_box(unsafe { syscall::syscall0(libc::SYS_getppid) });
    })
}

/// A wait for a word that has another value.
pub fn futex_wait() -> Samples {
    let word = AtomicU32::new(1);
    batches(300, 200, || {
        black_box(futex::wait(&word, 0));
    })
}

/// A wake-up at a word where no thread waits.
pub fn futex_wake() -> Samples {
    let word = AtomicU32::new(0);
    batches(300, 200, || {
        black_box(futex::wake(&word, 1));
    })
}
