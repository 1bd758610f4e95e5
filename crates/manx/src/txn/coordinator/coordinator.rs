//! The coordinator: the ids, the slots and the published snapshot together.

use super::allocation::{Allocation, Protocol};
use super::pin;
use super::publish::{Left, Published, Replaced};
use super::session_slots::SessionSlots;
use super::snapshot::FIRST;
use platform::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Gives ids and snapshots to the sessions of a transaction engine, as WiredTiger's transaction
/// layer does. No thread waits for another one.
///
/// ```
/// use manx::txn::coordinator::Coordinator;
///
/// let coordinator = Coordinator::new(2);
/// let (mut writer, mut reader) = (coordinator.session()?, coordinator.session()?);
/// let id = writer.allocate();
/// assert!(!reader.snapshot().sees(id), "it is at work");
/// reader.unpin();
/// writer.end();
/// assert!(reader.snapshot().sees(id));
/// # Ok::<(), manx::txn::coordinator::TooManySessions>(())
/// ```
#[derive(Debug)]
pub struct Coordinator {
    pub(super) allocation: Allocation,
    pub(super) slots: SessionSlots,
    pub(super) published: Published,
    /// The highest that [`Coordinator::oldest`] has ever been.
    oldest: AtomicU64,
    /// What sessions that ended had to give back.
    left: Left,
}

impl Coordinator {
    /// Makes a coordinator of `sessions_max` sessions at most; each costs 64 bytes.
    pub fn new(sessions_max: u32) -> Arc<Coordinator> {
        Coordinator::with_protocol(Protocol::Help, sessions_max)
    }

    /// As [`Coordinator::new`], with another protocol.
    // For the package `workload`, which compares the protocols.
    #[doc(hidden)]
    pub fn with_protocol(protocol: Protocol, sessions_max: u32) -> Arc<Coordinator> {
        Coordinator::starting_at(FIRST, protocol, sessions_max)
    }

    /// As [`Coordinator::with_protocol`]; the first id is this one.
    #[doc(hidden)]
    pub fn starting_at(first: u64, protocol: Protocol, sessions_max: u32) -> Arc<Coordinator> {
        Arc::new(Coordinator {
            allocation: Allocation::new(protocol, first),
            slots: SessionSlots::new(sessions_max),
            published: Published::new(first),
            oldest: AtomicU64::new(0),
            left: Left::new(),
        })
    }

    /// The first id that was not given yet.
    pub fn current(&self) -> u64 {
        self.allocation.current()
    }

    /// See [`Session::oldest`](super::Session::oldest).
    pub fn oldest(&self) -> u64 {
        if let Some(oldest) = pin::oldest(&self.slots, self.published.oldest()) {
            // AcqRel: a thread that goes by it has seen what those below it did, as the thread that
            // found it out has. It never falls.
            return self.oldest.fetch_max(oldest, Ordering::AcqRel).max(oldest);
        }
        // Acquire: likewise.
        self.oldest.load(Ordering::Acquire)
    }

    /// A session of this slot is gone.
    pub(super) fn leave(&self, slot: usize, replaced: &mut Replaced) {
        self.left.leave(std::mem::take(replaced), &self.slots);
        self.slots.leave(slot);
    }
}
