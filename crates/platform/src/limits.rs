//! Limits that the kernel has for the process.

use crate::syscall::{check, syscall4};

/// Raises the limit of open files to `wanted`, or as far as the process may raise it by itself, and
/// returns the limit then. It is never lowered.
///
/// ```
/// let before = platform::limits::raise_open_files(1).expect("it can be asked for");
/// assert!(platform::limits::raise_open_files(u64::MAX).expect("as far as it may") >= before);
/// ```
///
/// # Errors
/// The error number of `prlimit`, if the limit cannot be asked for.
pub fn raise_open_files(wanted: u64) -> Result<u64, i32> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let (own, which) = (0, libc::RLIMIT_NOFILE as usize);
    // SAFETY: the kernel writes the limit, and is given no new one.
    check(unsafe { syscall4(libc::SYS_prlimit64, own, which, 0, (&raw mut limit).addr()) })?;
    let raised = libc::rlimit { rlim_cur: wanted.min(limit.rlim_max), ..limit };
    if raised.rlim_cur <= limit.rlim_cur {
        return Ok(limit.rlim_cur);
    }
    // SAFETY: the kernel reads the limit; it takes no open descriptor away.
    let set = check(unsafe { syscall4(libc::SYS_prlimit64, own, which, (&raw const raised).addr(), 0) });
    Ok(if set.is_ok() { raised.rlim_cur } else { limit.rlim_cur })
}
