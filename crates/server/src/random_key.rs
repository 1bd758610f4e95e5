//! RANDOMKEY: a key at random.
//!
//! Up to [`WALKED_MAX`] keys are walked over, and each is as likely as any other (Knuth, "The Art
//! of Computer Programming", 3.4.2, algorithm R). Of more, the first one behind a random place in
//! their order is taken, as with members (`collection/random.rs`): a key behind a gap comes more
//! often. An expired key is not taken.

use crate::collection::{WALKED_MAX, place};
use crate::names;
use crate::ops::{Enough, Ops};
use manx::txn::Error;
use std::ops::Bound;

impl Ops<'_, '_> {
    /// A key at random, if there is one.
    pub(crate) fn random_key(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let (mut seen, mut chosen) = (0, None);
        if self.count_keys()?.0 <= WALKED_MAX {
            self.scan(Bound::Unbounded, |key, _| {
                seen += 1;
                if fastrand::u64(..seen) == 0 {
                    chosen = Some(key.to_vec());
                }
                Enough::No
            })?;
            return Ok(chosen);
        }
        let Some((first, last)) = self.outer_keys()? else { return Ok(None) };
        let key = |name| names::key_in(name).unwrap_or_default();
        let place = place(key(&first), key(&last));
        for from in [Bound::Included(&place[..]), Bound::Unbounded] {
            self.scan(from, |key, _| {
                chosen = Some(key.to_vec());
                Enough::Yes
            })?;
            if chosen.is_some() {
                break;
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Replies;
    use crate::shared::Shared;
    use crate::transact::transact;
    use manx::txn::Store;
    use std::collections::BTreeSet;

    #[test]
    fn each_living_key_comes_and_no_other_does() {
        for keys in [0, 5, WALKED_MAX as u8 + 20] {
            let store = Store::in_memory(manx::txn::Options::default());
            let shared = Shared::new(crate::Options::default(), store).unwrap();
            let mut session = shared.store.session().unwrap();
            let put = |ops: &mut Ops<'_, '_>, _: &mut Replies| {
                (0..keys).try_for_each(|key| ops.put(&[b'a' + key % 26, key], b"", None))?;
                // The first of all, one in the middle and the last of all have expired.
                [&b"A"[..], b"b", b"~"].iter().try_for_each(|key| ops.put(key, b"", Some(1)))
            };
            transact(&shared, &mut session, &mut Replies::new(0), put).unwrap();
            let mut found = BTreeSet::new();
            for _ in 0..3_000 {
                let key = transact(&shared, &mut session, &mut Replies::new(0), |ops, _| ops.random_key());
                found.extend(key.unwrap());
            }
            let all: BTreeSet<_> = (0..keys).map(|key| vec![b'a' + key % 26, key]).collect();
            assert!(found.is_subset(&all));
            // Some have a small gap before them only.
            assert!(found.len() >= if keys == 5 { 5 } else { all.len() / 2 }, "{found:?}");
        }
    }
}
