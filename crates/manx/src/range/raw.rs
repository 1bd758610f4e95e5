//! The interface of all range locks, so that each test and each benchmark is written once.
//!
//! Keys are integers of 64 bits here. A lock gets the number of keys when it is made, because the
//! size of some locks depends on it; the others ignore it. Programs use a lock's own functions, so
//! the trait is hidden from the documentation.

use super::span::Span;

/// Whether others may hold the same keys at the same time.
///
/// ```
/// use manx::range::Access::{Exclusive, Shared};
///
/// assert!(Exclusive.conflicts_with(Shared) && Exclusive.conflicts_with(Exclusive));
/// assert!(!Shared.conflicts_with(Shared));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// No other holder may.
    Exclusive,
    /// Other holders may, if they share as well.
    Shared,
}

impl Access {
    /// Whether two holders with these accesses conflict where their ranges overlap: unless both
    /// share.
    #[inline(always)]
    pub const fn conflicts_with(self, other: Access) -> bool {
        matches!(self, Access::Exclusive) || matches!(other, Access::Exclusive)
    }
}

/// A lock of ranges of integers, without what it protects.
///
/// # Safety
/// Between a return of [`lock`](RawRangeLock::lock) or a success of
/// [`try_lock`](RawRangeLock::try_lock) and the [`unlock`](RawRangeLock::unlock) with what they
/// returned, no other `lock` may return and no other `try_lock` may succeed with a range that has a
/// key in common with the range of the first call, unless both are shared. What was written before
/// an unlock is visible after the next such return or success.
pub unsafe trait RawRangeLock: Send + Sync {
    /// What the holder keeps until it unlocks. Any thread may.
    type Held: Send;

    /// The lock's name in the literature, as benchmarks print it.
    const NAME: &'static str;

    /// Whether shared ranges are really shared; otherwise a shared range is taken as if it were
    /// exclusive.
    const SHARES: bool;

    /// Makes a lock without held ranges, for keys below `space` (at least 1). Ranges that reach
    /// beyond `space` are locked as far as it.
    fn with_space(space: u64) -> Self
    where
        Self: Sized;

    /// Takes the range if that needs no waiting. May fail without need while others take or release
    /// ranges.
    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<Self::Held>;

    /// Waits until the range is this caller's.
    fn lock(&self, span: &Span<u64>, access: Access) -> Self::Held;

    /// Gives the range back.
    ///
    /// # Safety
    /// `held` is what this lock returned when the range was taken.
    unsafe fn unlock(&self, held: Self::Held);
}
