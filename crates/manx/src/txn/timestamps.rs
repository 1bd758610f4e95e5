//! Times that the user gives: of commits, and of what is read (as in WiredTiger's "Using timestamps").
//!
//! A commit may bear a timestamp, and a transaction may read as of one. Versions are kept as long as somebody may read at a timestamp that shows
//! them: from the *oldest timestamp* on, which the user moves.

use super::error::Error;
use crate::lock::Mutex;
use std::collections::BTreeMap;

/// The oldest timestamp, and who reads at which.
#[derive(Debug, Default)]
pub(super) struct Timestamps(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    oldest: u64,
    /// How many read at each timestamp.
    readers: BTreeMap<u64, usize>,
}

impl Timestamps {
    pub(super) fn set_oldest(&self, timestamp: u64) {
        let mut state = self.0.lock();
        state.oldest = state.oldest.max(timestamp);
    }

    /// Somebody reads at this one, until it is [`Timestamps::done`].
    pub(super) fn read_at(&self, timestamp: u64) -> Result<(), Error> {
        let mut state = self.0.lock();
        if timestamp < state.oldest {
            return Err(Error::TooOld { asked: timestamp, oldest: state.oldest });
        }
        *state.readers.entry(timestamp).or_default() += 1;
        Ok(())
    }

    pub(super) fn done(&self, timestamp: u64) {
        let mut state = self.0.lock();
        if let Some(readers) = state.readers.get_mut(&timestamp) {
            *readers -= 1;
            if *readers == 0 {
                state.readers.remove(&timestamp);
            }
        }
    }

    /// Whether a commit may bear this one.
    pub(super) fn check_commit(&self, timestamp: u64) -> Result<(), Error> {
        let above = self.0.lock().oldest;
        if timestamp > above { Ok(()) } else { Err(Error::BadTimestamp { asked: timestamp, above }) }
    }

    /// Nobody reads below this one, or will.
    pub(super) fn oldest(&self) -> u64 {
        let state = self.0.lock();
        let read = state.readers.first_key_value().map(|(&timestamp, _)| timestamp);
        read.map_or(state.oldest, |read| read.min(state.oldest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_kept() {
        let times = Timestamps::default();
        times.read_at(5).expect("nothing is too old yet");
        times.set_oldest(9);
        times.set_oldest(7);
        assert_eq!(times.oldest(), 5);
        assert_eq!(times.read_at(8), Err(Error::TooOld { asked: 8, oldest: 9 }));
        assert_eq!(times.check_commit(9), Err(Error::BadTimestamp { asked: 9, above: 9 }));
        times.check_commit(10).expect("later");
        times.done(5);
        assert_eq!(times.oldest(), 9);
    }
}
