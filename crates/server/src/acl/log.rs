//! What was refused lately, for ACL LOG: commands, keys, channels, and passwords.
//!
//! It has a bound in entries, and each entry one in bytes: a client that is refused cannot fill the
//! memory.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most entries, as in Redis.
const ENTRIES_MAX: usize = 128;
/// The most bytes of an object or a name that are kept.
const BYTES_MAX: usize = 1024;
/// The same refusal within this time is counted, not noted again …
const TOGETHER: Duration = Duration::from_secs(60);
/// … if it is among this number of latest ones.
const LOOKED_AT: usize = 10;

/// What a client has no right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Command,
    Key,
    Channel,
    Auth,
}

/// A refusal, and how often it has happened.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) count: i64,
    pub(crate) reason: Reason,
    /// While commands are queued or done by EXEC.
    pub(crate) is_in_multi: bool,
    pub(crate) object: Box<[u8]>,
    pub(crate) user: Box<[u8]>,
    pub(crate) when: Instant,
    /// What CLIENT LIST says of the client.
    pub(crate) client: String,
}

impl Denial {
    fn is_like(&self, other: &Denial) -> bool {
        self.reason == other.reason
            && self.is_in_multi == other.is_in_multi
            && self.object == other.object
            && self.user == other.user
            && other.when.duration_since(self.when) < TOGETHER
    }
}

/// The latest refusals, the last one first.
#[derive(Default)]
pub(crate) struct Log(Mutex<VecDeque<Denial>>);

impl Log {
    fn locked(&self) -> MutexGuard<'_, VecDeque<Denial>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, reason: Reason, is_in_multi: bool, object: &[u8], user: &[u8], client: String) {
        let short = |bytes: &[u8]| bytes[..bytes.len().min(BYTES_MAX)].into();
        let (object, user) = (short(object), short(user));
        let mut denial = Denial { count: 1, reason, is_in_multi, object, user, when: Instant::now(), client };
        let mut entries = self.locked();
        if let Some(index) = entries.iter().take(LOOKED_AT).position(|entry| entry.is_like(&denial))
            && let Some(entry) = entries.remove(index)
        {
            denial.count += entry.count;
        }
        entries.push_front(denial);
        entries.truncate(ENTRIES_MAX);
    }

    /// The latest ones.
    pub(crate) fn latest(&self, count: usize) -> Vec<Denial> {
        self.locked().iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.locked().clear();
    }
}
