//! The competitors, each by its own type, so that the measured loop is compiled for each and no
//! call in it is indirect.

use super::rocksdb::{Locktree, RocksDb};
use baselines::range::{
    Bitmap, IntervalTree, Kogan, KoganRw, KoganSpinning, Map, Segments, SkipList, SkipListPublished, Song,
    SongSpinning,
};
use manx::range::{Access, RangeLock, RawRangeLock, Span};
use range_lock::{VecRangeLock, VecRangeLockGuard};
use range_mutex::{RangeMutex, RangeMutexGuard};
use std::ops::Range;
use std::sync::TryLockError;

/// The lock with which the tables compare the others.
pub(super) const REFERENCE: Competitor = Competitor::Map;
/// The default lock's name.
pub(super) const OWN: &str = Competitor::Manx.name();

/// True of a version that is a peer's: it locks, and it is not the default lock.
pub(super) fn peer(name: &str) -> bool {
    name != OWN && name != Competitor::None.name() && !name.starts_with("manx")
}

/// A measurement that needs the type of a competitor's lock.
pub trait Measured {
    /// Its result.
    type Output;
    /// Measures locks that `make` makes.
    fn with<L: RawRangeLock + 'static>(self, make: impl Fn() -> L) -> Self::Output;
}

macro_rules! competitors {
    ($($(#[$words:meta])* $variant:ident, $lock:ty;)*) => {
        /// A lock of the comparison.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Competitor {
            $($(#[$words])* $variant),*
        }

        impl Competitor {
            /// All of them.
            pub const ALL: &[Competitor] = &[$(Competitor::$variant),*];

            /// The name in tables.
            pub const fn name(self) -> &'static str {
                match self { $(Competitor::$variant => <$lock as RawRangeLock>::NAME),* }
            }

            /// Whether readers share a range.
            pub const fn shares(self) -> bool {
                match self { $(Competitor::$variant => <$lock as RawRangeLock>::SHARES),* }
            }

            /// Measures locks of this kind, for keys below `space`.
            pub fn measure<M: Measured>(self, space: u64, what: M) -> M::Output {
                match self { $(Competitor::$variant => what.with(|| <$lock>::with_space(space))),* }
            }
        }
    };
}

competitors! {
    /// The default lock of this library.
    Manx, RangeLock;
    /// The thesis' lock-free skip list, and the parts that the thesis lacks.
    SkipList, SkipList;
    /// The same as it was published, which frees nothing.
    SkipListPublished, SkipListPublished;
    /// An ordered map in a mutex, with a condition variable.
    Map, Map;
    /// Kogan, Dice and Issa's: a lock-free list.
    Kogan, Kogan;
    /// The same; waiters spin, as the authors'.
    KoganSpinning, KoganSpinning;
    /// Their list for readers and writers.
    KoganRw, KoganRw;
    /// Kara's: an interval tree under a spinlock, where each waiter counts the requests before it.
    IntervalTree, IntervalTree;
    /// Song's: a skip list under a spinlock.
    Song, Song;
    /// The same; waiters spin, as the authors'.
    SongSpinning, SongSpinning;
    /// Kim's: a reader-writer word for each segment.
    Segments, Segments;
    /// LeanStore's: a bit for each block.
    Bitmap, Bitmap;
    /// The crate `range-lock`.
    RangeLockCrate, RangeLockCrate;
    /// The crate `range-mutex`.
    RangeMutexCrate, RangeMutexCrate;
    /// RocksDB's lock manager, if RocksDB is installed.
    RocksDb, RocksDb;
    /// The tree below it, PerconaFT's, if the version of RocksDB exports it.
    Locktree, Locktree;
    /// No lock at all.
    None, Unlocked;
}

impl Competitor {
    /// The same. If all ranges are blocks of `unit` keys, the locks that know only blocks have such
    /// blocks.
    pub fn measure_blocks<M: Measured>(self, space: u64, unit: Option<u64>, what: M) -> M::Output {
        match (self, unit) {
            (Competitor::Bitmap, Some(unit)) => what.with(|| Bitmap::of_width(space, unit)),
            (Competitor::Segments, Some(unit)) => what.with(|| Segments::of_width(space, unit)),
            _ => self.measure(space, what),
        }
    }

    /// Returns the competitors that can be measured here: RocksDB's two after they were loaded.
    pub fn available() -> impl Iterator<Item = Competitor> {
        let there = |competitor: &Competitor| match competitor {
            Competitor::RocksDb => RocksDb::is_loaded(),
            Competitor::Locktree => Locktree::is_loaded(),
            _ => true,
        };
        Competitor::ALL.iter().copied().filter(there)
    }

    /// Whether it locks blocks of keys of a given width, and for a range all its blocks.
    pub const fn has_blocks(self) -> bool {
        matches!(self, Competitor::Bitmap | Competitor::Segments)
    }

    /// Whether it frees nothing, not even when it is dropped.
    pub const fn leaks(self) -> bool {
        matches!(self, Competitor::SkipListPublished)
    }

    /// Whether its waiters spin for as long as it takes, as its authors'.
    pub const fn spins(self) -> bool {
        matches!(self, Competitor::KoganSpinning | Competitor::SongSpinning)
    }

    /// Returns the available competitors that lock and that survive more threads than CPUs.
    pub fn locks() -> impl Iterator<Item = Competitor> {
        Competitor::available().filter(|competitor| *competitor != Competitor::None && !competitor.spins())
    }
}

// Range locks from elsewhere, behind the trait of Manx's own: the crates `range-lock` and
// `range-mutex`.
//
// Both protect a vector of theirs and lend slices of it. Here its elements have no size, so what
// is compared is the lock. Each waits as it does: `range-lock` can only be tried, so a waiter
// yields and tries again, as its documentation leaves it to the caller; a waiter of `range-mutex`
// parks. Neither has shared ranges.
//
// Invariant: what is held refers to the lock that returned it, and [`RawRangeLock::unlock`] is
// called with it before that lock is gone, by the contract of that trait and because a lock that
// its users borrow does not move. The locks are boxed, so that they would not move even then.

/// The span as far as the space, in the integers that these crates have; above it there is nothing
/// to lock, and an empty range hinders no thread.
#[inline(always)]
fn within(span: &Span<u64>, space: usize) -> Range<usize> {
    let start = span.start().map_or(0, |&start| start as usize);
    let end = span.end().map_or(space, |&end| (end as usize).min(space));
    if start < end { start..end } else { 0..0 }
}

/// Büsch's `range-lock`: a map of ranges in a mutex.
pub(super) struct RangeLockCrate(Box<VecRangeLock<()>>);

/// A range of it.
pub(super) struct RangeLockHeld(VecRangeLockGuard<'static, ()>);

// SAFETY: the guard is a reference to the lock, which all threads may share, and a range. It is not
// sent by itself so that its slice stays in one thread; no code here looks at the slice, and giving
// the range back takes the lock's mutex, as any thread may.
unsafe impl Send for RangeLockHeld {}

// SAFETY: the crate lends no slice twice: a range is entered into its map only if none in there
// overlaps it, in a mutex, and leaves it in the same mutex.
unsafe impl RawRangeLock for RangeLockCrate {
    type Held = RangeLockHeld;

    const NAME: &'static str = "range-lock";
    const SHARES: bool = false;

    fn with_space(space: u64) -> RangeLockCrate {
        RangeLockCrate(Box::new(VecRangeLock::new(vec![(); space as usize])))
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<RangeLockHeld> {
        match self.0.try_lock(within(span, self.0.data_len())) {
            // SAFETY: only the lifetime changes; the guard is given back before the lock is gone
            // (the invariant).
            Ok(guard) => Some(RangeLockHeld(unsafe {
                std::mem::transmute::<VecRangeLockGuard<'_, ()>, VecRangeLockGuard<'static, ()>>(guard)
            })),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => unreachable!("nobody panics within the crate's mutex"),
        }
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> RangeLockHeld {
        loop {
            if let Some(held) = self.try_lock(span, access) {
                return held;
            }
            std::thread::yield_now();
        }
    }

    #[inline]
    unsafe fn unlock(&self, held: RangeLockHeld) {
        drop(held.0);
    }
}

/// Zachary S's `range-mutex`: sorted ranges in a mutex, and waiters that park.
pub(super) struct RangeMutexCrate(Box<RangeMutex<(), Vec<()>>>);

impl RangeMutexCrate {
    #[inline(always)]
    fn held(guard: RangeMutexGuard<'_, ()>) -> RangeMutexGuard<'static, ()> {
        // SAFETY: only the lifetime changes; the guard is given back before the lock is gone (the
        // invariant).
        unsafe { std::mem::transmute::<RangeMutexGuard<'_, ()>, RangeMutexGuard<'static, ()>>(guard) }
    }
}

// SAFETY: the crate lends no slice twice: a range is entered into its list only if none in there
// overlaps it, in a mutex, and leaves it in the same mutex.
unsafe impl RawRangeLock for RangeMutexCrate {
    type Held = RangeMutexGuard<'static, ()>;

    const NAME: &'static str = "range-mutex";
    const SHARES: bool = false;

    fn with_space(space: u64) -> RangeMutexCrate {
        RangeMutexCrate(Box::new(RangeMutex::new(vec![(); space as usize])))
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<Self::Held> {
        self.0.try_lock(within(span, self.0.len())).map(RangeMutexCrate::held)
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, _access: Access) -> Self::Held {
        RangeMutexCrate::held(self.0.lock(within(span, self.0.len())))
    }

    #[inline]
    unsafe fn unlock(&self, held: Self::Held) {
        drop(held);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use manx::range::{Access, Span};

    struct Twice;

    impl Measured for Twice {
        type Output = ();

        fn with<L: RawRangeLock>(self, make: impl Fn() -> L) {
            let lock = make();
            for _ in 0..2 {
                let held = lock.lock(&Span::new(0, 100).unwrap(), Access::Exclusive);
                assert!(L::NAME == "none" || lock.try_lock(&Span::all(), Access::Exclusive).is_none());
                // SAFETY: this lock returned it.
                unsafe { lock.unlock(held) };
            }
        }
    }

    #[test]
    fn every_competitor_can_be_taken_again_and_has_a_name_of_its_own() {
        for competitor in Competitor::available() {
            competitor.measure(1024, Twice);
        }
        for (at, competitor) in Competitor::ALL.iter().enumerate() {
            assert!(Competitor::ALL[..at].iter().all(|other| other.name() != competitor.name()));
        }
    }

    fn excludes<L: RawRangeLock>() {
        let lock = L::with_space(100);
        let span = |start, end| Span::new(start, end).unwrap();
        let held = lock.lock(&span(10, 20), Access::Exclusive);
        assert!(lock.try_lock(&span(19, 21), Access::Exclusive).is_none());
        assert!(lock.try_lock(&Span::all(), Access::Shared).is_none());
        let next = lock.try_lock(&span(20, 30), Access::Exclusive).expect("a neighbour is in nobody's way");
        let beyond = lock.try_lock(&span(90, 1000), Access::Exclusive).expect("as far as the space");
        // SAFETY: they are what this lock returned.
        unsafe {
            lock.unlock(held);
            lock.unlock(next);
            lock.unlock(beyond);
        }
        let all = lock.try_lock(&Span::all(), Access::Exclusive).expect("all were given back");
        // Another thread may give it back.
        std::thread::scope(|scope| {
            let lock = &lock;
            // SAFETY: as above.
            scope.spawn(move || unsafe { lock.unlock(all) });
        });
        assert!(lock.try_lock(&span(0, 1), Access::Exclusive).is_some());
    }

    #[test]
    fn they_exclude_what_overlaps_and_nothing_else() {
        excludes::<RangeLockCrate>();
        excludes::<RangeMutexCrate>();
    }
}
