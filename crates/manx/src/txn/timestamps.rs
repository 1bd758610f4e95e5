//! Times that the user gives: of commits, and of what is read (as in WiredTiger's "Using
//! timestamps").
//!
//! A commit may bear a timestamp, and a transaction may read as of one. Versions are kept as long
//! as a transaction may read at a timestamp that shows them: from the *oldest timestamp* on, which
//! the user moves.
//!
//! Invariant: no transaction commits at the oldest timestamp that is in effect or at an earlier
//! one, so what is seen at it stays. A commit that has begun at an earlier one than is wanted keeps
//! it back until it is over.

use super::error::Error;
use crate::lock::Mutex;
use std::collections::BTreeMap;

/// The oldest timestamp, and the numbers of readers and of commits at each timestamp.
#[derive(Debug, Default)]
pub(super) struct Timestamps(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The oldest timestamp that is wanted.
    oldest: u64,
    /// The newest timestamp at which a commit has begun.
    newest: u64,
    /// How many read at each timestamp.
    readers: Counts,
    /// How many are committing at each timestamp.
    commits: Counts,
}

/// How many there are of each.
#[derive(Debug, Default)]
struct Counts(BTreeMap<u64, usize>);

impl Counts {
    fn add(&mut self, timestamp: u64) {
        *self.0.entry(timestamp).or_default() += 1;
    }

    fn remove(&mut self, timestamp: u64) {
        if let Some(count) = self.0.get_mut(&timestamp) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&timestamp);
            }
        }
    }

    fn least(&self) -> Option<u64> {
        self.0.first_key_value().map(|(&timestamp, _)| timestamp)
    }
}

impl State {
    /// The oldest timestamp that is in effect.
    fn settled(&self) -> u64 {
        // Commits have no timestamp 0.
        self.commits.least().map_or(self.oldest, |commit| self.oldest.min(commit - 1))
    }
}

impl Timestamps {
    pub(super) fn set_oldest(&self, timestamp: u64) {
        let mut state = self.0.lock();
        state.oldest = state.oldest.max(timestamp);
    }

    /// Says that a transaction reads at this one, until it is [`Timestamps::done`].
    pub(super) fn read_at(&self, timestamp: u64) -> Result<(), Error> {
        let mut state = self.0.lock();
        let oldest = state.settled();
        if timestamp < oldest {
            return Err(Error::TooOld { asked: timestamp, oldest });
        }
        state.readers.add(timestamp);
        Ok(())
    }

    pub(super) fn done(&self, timestamp: u64) {
        self.0.lock().readers.remove(timestamp);
    }

    /// Says that a transaction commits at this one, until [`Timestamps::end_commit`].
    pub(super) fn begin_commit(&self, timestamp: u64) -> Result<(), Error> {
        let mut state = self.0.lock();
        let above = state.oldest;
        if timestamp <= above {
            return Err(Error::BadTimestamp { asked: timestamp, above });
        }
        state.newest = state.newest.max(timestamp);
        state.commits.add(timestamp);
        Ok(())
    }

    pub(super) fn end_commit(&self, timestamp: u64) {
        self.0.lock().commits.remove(timestamp);
    }

    /// The oldest timestamp that is in effect.
    pub(super) fn settled(&self) -> u64 {
        self.0.lock().settled()
    }

    /// The timestamp above which nothing was committed; at least the oldest one that is wanted.
    #[cfg(feature = "durable")]
    pub(super) fn newest(&self) -> u64 {
        let state = self.0.lock();
        state.newest.max(state.oldest)
    }

    /// Returns the timestamp below which no transaction reads, or will read.
    pub(super) fn oldest(&self) -> u64 {
        let state = self.0.lock();
        let settled = state.settled();
        state.readers.least().map_or(settled, |read| read.min(settled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_that_is_read_is_kept() {
        let times = Timestamps::default();
        times.read_at(5).expect("nothing is too old yet");
        times.set_oldest(9);
        times.set_oldest(7);
        assert_eq!(times.oldest(), 5);
        assert_eq!(times.read_at(8), Err(Error::TooOld { asked: 8, oldest: 9 }));
        times.done(5);
        assert_eq!(times.oldest(), 9);
        times.read_at(9).expect("it is kept");
        times.read_at(9).expect("by two");
        times.set_oldest(12);
        times.done(9);
        assert_eq!(times.oldest(), 9, "one reads still");
        times.done(9);
        assert_eq!(times.oldest(), 12);
    }

    #[test]
    fn no_commit_begins_at_the_oldest_timestamp_or_before() {
        let times = Timestamps::default();
        times.set_oldest(9);
        assert_eq!(times.begin_commit(9), Err(Error::BadTimestamp { asked: 9, above: 9 }));
        times.begin_commit(10).expect("later");
        times.begin_commit(10).expect("others too");
        times.set_oldest(20);
        assert_eq!((times.settled(), times.oldest()), (9, 9), "they are not over");
        times.read_at(9).expect("it is kept as long");
        times.done(9);
        assert_eq!(
            times.begin_commit(20),
            Err(Error::BadTimestamp { asked: 20, above: 20 }),
            "no more of them"
        );
        times.end_commit(10);
        assert_eq!(times.settled(), 9, "one is not");
        times.end_commit(10);
        assert_eq!((times.settled(), times.oldest()), (20, 20));
    }
}
