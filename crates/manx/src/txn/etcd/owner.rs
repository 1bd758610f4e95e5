//! The thread that speaks with etcd for one store: it waits for its turn to own the store, then
//! commits what was appended and keeps the lease alive.
//!
//! ```text
//!   open ──► recover ──► waits while another server has the store ──► takes over ──► writes until it ends or breaks
//!                        and follows it (`follow.rs`)                 └──── keeps the lease alive ────┘
//! ```
//!
//! # The lease
//! The owner's key in etcd goes when its lease is over, and then another server may take over.
//! Etcd counts a lease's time from when it has the request that renews it, so it lasts at least
//! until the time of sending plus its length. Until then no other server is at work, and what is in
//! memory is what the store has. So a read is answered if this time has not come *after* the value
//! was read (`Lease::holds`). A thread or process that stood still in between finds out then. The
//! clock counts on while a process is stopped, but not while the whole machine sleeps.
//!
//! A lease that is over, with no other server there (etcd did not answer for some time, or this
//! process was stopped), is replaced by a new one: by a link of the chain (`chain.rs`), which holds
//! only if no other server came in between.

use super::chain::{Chain, Found, Site};
use super::follow::{Entries, Follower};
use super::queue::{Broken, Queue};
use crate::etcd::client::Answer;
use crate::lock::{Condvar, Mutex, RwLock};
use crate::txn::{DataError, Outcome, Recovered};
use platform::atomic::{AtomicU64, Ordering};
use platform::clock::{SECOND_NS, now_ns};
use std::cell::Cell;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};

/// How often a server that waits looks whether the store is free.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Asks for the store; the answer goes back here.
pub(super) type Call = mpsc::Sender<Result<Recovered, DataError>>;

/// What the thread shares with those that call.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) queue: Arc<Queue>,
    pub(super) entries: RwLock<Entries>,
    pub(super) lease: Lease,
}

/// Until when no other server is at work.
#[derive(Default)]
pub(super) struct Lease {
    until_ns: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Lease {
    /// Whether what was read before is what the store had then.
    pub(super) fn holds(&self) -> bool {
        // Acquire: entries that a later owner has read are there with its lease.
        now_ns() < self.until_ns.load(Ordering::Acquire)
    }

    /// Waits for a change, not for long.
    pub(super) fn wait(&self) {
        let mut guard = self.lock.lock();
        if !self.holds() {
            self.changed.wait_for(&mut guard, LOOK_EVERY);
        }
    }

    fn set(&self, until_ns: u64) {
        let guard = self.lock.lock();
        // Release: see `holds`.
        self.until_ns.store(until_ns, Ordering::Release);
        drop(guard);
        self.changed.notify_all();
    }
}

/// How a server takes a store over.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    pub(super) ttl_s: i64,
    /// It waits for no other server.
    pub(super) at_once: bool,
    /// Is told once that it has to wait.
    pub(super) waiting: Option<fn(&str)>,
    /// Is told once that the store is lost.
    pub(super) lost: Option<fn(&DataError)>,
}

/// The lease as the two tasks of the thread see it.
struct Tenure {
    id: Cell<i64>,
    is_lost: Cell<bool>,
    renewed: Notify,
}

/// Serves calls until the store is closed.
pub(super) async fn run(site: Site, shared: Arc<Shared>, manner: Manner, mut calls: UnboundedReceiver<Call>) {
    let Some(call) = calls.recv().await else { return };
    let sent_ns = &Cell::new(0);
    let (mut chain, tenure, follower) = match take(&site, &shared, manner, sent_ns).await {
        Ok(Some(taken)) => taken,
        Ok(None) => return,
        Err(text) => {
            // The caller may be gone.
            let _ = call.send(Err(DataError::new(text)));
            return;
        }
    };
    shared.lease.set(sent_ns.get() + nanoseconds(manner.ttl_s));
    let work = async {
        let known = begin(&mut chain, follower, &shared).await?;
        let _ = call.send(Ok(known));
        write(&mut chain, &shared, manner, &tenure, &mut calls).await
    };
    let ended: Result<(), Broken> = tokio::select! {
        ended = work => ended,
        () = keep(&site, &shared, manner, &tenure) => Ok(()),
    };
    shared.lease.set(0);
    if let Err(broken) = ended {
        let error = DataError::new(broken.text.clone()).with_outcome(broken.flying);
        shared.queue.give_up(broken);
        // A caller that still waits for the store has the error from this.
        let is_new = call.send(Err(error.clone())).is_err();
        if let (Some(tell), true) = (manner.lost, is_new) {
            tell(&error);
        }
    }
    site.revoke(tenure.id.get()).await;
    // Later calls get their answer from the queue.
    drop(calls);
}

