//! Rounds through all keys, some at a time, in which expired keys are found and deleted.

use crate::ops::Enough;
use crate::resp::Replies;
use crate::shared::Shared;
use crate::transact::transact;
use manx::txn::{Error, Session};
use std::ops::Bound;

/// The number of keys that one transaction looks at, living and expired ones …
const KEYS: usize = 2_000;
/// … and if more of them than this have expired, the housekeeping goes on at once.
const MANY: usize = KEYS / 10;
/// The most bytes of the keys that a look remembers, unless it is a single key.
const BYTES_MAX: usize = 1 << 20;
/// The number of keys that one transaction deletes. A commit of many takes hardly longer than one,
/// but a writer of one of them waits for all.
const TOGETHER: usize = 512;

/// Where the next look begins.
#[derive(Default)]
pub(super) struct Rounds {
    behind: Option<Box<[u8]>>,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// There are no more keys: the next round begins at the first one.
    End,
    /// There are more keys, and few of the keys that were looked at had expired.
    Few,
    /// There are more keys, and many of the keys that were looked at had expired.
    Many,
}

impl Rounds {
    /// Deletes the expired keys that readers have reported, and the expired ones among the next
    /// keys.
    ///
    /// # Errors
    /// The store's. What was not deleted is found again, by another round at the latest.
    pub(super) fn next(&mut self, shared: &Shared, session: &mut Session) -> Result<Looked, Error> {
        delete(shared, session, &shared.keyspace.expired.take())?;
        if !shared.keyspace.may_have_expiries() {
            return Ok(Looked::End);
        }
        let (expired, last) = self.look(shared, session)?;
        delete(shared, session, &expired)?;
        self.behind = last;
        Ok(match &self.behind {
            None => Looked::End,
            Some(_) if expired.len() > MANY => Looked::Many,
            Some(_) => Looked::Few,
        })
    }

    /// Returns the expired ones among the next keys, and the last key that was looked at, if there
    /// may be more.
    #[expect(clippy::type_complexity, reason = "two plain things")]
    fn look(
        &self,
        shared: &Shared,
        session: &mut Session,
    ) -> Result<(Vec<Box<[u8]>>, Option<Box<[u8]>>), Error> {
        transact(shared, session, &mut Replies::new(0), |ops, _| {
            let from = self.behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let (mut expired, mut seen, mut bytes, mut last) = (Vec::new(), 0, 0, None);
            ops.scan_all(from, |key, found| {
                seen += 1;
                if found.is_none() {
                    expired.push(Box::from(key));
                    bytes += key.len();
                }
                if seen < KEYS && bytes < BYTES_MAX {
                    return Enough::No;
                }
                last = Some(Box::from(key));
                Enough::Yes
            })?;
            Ok((expired, last))
        })
    }
}

/// Deletes these keys if they have expired. A key that has got a new value meanwhile stays.
fn delete(shared: &Shared, session: &mut Session, keys: &[Box<[u8]>]) -> Result<(), Error> {
    for some in keys.chunks(TOGETHER) {
        transact(shared, session, &mut Replies::new(0), |ops, _| {
            some.iter().try_for_each(|key| ops.delete_expired(key))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use manx::txn::Store;

    const LIVING: usize = 50;

    fn shared() -> Shared {
        Shared::new(Options::default(), Store::in_memory(manx::txn::Options::default())).unwrap()
    }

    fn put(shared: &Shared, keys: &[String], expires_ms: Option<u64>) {
        let mut session = shared.store.session().unwrap();
        for some in keys.chunks(1_000) {
            transact(shared, &mut session, &mut Replies::new(0), |ops, _| {
                some.iter().try_for_each(|key| ops.put(key.as_bytes(), b"value", expires_ms))
            })
            .unwrap();
        }
    }

    /// Living and expired ones.
    fn keys_in(shared: &Shared) -> (usize, usize) {
        let mut session = shared.store.session().unwrap();
        transact(shared, &mut session, &mut Replies::new(0), |ops, _| {
            let mut counts = (0, 0);
            ops.scan_all(Bound::Unbounded, |_, found| {
                let count = if found.is_some() { &mut counts.0 } else { &mut counts.1 };
                *count += 1;
                Enough::No
            })?;
            Ok(counts)
        })
        .unwrap()
    }

    fn names(of: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{number:06}:{of}")).collect()
    }

    #[test]
    fn one_round_deletes_all_that_have_expired_and_nothing_else() {
        let shared = shared();
        put(&shared, &names("gone", 5 * KEYS), Some(1));
        put(&shared, &names("alive", LIVING), None);
        put(&shared, &names("alive for long", LIVING), Some(u64::MAX));
        let (mut session, mut rounds) = (shared.store.session().unwrap(), Rounds::default());
        for look in 1..=5 {
            assert_eq!(rounds.next(&shared, &mut session).unwrap(), Looked::Many, "{look}");
            assert!(keys_in(&shared).1 <= (5 - look) * KEYS + 2 * LIVING, "{look}");
        }
        assert_eq!(rounds.next(&shared, &mut session).unwrap(), Looked::End);
        assert_eq!(keys_in(&shared), (2 * LIVING, 0));
    }

    #[test]
    fn a_look_ends_and_the_next_one_goes_on() {
        let shared = shared();
        put(&shared, &names("alive", 2 * KEYS + 1), Some(u64::MAX));
        let (mut session, mut rounds) = (shared.store.session().unwrap(), Rounds::default());
        let looked: Vec<_> = (0..4).map(|_| rounds.next(&shared, &mut session).unwrap()).collect();
        assert_eq!(looked, [Looked::Few, Looked::Few, Looked::End, Looked::Few]);
        // Of long keys fewer are remembered.
        let long = "x".repeat(BYTES_MAX / 4);
        put(&shared, &(0..9).map(|number| format!(" {number}{long}")).collect::<Vec<_>>(), Some(1));
        let (expired, last) = Rounds::default().look(&shared, &mut session).unwrap();
        assert!(last.is_some_and(|last| expired.last() == Some(&last)));
        assert_eq!(expired.len(), 4);
    }

    #[test]
    fn a_reported_key_that_has_been_written_since_stays() {
        let shared = shared();
        let keys = names("key", 3);
        put(&shared, &keys, Some(1));
        keys.iter().for_each(|key| shared.keyspace.expired.report(key.as_bytes()));
        put(&shared, &keys[..1], None);
        put(&shared, &keys[1..2], Some(u64::MAX));
        delete(&shared, &mut shared.store.session().unwrap(), &shared.keyspace.expired.take()).unwrap();
        assert_eq!(keys_in(&shared), (2, 0));
    }
}
