//! The requests of a lock in etcd: how one enters, waits, changes and leaves.
//!
//! A request is a key that hangs on the session's lease. One transaction creates it and reads the
//! requests that may overlap it (`index.rs`), so the request knows all that came before it and is
//! in its way, and all that come later know the request (`rule.rs`). A free range so costs one
//! call, and giving it back another one.
//!
//! # Waiting
//!
//! The requests in the way are known, and they can only go or shrink. So the waiter watches one
//! key: the last of them. When this is gone, most of the earlier ones are gone too, because it
//! waited for them itself; the waiter reads the rest, and watches the last one that is left. So a
//! request that goes wakes the waiters that watch it, and no others, and there is no polling.
//!
//! 1. What is in the way is read at some member, which may lag behind. If it lags behind what is
//!    known, another read asks the leader. Otherwise what it does not have is gone; a key with
//!    another place is another request.
//! 2. A watch begins now, and what is in the way is read again when it has begun, so nothing is
//!    missed in between. (A watch that begins at an earlier revision would be cheaper, but etcd
//!    serves such watches every 100 ms only, if anything was written meanwhile.) If the member
//!    dies, the rest is read, and another watch begins.
//! 3. The *token* of a grant is the revision of the store at which it was seen that nothing is in
//!    the way. A conflicting holder before has gone at this revision or before it, and its own
//!    token was older than that; so the tokens of conflicting grants rise.
//! 4. The first of a waiter's reads is of all requests of the lock: it looks for a circle. A circle
//!    that is closed stays closed until one of its members gives up, so it is found there.
//!
//! # Doubtful calls
//!
//! A call without an answer may be carried out later (`etcd/client.rs`).
//!
//! 5. To enter again finds the key, or makes it. To leave again finds nothing.
//! 6. If a request that leaves may still be created by an earlier attempt, it leaves a
//!    *gravestone*, a key that forbids that, as long as the session lasts.
//! 7. A value is written only over the version that is known, so an old write does nothing.
//! 8. A number is used again when its request has left, unless a call that has made or removed it
//!    may still be on its way.
//! 9. What enters leaves: also if nothing waits for it any more ([`Leaves`]).

use super::error::Error;
use super::index::Index;
use super::portable::{Portable, shown};
use super::request::{Claim, Request};
use super::rule::{closes_circle, judge};
use super::session::{Alive, Shared};
use crate::etcd::client::Answer;
use crate::etcd::messages::{
    Compare, DELETE_RANGE, DeleteRangeRequest, Event, Op, RangeRequest, RequestOp, ResponseHeader, Revised,
    TXN, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;
use tonic::Streaming;

/// etcd's limit for the operations of a transaction is 128 by default.
const OPERATIONS: usize = 100;

/// A request that has entered.
struct Entered {
    own: Request,
    /// What came before it and may be in its way.
    list: Vec<Request>,
    /// The revision of the list.
    revision: i64,
}

/// A request that is granted.
#[derive(Debug)]
pub(super) struct Granted {
    pub own: Request,
    /// The own requests that have to be grown, by key.
    pub grows: Vec<Vec<u8>>,
    pub token: i64,
    pub name: Name,
}

/// How a request is called.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub key: Vec<u8>,
    pub number: u64,
    /// The key that keeps a late attempt from creating it, if one may come.
    pub grave: Option<Vec<u8>>,
}

/// A value that is to be written, or a key that goes.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub key: Vec<u8>,
    /// The version that is known.
    pub version: i64,
    /// `None`: the request leaves.
    pub value: Option<Vec<u8>>,
    pub grave: Option<Vec<u8>>,
}

impl Name {
    pub(super) fn leaves(&self) -> Change {
        Change { key: self.key.clone(), version: 0, value: None, grave: self.grave.clone() }
    }
}

/// A request that leaves unless it is kept; in the background, if the task that has made it is
/// dropped.
pub(super) struct Leaves<'s> {
    shared: &'s Shared,
    name: Option<Name>,
}

impl<'s> Leaves<'s> {
    pub(super) fn new(shared: &'s Shared, name: Name) -> Leaves<'s> {
        Leaves { shared, name: Some(name) }
    }

    /// It does not leave.
    pub(super) fn keep(mut self) -> Option<Name> {
        self.name.take()
    }

    /// Leaves now. If that fails, the session is lost, and it has left.
    pub(super) async fn now(self) -> Result<(), Error> {
        leave_all(self.shared, vec![self]).await
    }
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let alive = Arc::clone(&self.shared.alive);
        self.shared.spawn(async move {
            // If that fails, the session is lost, and it has left.
            let _ = change_all(&alive, vec![name.leaves()]).await;
        });
    }
}

