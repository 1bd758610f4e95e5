//! Keys that may be evicted, the best first: those of the last samples.
//!
//! Redis takes random keys and keeps the best of them for the next time. Here samples go through
//! all keys in their order, so each key is looked at once in a round. The best of all samples of a
//! round are nearly the best of all keys.

/// The maximum number of candidates.
const CANDIDATES: usize = 16;

/// See [the module](self).
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// In ascending order of their scores.
    best: Vec<(u64, Box<[u8]>)>,
    /// Behind which key the next sample begins.
    pub(crate) behind: Option<Box<[u8]>>,
}

impl Candidates {
    /// Looks at a key; the larger the score, the rather it is to go.
    pub(crate) fn see(&mut self, score: u64, key: &[u8]) {
        // It may have been seen in the round before: what it was then does not count.
        self.best.retain(|(_, other)| &**other != key);
        let at = self.best.partition_point(|(other, _)| *other < score);
        if self.best.len() < CANDIDATES {
            self.best.insert(at, (score, key.into()));
        } else if at > 0 {
            self.best[..at].rotate_left(1);
            self.best[at - 1] = (score, key.into());
        }
    }

    /// Takes out the best one.
    pub(crate) fn take(&mut self) -> Option<Box<[u8]>> {
        self.best.pop().map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_all_are_taken_first() {
        let mut candidates = Candidates::default();
        let scores: Vec<u64> = (0..100).map(|n| n * 37 % 101).collect();
        scores.iter().for_each(|score| candidates.see(*score, &score.to_be_bytes()));
        // A key that is seen again has its new score.
        let best = *scores.iter().max().unwrap();
        candidates.see(0, &best.to_be_bytes());
        let mut expected = scores;
        expected.sort_unstable();
        expected.pop();
        let taken = std::iter::from_fn(|| candidates.take());
        let taken: Vec<u64> = taken.map(|key| crate::names::number(&key)).collect();
        let wanted: Vec<u64> = expected.into_iter().rev().take(CANDIDATES - 1).collect();
        assert_eq!(taken[..CANDIDATES - 1], wanted[..]);
    }
}
