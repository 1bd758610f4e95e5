//! Tells what each transaction may see: transaction ids, snapshots, and the oldest id that is still
//! needed.
//!
//! A transaction that writes takes an *id* before its first write; ids only grow. A *snapshot* says
//! which ids were over at some moment: all below `current` but the `concurrent` ones. That is
//! WiredTiger's scheme, and its trap: while a thread allocates an id, other threads cannot tell
//! whether it has one, and a thread that makes a snapshot then waits for it. If the allocating
//! thread does not run, all wait with it, and their spinning keeps the CPU from it.
//!
//! # How it works here
//! No session makes a snapshot of its own. The session that *ends* a transaction makes one for all,
//! and puts it in place of the last one (`publish.rs`): so a snapshot is taken by copying what is
//! published, and a session that has it already copies nothing. That never waits, whatever other
//! threads do. And since all snapshots come one after another from one place, any two of them agree
//! on the order of commits: there is no long fork.
//!
//! The session that publishes has to know the ids of the transactions at work, and meets the trap
//! there. It *helps*: it takes an id for the other session, and goes on. (Other protocols wait,
//! adaptively or by a function of the caller, and exist for comparison.)
//!
//! | file | what |
//! | --- | --- |
//! | `coordinator.rs` | all of it together |
//! | `session.rs` | a session: one participant |
//! | `session_slots.rs` | what each session shows the others: its id, its pin |
//! | `allocation.rs` | ids, and the protocols |
//! | `publish.rs` | how snapshots come about |
//! | `snapshot.rs` | what one says |
//! | `pin.rs` | what is still needed |
//! | `readers.rs` | which versions the snapshots in use need |
//! | `unsettled.rs` | what is published and not known to be durable |
//!
//! # Invariants
//! 1. Ids are unique, and the ids that a session gets grow. Some belong to no session: there are
//!    gaps.
//! 2. A session's id is in its slot, as active, from before it is returned until the session ends
//!    the transaction.
//! 3. An id that is concurrent in a published snapshot is over in none before it; it may have
//!    ended, and not have been published, when the snapshot took its place. All ids below its
//!    `current` that are not concurrent in it were over when that snapshot took its place, or
//!    belong to no session.
//! 4. Snapshots are published one after another; what is over in one is over in all that follow.
//! 5. When [`Session::end`] returns, the transaction is over in what is published.
//! 6. So a snapshot never sees half a commit. What a transaction wrote was written before it ended,
//!    and it ended before its end was published. A session that reads a published snapshot in which
//!    the transaction is over sees all that it wrote. In any other snapshot none of it is visible,
//!    since its id is concurrent, or not below `current`.
//! 7. No snapshot that is in use, or is going to be, has a concurrent id, or a `current`, below
//!    [`Session::oldest`].

mod allocation;
#[allow(clippy::module_inception, reason = "the room is named after the one thing in it")]
mod coordinator;
mod pin;
mod publish;
mod readers;
mod session;
mod session_slots;
mod snapshot;
mod unsettled;

// The packages `serve`, `baselines` and `workload` compare the protocols.
#[doc(hidden)]
pub use allocation::Protocol;
pub use coordinator::Coordinator;
pub use session::{Session, TooManySessions};
pub use snapshot::Snapshot;
// For the room above, and the twins' tests.
#[doc(hidden)]
pub use readers::Readers;
#[doc(hidden)]
pub use unsettled::Unsettled;
