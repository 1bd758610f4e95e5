//! Stores that are cleaned by hand, and what is left in them.

#![allow(dead_code, reason = "each test uses a part of it")]

use manx::txn::{Options, Store};
use std::sync::Weak;
use testing::until;

/// A store without a thread that cleans, so that it is known which commit does.
pub fn alone() -> Options {
    Options::new().collect_every(None)
}

/// How many of these values are still in memory.
pub fn alive(values: &[Weak<[u8]>]) -> usize {
    values.iter().filter(|value| value.strong_count() > 0).count()
}

/// Collects until it is so. Other tests of this process may be reading, which keeps some for as
/// long as their threads do not run.
///
/// # Panics
/// If it does not come.
#[track_caller]
pub fn collects(what: &str, store: &Store, ready: impl Fn() -> bool) {
    until(what, || {
        store.collect();
        ready()
    });
}

/// Collects until nothing is left that no transaction needs.
///
/// # Panics
/// If it does not come.
#[track_caller]
pub fn leaves_no_garbage(store: &Store) {
    let left = || (store.stats().garbage_keys, store.stats().garbage_bytes);
    collects("no garbage is left", store, || left() == (0, 0));
}
