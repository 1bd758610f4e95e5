//! Which versions the snapshots need that are in use, or are going to be.
//!
//! A snapshot needs the newest version of a key that it sees. So a version is needed if a snapshot
//! sees it and does not see the next newer one, and a version that no snapshot needs can go, also
//! from between two others, however old the oldest snapshot is.
//!
//! Only a session knows its snapshot exactly. The others know an interval (`pin.rs`): the snapshot
//! sees all ids below its *oldest*, and none from its *end* on. In between are the ids of sessions
//! that wrote while it was taken: few, unless one of them is at work for long. Then the ids of all
//! that came after that one are in between, too. So the thread that asks keeps what was published
//! when it asked before: whatever that sees, a snapshot sees whose end is later.
//!
//! Invariants:
//! 1. Of two snapshots, the one with the later end was published later, and sees all that the other
//!    one sees (Invariant 4 of the room).
//! 2. A snapshot that is taken after [`Readers::look`] sees all that `published` sees.
//! 3. `used` has, for each snapshot that was in use during [`Readers::look`] and still is, an
//!    oldest id that is not above its own, and an end that is not below its own; in ascending order
//!    of the ends. So if the first of them with an end above an id sees another id, all that see
//!    the first id see the other.

use super::pin;
use super::session::Session;
use super::snapshot::Snapshot;
use std::sync::Arc;

/// Which snapshots are in use, as of the last look: see the file's header.
///
/// ```
/// use manx::txn::coordinator::{Coordinator, Readers};
///
/// let coordinator = Coordinator::new(3);
/// let (mut writer, mut reader) = (coordinator.session()?, coordinator.session()?);
/// let mut readers = Readers::new(coordinator.session()?);
/// let mut commit = || {
///     let id = writer.allocate();
///     writer.end();
///     id
/// };
/// let (first, second) = (commit(), commit());
/// let end = reader.snapshot().current();
/// let (third, fourth) = (commit(), commit());
/// assert!(readers.look() && readers.all_see_later(fourth));
/// assert_eq!(readers.need(first, second), None);
/// assert_eq!(readers.need(second, third), Some(end), "the reader sees the second one");
/// assert_eq!(readers.need(third, fourth), None, "it does not see the third one");
/// # Ok::<(), manx::txn::coordinator::TooManySessions>(())
/// ```
#[derive(Debug)]
pub struct Readers {
    session: Session,
    published: Arc<Snapshot>,
    used: Vec<Used>,
}

/// A snapshot that is in use.
#[derive(Clone, Debug)]
struct Used {
    end: u64,
    oldest: u64,
    /// What was published before it.
    before: Option<Arc<Snapshot>>,
}

impl Used {
    fn sees(&self, id: u64) -> bool {
        id < self.oldest || self.before.as_ref().is_some_and(|before| before.sees(id))
    }
}

impl Readers {
    /// Takes a session to look with.
    pub fn new(session: Session) -> Readers {
        Readers { session, published: Arc::default(), used: Vec::new() }
    }

    /// Finds out which snapshots are in use. Returns false, and knows what it knew before, if a
    /// session is just taking one.
    pub fn look(&mut self) -> bool {
        // First: Invariant 2.
        let published = Arc::new(self.session.snapshot().clone());
        self.session.unpin();
        let mut used = Vec::new();
        let slots = &self.session.coordinator().slots;
        if !pin::in_use(slots, |oldest, end| used.push(Used { end, oldest, before: None })) {
            return false;
        }
        used.sort_unstable_by_key(|used| (used.end, used.oldest));
        // What was published at the looks before, the oldest first.
        let mut known: Vec<_> = self.used.drain(..).filter_map(|used| used.before).collect();
        known.push(std::mem::replace(&mut self.published, published));
        let mut known = known.into_iter().peekable();
        let mut before = None;
        for used in &mut used {
            while let Some(next) = known.next_if(|next| next.current < used.end) {
                before = Some(next);
            }
            used.before.clone_from(&before);
        }
        self.used = used;
        true
    }

    /// Whether all snapshots see what this transaction wrote that are taken from now on.
    pub fn all_see_later(&self, id: u64) -> bool {
        self.published.sees(id)
    }

    /// The end of a snapshot in use that may see what the transaction `id` wrote, and not what
    /// `newer` wrote, which wrote over it.
    pub fn need(&self, id: u64, newer: u64) -> Option<u64> {
        let first = self.used.partition_point(|used| used.end <= id);
        // Invariant 3.
        self.used.get(first).filter(|used| !used.sees(newer)).map(|used| used.end)
    }

    /// The end of a snapshot in use that may not see what this transaction wrote.
    pub fn miss(&self, id: u64) -> Option<u64> {
        self.used.first().filter(|used| !used.sees(id)).map(|used| used.end)
    }

    /// Whether a snapshot of this end is in use.
    pub fn has_end(&self, end: u64) -> bool {
        self.used.binary_search_by_key(&end, |used| used.end).is_ok()
    }
}