/// They leave, all at once.
pub(super) async fn leave_all(shared: &Shared, mut leaves: Vec<Leaves<'_>>) -> Result<(), Error> {
    let changes = leaves.iter().filter_map(|leaves| Some(leaves.name.as_ref()?.leaves())).collect();
    let left = change_all(&shared.alive, changes).await;
    let names = leaves.iter_mut().filter_map(|leaves| leaves.name.take());
    left.map(|left| have_left(shared, left.is_doubtful, names))
}

/// These have left, by a call that was doubtful or not: Invariant 8.
pub(super) fn have_left(shared: &Shared, is_doubtful: bool, names: impl Iterator<Item = Name>) {
    names
        .filter(|name| !is_doubtful && name.grave.is_none())
        .for_each(|name| shared.free_number(name.number));
}

/// Enters, and returns when the range is granted. If that fails, the request has left. `earlier`
/// are requests of the same owner.
pub(super) async fn lock<K: Portable>(
    shared: &Shared,
    index: &Index,
    claim: Claim,
    earlier: Vec<Request>,
    end: Option<Instant>,
) -> Result<Granted, Error> {
    let alive = &shared.alive;
    let number = shared.take_number();
    let (key, grave) = index.keys(&claim.parts, alive.lease, number);
    // With the gravestone, until it is known that no attempt is on its way.
    let mut name = Name { key, number, grave: Some(grave) };
    let mut leaves = Leaves::new(shared, name.clone());
    let granted = async {
        let entered = enter(alive, index, &mut name, claim, earlier).await?;
        leaves.name = Some(name.clone());
        let waited = Waiting { alive, index, own: &entered.own, is_read: false }.wait::<K>(&entered);
        // A range that is free is taken, however little time there is.
        let (grows, token) = match end {
            Some(end) => timeout_at(end.into(), waited).await.unwrap_or(Err(Error::TimedOut))?,
            None => waited.await?,
        };
        Ok((entered.own, grows, token))
    };
    let granted = granted.await;
    match granted {
        Ok((own, grows, token)) => {
            leaves.keep();
            Ok(Granted { own, grows, token, name })
        }
        Err(error) => {
            // Until then it is in the way of others, and counts as a wait of its owner.
            let _ = leaves.now().await;
            Err(error)
        }
    }
}

async fn enter(
    alive: &Alive,
    index: &Index,
    name: &mut Name,
    claim: Claim,
    earlier: Vec<Request>,
) -> Result<Entered, Error> {
    let reads = index.reads(&claim.parts);
    let put = Op::put(name.key.clone(), claim.encode(), alive.lease);
    let is_new = [Some(&name.key), name.grave.as_ref()].into_iter().flatten();
    let txn = TxnRequest {
        compare: is_new.map(|key| Compare::unchanged(key.clone(), 0)).collect(),
        success: [put].into_iter().chain(reads).collect(),
        failure: Vec::new(),
    };
    let mut answer = transact(alive, &txn).await?;
    if !answer.is_doubtful {
        name.grave = None;
    }
    if !answer.value.succeeded {
        // An earlier attempt has made it. What has left since then is not in the way.
        let reads = TxnRequest { success: index.reads(&claim.parts), ..TxnRequest::default() };
        answer = transact(alive, &reads).await?;
    }
    let revision = revision(&answer.value);
    let mut list = requests(answer.value)?;
    index.learn(list.iter().map(|request| &*request.key));
    // Otherwise the session has ended, or somebody has removed the key.
    let own = list.iter().position(|request| request.key == name.key).ok_or_else(gone)?;
    let own = list.swap_remove(own);
    list.retain(|request| request.place < own.place && earlier.iter().all(|it| it.key != request.key));
    list.extend(earlier);
    Ok(Entered { own, list, revision })
}

fn gone() -> Error {
    Error::SessionLost("its requests are gone from etcd".into())
}

/// A request that waits.
struct Waiting<'w> {
    alive: &'w Alive,
    index: &'w Index,
    own: &'w Request,
    /// Whether all requests were read once: Invariant 4.
    is_read: bool,
}

