//! A participant: it has one transaction at a time, and one snapshot at a time.

use super::coordinator::Coordinator;
use super::pin;
use super::publish::Replaced;
use super::session_slots::{SessionSlot, ended};
use super::snapshot::Snapshot;
use platform::atomic::Ordering;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A participant. One thread at a time uses it; it may go from thread to thread. What it has ends
/// when it is dropped.
pub struct Session {
    coordinator: Arc<Coordinator>,
    slot: usize,
    snapshot: Snapshot,
    is_pinned: bool,
    id: Option<u64>,
    replaced: Replaced,
    /// Not for several threads at once.
    alone: PhantomData<Cell<()>>,
}

/// The error of [`Coordinator::session`](super::Coordinator::session): the maximum number of
/// sessions exists already.
///
/// ```
/// use manx::txn::coordinator::Coordinator;
///
/// let coordinator = Coordinator::new(1);
/// let only = coordinator.session()?;
/// assert_eq!(coordinator.session().unwrap_err().limit, 1);
/// # drop(only);
/// # Ok::<(), manx::txn::coordinator::TooManySessions>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {limit} sessions, and no more may be: drop some, or allow more")]
#[non_exhaustive]
pub struct TooManySessions {
    /// The maximum number of sessions.
    pub limit: u32,
}

impl fmt::Debug for Session {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Session").field("slot", &self.slot).field("id", &self.id).finish_non_exhaustive()
    }
}

impl Coordinator {
    /// A new session.
    ///
    /// # Errors
    /// There are as many as may be.
    pub fn session(self: &Arc<Self>) -> Result<Session, TooManySessions> {
        let limit = self.slots.len();
        let slot = self.slots.take().ok_or(TooManySessions { limit })?;
        Ok(Session::new(self.clone(), slot))
    }
}

impl Session {
    fn new(coordinator: Arc<Coordinator>, slot: usize) -> Session {
        Session {
            coordinator,
            slot,
            // What is published is none of this sequence.
            snapshot: Snapshot { sequence: u64::MAX, ..Snapshot::default() },
            is_pinned: false,
            id: None,
            replaced: Replaced::default(),
            alone: PhantomData,
        }
    }

    pub(super) fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    fn shown(&self) -> &SessionSlot {
        self.coordinator.slots.at(self.slot)
    }

    /// Which transactions are over now. It is *pinned*: what it shows is kept until
    /// [`Session::unpin`], [`Session::end`] or the next one.
    ///
    /// ```
    /// let coordinator = manx::txn::coordinator::Coordinator::new(2);
    /// let (mut writer, mut reader) = (coordinator.session()?, coordinator.session()?);
    /// let id = writer.allocate();
    /// assert!(!reader.snapshot().sees(id), "it is not over");
    /// writer.end();
    /// assert!(!reader.pinned().unwrap().sees(id), "a snapshot stays as it is");
    /// assert!(reader.snapshot().sees(id));
    /// # Ok::<(), manx::txn::coordinator::TooManySessions>(())
    /// ```
    #[inline]
    pub fn snapshot(&mut self) -> &Snapshot {
        let slot = self.coordinator.slots.at(self.slot);
        self.coordinator.published.read(slot, &mut self.snapshot);
        self.is_pinned = true;
        &self.snapshot
    }

    /// The pinned snapshot.
    pub fn pinned(&self) -> Option<&Snapshot> {
        self.is_pinned.then_some(&self.snapshot)
    }

    /// The snapshot is needed no more.
    #[inline]
    pub fn unpin(&mut self) {
        if std::mem::take(&mut self.is_pinned) {
            pin::clear(&self.shown().pin);
        }
    }

    /// The id of the transaction: a new one, unless it has one.
    ///
    /// ```
    /// use manx::txn::coordinator::Coordinator;
    ///
    /// let coordinator = Coordinator::new(2);
    /// let mut session = coordinator.session()?;
    /// let id = session.allocate();
    /// assert_eq!((session.allocate(), session.id()), (id, Some(id)));
    /// session.end();
    /// assert!(session.allocate() > id);
    /// # Ok::<(), manx::txn::coordinator::TooManySessions>(())
    /// ```
    #[inline]
    pub fn allocate(&mut self) -> u64 {
        if let Some(id) = self.id {
            return id;
        }
        let coordinator = &*self.coordinator;
        let show = || coordinator.slots.set_active(self.slot, true);
        let id = coordinator.allocation.take(coordinator.slots.at(self.slot), show);
        self.id = Some(id);
        id
    }

    /// The id of the transaction, if it has one.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// The transaction is over: what it wrote under its id is visible to all snapshots from now on.
    /// (A transaction that takes back what it wrote does so before.) Without an id it costs
    /// nothing. The snapshot is unpinned.
    #[inline]
    pub fn end(&mut self) {
        self.unpin();
        if let Some(id) = self.id.take() {
            let coordinator = &*self.coordinator;
            let slot = coordinator.slots.at(self.slot);
            // Release: a thread that sees it sees what was written. The fence that has to follow is
            // the one of the pin in `publish.rs`.
            slot.id.store(ended(id), Ordering::Release);
            coordinator.published.end(
                &coordinator.allocation,
                &coordinator.slots,
                &slot.pin,
                &mut self.replaced,
            );
            coordinator.slots.set_active(self.slot, false);
        }
    }

    /// Of all ids below this one it is known that they are over, to every snapshot that is in use
    /// or will be: of what they wrote only the last version can be seen. It stays as it was while a
    /// session is just taking a snapshot. Looks at each session: not for every transaction.
    ///
    /// ```
    /// use manx::txn::coordinator::Coordinator;
    ///
    /// let coordinator = Coordinator::new(2);
    /// let (mut writer, mut reader) = (coordinator.session()?, coordinator.session()?);
    /// let id = writer.allocate();
    /// reader.snapshot();
    /// writer.end();
    /// assert!(reader.oldest() <= id, "the reader's snapshot does not see the transaction");
    /// reader.unpin();
    /// assert!(reader.oldest() > id);
    /// # Ok::<(), manx::txn::coordinator::TooManySessions>(())
    /// ```
    pub fn oldest(&self) -> u64 {
        self.coordinator.oldest()
    }
}

platform::os_only! {
    impl Session {
        /// Its number among the sessions that there are: small numbers are given again first.
        pub(crate) fn slot(&self) -> usize {
            self.slot
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        self.end();
        self.coordinator.leave(self.slot, &mut self.replaced);
    }
}
