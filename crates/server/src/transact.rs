//! A transaction of a client, begun again until it succeeds.
//!
//! Clients of Redis know no conflicts: a SET always succeeds. So what conflicts is done again,
//! unanswered. The first try is optimistic. If it meets another on some key, the next tries hold
//! that key's *turn*. All losers take this lock, so only one of them at a time tries. The other
//! transaction may be that of a thread that does not run, so the turn's holder waits adaptively
//! before it tries again. A turn is taken while no transaction is open, and one at a time, so turns
//! cannot wait for each other.

use crate::ops::Ops;
use crate::resp::{Replies, Version};
use crate::shared::{Shared, count};
use manx::lock::{Mutex, MutexGuard};
use manx::pool::block_in_place;
use manx::txn::{Error, Isolation, Session};
use manx::wait::Adaptive;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

/// How long it is tried; then the client is told.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of turns that all keys share.
const TURNS: usize = 256;

/// Which of the transactions that have lost a try may write a key next.
pub(crate) struct RetryLocks {
    locks: Box<[Mutex<()>]>,
    hash: RandomState,
}

impl RetryLocks {
    pub(crate) fn new() -> RetryLocks {
        RetryLocks { locks: (0..TURNS).map(|_| Mutex::new(())).collect(), hash: RandomState::new() }
    }

    /// Which turn is the key's.
    fn of(&self, key: &[u8]) -> usize {
        self.hash.hash_one(key) as usize % TURNS
    }

    fn take(&self, index: usize) -> MutexGuard<'_, ()> {
        let lock = &self.locks[index];
        lock.try_lock().unwrap_or_else(|| block_in_place(|| lock.lock()))
    }
}

/// Does `work` in a transaction and commits it, again and again if need be. What it has answered is
/// taken back each time.
pub(crate) fn transact<R>(
    shared: &Shared,
    session: &mut Session,
    out: &mut Replies,
    mut work: impl FnMut(&mut Ops<'_, '_>, &mut Replies) -> Result<R, Error>,
) -> Result<R, Error> {
    let (mark, version) = (out.mark(), out.version());
    let first = match once(shared, session, out, &mut work) {
        Ok(result) => return Ok(result),
        Err(error) => error,
    };
    again(shared, session, out, (mark, version), first, &mut work)
}

/// The tries after the first.
#[cold]
fn again<R>(
    shared: &Shared,
    session: &mut Session,
    out: &mut Replies,
    (mark, version): (usize, Version),
    mut error: Error,
    work: &mut impl FnMut(&mut Ops<'_, '_>, &mut Replies) -> Result<R, Error>,
) -> Result<R, Error> {
    let began = Instant::now();
    let mut backoff = Adaptive::DEFAULT.start();
    let mut turn: Option<(usize, MutexGuard<'_, ()>)> = None;
    loop {
        out.cut(mark);
        out.set_version(version);
        if !error.is_retryable() || began.elapsed() > PATIENCE {
            return Err(error);
        }
        count(&shared.counts.retries);
        let wanted = match &error {
            Error::Conflict { key, .. } => Some(shared.turns.of(key)),
            _ => None,
        };
        let held = turn.as_ref().map(|(index, _)| *index);
        match wanted {
            Some(index) if held != Some(index) => {
                // First given back: one at a time.
                drop(turn.take());
                turn = Some((index, shared.turns.take(index)));
            }
            _ => block_in_place(|| backoff.wait()),
        }
        error = match once(shared, session, out, work) {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
    }
}

fn once<R>(
    shared: &Shared,
    session: &mut Session,
    out: &mut Replies,
    work: &mut impl FnMut(&mut Ops<'_, '_>, &mut Replies) -> Result<R, Error>,
) -> Result<R, Error> {
    let mut transaction = session.begin(Isolation::Snapshot)?;
    let mut ops = Ops::new(&mut transaction, &shared.keyspace, shared.options.input_bytes_max);
    let result = work(&mut ops, out)?;
    if !shared.options.durable || transaction.id().is_none() {
        transaction.commit()?;
        return Ok(result);
    }
    // What waits for a disk lets others of the pool work.
    match block_in_place(|| transaction.commit()) {
        Ok(_) => shared.writing.write_succeeded(),
        Err(error) => {
            if let Error::Data(error) = &error {
                shared.writing.write_failed(error);
            }
            return Err(error);
        }
    }
    Ok(result)
}

/// What a client is told.
pub(crate) fn failed(error: &Error) -> String {
    if error.is_retryable() {
        return format!("TRYAGAIN tried for {} s; the last time: {error}", PATIENCE.as_secs());
    }
    format!("ERR the store failed: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use manx::txn::Store;

    #[test]
    fn what_a_try_has_answered_is_taken_back_and_so_is_the_version_that_it_spoke() {
        let store = Store::in_memory(manx::txn::Options::default());
        let shared = Shared::new(Options::default(), store).unwrap();
        let (mut session, mut out) = (shared.store.session().unwrap(), Replies::new(usize::MAX));
        out.ok();
        let mut tries = 0;
        let done = transact(&shared, &mut session, &mut out, |_, out| {
            tries += 1;
            out.null();
            // As HELLO does in EXEC.
            out.set_version(Version::Three);
            if tries < 3 { Err(Error::Conflict { key: (*b"k").into(), with: 1 }) } else { Ok(tries) }
        });
        assert_eq!(done, Ok(3));
        assert_eq!(out.bytes().escape_ascii().to_string(), "+OK\\r\\n$-1\\r\\n");
        assert_eq!(out.version(), Version::Three);
        // What cannot succeed is taken back too.
        let failed = transact(&shared, &mut session, &mut out, |_, out| -> Result<(), Error> {
            out.set_version(Version::Two);
            out.ok();
            Err(Error::Failed)
        });
        assert_eq!(failed, Err(Error::Failed));
        assert_eq!((out.bytes().len(), out.version()), (10, Version::Three));
    }
}
