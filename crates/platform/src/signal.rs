//! Signals as the kernel sees them: masks of 64 bits, and those that are pending.
//!
//! The C library's own calls hide the two signals that it keeps for itself; these go to the kernel.

use crate::syscall::{check, syscall2, syscall4};

/// A set of signals as the kernel keeps it: bit `n - 1` stands for signal `n`.
pub type Mask = u64;

/// The bit of a signal in a [`Mask`].
pub const fn bit(signal: i32) -> Mask {
    1 << (signal - 1)
}

/// All signals but those that the thread's own instructions raise. If an instruction raises a
/// blocked signal, the kernel ends the process and does not run the handler. A sandbox may need
/// that handler: on SIGSYS it makes system calls that the thread may not make itself.
pub const FROM_OUTSIDE: Mask = !(bit(libc::SIGSYS)
    | bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP));

/// How [`change_mask`] combines its argument with the thread's mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Change {
    /// Adds signals to the blocked ones.
    Block = libc::SIG_BLOCK,
    /// Blocks exactly these.
    Set = libc::SIG_SETMASK,
}

/// Changes the calling thread's mask and returns the one before.
#[inline]
pub fn change_mask(how: Change, mask: Mask) -> Mask {
    let mut old: Mask = 0;
    let (new, place) = ((&raw const mask).addr(), (&raw mut old).addr());
    // SAFETY: the kernel reads and writes one mask each, and cannot fail with these arguments.
    let _ = unsafe { syscall4(libc::SYS_rt_sigprocmask, how as usize, new, place, 8) };
    old
}

/// The signals that are pending for the calling thread or for the process.
pub fn pending() -> Mask {
    let mut set: Mask = 0;
    let place = (&raw mut set).addr();
    // SAFETY: the kernel writes one mask.
    let _ = unsafe { syscall2(libc::SYS_rt_sigpending, place, 8) };
    set
}

/// Takes pending signals of `set`, which must be blocked, without handling them.
pub fn discard(set: Mask) {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let (set, time) = ((&raw const set).addr(), (&raw const at_once).addr());
    // SAFETY: the kernel reads one mask and one timespec.
    while set != 0 && check(unsafe { syscall4(libc::SYS_rt_sigtimedwait, set, 0, time, 8) }).is_ok() {}
}

/// Runs `write` without the signals that a failed write raises (SIGPIPE, SIGXFSZ): the write
/// returns an error, and the program goes on.
pub fn without_write_signals<T>(write: impl FnOnce() -> T) -> T {
    const OURS: Mask = bit(libc::SIGPIPE) | bit(libc::SIGXFSZ);
    let before = change_mask(Change::Block, OURS);
    let pending_before = pending();
    let result = write();
    discard(OURS & !pending_before);
    change_mask(Change::Set, before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_nobody_reads_ends_nothing() {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors, which are this test's.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            libc::close(ends[0]);
        }
        // A test's runner ignores SIGPIPE; a program does not.
        // SAFETY: the default action.
        let handler = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        // SAFETY: one byte of this function's.
        let written = without_write_signals(|| unsafe { libc::write(ends[1], c"x".as_ptr().cast(), 1) });
        assert_eq!(written, -1);
        // SAFETY: as it was.
        unsafe {
            libc::signal(libc::SIGPIPE, handler);
            libc::close(ends[1]);
        }
    }

    #[test]
    fn a_signal_that_is_blocked_is_pending_until_it_is_discarded() {
        let usr2 = bit(libc::SIGUSR2);
        let before = change_mask(Change::Block, usr2);
        // SAFETY: the signal is blocked, so nothing runs.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert_ne!(pending() & usr2, 0);
        discard(usr2);
        assert_eq!(pending() & usr2, 0);
        assert_eq!(change_mask(Change::Set, before), before | usr2);
        assert_eq!(change_mask(Change::Block, 0), before);
    }
}
