//! The connections that the commands of a batch have woken.
//!
//! The thread that serves the batch serves them, too, behind it: no other thread has to be woken
//! for it, and a message reaches a client as soon as an answer would. Until then they are in the
//! batch, so that another thread can take them if this one is preempted, or if one of its commands
//! takes long. A thread that serves no batch hands them over.

use super::batch::Batch;
use super::served::Served;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The batch that the thread serves.
    static SERVED: RefCell<Option<Arc<Batch>>> = const { RefCell::new(None) };
}

/// Serves a batch, and adds the connections that its commands have woken to `again`.
pub(super) fn collect(
    batch: &Arc<Batch>,
    again: &mut Vec<Arc<Served>>,
    serve: impl FnOnce(&mut Vec<Arc<Served>>),
) {
    SERVED.set(Some(Arc::clone(batch)));
    serve(again);
    SERVED.take();
    again.append(&mut batch.take_woken());
}

/// A connection that is QUEUED, by this thread. Returns it if the thread serves no batch.
pub(super) fn keep(served: Arc<Served>) -> Option<Arc<Served>> {
    SERVED.with_borrow(|batch| match batch {
        Some(batch) => {
            batch.add_woken(served);
            None
        }
        None => Some(served),
    })
}
