//! Why a range was not locked on several machines.

use crate::range::error::InvalidRange;
use std::fmt;
use std::time::Duration;

/// Why a call failed. What was held before is still held, unless the session is lost.
///
/// ```
/// use manx::range::cluster::{Error, Options, Session};
/// use std::time::Duration;
///
/// // Nothing listens on this port.
/// let options = Options::new(["127.0.0.1:1"]).connect_timeout(Duration::from_millis(50));
/// let error = Session::connect(options).unwrap_err();
/// assert!(matches!(error, Error::Unreachable { .. }));
/// assert!(error.to_string().starts_with("etcd at 127.0.0.1:1 did not answer within 50ms: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no range.
    #[error("{0}")]
    InvalidRange(#[from] InvalidRange),
    /// It would have to be waited for.
    #[error("the range would have to be waited for")]
    WouldBlock,
    /// It was waited for until the deadline.
    #[error("the range could not be had by the deadline")]
    TimedOut,
    /// The holders of the range wait for the asker, directly or through others.
    #[error("{0}")]
    Deadlock(#[source] Box<Deadlock>),
    /// The owner holds no such range.
    #[error("the owner holds no such range")]
    NotHeld,
    /// The session has ended: etcd was not reached for as long as its lease lasts, or has ended the
    /// lease. All that it held is given back. Make another session.
    #[error("the session is lost, and all that it held is given back ({0}): make another session")]
    SessionLost(String),
    /// No member of etcd answered.
    #[error("etcd at {endpoints} did not answer within {after:?}: {why}")]
    Unreachable {
        /// The members that were asked.
        endpoints: String,
        /// For how long they were asked.
        after: Duration,
        /// What the last attempt said.
        why: String,
    },
    /// A member answered, and refuses: it lacks rights or space, for example.
    #[error("etcd refuses: {0}")]
    Refused(String),
    /// A key below the lock's prefix is no request of a range lock.
    #[error(
        "the key {0} in etcd is no request of a range lock of this version: remove it, or choose another name for the \
         lock"
    )]
    Foreign(String),
    /// The options cannot be used, or the machine cannot do it.
    #[error("{0}")]
    Unusable(String),
}

/// A waiter or a holder, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The name of its session ([`Options::name`](super::Options::name)).
    pub session_name: String,
    /// The id of its session's lease, with which `etcdctl lease` works.
    pub session: i64,
    /// The number of the owner or the thread within its session.
    pub number: u64,
    /// What it is called, if it is an owner with a [tag](super::Owner::set_tag).
    pub tag: Option<u64>,
}

impl fmt::Display for Participant {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} (session {:x}, owner {}", self.session_name, self.session, self.number)?;
        self.tag.map_or(Ok(()), |tag| write!(to, ", tag {tag}"))?;
        to.write_str(")")
    }
}

/// A waiter in a circle, and the next member of the circle, which it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The waiter.
    pub waiter: Participant,
    /// The ranges that it wants.
    pub wants: String,
    /// The next member.
    pub holder: Participant,
    /// What that one holds of it; or wants as well, if it came first.
    pub holds: String,
}

/// A circle of waiters.
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
            write!(
                to,
                "{} waits for {}, and {} has {} of it",
                link.waiter, link.wants, link.holder, link.holds
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Deadlock {}
