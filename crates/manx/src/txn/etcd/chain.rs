//! What a server does in etcd: it takes a store over, reads it, and commits groups of batches, each
//! as a transaction of etcd that compares the store's record (`keys.rs`).
//!
//! # The chain
//! Each transaction of an owner holds only if the record was last changed by the owner's own last
//! transaction that changed it: the records are a chain, and each link names the one before by its
//! revision. So there is one order of all changes, whatever arrives late or twice:
//!
//! - **Fencing.** A server takes over by a link with a higher epoch. From then on no transaction of
//!   an older owner holds, also not one that was on its way.
//! - **Ambiguous answers.** A request without an answer is sent again as it was. If it was carried
//!   out meanwhile it does not hold again, and etcd answers with the record: this shows whether it
//!   is the one that the request wrote. If another server has taken over, its record says which
//!   link it found; so the owner knows even then, unless a third server has come.
//!
//! # Large batches
//! Etcd limits a transaction to 128 operations and 1.5 MiB. A larger batch goes in steps:
//!
//! ```text
//!   parts ──► record with the stage ──► entries, in pieces ──► record without it; the parts go
//!             (committed, atomically)
//! ```
//!
//! Before the second step nothing is changed: parts that no record names are deleted by the next
//! owner. After it the batch is durable. An owner that finds a record with a stage makes the last
//! two steps first.
//!
//! # No room
//! Etcd refuses what writes while its space is exhausted, deletions of an owner included, because
//! they change the record. It may say so about a transaction that it has carried out. So an owner
//! makes the same transaction until there is room, which shows whether it was; meanwhile the lease
//! lives, so reads go on, and batches are refused (`queue.rs`).
//!
//! Invariants:
//! 1. `link` is the record that this owner wrote last, and its revision.
//! 2. While the record has a stage, some of its batch may be among the entries. No entries are read
//!    then and no other batch is committed.
//! 3. One server's transactions are sent one after the other, but for parts: those of a batch may
//!    be sent in any order.

use super::keys::{Keys, Record, Stage};
use super::parts::{self, New};
use crate::etcd::client::{Client, Failed};
use crate::etcd::messages::{
    Compare, KeyValue, LEASE_GRANT, LEASE_REVOKE, LeaseGrantRequest, LeaseRequest, LeaseResponse, Nothing,
    Op, RANGE, RangeRequest, RangeResponse, RequestOp, TXN, TxnRequest, TxnResponse,
};
use crate::txn::remote::queue::{Broken, Group, Queue, Size};
use crate::txn::{Outcome, Recovered};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What is one transaction: etcd allows 128 operations by default, and one of them changes the
/// record. It allows 1.5 MiB a request by default.
pub(super) const SIZE: Size = Size { changes_max: 120, bytes_max: 1 << 20 };

/// What all calls of a store need.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) client: Arc<Client>,
    pub(super) keys: Keys,
    /// The store's address, for messages.
    pub(super) place: String,
    /// For how long a call is repeated.
    pub(super) patience: Duration,
    pub(super) queue: Arc<Queue>,
}

/// The store's record, the revision that changed it last (0: there is none), and its owner now.
pub(super) struct Found {
    pub(super) record: Option<Record>,
    pub(super) revision: i64,
    pub(super) owner: Option<KeyValue>,
}

/// A taken store.
pub(super) struct Chain {
    site: Site,
    link: (Record, i64),
}

impl Site {
    pub(super) fn until(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// An error that has changed nothing.
    pub(super) fn error(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.place)
    }

    /// A transaction of an owner. While etcd has no room it is made again and again, and nothing is
    /// appended: see *No room*.
    async fn write(&self, request: &TxnRequest) -> Result<TxnResponse, Failed> {
        let mut was_full = false;
        loop {
            match self.txn(request).await {
                Err(failed) if failed.is_out_of_space() && self.waits_for_room(&failed).await => {
                    was_full = true;
                }
                Err(failed) => {
                    let may_be_done = failed.may_be_done || was_full;
                    return Err(Failed { may_be_done, ..failed });
                }
                Ok(answer) => {
                    if was_full {
                        self.queue.admit();
                    }
                    return Ok(answer);
                }
            }
        }
    }