/// What a watch has seen.
enum Seen {
    /// The request is not in the way any more, since this revision. The rest may be.
    Gone(Vec<Request>, i64),
    /// Before the watch began, the request went. These are left, at this revision.
    Left(Vec<Request>, i64),
    /// The watch has ended.
    Interrupted,
}

impl Waiting<'_> {
    /// Returns when the request is granted: the keys to grow, and the token.
    async fn wait<K: Portable>(mut self, entered: &Entered) -> Result<(Vec<Vec<u8>>, i64), Error> {
        let (Entered { own, list, .. }, mut token) = (entered, entered.revision);
        let judgement = judge(list, own);
        let mut left: Vec<Request> = judgement.blockers.into_iter().cloned().collect();
        let grows = judgement.grows.iter().map(|held| held.key.clone()).collect();
        if !left.is_empty() && own.claim.tries {
            return Err(Error::WouldBlock);
        }
        while !left.is_empty() {
            (left, token) = match self.watch::<K>(&left, token).await? {
                Seen::Gone(rest, at) if rest.is_empty() => (rest, at),
                Seen::Gone(rest, at) => self.read::<K>(&rest, at).await?,
                Seen::Left(left, at) => (left, at),
                Seen::Interrupted => self.read::<K>(&left, token).await?,
            };
        }
        self.alive.check()?;
        Ok((grows, token))
    }

    /// Watches the first of the requests, until it is out of the way.
    async fn watch<K: Portable>(&mut self, left: &[Request], from: i64) -> Result<Seen, Error> {
        let alive = self.alive;
        let create = WatchCreateRequest { key: left[0].key.clone(), ..WatchCreateRequest::default() };
        let watched = async {
            let Answer { value, moves, .. } = alive.watch(WatchRequest { create: Some(create) }).await?;
            tokio::select! {
                seen = self.events::<K>(left, from, value, moves) => seen,
                () = alive.client.moved(moves) => Ok(Seen::Interrupted),
            }
        };
        tokio::select! {
            seen = watched => seen,
            error = alive.lost() => Err(error),
        }
    }

    async fn events<K: Portable>(
        &mut self,
        left: &[Request],
        from: i64,
        mut stream: Streaming<WatchResponse>,
        moves: usize,
    ) -> Result<Seen, Error> {
        let (client, key) = (&self.alive.client, &*left[0].key);
        let (mut is_begun, mut rest) = (false, left[1..].to_vec());
        loop {
            let why = match stream.message().await {
                Ok(Some(answer)) if answer.canceled => answer.cancel_reason,
                Ok(Some(answer)) => {
                    for event in answer.events {
                        let Some(pair) = event.kv else { continue };
                        let is_in_the_way = event.kind != Event::DELETE
                            && pair.create_revision == left[0].place
                            && Claim::decode(&pair.value)
                                .is_none_or(|claim| claim.conflicts_with(&self.own.claim));
                        if !is_in_the_way {
                            return Ok(Seen::Gone(rest, pair.mod_revision));
                        }
                    }
                    // The first answer says since when it is watched.
                    if !is_begun {
                        let from = answer.header.map_or(from, |header| header.revision.max(from));
                        let (mut left, at) = self.read::<K>(left, from).await?;
                        if left.first().is_none_or(|first| first.key != key) {
                            return Ok(Seen::Left(left, at));
                        }
                        left.remove(0);
                        (is_begun, rest) = (true, left);
                    }
                    continue;
                }
                Ok(None) => "it has ended".into(),
                Err(status) => status.message().to_owned(),
            };
            client.go_on(moves, &format!("a watch: {why}"));
            return Ok(Seen::Interrupted);
        }
    }

    /// Which of the requests are still in the way, the last first, and at which revision that was
    /// seen: no earlier than `from` (Invariant 1).
    async fn read<K: Portable>(
        &mut self,
        before: &[Request],
        from: i64,
    ) -> Result<(Vec<Request>, i64), Error> {
        let mut asks_leader = false;
        loop {
            // One revision for all of them, so one call: if they are many, for all requests.
            let mut gets: Vec<RequestOp> = match self.is_read && before.len() <= OPERATIONS {
                true => before.iter().map(|request| Op::get(request.key.clone())).collect(),
                false => vec![self.index.read_all()],
            };
            for get in &mut gets {
                if let Some(Op::Range(RangeRequest { serializable, .. })) = &mut get.op {
                    *serializable = !asks_leader;
                }
            }
            let txn = TxnRequest { success: gets, ..TxnRequest::default() };
            let answer = transact(self.alive, &txn).await?.value;
            let at = revision(&answer);
            if at < from {
                asks_leader = true;
                continue;
            }
            let mut left = requests(answer)?;
            if !self.is_read {
                self.is_read = true;
                if let Some(circle) = closes_circle(&left, self.own, |(span, _)| shown::<K>(span)) {
                    return Err(Error::Deadlock(circle));
                }
            }
            left.retain(|request| {
                request.claim.conflicts_with(&self.own.claim)
                    && before.iter().any(|its| its.key == request.key && its.place == request.place)
            });
            left.sort_by_key(|request| Reverse(request.place));
            return Ok((left, at));
        }
    }
}

