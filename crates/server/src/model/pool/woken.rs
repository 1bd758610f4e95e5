//! The connections that a thread has woken, by the commands that it does for others.
//!
//! The thread serves them itself, after the batch that it serves: no other thread has to be woken
//! for it, and a message reaches a client as soon as an answer would. A thread that serves no batch
//! hands them over.

use super::served::Served;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// None while the thread serves no batch.
    static WOKEN: RefCell<Option<Vec<Arc<Served>>>> = const { RefCell::new(None) };
}

/// Serves a batch, and adds the connections that this thread has woken meanwhile to `again`.
pub(super) fn collect(again: &mut Vec<Arc<Served>>, serve: impl FnOnce(&mut Vec<Arc<Served>>)) {
    WOKEN.set(Some(Vec::new()));
    serve(again);
    again.append(&mut WOKEN.take().unwrap_or_default());
}

/// A connection that is QUEUED, by this thread. Returns it if the thread serves no batch.
pub(super) fn keep(served: Arc<Served>) -> Option<Arc<Served>> {
    WOKEN.with_borrow_mut(|woken| match woken {
        Some(woken) => {
            woken.push(served);
            None
        }
        None => Some(served),
    })
}