    /// Tells that etcd has no room, and waits a little; not if the store is closed.
    pub(super) async fn waits_for_room(&self, why: &Failed) -> bool {
        let what = "compact it, defragment its members and disarm the alarm; until then nothing is changed";
        self.queue.waits_for_room(self.error(format!("{why}: {what}"))).await
    }

    async fn txn(&self, request: &TxnRequest) -> Result<TxnResponse, Failed> {
        self.client.call(TXN, request, self.until()).await
    }

    /// The owner of the store, and its record.
    pub(super) async fn find(&self) -> Result<Found, String> {
        let success = vec![Op::get(self.keys.record()), Op::get(self.keys.owner())];
        let request = TxnRequest { success, ..TxnRequest::default() };
        let answer = self.txn(&request).await.map_err(|error| self.error(error))?;
        let [record, owner] = entries(answer);
        let Some(kv) = record else {
            let (key, range_end) = self.keys.all();
            let request =
                RangeRequest { key, range_end, limit: 1, keys_only: true, ..RangeRequest::default() };
            let answer: Result<RangeResponse, Failed> = self.client.call(RANGE, &request, self.until()).await;
            // Another server may make the store just now: it begins with both.
            return match answer.map_err(|error| self.error(error))?.kvs.first() {
                Some(kv) if kv.key != self.keys.owner() && kv.key != self.keys.record() => {
                    let key = kv.key.escape_ascii();
                    Err(self.error(format!("no store of this version, but there is the key `{key}`: name another prefix, or delete the keys")))
                }
                _ => Ok(Found { record: None, revision: 0, owner }),
            };
        };
        let record = Record::decode(&kv.value).ok_or_else(|| {
            self.error(
                "its record is of another version, or damaged: use the version of manx that has written it",
            )
        })?;
        Ok(Found { record: Some(record), revision: kv.mod_revision, owner })
    }

    pub(super) async fn grant(&self, ttl_s: i64) -> Result<LeaseResponse, Failed> {
        let request = LeaseGrantRequest { ttl_s, id: 0 };
        self.client.call(LEASE_GRANT, &request, self.until()).await
    }

    /// Ends a lease. If that fails it ends by itself.
    pub(super) async fn revoke(&self, id: i64) {
        let until = Instant::now() + Duration::from_secs(1).min(self.patience);
        let _: Result<Nothing, Failed> = self.client.call(LEASE_REVOKE, &LeaseRequest { id }, until).await;
    }

    fn put_owner(&self, lease: i64) -> RequestOp {
        let value = format!("process {}\n", std::process::id()).into_bytes();
        Op::put(self.keys.owner(), value, lease)
    }

    /// Takes the store over from the owner that was found, with the lease; `None` if another server
    /// came first.
    pub(super) async fn take_over(&self, found: &Found, lease: i64) -> Result<Option<Chain>, String> {
        let before = found.record;
        let mut known = before.map_or(Recovered::default(), |record| record.known);
        known.epoch += 1;
        let record = Record {
            known,
            owner: lease,
            step: 0,
            found: before.map_or((0, 0), |record| (record.owner, record.step)),
            stage: before.and_then(|record| record.stage),
        };
        let owner = found.owner.as_ref().map_or(0, |owner| owner.mod_revision);
        let request = TxnRequest {
            compare: vec![
                Compare::unchanged(self.keys.record(), found.revision),
                Compare::unchanged(self.keys.owner(), owner),
            ],
            success: vec![Op::put(self.keys.record(), record.encode(), 0), self.put_owner(lease)],
            failure: vec![Op::get(self.keys.record())],
        };
        let answer = self.txn(&request).await.map_err(|error| self.error(error))?;
        Ok(written(answer, &record)
            .ok()
            .map(|revision| Chain { site: self.clone(), link: (record, revision) }))
    }
}

impl Chain {
    pub(super) fn known(&self) -> Recovered {
        self.link.0.known
    }