/// All requests, in the order of their places.
pub(super) async fn list(alive: &Alive, index: &Index) -> Result<Vec<Request>, Error> {
    let all = TxnRequest { success: vec![index.read_all()], ..TxnRequest::default() };
    let mut list = requests(transact(alive, &all).await?.value)?;
    list.sort_by_key(|request| request.place);
    Ok(list)
}

/// Changes that were made.
pub(super) struct Changed {
    /// The revision of the last one: the version of all keys that were written.
    pub revision: i64,
    pub is_doubtful: bool,
}

/// Makes changes, as many at once as etcd takes. Tries until the session is lost.
pub(super) async fn change_all(alive: &Alive, changes: Vec<Change>) -> Result<Changed, Error> {
    if let [Change { key, value: None, grave: None, .. }] = &*changes {
        let delete = DeleteRangeRequest { key: key.clone(), ..DeleteRangeRequest::default() };
        let gone: Answer<Revised> = alive.ask(DELETE_RANGE, &delete).await?;
        let revision = gone.value.header.map_or(0, |header| header.revision);
        return Ok(Changed { revision, is_doubtful: gone.is_doubtful });
    }
    let mut changed = Changed { revision: 0, is_doubtful: false };
    for part in changes.chunks(OPERATIONS / 2) {
        let known = part.iter().filter(|change| change.value.is_some());
        let operations = part.iter().flat_map(|change| {
            let write = match &change.value {
                Some(value) => Op::put(change.key.clone(), value.clone(), alive.lease),
                None => Op::delete(change.key.clone(), Vec::new()),
            };
            let grave = change.grave.as_ref().filter(|_| change.value.is_none());
            let grave = grave.map(|grave| Op::put(grave.clone(), Vec::new(), alive.lease));
            [write].into_iter().chain(grave)
        });
        let txn = TxnRequest {
            compare: known.map(|change| Compare::unchanged(change.key.clone(), change.version)).collect(),
            success: operations.collect(),
            failure: part.iter().map(|change| Op::get(change.key.clone())).collect(),
        };
        let Answer { value: answer, is_doubtful, .. } = transact(alive, &txn).await?;
        changed.is_doubtful |= is_doubtful;
        changed.revision = revision(&answer);
        if !answer.succeeded {
            // By Invariant 7 an earlier attempt was carried out, or the session has ended.
            let written = answer.responses.into_iter().zip(part).find_map(|(response, change)| {
                let pair = response.range?.kvs.into_iter().next()?;
                (change.value.as_deref() == Some(&pair.value)).then_some(pair.mod_revision)
            });
            changed.revision = written.ok_or_else(gone)?;
        }
    }
    Ok(changed)
}

async fn transact(alive: &Alive, txn: &TxnRequest) -> Result<Answer<TxnResponse>, Error> {
    alive.ask(TXN, txn).await
}

fn revision(answer: &TxnResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header: &ResponseHeader| header.revision)
}

/// What was read.
fn requests(answer: TxnResponse) -> Result<Vec<Request>, Error> {
    let mut requests = Vec::new();
    for pair in answer.responses.into_iter().filter_map(|response| response.range).flat_map(|range| range.kvs)
    {
        let foreign = || Error::Foreign(String::from_utf8_lossy(&pair.key).into_owned());
        let claim = Claim::decode(&pair.value).ok_or_else(foreign)?;
        let (place, version) = (pair.create_revision, pair.mod_revision);
        requests.push(Request { key: pair.key, place, version, claim });
    }
    Ok(requests)
}
