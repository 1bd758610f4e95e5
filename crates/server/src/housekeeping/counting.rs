//! Counts the keys that are in the data at the start, while clients are served already.
//!
//! The snapshot is taken before the first client is served. So it shows what no client's
//! transaction has counted, and nothing else, however long the counting takes.

use crate::key_count::Change;
use crate::names;
use crate::shared::Shared;
use crate::value;
use manx::txn::{Error, Isolation};

/// Counts, after it has called `begun` when the snapshot is there. Breaks off when the server ends.
///
/// # Errors
/// The store's. Then DBSIZE counts each time.
pub(crate) fn count_keys(shared: &Shared, begun: impl FnOnce()) -> Result<(), Error> {
    let mut session = shared.store.session()?;
    let mut transaction = session.begin(Isolation::Snapshot)?;
    let generation = shared.keyspace.generation();
    begun();
    let mut found = Change::default();
    let all = names::keys(generation);
    for entry in transaction.scan::<[u8], _>(names::bounds(&all)) {
        let (_, value) = entry?;
        found.keys += 1;
        found.expiries += i64::from(value::has_expiry(&value));
        if shared.stop.is_over() {
            return Ok(());
        }
    }
    shared.keyspace.count.know(generation, found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::resp::Replies;
    use crate::transact::transact;
    use manx::txn::Store;

    #[test]
    fn what_clients_do_meanwhile_is_counted_once() {
        let options = || Options { durable: true, ..Options::default() };
        let store = Store::in_memory(manx::txn::Options::default());
        let first = Shared::new(options(), store.clone()).unwrap();
        let mut session = store.session().unwrap();
        let put = |shared: &Shared, key: &str, expires_ms| {
            let mut session = shared.store.session().unwrap();
            let put =
                |ops: &mut crate::ops::Ops<'_, '_>, _: &mut Replies| ops.put(key.as_bytes(), b"", expires_ms);
            transact(shared, &mut session, &mut Replies::new(0), put).unwrap();
        };
        (0..10).for_each(|n| put(&first, &format!("old {n}"), (n < 3).then_some(u64::MAX)));
        // The next start finds the data.
        let shared = Shared::new(options(), store.clone()).unwrap();
        assert_eq!(shared.keyspace.count.get(), None);
        let counted = |shared: &Shared, session: &mut manx::txn::Session| {
            transact(shared, session, &mut Replies::new(0), |ops, _| ops.count_keys()).unwrap()
        };
        assert_eq!(counted(&shared, &mut session), (10, 3), "one by one");
        count_keys(&shared, || {
            put(&shared, "old 0", None);
            put(&shared, "new", Some(u64::MAX));
            put(&shared, "new too", None);
        })
        .unwrap();
        assert_eq!(shared.keyspace.count.get(), Some((12, 3)));
        assert_eq!(counted(&shared, &mut session), (12, 3));
        transact(&shared, &mut session, &mut Replies::new(0), |ops, _| ops.clear()).unwrap();
        assert_eq!(shared.keyspace.count.get(), Some((0, 0)));
    }
}
