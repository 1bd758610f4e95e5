//! What was over at some moment.

/// The first id that is given.
pub(super) const FIRST: u64 = 1;

/// Which transactions were over at some moment: those below `current`, without the `concurrent`
/// ones (WiredTiger's `snap_max` and `snapshot`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Counts what was published.
    pub(super) sequence: u64,
    pub(super) current: u64,
    /// In ascending order, all below `current`.
    pub(super) concurrent: Vec<u64>,
}

impl Snapshot {
    /// Whether what a transaction of this id wrote is visible, if it was committed.
    #[inline]
    pub fn sees(&self, id: u64) -> bool {
        if id >= self.current {
            return false;
        }
        match self.concurrent.first() {
            Some(&oldest) if id >= oldest => self.concurrent.binary_search(&id).is_err(),
            _ => true,
        }
    }

    /// The first id that was not given yet.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// The ids that were at work, in ascending order.
    pub fn concurrent(&self) -> &[u64] {
        &self.concurrent
    }

    /// All below this one were over.
    #[inline]
    pub fn oldest(&self) -> u64 {
        self.concurrent.first().copied().unwrap_or(self.current)
    }

    /// Becomes like another one.
    pub(super) fn copy_from(&mut self, other: &Snapshot) {
        (self.sequence, self.current) = (other.sequence, other.current);
        self.concurrent.clear();
        self.concurrent.extend_from_slice(&other.concurrent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_the_transactions_that_were_over() {
        let snapshot = Snapshot { sequence: 0, current: 10, concurrent: vec![4, 7] };
        let seen: Vec<u64> = (FIRST..12).filter(|&id| snapshot.sees(id)).collect();
        assert_eq!(seen, [1, 2, 3, 5, 6, 8, 9]);
        assert_eq!(snapshot.oldest(), 4);
        assert_eq!(Snapshot { current: 3, ..Snapshot::default() }.oldest(), 3);
    }
}
