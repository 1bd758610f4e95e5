//! No lock at all: the floor, what the work itself and the loop around it cost.

use manx::range::{Access, RawRangeLock, Span};

/// Nothing. It keeps a lock's promise only where no thread ever asks for what another thread has;
/// so it takes part only in runs whose threads have slices of their own
/// ([`Pattern::disjoint`](super::request::Pattern::disjoint)).
pub(super) struct Unlocked;

// SAFETY: promised is that no two hold what overlaps. It is used where no two ask for that
// ([`super::run`] refuses others), and each thread sees its own writes.
unsafe impl RawRangeLock for Unlocked {
    type Held = ();

    const NAME: &'static str = "none";
    const SHARES: bool = false;

    fn with_space(_space: u64) -> Unlocked {
        Unlocked
    }

    #[inline(always)]
    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<()> {
        std::hint::black_box(span);
        Some(())
    }

    #[inline(always)]
    fn lock(&self, span: &Span<u64>, _access: Access) {
        std::hint::black_box(span);
    }

    #[inline(always)]
    unsafe fn unlock(&self, _held: ()) {}
}
