//! The latest commands that took long, as SLOWLOG shows them.
//!
//! What is noted is the time between a command's arguments and its answer, with all waits for locks
//! and with what is done again; not the time in which the command lay in a buffer, in which its
//! client waited for an element, or in which the answers wait for the disk together.
//!
//! The log has a bound in entries, and each entry has bounds in arguments and in bytes, as in
//! Redis: it cannot fill the memory.

use crate::resp::Args;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The most arguments of a command that are kept, and of each the most bytes.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

/// A command that took long.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Each is one greater than that of the command noted before.
    pub(crate) id: i64,
    /// When it had been done.
    pub(crate) when: SystemTime,
    pub(crate) took: Duration,
    /// What is left out of them is named in its place.
    pub(crate) args: Vec<Box<[u8]>>,
    /// Its client's, and what that had called itself, shortened as the arguments are.
    pub(crate) address: Box<str>,
    pub(crate) name: Box<[u8]>,
}

#[derive(Default)]
struct Entries {
    next_id: i64,
    /// The last one first.
    latest: VecDeque<Arc<Entry>>,
}

/// The latest commands that took long.
pub(crate) struct Slowlog {
    /// A command that takes less is not noted.
    above: Duration,
    entries_max: usize,
    entries: Mutex<Entries>,
}

impl Slowlog {
    pub(crate) fn new(above: Duration, entries_max: usize) -> Slowlog {
        Slowlog { above, entries_max, entries: Mutex::default() }
    }

    fn locked(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command begins. None if no command is noted, so that none looks at the clock.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Instant> {
        (self.entries_max > 0).then(Instant::now)
    }

    /// How long a command has taken that began then, if it is to be noted.
    #[inline]
    pub(crate) fn slow(&self, begin: Option<Instant>) -> Option<Duration> {
        begin.map(|begin| begin.elapsed()).filter(|took| *took >= self.above)
    }

    /// Notes a command. Of its arguments those that `is_secret` names are left out.
    pub(crate) fn add(
        &self,
        took: Duration,
        args: Args<'_>,
        is_secret: impl Fn(usize) -> bool,
        (address, name): (&str, &[u8]),
    ) {
        let (when, args) = (SystemTime::now(), shortened(args, is_secret));
        let (address, name) = (address.into(), shortened_arg(name));
        let mut entries = self.locked();
        let id = entries.next_id;
        entries.next_id += 1;
        entries.latest.truncate(self.entries_max.saturating_sub(1));
        entries.latest.push_front(Arc::new(Entry { id, when, took, args, address, name }));
    }

    /// The latest ones.
    pub(crate) fn latest(&self, count: usize) -> Vec<Arc<Entry>> {
        self.locked().latest.iter().take(count).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.locked().latest.len()
    }

    /// Forgets all. The next one has the next number.
    pub(crate) fn clear(&self) {
        let forgotten = std::mem::take(&mut self.locked().latest);
        // Not under the lock.
        drop(forgotten);
    }
}

/// What is kept of arguments.
fn shortened(args: Args<'_>, is_secret: impl Fn(usize) -> bool) -> Vec<Box<[u8]>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let short = |(index, arg): (usize, &[u8])| {
        if is_secret(index) { b"(redacted)"[..].into() } else { shortened_arg(arg) }
    };
    let mut short: Vec<_> = args.from(0).take(kept).enumerate().map(short).collect();
    if kept < args.len() {
        short.push(format!("... ({} more arguments)", args.len() - kept).into_bytes().into());
    }
    short
}

fn shortened_arg(arg: &[u8]) -> Box<[u8]> {
    let (shown, rest) = arg.split_at(arg.len().min(ARG_BYTES_MAX));
    match rest.len() {
        0 => shown.into(),
        more => [shown, format!("... ({more} more bytes)").as_bytes()].concat().into(),
    }
}
