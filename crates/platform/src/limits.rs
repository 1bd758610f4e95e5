//! Limits that the kernel has for the process.

use crate::syscall::{check, syscall4};

/// How many descriptors a process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// The limit now.
    pub now: u64,
    /// The limit to which the process may raise it by itself.
    pub most: u64,
}

/// How many descriptors this process may have open.
///
/// ```
/// let limit = platform::limits::open_files().expect("it can be asked for");
/// assert!(limit.now > 0 && limit.now <= limit.most);
/// ```
///
/// # Errors
/// The error number of `prlimit`.
pub fn open_files() -> Result<OpenFiles, i32> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let own = 0;
    let which = libc::RLIMIT_NOFILE as usize;
    // SAFETY: the kernel writes the limit, and is given no new one.
    check(unsafe { syscall4(libc::SYS_prlimit64, own, which, 0, (&raw mut limit).addr()) })?;
    Ok(OpenFiles { now: limit.rlim_cur, most: limit.rlim_max })
}

/// Sets how many files the process may have open. Files that are open stay open.
///
/// ```
/// use platform::limits::{open_files, set_open_files};
///
/// let limit = open_files().expect("it can be asked for");
/// set_open_files(limit.now).expect("no more than before");
/// assert_eq!(open_files(), Ok(limit));
/// ```
///
/// # Errors
/// The error number of `prlimit`: `EINVAL` if that is more than the process may raise it to.
pub fn set_open_files(now: u64) -> Result<(), i32> {
    let limit = libc::rlimit { rlim_cur: now, rlim_max: open_files()?.most };
    let own = 0;
    let which = libc::RLIMIT_NOFILE as usize;
    // SAFETY: the kernel reads the limit; it takes no open descriptor away.
    check(unsafe { syscall4(libc::SYS_prlimit64, own, which, (&raw const limit).addr(), 0) }).map(drop)
}

/// Raises the limit of open files to `wanted`, or as far as the process may raise it by itself, and
/// returns the limit then. It is never lowered.
///
/// ```
/// use platform::limits::{open_files, raise_open_files};
///
/// let limit = open_files().expect("it can be asked for");
/// assert_eq!(raise_open_files(1), Ok(limit.now));
/// ```
///
/// # Errors
/// The error number of `prlimit`, if the limit cannot be asked for.
pub fn raise_open_files(wanted: u64) -> Result<u64, i32> {
    let limit = open_files()?;
    let raised = wanted.min(limit.most);
    Ok(if raised > limit.now && set_open_files(raised).is_ok() { raised } else { limit.now })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_most() {
        let limit = open_files().unwrap();
        if limit.most < u64::MAX {
            assert_eq!(set_open_files(limit.most + 1), Err(libc::EINVAL));
        }
        assert_eq!(open_files(), Ok(limit));
    }
}
