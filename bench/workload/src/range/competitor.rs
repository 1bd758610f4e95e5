//! The competitors, each by its own type, so that the measured loop is compiled for each and no
//! call in it is indirect.

use super::none::Unlocked;
use super::peers::{RangeLockCrate, RangeMutexCrate};
use super::rocksdb::{Locktree, RocksDb};
use baselines::range::{
    Bitmap, IntervalTree, Kogan, KoganRw, Map, Segments, SkipList, SkipListPublished, Song,
};
use manx::range::{RangeLock, RawRangeLock};

/// What can be done once a competitor's type is known.
pub trait Measured {
    /// What comes of it.
    type Output;
    /// Does it with locks that `make` makes.
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

            /// Does it with locks of this kind, for keys below `space`.
            pub fn measure<M: Measured>(self, space: u64, what: M) -> M::Output {
                match self { $(Competitor::$variant => what.with(|| <$lock>::with_space(space))),* }
            }
        }
    };
}

competitors! {
    /// The default lock of this library.
    Manx, RangeLock;
    /// The thesis': a lock-free skip list, with what it lacks.
    SkipList, SkipList;
    /// The same as it was published, which frees nothing.
    SkipListPublished, SkipListPublished;
    /// An ordered map in a mutex, with a condition variable.
    Map, Map;
    /// Kogan, Dice and Issa's: a lock-free list.
    Kogan, Kogan;
    /// Theirs for readers and writers.
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
    /// RocksDB's lock manager, where RocksDB is.
    RocksDb, RocksDb;
    /// The tree beneath, PerconaFT's, where RocksDB is a version that shows it.
    Locktree, Locktree;
    /// No lock at all.
    None, Unlocked;
}

impl Competitor {
    /// The same where all ranges are blocks of `unit` keys, if it is known: then locks that know
    /// only blocks have such.
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

    /// Whether it locks blocks of keys, of a width that it is told, and a range by all that it
    /// touches.
    pub const fn has_blocks(self) -> bool {
        matches!(self, Competitor::Bitmap | Competitor::Segments)
    }

    /// Whether it keeps what it has allocated also when it is dropped.
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
