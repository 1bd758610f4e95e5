//! Names of locks, for statistics and for messages.
//!
//! A registry by address, apart from the locks, which stay as small as they are. It holds
//! [`NAMES_MAX`] names; more are refused, and their locks go by their addresses. A name stays when
//! its lock is gone, and a new lock at the same address inherits it: a program that names locks
//! that come and go takes their names back ([`unname`]).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// How many locks can have names at once.
pub const NAMES_MAX: usize = 65_536;

/// A lock that can be named: a [`lock_api::Mutex`] or [`lock_api::RwLock`] of any kind.
///
/// ```
/// use manx::lock::{Mutex, Nameable};
///
/// fn named<L: Nameable>(lock: L, name: &'static str) -> L {
///     // A name belongs to an address: name a lock where it stays.
///     manx::lock::name(&lock, name);
///     lock
/// }
/// assert_ne!(named(Mutex::new(0), "counter").address(), 0);
/// ```
pub trait Nameable {
    /// The address by which the lock is known.
    fn address(&self) -> usize;
}

impl<R: lock_api::RawMutex, T: ?Sized> Nameable for lock_api::Mutex<R, T> {
    fn address(&self) -> usize {
        // SAFETY: only the address is used.
        core::ptr::from_ref(unsafe { self.raw() }).addr()
    }
}

impl<R: lock_api::RawRwLock, T: ?Sized> Nameable for lock_api::RwLock<R, T> {
    fn address(&self) -> usize {
        // SAFETY: only the address is used.
        core::ptr::from_ref(unsafe { self.raw() }).addr()
    }
}

/// Gives a lock a name. Locks with the same name are one row in the statistics. Returns whether
/// there was room for the name.
///
/// ```
/// static SHARDS: [manx::lock::RwLock<u64>; 2] = [const { manx::lock::RwLock::new(0) }; 2];
///
/// for shard in &SHARDS {
///     assert!(manx::lock::name(shard, "shard"));
/// }
/// ```
pub fn name(lock: &impl Nameable, name: impl Into<Cow<'static, str>>) -> bool {
    let mut names = names();
    if names.len() >= NAMES_MAX && !names.contains_key(&lock.address()) {
        return false;
    }
    names.insert(lock.address(), name.into());
    true
}

/// Takes a lock's name back.
pub fn unname(lock: &impl Nameable) {
    names().remove(&lock.address());
}

/// The name of the lock at this address.
pub(super) fn named(address: usize) -> Option<Cow<'static, str>> {
    names().get(&address).cloned()
}

/// The standard library's lock: ours would be observed.
fn names() -> MutexGuard<'static, HashMap<usize, Cow<'static, str>>> {
    static NAMES: OnceLock<Mutex<HashMap<usize, Cow<'static, str>>>> = OnceLock::new();
    NAMES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}
