//! What can go wrong with a registry, and with a member of it.

use super::slots::PLACES;
use std::path::PathBuf;
use thiserror::Error;

/// Why there is no registry, or no place in it.
///
/// ```
/// use manx::pool::registry::{Registry, RegistryError};
///
/// let error = Registry::at("/proc/no/such/folder").unwrap_err();
/// assert!(matches!(error, RegistryError::Io { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The system refused something.
    #[error("{path}: {}", std::io::Error::from_raw_os_error(*number))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error number.
        number: i32,
    },
    /// The file is not a registry, or not this user's own.
    #[error("{path} is not a registry of CPUs: {why}: remove it, or name another file")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The process that makes the file does not finish.
    #[error("{path} is being made, and the process that makes it does not continue: continue or end it")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file was removed, and there is another one now.
    #[error("{path} was removed and made anew: open the registry again")]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// All places are taken.
    #[error("{path} has no place left: {PLACES} members are in it")]
    Full {
        /// The file.
        path: PathBuf,
    },
}

/// Why a membership has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// This process was forked from the process that joined.
    #[error("the parent process is the member, not this fork of it: join in this process, too")]
    Forked,
    /// Its place was taken from it: a process wrote to the file, or ended the lock.
    #[error("the place in the registry was lost: join again")]
    Evicted,
    /// The registry's file was removed.
    #[error("the registry's file was removed: open it and join again")]
    Removed,
}
