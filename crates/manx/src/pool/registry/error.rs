//! What can go wrong with a registry, and with a member of it.

use super::slots::PLACES;
use std::fmt;
use std::path::PathBuf;

/// Why there is no registry, or no place in it.
///
/// ```
/// use manx::pool::registry::{Registry, RegistryError};
///
/// let error = Registry::at("/proc/no/such/folder").unwrap_err();
/// assert!(matches!(error, RegistryError::Io { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// The system refused something.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error number.
        number: i32,
    },
    /// The file is not a registry, or not this user's own.
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The process that makes the file does not finish.
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file was removed, and there is another one now.
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// All places are taken.
    Full {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::Io { path, number } => {
                write!(f, "{}: {}", path.display(), std::io::Error::from_raw_os_error(*number))
            }
            RegistryError::Foreign { path, why } => {
                let path = path.display();
                write!(f, "{path} is not a registry of CPUs: {why}: remove it, or name another file")
            }
            RegistryError::Busy { path } => {
                let path = path.display();
                write!(
                    f,
                    "{path} is being made, and the process that makes it does not continue: continue or end it"
                )
            }
            RegistryError::Replaced { path } => {
                write!(f, "{} was removed and made anew: open the registry again", path.display())
            }
            RegistryError::Full { path } => {
                write!(f, "{} has no place left: {PLACES} members are in it", path.display())
            }
        }
    }
}

impl std::error::Error for RegistryError {}

/// Why a membership has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MembershipError {
    /// This process was forked from the process that joined.
    Forked,
    /// Its place was taken from it: a process wrote to the file, or ended the lock.
    Evicted,
    /// The registry's file was removed.
    Removed,
}

impl fmt::Display for MembershipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MembershipError::Forked => {
                "the parent process is the member, not this fork of it: join in this process, too"
            }
            MembershipError::Evicted => "the place in the registry was lost: join again",
            MembershipError::Removed => "the registry's file was removed: open it and join again",
        })
    }
}

impl std::error::Error for MembershipError {}
