//! What went wrong below, in words: what, where, and what to do.

use crate::txn::DataError;
use std::io::{self, ErrorKind};

/// Whether a write failed for want of room. Then nothing is damaged, and it can be tried again.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Something could not be read, written, synced, …
pub(super) fn of_io(place: &str, done: &str, error: &io::Error) -> DataError {
    let remedy = match error.kind() {
        _ if is_full(error) => "make room there",
        ErrorKind::PermissionDenied => "see to it that this user may read and write there",
        ErrorKind::ReadOnlyFilesystem => "mount it for writing",
        ErrorKind::UnexpectedEof => "the file has been cut short: bring back a copy of the folder",
        _ => "look at the disk (dmesg), and open the store again",
    };
    DataError::new(format!("{place} could not be {done}: {error}: {remedy}"))
}

/// Something is not as the store leaves it.
pub(super) fn damaged(place: &str, what: &str) -> DataError {
    DataError::new(format!("{place} is damaged: {what}: bring back a copy of the folder"))
}

/// What the engine says.
pub(super) fn of_engine(place: &str, done: &str, error: redb::Error) -> DataError {
    match error {
        redb::Error::Io(error) if error.kind() == ErrorKind::InvalidData => {
            damaged(place, &error.to_string())
        }
        redb::Error::Io(error) => of_io(place, done, &error),
        redb::Error::Corrupted(what) => damaged(place, &what),
        redb::Error::PreviousIo => {
            DataError::new(format!("{place} could not be {done}: it failed before: open the store again"))
        }
        redb::Error::UpgradeRequired(version) => {
            DataError::new(format!("{place} has the file format {version}, which this version does not know"))
        }
        other => DataError::new(format!("{place} could not be {done}: {other}")),
    }
}
