//! Keys that a reader found to be expired, until the housekeeping deletes them.
//!
//! The number of keys is bounded. A key that finds no room is reported again by its next reader, or
//! found by the housekeeping's own rounds.

use std::sync::{Mutex, PoisonError};

/// The maximum number of keys …
const KEYS_MAX: usize = 1024;
/// … and the maximum length of each, in bytes.
const KEY_BYTES_MAX: usize = 1024;

/// Keys to look at.
#[derive(Debug, Default)]
pub(crate) struct Expired(Mutex<Vec<Box<[u8]>>>);

impl Expired {
    /// Reports that this key has expired. It does not wait for the lock, so a reader goes on at
    /// once.
    pub(crate) fn report(&self, key: &[u8]) {
        if key.len() <= KEY_BYTES_MAX
            && let Ok(mut keys) = self.0.try_lock()
            && keys.len() < KEYS_MAX
        {
            keys.push(key.into());
        }
    }

    /// Whether an expired key was reported.
    pub(crate) fn has_some(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes out the keys that were reported.
    pub(crate) fn take(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_bound() {
        let expired = Expired::default();
        for _ in 0..KEYS_MAX + 10 {
            expired.report(b"key");
        }
        expired.report(&[0; KEY_BYTES_MAX + 1]);
        assert!(expired.has_some());
        assert_eq!(expired.take().len(), KEYS_MAX);
        assert!(expired.take().is_empty() && !expired.has_some());
    }
}