/// Waits until the store is free, and takes it over; `None` if the store is closed before.
async fn take(
    site: &Site,
    shared: &Shared,
    manner: Manner,
    sent_ns: &Cell<u64>,
) -> Result<Option<(Chain, Tenure, Option<Follower>)>, String> {
    let (mut told, mut follower) = (false, None);
    loop {
        if shared.queue.is_closing() {
            return Ok(None);
        }
        let found: Found = site.find().await?;
        if let (Some(_), false) = (&found.owner, manner.at_once) {
            if let (Some(tell), false) = (manner.waiting, told) {
                tell(&site.place);
            }
            told = true;
            follower = match follower {
                None => Follower::start(site).await.ok(),
                it => it,
            };
            let follows = match &mut follower {
                Some(it) => it.follow_for(LOOK_EVERY).await,
                None => {
                    sleep(LOOK_EVERY).await;
                    false
                }
            };
            if !follows {
                follower = None;
            }
            continue;
        }
        sent_ns.set(now_ns());
        let lease = site.grant(manner.ttl_s).await.map_err(|failed| site.error(failed))?.id;
        match site.take_over(&found, lease).await {
            Ok(Some(chain)) => {
                // The older owner finds out soon, and not at its next write.
                if let Some(owner) = found.owner {
                    site.revoke(owner.lease).await;
                }
                let tenure = Tenure { id: lease.into(), is_lost: false.into(), renewed: Notify::new() };
                return Ok(Some((chain, tenure, follower)));
            }
            Ok(None) => site.revoke(lease).await,
            Err(text) => {
                site.revoke(lease).await;
                return Err(text);
            }
        }
    }
}

/// Puts in order what the last owner has left, and reads what is not known yet.
async fn begin(chain: &mut Chain, follower: Option<Follower>, shared: &Shared) -> Result<Recovered, Broken> {
    chain.finish().await?;
    chain.sweep().await?;
    let followed = match follower {
        Some(follower) => follower.until(chain.revision()).await,
        None => None,
    };
    let entries = match followed {
        Some(entries) => entries,
        None => {
            let read = chain.site().read().await;
            read.map_err(|text| Broken { text, flying: Outcome::NotApplied })?.0
        }
    };
    *shared.entries.write() = entries;
    let known = chain.known();
    shared.queue.begin(known);
    Ok(known)
}

/// Commits what is appended, until the store is closed.
async fn write(
    chain: &mut Chain,
    shared: &Shared,
    manner: Manner,
    tenure: &Tenure,
    calls: &mut UnboundedReceiver<Call>,
) -> Result<(), Broken> {
    loop {
        if tenure.is_lost.get() {
            renew(chain, shared, manner, tenure).await?;
        }
        if let Some(group) = shared.queue.take() {
            chain.commit(&group).await?;
            shared.queue.done(&group);
            chain.finish().await?;
            continue;
        }
        if shared.queue.is_closing() {
            return Ok(());
        }
        tokio::select! {
            () = shared.queue.call.notified() => {}
            // The same server owns the store once more: with another epoch.
            Some(call) = calls.recv() => {
                chain.rise().await?;
                shared.queue.begin(chain.known());
                let _ = call.send(Ok(chain.known()));
            }
        }
    }
}

async fn renew(chain: &mut Chain, shared: &Shared, manner: Manner, tenure: &Tenure) -> Result<(), Broken> {
    let site = chain.site();
    let (lease, sent_ns) = loop {
        let sent_ns = now_ns();
        match site.grant(manner.ttl_s).await {
            Ok(lease) => break (lease.id, sent_ns),
            Err(failed) if failed.is_out_of_space() && site.waits_for_room(&failed).await => {}
            Err(failed) => return Err(Broken { text: site.error(failed), flying: Outcome::NotApplied }),
        }
    };
    shared.queue.admit();
    tenure.id.set(lease);
    chain.renew(lease).await?;
    tenure.is_lost.set(false);
    shared.lease.set(sent_ns + nanoseconds(manner.ttl_s));
    tenure.renewed.notify_one();
    Ok(())
}

/// Keeps the lease alive, for ever.
async fn keep(site: &Site, shared: &Shared, manner: Manner, tenure: &Tenure) {
    let ttl = Duration::from_nanos(nanoseconds(manner.ttl_s));
    loop {
        sleep(ttl / 3).await;
        let sent_ns = now_ns();
        match site.client.keep_alive(tenure.id.get(), Instant::now() + ttl).await {
            Ok(Answer { value, .. }) if value.ttl_s > 0 => {
                shared.lease.set(sent_ns + nanoseconds(value.ttl_s));
            }
            Ok(_) => {
                tenure.is_lost.set(true);
                shared.queue.call.notify_one();
                tenure.renewed.notified().await;
            }
            // No answer: once more. What needs the lease waits, or fails.
            Err(_) => {}
        }
    }
}

fn nanoseconds(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0) * SECOND_NS
}
