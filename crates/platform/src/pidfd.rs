//! A descriptor that stands for a process: it tells when the process has ended, and never means
//! another process that got the same number later.

use crate::syscall::{check, syscall2};
use std::os::fd::{FromRawFd as _, OwnedFd};

/// Opens a descriptor of a process. It is ready to be read, for `poll`, once the process has ended;
/// nothing can be read from it.
///
/// ```
/// let own = platform::pidfd::open(std::process::id());
/// assert!(own.is_ok() || own.err() == Some(libc::ENOSYS));
/// ```
///
/// # Errors
/// The error number of `pidfd_open`: `ESRCH` if there is no such process, `ENOSYS` before Linux
/// 5.3.
pub fn open(pid: u32) -> Result<OwnedFd, i32> {
    // SAFETY: a new descriptor disturbs nothing.
    let descriptor = check(unsafe { syscall2(libc::SYS_pidfd_open, pid as usize, 0) })?;
    // SAFETY: the kernel has just made it, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
