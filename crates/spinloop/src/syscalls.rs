//! Does a module set signal masks or actions without the C library?
//!
//! A breakpoint in a thread that blocks SIGTRAP kills the process, and the guard can keep SIGTRAP open only
//! where the mask is set through the functions that it interposes. A module that issues `rt_sigaction` (13)
//! or `rt_sigprocmask` (14) itself goes around them, so its process gets jumps only from there on. Such code
//! loads the number into `eax` shortly before `syscall`; that is what is looked for here, in raw bytes and
//! without a decoder. A false alarm costs a few breakpoints, and is rare: two patterns of two to seven bytes
//! within 32 bytes of each other.

/// How far behind the number's load the SYSCALL may stand.
const REACH: usize = 32;

/// Whether `text` holds `mov eax, 13` or `mov eax, 14` with a `syscall` closely behind it.
///
/// ```
/// assert!(spinloop::resembles_raw_signal_syscall(b"\xb8\x0e\0\0\0\x0f\x05"));
/// assert!(!spinloop::resembles_raw_signal_syscall(b"\xb8\x0f\0\0\0\x0f\x05"));
/// ```
pub fn resembles_raw_signal_syscall(text: &[u8]) -> bool {
    // SYSCALL is rarer than the loads: find it, and look back.
    memchr::memmem::find_iter(text, &[0x0f, 0x05]).any(|at| {
        let before = &text[at.saturating_sub(REACH)..at];
        before.windows(5).any(|five| matches!(five, [0xb8, 13 | 14, 0, 0, 0]))
            || before.windows(7).any(|seven| matches!(seven, [0x48, 0xc7, 0xc0, 13 | 14, 0, 0, 0]))
    })
}
