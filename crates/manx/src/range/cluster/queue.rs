//! The requests of a lock in etcd: how one enters, waits, changes and leaves.
//!
//! A request is a key below `NAME#requests/`, which hangs on the session's lease. One transaction
//! creates it and reads all requests, so the request knows all that came before it, and all that
//! come later know the request (`rule.rs`). A free range so costs one call, and giving it back
//! another one.
//!
//! # Waiting
//!
//! The requests in the way are known, and they can only go or shrink. So the waiter watches one
//! key: the last of them. When this is gone, most of the earlier ones are gone too, because it
//! waited for them itself; the waiter reads the rest, and watches the last one that is left. So a
//! request that goes wakes the waiters that watch it, and no others, and there is no polling.
//!
//! 1. What is in the way is read at some member, which may lag behind. If it lags behind what is
//!    known, another read asks the leader. Otherwise what it does not have is gone, because keys
//!    are never used twice.
//! 2. A watch begins now, and what is in the way is read again when it has begun, so nothing is
//!    missed in between. (A watch that begins at an earlier revision would be cheaper, but etcd
//!    serves such watches every 100 ms only, if anything was written meanwhile.) If the member
//!    dies, the rest is read, and another watch begins.
//! 3. The *token* of a grant is the revision of the store at which it was seen that nothing is in
//!    the way. A conflicting holder before has gone at this revision or before it, and its own
//!    token was older than that; so the tokens of conflicting grants rise.
//!
//! # Doubtful calls
//!
//! A call without an answer may be carried out later (`link.rs`).
//!
//! 4. To enter again finds the key, or makes it. To leave again finds nothing.
//! 5. If a request that leaves may still be created by an earlier attempt, it leaves a
//!    *gravestone*, a key that forbids that, as long as the session lasts.
//! 6. A value is written only over the version that is known, so an old write does nothing.