    /// Makes the next link: a new record, and these operations.
    async fn advance(&mut self, mut ops: Vec<RequestOp>, next: Record) -> Result<(), Broken> {
        let keys = &self.site.keys;
        ops.push(Op::put(keys.record(), next.encode(), 0));
        let request = TxnRequest {
            compare: vec![Compare::unchanged(keys.record(), self.link.1)],
            success: ops,
            failure: vec![Op::get(keys.record())],
        };
        let answer = self.site.write(&request).await.map_err(|failed| self.broken(failed))?;
        match written(answer, &next) {
            Ok(revision) => {
                self.link = (next, revision);
                Ok(())
            }
            Err(now) => Err(self.fenced(now, Some(&next))),
        }
    }

    /// Does something that leaves the record as it is, and does no harm twice.
    async fn within(&self, ops: Vec<RequestOp>) -> Result<(), Broken> {
        let keys = &self.site.keys;
        let request = TxnRequest {
            compare: vec![Compare::unchanged(keys.record(), self.link.1)],
            success: ops,
            failure: vec![Op::get(keys.record())],
        };
        let answer = self.site.write(&request).await.map_err(|failed| self.broken(failed))?;
        if answer.succeeded {
            return Ok(());
        }
        let [now] = entries(answer);
        Err(self.fenced(now.and_then(|kv| Record::decode(&kv.value)), None))
    }

    /// Etcd has not done it, or has not answered.
    fn broken(&self, failed: Failed) -> Broken {
        let (what, flying) = match failed.may_be_done {
            true => ("whether the last changes were made is not known", Outcome::Unknown),
            false => ("the last changes were not made", Outcome::NotApplied),
        };
        let text = format!("{failed}: {what}, and nothing is changed any more: see to etcd, and start again");
        Broken { text: self.site.error(text), flying }
    }

    /// The record is no longer this owner's; `wanted` is the one that was to be written.
    fn fenced(&self, now: Option<Record>, wanted: Option<&Record>) -> Broken {
        let (own, epoch) = (self.link.0, self.link.0.known.epoch);
        let (text, flying) = match (now, wanted) {
            (None, _) => {
                let text = "its record is gone from etcd or damaged: nothing is changed any more";
                (text.into(), Outcome::Unknown)
            }
            (Some(now), wanted) => {
                let text =
                    format!("another server has taken it over (epoch {}, here {epoch})", now.known.epoch);
                let last_of_own = if now.found.0 == own.owner { Some(now.found.1) } else { None };
                let outcome = match (last_of_own, wanted) {
                    (_, None) => Outcome::Fenced,
                    (Some(step), Some(wanted)) if step < wanted.step => Outcome::Fenced,
                    // The next owner found what was wanted, or a third one has forgotten what the
                    // second one found.
                    _ => Outcome::Unknown,
                };
                (text, outcome)
            }
        };
        Broken { text: self.site.error(text), flying }
    }

    /// Commits a group.
    pub(super) async fn commit(&mut self, group: &Group) -> Result<(), Broken> {
        let mut next = self.next();
        next.known = group.known;
        if group.changes.len() <= SIZE.changes_max && group.bytes <= SIZE.bytes_max {
            let ops = group.changes.iter().map(|(key, value)| self.change(key, value.as_deref())).collect();
            return self.advance(ops, next).await;
        }
        let parts = parts::cut(group.changes.iter(), SIZE.bytes_max);
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let stage = Stage { epoch: next.known.epoch, step: next.step, parts: count };
        for (number, part) in (0..count).zip(parts) {
            let put = Op::put(self.site.keys.part(stage, number), part, 0);
            // Nothing is committed yet.
            self.within(vec![put]).await.map_err(|broken| match broken.flying {
                Outcome::Unknown => Broken { flying: Outcome::NotApplied, ..broken },
                _ => broken,
            })?;
        }
        next.stage = Some(stage);
        self.advance(Vec::new(), next).await
    }

