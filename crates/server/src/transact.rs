//! A transaction of a client, begun again until it succeeds.
//!
//! Clients of Redis know no conflicts: a SET always succeeds. So a transaction that conflicts is
//! tried again before its client gets an answer. The first try is optimistic. If it conflicts on
//! some key, the next tries hold that key's *retry lock* (`retry_locks.rs`), so only one of the
//! losers tries at a time. The winner may be a thread that does not run, so the holder of the retry
//! lock backs off adaptively before it tries again. A retry lock is taken while no transaction is
//! open, and each thread holds one at most, so there is no deadlock. A transaction that has
//! conflicted for [`TURN`] gets a turn (`turn.rs`), in which no other transaction begins.
//!
//! Where data is on a disk, a transaction is committed before the disk has answered, and its answer
//! is not sent until then ([`settle`]). So commands of many clients share a sync, whatever keys
//! they write, and no lock is held while a thread waits for the disk.

use crate::key_count::Outcome;
use crate::ops::Ops;
use crate::resp::{Awaited, Replies, Version};
use crate::shared::{Shared, count};
use crate::turn::Taken;
use manx::lock::MutexGuard;
use manx::pool::block_in_place;
use manx::txn::{Error, Isolation, Session};
use manx::wait::Adaptive;
use std::time::{Duration, Instant};

/// A transaction that has been tried for this time gets a turn.
const TURN: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 500 });
/// How long it is tried in its turn, while those that had begun before end; then the client gets an
/// error.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does `work` in a transaction and commits it, and retries if it conflicts. Each retry first takes
/// back what the last try has answered.
pub(crate) fn transact<R>(
    shared: &Shared,
    session: &mut Session,
    out: &mut Replies,
    mut work: impl FnMut(&mut Ops<'_, '_>, &mut Replies) -> Result<R, Error>,
) -> Result<R, Error> {
    let (mark, version) = (out.mark(), out.version());
    shared.turn.respect();
    let first = match once(shared, session, out, mark, &mut work) {
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
    let mut began = Instant::now();
    let mut backoff = Adaptive::DEFAULT.start();
    let mut held: Option<(usize, MutexGuard<'_, ()>)> = None;
    let mut turn: Option<Taken<'_>> = None;
    loop {
        out.cut(mark);
        out.set_version(version);
        if !error.is_retryable() || turn.is_some() && began.elapsed() > PATIENCE {
            return Err(error);
        }
        count(&shared.counts.retries);
        let wanted = match &error {
            Error::Conflict { key, .. } if turn.is_none() => Some(shared.retry_locks.of(key)),
            _ => None,
        };
        match wanted {
            _ if turn.is_none() && began.elapsed() > TURN => {
                drop(held.take());
                turn = Some(shared.turn.take());
                began = Instant::now();
            }
            Some(index) if held.as_ref().is_none_or(|(held, _)| *held != index) => {
                // Released first: one at a time.
                drop(held.take());
                held = Some((index, shared.retry_locks.lock(index)));
            }
            _ => block_in_place(|| backoff.wait()),
        }
        if turn.is_none() {
            shared.turn.respect();
        }
        error = match once(shared, session, out, mark, work) {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
    }
}

fn once<R>(
    shared: &Shared,
    session: &mut Session,
    out: &mut Replies,
    mark: usize,
    work: &mut impl FnMut(&mut Ops<'_, '_>, &mut Replies) -> Result<R, Error>,
) -> Result<R, Error> {
    let mut transaction = session.begin(Isolation::Snapshot)?;
    let mut ops = Ops::new(&mut transaction, &shared.keyspace, shared.options.input_bytes_max);
    let result = work(&mut ops, out)?;
    let (outcome, made) = (ops.outcome(), std::mem::take(&mut ops.made));
    let writes = transaction.id().is_some();
    match transaction.commit_early() {
        Ok(done) => {
            out.awaits(done.place.max(shared.keyspace.generation_place()), mark);
            if shared.options.durable && writes {
                shared.writing.write_succeeded();
            }
            committed(shared, outcome, done.place);
            shared.waiters.made(&made);
            Ok(result)
        }
        Err(error) => {
            if let Error::Data(error) = &error
                && writes
            {
                shared.writing.write_failed(error);
            }
            Err(error)
        }
    }
}

/// Waits for the disk, if answers tell of what is not durable. Returns whether it is now; if it is
/// not, an error is in the place of these answers.
pub(crate) fn settle(shared: &Shared, out: &mut Replies) -> bool {
    let Some(Awaited { place, mark }) = out.awaited() else { return true };
    out.arrived();
    // While this thread waits for a disk, another thread of the pool may run.
    let Err(error) = block_in_place(|| shared.store.wait(place)) else {
        shared.keyspace.is_durable(place);
        return true;
    };
    if let Error::Data(error) = &error {
        shared.writing.write_failed(error);
    }
    out.cut(mark);
    out.error(&failed(&error));
    false
}

/// A transaction with this outcome is committed, and has this place.
#[inline]
fn committed(shared: &Shared, outcome: Outcome, place: u64) {
    shared.keyspace.committed(outcome, place);
    if outcome.bytes != 0 {
        shared.memory.wrote(outcome.bytes);
    }
}

/// The answer to a client whose transaction has failed.
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

    /// It would conflict each time.
    #[test]
    fn a_long_transaction_among_short_ones_gets_its_turn() {
        const KEYS: usize = 20;
        let store = Store::in_memory(manx::txn::Options::default());
        let shared = Shared::new(Options::default(), store).unwrap();
        let key = |number: usize| [b'k', number as u8];
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (shared, is_over) = (&shared, &is_over);
                scope.spawn(move || {
                    let mut session = shared.store.session().unwrap();
                    let mut number = writer;
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        number = (number + 1) % KEYS;
                        let put =
                            |ops: &mut Ops<'_, '_>, _: &mut Replies| ops.put(&key(number), b"short", None);
                        transact(shared, &mut session, &mut Replies::new(0), put).unwrap();
                    }
                });
            }
            let mut session = shared.store.session().unwrap();
            let mut tries = 0;
            for _ in 0..3 {
                let done = transact(&shared, &mut session, &mut Replies::new(0), |ops, _| {
                    tries += 1;
                    for number in 0..KEYS {
                        ops.put(&key(number), b"long", None)?;
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(())
                });
                assert_eq!(done, Ok(()));
            }
            assert!(tries > 3, "nobody was in its way");
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn a_retry_takes_back_what_the_last_try_answered_and_the_version_that_it_set() {
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
