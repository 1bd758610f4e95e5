//! The slots of a range, or of several, while they are being taken.
//!
//! Taking may end early: there may be no slot left, and a key may panic as it is copied. The words
//! are held, so no other thread has seen what was taken until then, and it can simply be freed
//! again.

use super::request::Want;
use super::slot::{Entry, Held, Slot};
use std::ptr;

/// The slots that were taken for one caller so far. The words are held, so no other thread has seen
/// the slots. The drop frees them.
pub(super) struct Chain<K> {
    head: *const Slot<K>,
    state: u64,
}

impl<K> Chain<K> {
    /// Nothing yet; slots will be taken in this state.
    pub(super) const fn new(state: u64) -> Chain<K> {
        Chain { head: ptr::null(), state }
    }

    /// Takes a slot.
    ///
    /// # Safety
    /// The caller holds the word of the slot's shard until the chain is finished or dropped; the
    /// slot is free.
    pub(super) unsafe fn push(&mut self, slot: &Slot<K>, want: &Want<'_, K>, head: u64)
    where
        K: Clone,
    {
        let entry = Entry { next: self.head, span: want.span.clone() };
        // SAFETY: the caller's promise.
        let old = unsafe { slot.take(entry, self.state | head) };
        self.head = slot;
        drop(old);
    }

    /// All that was wanted.
    pub(super) fn finish(self) -> Held<K> {
        let held = Held(self.head);
        std::mem::forget(self);
        held
    }
}

impl<K> Drop for Chain<K> {
    fn drop(&mut self) {
        // SAFETY: taken by `push`, and this is the holder.
        for slot in unsafe { Held(self.head).slots() } {
            // SAFETY: as above; no other thread has seen the slot, so none waits for it.
            unsafe { (*slot).free() };
        }
    }
}
