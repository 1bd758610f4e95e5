//! The competitors, each by its own type, so that the measured loop is compiled for each and no
//! call in it is indirect.

use super::none::Unlocked;
use super::peers::{RangeLockCrate, RangeMutexCrate};
use super::rocksdb::{Locktree, RocksDb};
use baselines::range::{
    Bitmap, IntervalTree, Kogan, KoganRw, Map, Segments, SkipList, SkipListPublished, Song,
};
use manx::range::{RangeLock, RawRangeLock};

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
    /// Their list for readers and writers.
    KoganRw, KoganRw;
    /// Kara's: an interval tree under a spinlock, where each waiter counts the requests before it.
    IntervalTree, IntervalTree;
    /// Song's: a skip list under a spinlock.
    Song, Song;
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

    /// Returns the available competitors that lock.
    pub fn locks() -> impl Iterator<Item = Competitor> {
        Competitor::available().filter(|competitor| *competitor != Competitor::None)
    }
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
}
