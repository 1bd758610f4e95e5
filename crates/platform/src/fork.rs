//! Whether the process is another one than it was: forked.
//!
//! A fork's child has the calling thread alone. Whoever keeps threads asks, before it relies on them, whether the
//! [`generation`] is still the one in which they were started.

use crate::atomic::{AtomicU32, Ordering};
use std::sync::Once;

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts the forks between the first process that called [`watch`] and this one.
///
/// ```
/// platform::fork::watch();
/// let before = platform::fork::generation();
/// assert_eq!(platform::fork::generation(), before);
/// ```
#[inline]
pub fn generation() -> u32 {
    // Relaxed: the child's only thread has forked, so it knows.
    GENERATION.load(Ordering::Relaxed)
}

/// From now on forks are counted: those that go through the C library.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler only adds to a number. If there is no memory for it, forks are not counted.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_of_another_generation() {
        watch();
        let before = generation();
        // SAFETY: the child only reads a number and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            crate::memory::exit_now(i32::from(generation() != before + 1));
        }
        let mut status = -1;
        // SAFETY: waits for the child of a moment ago.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((status, generation()), (0, before));
    }
}
