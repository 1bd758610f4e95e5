//! Why a transaction could not go on, and what to do about it.

use super::data::{DataError, Value};
use crate::range::{Deadlock, InvalidRange, LockError};
use std::fmt;
use std::time::Duration;

/// Why a transaction could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction has changed the key since this one's snapshot, or is about to. The first
    /// one wins: roll back and try again.
    #[error(
        "transaction {with} has changed the key {:?} in the meantime: roll back and try again",
        Shown(key)
    )]
    Conflict {
        /// The key.
        key: Value,
        /// The other transaction's id.
        with: u64,
    },
    /// Transactions wait for each other's key ranges, and this one was chosen to give up: roll back
    /// and try again.
    #[error("transactions wait for each other ({cycle}): roll back and try again")]
    Deadlock {
        /// Which transaction waits for which other one, and for what, in words. Those that have
        /// written have an id.
        cycle: String,
    },
    /// Other transactions have held a key range for as long as a serializable transaction waits
    /// ([`Options::lock_wait`](super::Options::lock_wait)): roll back and try again.
    #[error(
        "other transactions have held a range for {limit:?}: roll back and try again, or raise lock_wait"
    )]
    TimedOut {
        /// How long it has waited.
        limit: Duration,
    },
    /// As many transactions are at work as may, and none has ended within
    /// [`Options::active_wait`](super::Options::active_wait).
    #[error("{limit} transactions are at work, and no more may be: try again, or raise active_max")]
    TooMany {
        /// The maximum number of transactions at work.
        limit: u32,
    },
    /// All serializable transactions together hold as many ranges as may be. A transaction that
    /// scans or deletes a whole range holds only that range.
    #[error(
        "serializable transactions hold {limit} ranges, and no more may be held: scan or delete a range as a whole in \
         place of its keys, or divide the transaction"
    )]
    TooManyRanges {
        /// The maximum number of ranges, beside those for which there is always room.
        limit: u32,
    },
    /// There are as many sessions as may be.
    #[error("there are {limit} sessions, and no more may be: drop some, or raise sessions_max")]
    TooManySessions {
        /// The maximum number of sessions.
        limit: u32,
    },
    /// The moment that was to be read is older than what is kept.
    #[error("the read timestamp {asked} is older than {oldest}, the oldest that is kept: read later")]
    TooOld {
        /// The read timestamp.
        asked: u64,
        /// The oldest timestamp that can be read.
        oldest: u64,
    },
    /// A commit timestamp that may not be.
    #[error(
        "the commit timestamp {asked} is not above {above}, the oldest timestamp or that of one of its keys: take a \
         later one"
    )]
    BadTimestamp {
        /// The commit timestamp.
        asked: u64,
        /// It has to be above this one.
        above: u64,
    },
    /// The range is empty or inverted.
    #[error("{0}")]
    InvalidRange(#[source] InvalidRange),
    /// The transaction has failed before and can only be rolled back.
    #[error("the transaction has failed before: roll it back")]
    Failed,
    /// The savepoint is of another transaction, or this one was rolled back to an earlier one.
    #[error("the transaction has no such savepoint: take a new one")]
    NoSavepoint,
    /// Tried again as often as may be; the last reason.
    #[error("tried {times} times; the last time: {last}")]
    Retried {
        /// The number of tries.
        times: u32,
        /// Why it failed the last time.
        #[source]
        last: Box<Error>,
    },
    /// The data component failed.
    #[error("{0}")]
    Data(#[from] DataError),
}

impl Error {
    /// Whether the same transaction, begun again, may succeed.
    ///
    /// ```
    /// use manx::txn::Error;
    ///
    /// assert!(Error::Conflict { key: (*b"k").into(), with: 7 }.is_retryable());
    /// assert!(!Error::TooOld { asked: 1, oldest: 2 }.is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Conflict { .. } | Error::Deadlock { .. } | Error::TimedOut { .. } | Error::TooMany { .. }
        )
    }

    /// Why a range was not locked within the limit, of a transaction whose owner has its id for a
    /// tag.
    #[cold]
    pub(super) fn of_lock(error: LockError, limit: Option<Duration>) -> Error {
        match error {
            LockError::TimedOut => Error::TimedOut { limit: limit.unwrap_or_default() },
            LockError::Deadlock(circle) => Error::Deadlock { cycle: cycle(&circle) },
            LockError::TooMany { limit } => Error::TooManyRanges { limit },
            LockError::InvalidRange(bad) => Error::InvalidRange(bad),
            error => Error::Deadlock { cycle: error.to_string() },
        }
    }
}

/// Describes a circle; the transaction that gets the error comes first.
fn cycle(circle: &Deadlock) -> String {
    let mut text = String::new();
    for (index, link) in circle.links.iter().enumerate() {
        let (waiter, holder) = (named(link.waiter_tag), named(link.holder_tag));
        let comma = if index > 0 { "; " } else { "" };
        text += &format!("{comma}{waiter} waits for {}, of which {holder} has {}", link.wants, link.holds);
    }
    text
}

fn named(id: Option<u64>) -> String {
    id.map_or("one that has written nothing yet".into(), |id| format!("transaction {id}"))
}

/// A key as people read it.
struct Shown<'a>(&'a [u8]);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 64;
        write!(to, "\"{}\"", self.0[..self.0.len().min(SHOWN)].escape_ascii())?;
        if self.0.len() > SHOWN { write!(to, "… ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}
