//! What an asker wants: ranges, all of them or none; and the identity of the asker.

use super::holder::Holder;
use super::key::Key;
use super::raw::Access;
use super::slot::{Held, Slot, access, holder};
use super::span::Span;

/// The tag of an asker that messages do not name.
pub(super) const NO_TAG: u64 = 0;

/// Ranges that are wanted together. They do not overlap each other.
#[derive(Debug)]
pub(super) struct Request<'a, K> {
    pub(super) spans: &'a [Span<K>],
    pub(super) access: Access,
    pub(super) holder: Holder,
    /// The ranges that the asker holds. They are not in its own way.
    pub(super) own: &'a [Held<K>],
    /// The number by which messages name the asker; or [`NO_TAG`].
    pub(super) tag: u64,
}

impl<K> Clone for Request<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Request<'_, K> {}

impl<K: Key> Request<'_, K> {
    /// Whether the two requests conflict: they cannot be granted at the same time.
    pub(super) fn conflicts_with(&self, other: &Request<'_, K>) -> bool {
        self.access.conflicts_with(other.access)
            && self.spans.iter().any(|own| other.spans.iter().any(|its| own.overlaps(its)))
    }

    /// Returns whether the asker holds the slot, which is taken in this state.
    ///
    /// # Safety
    /// The caller holds the word of the slot's shard, and what is in `own` is held.
    pub(super) unsafe fn holds(&self, slot: &Slot<K>, state: u64) -> bool {
        let is_its = self.holder.is_known() && holder(state) == self.holder;
        // SAFETY: the caller's promise.
        is_its || unsafe { is_among(self.own, slot) }
    }

    /// Returns whether the asker wants for itself what it shares already.
    ///
    /// # Safety
    /// What is in `own` is held.
    pub(super) unsafe fn upgrades(&self) -> bool {
        // SAFETY: the caller's promise.
        let shared = self.own.iter().filter(|held| unsafe { held.access() } == Access::Shared);
        // SAFETY: likewise.
        let mut shared = shared.map(|held| unsafe { held.span() });
        self.access == Access::Exclusive && shared.any(|own| self.spans.iter().any(|span| own.overlaps(span)))
    }

    /// The wanted ranges one by one.
    pub(super) fn wants(&self) -> impl Iterator<Item = Want<'_, K>> {
        self.spans.iter().map(|span| Want::new(span, self.access, self.own))
    }
}

/// One range that is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want<'a, K> {
    pub(super) span: &'a Span<K>,
    pub(super) first: u64,
    pub(super) last: u64,
    access: Access,
    own: &'a [Held<K>],
}

impl<'a, K: Key> Want<'a, K> {
    #[inline(always)]
    pub(super) fn new(span: &'a Span<K>, access: Access, own: &'a [Held<K>]) -> Want<'a, K> {
        Want { span, first: span.first(), last: span.last(), access, own }
    }

    /// Whether `slot`, which is taken in this state, is in the way.
    ///
    /// # Safety
    /// The caller holds the word of the slot's shard, and what is in `own` is held.
    #[inline(always)]
    pub(super) unsafe fn is_blocked_by(&self, slot: &Slot<K>, state: u64) -> bool {
        // SAFETY: the caller's promise.
        let entry = unsafe { slot.entry() };
        self.first <= entry.span.last()
            && entry.span.first() <= self.last
            && self.access.conflicts_with(access(state))
            && (K::EXACT || self.span.overlaps(&entry.span))
            // SAFETY: the caller's promise.
            && !unsafe { is_among(self.own, slot) }
    }
}

/// Whether the slot is one of these ranges'.
///
/// # Safety
/// They are held.
unsafe fn is_among<K>(held: &[Held<K>], slot: &Slot<K>) -> bool {
    // SAFETY: the caller's promise.
    held.iter().any(|held| unsafe { held.slots() }.any(|own| std::ptr::eq(own, slot)))
}
