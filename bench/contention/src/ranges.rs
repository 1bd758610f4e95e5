//! Threads that lock disjoint ranges: the workloads W1 and W2 of Nguyen's thesis "Concurrent range
//! locking" (section 5.3.1), as plain data.

use std::time::Duration;

crate::named! {
    /// A range lock of the comparison.
    pub enum RangeLock {
        /// Manx's default.
        Manx = "manx",
        /// The thesis', completed.
        SkipList = "skip_list",
        /// The thesis', as published.
        SkipListPublished = "skip_list_published",
        /// Kogan, Dice and Issa's.
        Kogan = "kogan",
        /// The same; waiters spin, as the authors'.
        KoganSpinning = "kogan_spinning",
        /// Song's.
        Song = "song",
        /// The same; waiters spin, as the authors'.
        SongSpinning = "song_spinning",
        /// Kara's.
        IntervalTree = "interval_tree",
        /// Kim's, with a segment for each range.
        Segments = "segments",
        /// LeanStore's, with a bit for each range.
        Bitmap = "bitmap",
    }
}

impl RangeLock {
    /// The lock of this name.
    pub fn named(name: &str) -> Option<RangeLock> {
        RangeLock::ALL.into_iter().find(|lock| lock.name() == name)
    }
}

/// A run: shuffled ranges are dealt to the threads, and each thread takes its own again and again.
#[derive(Clone, Copy, Debug)]
pub struct Ranges {
    /// How many threads
    pub threads: usize,
    /// How many ranges a thread holds at a time: one in W1, 16 in W2
    pub batch: usize,
    /// How many ranges there are, of [`WIDTH`] bytes each
    pub ranges: usize,
    /// How long it takes to write a range, in nanoseconds
    pub write_ns: u64,
    /// The measured time; before it a fifth of that is warm-up
    pub time: Duration,
}

/// The width of a range, in bytes.
pub const WIDTH: u64 = 1024;

impl Ranges {
    /// The first bytes of the ranges of each thread.
    ///
    /// # Panics
    /// If there is not a batch of ranges for each thread.
    pub fn dealt(&self) -> Vec<Vec<u64>> {
        assert!(self.ranges >= self.threads * self.batch, "{self:?}");
        let mut all: Vec<u64> = (0..self.ranges as u64).map(|at| at * WIDTH).collect();
        fastrand::Rng::with_seed(0).shuffle(&mut all);
        all.chunks_exact(self.ranges / self.threads).take(self.threads).map(<[u64]>::to_vec).collect()
    }
}

/// What a run brought.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Ranges locked and unlocked per second, by all threads
    pub pairs_per_s: f64,
    /// The slowest thread's part of these, times the number of threads
    pub slowest_share: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_is_dealt_once() {
        let run = Ranges { threads: 3, batch: 16, ranges: 1000, write_ns: 0, time: Duration::from_millis(1) };
        let mut all: Vec<u64> = run.dealt().concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 999);
    }
}
