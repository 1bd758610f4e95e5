//! Stores that are cleaned by hand, and what is left in them.

use manx::txn::{Options, Store};
use std::sync::Weak;
use std::thread;

/// A store without a thread that cleans, so that it is known which commit does.
pub fn alone() -> Options {
    Options::new().collect_every(None)
}

/// How many of these values are still in memory.
pub fn alive(values: &[Weak<[u8]>]) -> usize {
    values.iter().filter(|value| value.strong_count() > 0).count()
}

/// Collects until it is so. Other tests of this process may be reading, which keeps some for a
/// moment.
pub fn collects(store: &Store, until: impl Fn() -> bool) -> bool {
    (0..10_000).any(|_| {
        store.collect();
        until() || {
            thread::yield_now();
            false
        }
    })
}

/// Collects until nothing is left that no transaction needs.
pub fn leaves_no_garbage(store: &Store) -> bool {
    collects(store, || (store.stats().garbage_keys, store.stats().garbage_bytes) == (0, 0))
}
