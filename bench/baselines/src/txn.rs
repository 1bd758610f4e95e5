//! WiredTiger's way to make a snapshot beside a session that is taking its id: spin until the
//! session has it.
//!
//! A session that does not run keeps its place *allocating*, so every thread that makes a snapshot
//! meanwhile spins, and keeps the CPU from the session. `manx bench txn` shows what that costs, and
//! what manx's own protocols make of it.

use manx::txn::coordinator::Protocol;
use manx::wait::{Policy, Spin};

/// Spins until the session has its id.
///
/// ```
/// use manx::txn::coordinator::Coordinator;
///
/// let coordinator = Coordinator::with_protocol(baselines::txn::SPIN, 1);
/// let mut session = coordinator.session()?;
/// let id = session.allocate();
/// session.end();
/// assert!(session.snapshot().sees(id));
/// # Ok::<(), manx::txn::coordinator::TooManySessions>(())
/// ```
pub const SPIN: Protocol = Protocol::Wait(spin);

fn spin(is_taken: &dyn Fn() -> bool) {
    Spin.until(is_taken);
}