    /// Brings the batch of a stage among the entries, if there is one: Invariant 2.
    pub(super) async fn finish(&mut self) -> Result<(), Broken> {
        let Some(stage) = self.link.0.stage else { return Ok(()) };
        for number in 0..stage.parts {
            let request = RangeRequest { key: self.site.keys.part(stage, number), ..RangeRequest::default() };
            let answer: RangeResponse = (self.site.client.call(RANGE, &request, self.site.until()).await)
                .map_err(|failed| self.broken(Failed { may_be_done: false, ..failed }))?;
            let changes = answer.kvs.first().and_then(|kv| parts::join(&kv.value));
            let Some(changes) = changes else {
                let text = format!("part {number} of a batch is damaged or gone: restore a backup of etcd");
                return Err(Broken { text: self.site.error(text), flying: Outcome::NotApplied });
            };
            for piece in pieces(&changes) {
                self.within(piece.iter().map(|(key, value)| self.change(key, value.as_deref())).collect())
                    .await?;
            }
        }
        let (first, end) = self.site.keys.parts(Some(stage));
        let next = Record { stage: None, ..self.next() };
        self.advance(vec![Op::delete(first, end)], next).await
    }

    /// Deletes parts that no record names.
    pub(super) async fn sweep(&mut self) -> Result<(), Broken> {
        let (first, end) = self.site.keys.parts(None);
        self.within(vec![Op::delete(first, end)]).await
    }

    /// Puts the owner's key again, with a new lease, after the last one is over; and finds out
    /// whether another server came meanwhile.
    pub(super) async fn renew(&mut self, lease: i64) -> Result<(), Broken> {
        let (ops, next) = (vec![self.site.put_owner(lease)], self.next());
        self.advance(ops, next).await
    }

    /// The revision of the newest change.
    pub(super) fn revision(&self) -> i64 {
        self.link.1
    }

    /// The same owner's next epoch.
    pub(super) async fn rise(&mut self) -> Result<(), Broken> {
        let mut next = self.next();
        next.known.epoch += 1;
        self.advance(Vec::new(), next).await
    }

    pub(super) fn site(&self) -> Site {
        self.site.clone()
    }

    /// The next record, with nothing new.
    fn next(&self) -> Record {
        Record { step: self.link.0.step + 1, ..self.link.0 }
    }

    fn change(&self, key: &[u8], value: Option<&[u8]>) -> RequestOp {
        let key = self.site.keys.data(key);
        match value {
            Some(value) => Op::put(key, value.to_vec(), 0),
            None => Op::delete(key, Vec::new()),
        }
    }
}

/// What the reads of a transaction have found, in their order.
fn entries<const N: usize>(answer: TxnResponse) -> [Option<KeyValue>; N] {
    let mut reads = answer.responses.into_iter();
    std::array::from_fn(|_| reads.next()?.range?.kvs.into_iter().next())
}

/// The revision of a record that was to be written: now, or when the same request came first. If it
/// is not there, the record that is.
fn written(answer: TxnResponse, record: &Record) -> Result<i64, Option<Record>> {
    if answer.succeeded {
        return Ok(answer.header.map_or(0, |header| header.revision));
    }
    let [now] = entries(answer);
    let Some(kv) = now else { return Err(None) };
    match Record::decode(&kv.value) {
        Some(found) if found == *record => Ok(kv.mod_revision),
        found => Err(found),
    }
}

/// Changes in pieces that a transaction can have.
fn pieces(mut changes: &[New]) -> Vec<&[New]> {
    let mut pieces = Vec::new();
    while !changes.is_empty() {
        let mut bytes = 0;
        let fits = changes.iter().take(SIZE.changes_max).take_while(|(key, value)| {
            bytes += key.len() + value.as_ref().map_or(0, |value| value.len());
            bytes <= SIZE.bytes_max
        });
        let (piece, rest) = changes.split_at(fits.count().max(1));
        pieces.push(piece);
        changes = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::Value;

    #[test]
    fn pieces_are_within_the_limits_and_together_all() {
        let change = |bytes: usize| (Value::from(&b"k"[..]), Some(Value::from(vec![0; bytes])));
        let changes: Vec<New> =
            (0..300).map(|number| change(if number % 50 == 0 { SIZE.bytes_max } else { 9 })).collect();
        let pieces = pieces(&changes);
        assert_eq!(pieces.concat(), changes);
        for piece in &pieces {
            let bytes: usize = piece.iter().map(|(_, value)| value.as_ref().unwrap().len()).sum();
            assert!(piece.len() == 1 || (piece.len() <= SIZE.changes_max && bytes <= SIZE.bytes_max));
        }
    }
}