use super::error::Error;
use super::link::{Answer, Failed};
use super::portable::{Portable, shown};
use super::request::{Claim, Request};
use super::rule::{closes_circle, judge};
use super::session::{Alive, Shared};
use etcd_client::{
    Client, Compare, CompareOp, EventType, GetOptions, KvClient, PutOptions, ResponseHeader, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use std::cmp::Reverse;
use std::future::Future;
use std::time::Instant;
use tokio::time::timeout_at;

/// etcd's limit for the operations of a transaction is 128 by default.
const OPERATIONS: usize = 100;
/// The list of all requests must fit.
const MESSAGE_BYTES: usize = 256 << 20;

/// The name of a lock in etcd.
#[derive(Clone, Debug)]
pub(super) struct Names {
    requests: String,
    graves: String,
}

/// A request that has entered.
struct Entered {
    own: Request,
    /// What came before it.
    list: Vec<Request>,
    /// The revision of the list.
    revision: i64,
}

/// A request that is granted.
#[derive(Debug)]
pub(super) struct Granted {
    pub own: Request,
    /// The own requests that were passed for, and have to be grown, by key.
    pub grows: Vec<Vec<u8>>,
    pub token: i64,
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

impl Names {
    /// No two locks' names are the beginning of each other: they end at the first `#` that stands
    /// alone.
    pub(super) fn new(lock: &str) -> Names {
        let lock = lock.replace('#', "##");
        Names { requests: format!("{lock}#requests/"), graves: format!("{lock}#graves/") }
    }

    /// The keys of a request and of its gravestone.
    fn of(&self, lease: i64, number: u64) -> (Vec<u8>, Vec<u8>) {
        let key = |folder: &str| format!("{folder}{lease:016x}/{number:016x}").into_bytes();
        (key(&self.requests), key(&self.graves))
    }
}

/// Enters, and returns when the range is granted. If that fails, the request has left.
pub(super) async fn lock<K: Portable>(
    shared: &Shared,
    names: &Names,
    claim: Claim,
    end: Option<Instant>,
) -> Result<Granted, Error> {
    let alive = &shared.alive;
    let (key, grave) = names.of(alive.lease, shared.number());
    // Until it is known that no attempt is on its way.
    let mut grave = Some(grave);
    let granted = async {
        let entered = enter(alive, names, &key, &mut grave, claim).await?;
        wait::<K>(alive, names, entered).await
    };
    let granted = match end {
        Some(end) => timeout_at(end.into(), granted).await.unwrap_or(Err(Error::TimedOut)),
        None => granted.await,
    };
    match granted {
        Ok((own, grows, token)) => Ok(Granted { own, grows, token, grave }),
        Err(error) => {
            // Until then it is in the way of others, and counts as a wait of its owner. If that
            // fails, the session is lost, and it has left.
            let _ = change(alive, vec![Change { key, version: 0, value: None, grave }]).await;
            Err(error)
        }
    }
}

async fn enter(
    alive: &Alive,
    names: &Names,
    key: &[u8],
    grave: &mut Option<Vec<u8>>,
    claim: Claim,
) -> Result<Entered, Error> {
    let all = || TxnOp::get(names.requests.as_bytes(), Some(GetOptions::new().with_prefix()));
    let put = TxnOp::put(key, claim.encode(), Some(PutOptions::new().with_lease(alive.lease)));
    let is_new = [Some(key), grave.as_deref()].into_iter().flatten();
    let is_new: Vec<Compare> = is_new.map(|key| Compare::create_revision(key, CompareOp::Equal, 0)).collect();
    let txn = Txn::new().when(is_new).and_then([put, all()]).or_else([all()]);
    let answer = transact(alive, &txn).await?;
    if !answer.doubtful {
        *grave = None;
    }
    let revision = revision(&answer.value);
    let mut list = requests(&answer.value)?;
    // Otherwise the session has ended, or somebody has removed the key.
    let own = list.iter().position(|request| request.key == key).ok_or_else(gone)?;
    let own = list.swap_remove(own);
    list.retain(|request| request.place < own.place);
    Ok(Entered { own, list, revision })
}

fn gone() -> Error {
    Error::SessionLost("its requests are gone from etcd".into())
}

/// Returns the request when it is granted, with the keys to grow and the token.
async fn wait<K: Portable>(
    alive: &Alive,
    names: &Names,
    entered: Entered,
) -> Result<(Request, Vec<Vec<u8>>, i64), Error> {
    let Entered { own, list, revision: mut token } = entered;
    let judgement = judge(&list, &own);
    let mut left: Vec<Request> = judgement.blockers.into_iter().cloned().collect();
    let mut grows: Vec<Vec<u8>> = judgement.passed.iter().map(|(_, held)| held.key.clone()).collect();
    grows.sort_unstable();
    grows.dedup();
    if !left.is_empty() {
        if own.claim.tries {
            return Err(Error::WouldBlock);
        }
        let with_own: Vec<Request> = list.iter().chain([&own]).cloned().collect();
        if let Some(circle) = closes_circle(&with_own, &own, |(span, _)| shown::<K>(span)) {
            return Err(Error::Deadlock(circle));
        }
    }
    while !left.is_empty() {
        (left, token) = match watch(alive, names, &own, &left, token).await? {
            Seen::Gone(rest, at) if rest.is_empty() => (rest, at),
            Seen::Gone(rest, at) => read(alive, names, &own, &rest, at).await?,
            Seen::Left(left, at) => (left, at),
            Seen::Interrupted => read(alive, names, &own, &left, token).await?,
        };
    }
    alive.check()?;
    Ok((own, grows, token))
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

/// Watches the first of the requests, until it is out of the way.
async fn watch(
    alive: &Alive,
    names: &Names,
    own: &Request,
    left: &[Request],
    from: i64,
) -> Result<Seen, Error> {
    let watched = async {
        let (number, client) = match alive.link.client().await {
            Ok(connection) => connection,
            Err((number, failed)) => return interrupted(alive, number, failed),
        };
        tokio::select! {
            seen = events(alive, names, own, left, from, &client) => match seen {
                Ok(seen) => Ok(seen),
                Err(failed) => interrupted(alive, number, failed),
            },
            () = alive.link.has_moved(number) => Ok(Seen::Interrupted),
        }
    };
    tokio::select! {
        seen = watched => seen,
        error = alive.lost() => Err(error),
    }
}

fn interrupted(alive: &Alive, number: u64, failed: Failed) -> Result<Seen, Error> {
    match failed {
        Failed::Lasting(error) => Err(error),
        Failed::Passing(why) => {
            alive.link.failed(number, &why);
            Ok(Seen::Interrupted)
        }
    }
}

async fn events(
    alive: &Alive,
    names: &Names,
    own: &Request,
    left: &[Request],
    from: i64,
    client: &Client,
) -> Result<Seen, Failed> {
    let key = &*left[0].key;
    let mut stream = client.watch_client().watch(key, None).await?;
    let (mut is_read, mut rest) = (false, left[1..].to_vec());
    while let Some(answer) = stream.message().await? {
        if answer.canceled() {
            return Err(Failed::Passing(format!("a watch was cancelled: {}", answer.cancel_reason())));
        }
        for event in answer.events() {
            let Some(pair) = event.kv() else { continue };
            let is_in_the_way = event.event_type() == EventType::Put
                && Claim::decode(pair.value()).is_none_or(|claim| claim.conflicts_with(&own.claim));
            if !is_in_the_way {
                return Ok(Seen::Gone(rest, pair.mod_revision()));
            }
        }
        // The first answer says since when it is watched.
        if !is_read {
            let from = answer.header().map_or(from, |header| header.revision().max(from));
            let (mut left, at) = read(alive, names, own, left, from).await.map_err(Failed::Lasting)?;
            if left.first().is_none_or(|first| first.key != key) {
                return Ok(Seen::Left(left, at));
            }
            left.remove(0);
            (is_read, rest) = (true, left);
        }
    }
    Err(Failed::Passing("a watch has ended".into()))
}

/// Which of the requests are still in the way, the last first, and at which revision that was seen:
/// no earlier than `from` (Invariant 1).
async fn read(
    alive: &Alive,
    names: &Names,
    own: &Request,
    before: &[Request],
    from: i64,
) -> Result<(Vec<Request>, i64), Error> {
    let mut asks_leader = false;
    loop {
        let options = || if asks_leader { GetOptions::new() } else { GetOptions::new().with_serializable() };
        // One revision for all of them, so one call: if they are many, for all requests.
        let gets = match before.len() <= OPERATIONS {
            true => before.iter().map(|request| TxnOp::get(&*request.key, Some(options()))).collect(),
            false => vec![TxnOp::get(names.requests.as_bytes(), Some(options().with_prefix()))],
        };
        let answer = transact(alive, &Txn::new().and_then(gets)).await?.value;
        let at = revision(&answer);
        if at < from {
            asks_leader = true;
            continue;
        }
        let mut left = requests(&answer)?;
        left.retain(|request| {
            request.claim.conflicts_with(&own.claim) && before.iter().any(|its| its.key == request.key)
        });
        left.sort_by_key(|request| Reverse(request.place));
        return Ok((left, at));
    }
}

/// All requests, in the order of their places.
pub(super) async fn list(alive: &Alive, names: &Names) -> Result<Vec<Request>, Error> {
    let all =
        Txn::new().and_then([TxnOp::get(names.requests.as_bytes(), Some(GetOptions::new().with_prefix()))]);
    let answer = transact(alive, &all).await?.value;
    let mut list = requests(&answer)?;
    list.sort_by_key(|request| request.place);
    Ok(list)
}

/// Makes changes, as many at once as etcd takes. Returns the revision of the last one; the versions
/// of the keys are then this one. Tries until the session is lost.
pub(super) async fn change(alive: &Alive, changes: Vec<Change>) -> Result<i64, Error> {
    if let [Change { key, value: None, grave: None, .. }] = &*changes {
        let gone =
            call(alive, |client| async move { Ok(client.kv_client().delete(&**key, None).await?) }).await?;
        return Ok(gone.value.header().map_or(0, ResponseHeader::revision));
    }
    let mut last = 0;
    for part in changes.chunks(OPERATIONS / 2) {
        let known = part.iter().filter(|change| change.value.is_some());
        let known = known.map(|change| Compare::mod_revision(&*change.key, CompareOp::Equal, change.version));
        let on_lease = || Some(PutOptions::new().with_lease(alive.lease));
        let operations = part.iter().flat_map(|change| {
            let write = match &change.value {
                Some(value) => TxnOp::put(&*change.key, &**value, on_lease()),
                None => TxnOp::delete(&*change.key, None),
            };
            let grave = change.grave.as_ref().filter(|_| change.value.is_none());
            [write].into_iter().chain(grave.map(|grave| TxnOp::put(&**grave, "", on_lease())))
        });
        let reads = part.iter().map(|change| TxnOp::get(&*change.key, None));
        let txn = Txn::new().when(known.collect::<Vec<_>>()).and_then(operations.collect::<Vec<_>>());
        let answer = transact(alive, &txn.or_else(reads.collect::<Vec<_>>())).await?;
        last = revision(&answer.value);
        if !answer.value.succeeded() {
            // By Invariant 6 an earlier attempt was carried out, or the session has ended.
            let written = answer.value.op_responses().into_iter().zip(part).find_map(|(response, change)| {
                let TxnOpResponse::Get(get) = response else { return None };
                let pair = get.kvs().first().filter(|pair| change.value.as_deref() == Some(pair.value()))?;
                Some(pair.mod_revision())
            });
            last = written.ok_or_else(gone)?;
        }
    }
    Ok(last)
}

async fn transact(alive: &Alive, txn: &Txn) -> Result<Answer<TxnResponse>, Error> {
    call(alive, |client| async move { Ok(kv(&client).txn(txn.clone()).await?) }).await
}

/// Makes a call, until it is answered or the session is lost.
async fn call<T, F: Future<Output = Result<T, Failed>>>(
    alive: &Alive,
    call: impl Fn(Client) -> F,
) -> Result<Answer<T>, Error> {
    tokio::select! {
        answer = alive.link.call(|| alive.check(), call) => answer,
        error = alive.lost() => Err(error),
    }
}

fn kv(client: &Client) -> KvClient {
    client.kv_client().max_decoding_message_size(MESSAGE_BYTES)
}

fn revision(answer: &TxnResponse) -> i64 {
    answer.header().map_or(0, ResponseHeader::revision)
}

/// What was read.
fn requests(answer: &TxnResponse) -> Result<Vec<Request>, Error> {
    let mut requests = Vec::new();
    for response in answer.op_responses() {
        let TxnOpResponse::Get(get) = response else { continue };
        for pair in get.kvs() {
            let foreign = || Error::Foreign(String::from_utf8_lossy(pair.key()).into_owned());
            let claim = Claim::decode(pair.value()).ok_or_else(foreign)?;
            let (place, version) = (pair.create_revision(), pair.mod_revision());
            requests.push(Request { key: pair.key().to_vec(), place, version, claim });
        }
    }
    Ok(requests)
}
