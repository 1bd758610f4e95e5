//! What can be wrong with a range, and why a range was not locked.

use super::holder::Holder;
use std::fmt;
use thiserror::Error;

/// A range that has no keys.
///
/// ```
/// use manx::range::{InvalidRange, Span};
///
/// assert_eq!(Span::new(3, 3), Err(InvalidRange::Empty));
/// assert_eq!(Span::new(9, 3), Err(InvalidRange::Inverted));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum InvalidRange {
    /// It ends where it begins.
    #[error("the range is empty: its end is its start, and ends do not belong to ranges")]
    Empty,
    /// It ends before it begins.
    #[error("the range is inverted: its end is before its start")]
    Inverted,
    /// It overlaps another member of the same set.
    #[error("two ranges of the set overlap: merge them, or ask for that")]
    Overlapping,
    /// It ends behind the last element.
    #[error("the range ends behind the last element")]
    Outside,
}

impl From<std::convert::Infallible> for InvalidRange {
    fn from(never: std::convert::Infallible) -> InvalidRange {
        match never {}
    }
}

/// Why a range was not locked. Whatever was held before is still held.
///
/// ```
/// use manx::range::{InvalidRange, LockError, RangeLock};
/// use std::error::Error;
///
/// let file: RangeLock<u64> = RangeLock::new();
/// let error = file.lock(9..3).unwrap_err();
/// assert_eq!(error, LockError::InvalidRange(InvalidRange::Inverted));
/// assert!(error.source().is_some_and(|source| source.is::<InvalidRange>()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LockError {
    /// It is no range.
    #[error("{0}")]
    InvalidRange(#[from] InvalidRange),
    /// It would have to be waited for.
    #[error("the range would have to be waited for")]
    WouldBlock,
    /// It was waited for until the deadline.
    #[error("the range could not be had by the deadline")]
    TimedOut,
    /// The lock holds as many ranges as it may.
    #[error(
        "the lock holds {limit} ranges beside those it has room for, and may not hold more: release some, lock wider \
         ranges, or make it with a higher limit"
    )]
    TooMany {
        /// The maximum number of ranges, beside the ranges that have room in the lock itself.
        limit: u32,
    },
    /// The holders of the range wait for the asker, directly or through others. Only locks that
    /// look for this report it.
    #[error("{0}")]
    Deadlock(#[source] Box<Deadlock>),
    /// Another holder that shares the range waits to have it alone as well. One of the two has to
    /// release it first. (A lock that looks for circles reports this circle as
    /// [`LockError::Deadlock`].)
    #[error(
        "somebody else who shares the range waits to have it alone as well: release it, then lock it again"
    )]
    UpgradeDeadlock,
    /// The owner holds no such range.
    #[error("the owner holds no such range")]
    NotHeld,
}

/// A waiter in a circle, and the next member of the circle, which it waits for.
///
/// ```
/// use manx::range::{LockError, Options, RangeLock};
///
/// let table: RangeLock<u64> = RangeLock::with(Options::new().detecting_deadlocks());
/// let (mut one, mut other) = (table.owner(), table.owner());
/// (one.lock(0..10)?, other.lock(20..30)?);
/// std::thread::scope(|scope| {
///     let first = scope.spawn(|| one.lock(20..21));
///     while table.dump().waiting.is_empty() {
///         std::thread::yield_now();
///     }
///     let Err(LockError::Deadlock(circle)) = other.lock(5..6) else { panic!("no deadlock") };
///     for link in &circle.links {
///         println!("{} waits for {}, which {} has", link.waiter, link.wants, link.holder);
///     }
///     drop(other);
///     first.join().unwrap()
/// })?;
/// # Ok::<(), LockError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The identity of the waiter.
    pub waiter: Holder,
    /// What it is called, if it is an owner with a [tag](super::Owner::set_tag).
    pub waiter_tag: Option<u64>,
    /// The ranges that it wants.
    pub wants: String,
    /// The identity of the next member.
    pub holder: Holder,
    /// As [`Link::waiter_tag`].
    pub holder_tag: Option<u64>,
    /// What that one holds of it; or wants as well, if it came first.
    pub holds: String,
}

/// A circle of waiters.
///
/// ```
/// use manx::range::LockError;
///
/// fn explain(error: &LockError) -> String {
///     match error {
///         // Which waiter waits for which one, and for what.
///         LockError::Deadlock(circle) => format!("{} waiters in a circle: {circle}", circle.links.len()),
///         other => other.to_string(),
///     }
/// }
/// assert!(explain(&LockError::TimedOut).contains("deadline"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// The first link's waiter came last. The last link's waiter waits for it.
    pub links: Vec<Link>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("nobody could go on: ")?;
        for (index, link) in self.links.iter().enumerate() {
            if index > 0 {
                to.write_str("; ")?;
            }
            let (waiter, holder) =
                (Participant(link.waiter, link.waiter_tag), Participant(link.holder, link.holder_tag));
            write!(to, "{waiter} waits for {}, of which {holder} has {}", link.wants, link.holds)?;
        }
        Ok(())
    }
}

impl std::error::Error for Deadlock {}

/// A waiter or a holder, by number and tag.
struct Participant(Holder, Option<u64>);

impl fmt::Display for Participant {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)?;
        self.1.map_or(Ok(()), |tag| write!(to, " (tag {tag})"))
    }
}
