//! What every test of the default range lock ends with: the lock is as it was at first.

use manx::range::RangeLock;

/// Asserts that nothing is held, that no thread or task waits, and that no key is closed.
pub fn assert_free<const SHARDS: usize, const SLOTS: usize>(lock: &RangeLock<u64, SHARDS, SLOTS>) {
    /// More keys than any test uses.
    const KEYS: u64 = 64;
    let dump = lock.dump();
    assert!(dump.held.is_empty() && dump.waiting.is_empty(), "{dump}");
    for key in 0..KEYS {
        assert!(lock.try_lock(key..key + 1).is_ok(), "{key} is closed");
    }
    assert!(lock.try_lock(..).is_ok(), "something is closed");
}
