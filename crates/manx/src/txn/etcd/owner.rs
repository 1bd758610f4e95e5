//! The owner of a store in etcd: its turn, and its lease.
//!
//! The owner's key in etcd goes when its lease is over, and then another server may take over.
//! Etcd counts a lease's time from when it has the request that renews it, so it lasts at least
//! until the time of sending plus its length, as `txn/remote/lease.rs` asks for.
//!
//! A lease that is over, with no other server there (etcd did not answer for some time, or this
//! process was stopped), is replaced by a new one: by a link of the chain (`chain.rs`), which holds
//! only if no other server came in between.

use super::chain::{Chain, Found, Site};
use super::follow::Follower;
use crate::etcd::client::Answer;
use crate::txn::remote::options::RemoteOptions;
use crate::txn::remote::owner::{Attempt, Backend, Entries, LOOK_EVERY, Owner, Shared, Tenure};
use crate::txn::remote::queue::{Broken, Group};
use crate::txn::{Outcome, Recovered};
use platform::clock::{SECOND_NS, now_ns};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The chain, and the lease's id in etcd, which another one may replace.
pub(super) struct Taken {
    chain: Chain,
    lease: Rc<Cell<i64>>,
}

impl Backend for Site {
    type Owner = Taken;
    /// A server that waits follows the store.
    type Standby = Option<Follower>;
    type Grant = Cell<i64>;

    fn place(&self) -> &str {
        &self.place
    }

    async fn take(
        &self,
        options: &RemoteOptions,
        _: &mut Option<Follower>,
    ) -> Result<Attempt<Taken>, String> {
        let found: Found = self.find().await?;
        if found.owner.is_some() && !options.at_once {
            return Ok(Attempt::Busy);
        }
        let sent_ns = now_ns();
        let lease = self.grant(options.lease_s.into()).await.map_err(|failed| self.error(failed))?.id;
        match self.take_over(&found, lease).await {
            Ok(Some(chain)) => {
                // The older owner finds out soon, and not at its next write.
                if let Some(owner) = found.owner {
                    self.revoke(owner.lease).await;
                }
                let taken = Taken { chain, lease: Rc::new(lease.into()) };
                Ok(Attempt::Taken(taken, sent_ns + options.lease_ns()))
            }
            Ok(None) => {
                self.revoke(lease).await;
                Ok(Attempt::Raced)
            }
            Err(text) => {
                self.revoke(lease).await;
                Err(text)
            }
        }
    }

    async fn stand_by(&self, follower: &mut Option<Follower>) {
        if follower.is_none() {
            *follower = Follower::start(self).await.ok();
        }
        let follows = match follower {
            Some(it) => it.follow_for(LOOK_EVERY).await,
            None => {
                sleep(LOOK_EVERY).await;
                false
            }
        };
        if !follows {
            *follower = None;
        }
    }

    async fn keep(&self, options: &RemoteOptions, lease: &Cell<i64>, shared: &Shared, tenure: &Tenure) {
        let ttl = Duration::from_nanos(options.lease_ns());
        loop {
            sleep(ttl / 3).await;
            let sent_ns = now_ns();
            match self.client.keep_alive(lease.get(), Instant::now() + ttl).await {
                Ok(Answer { value, .. }) if value.ttl_s > 0 => {
                    shared.lease.set(sent_ns + u64::try_from(value.ttl_s).unwrap_or(0) * SECOND_NS);
                }
                Ok(_) => shared.renewed(tenure).await,
                // No answer: once more. What needs the lease waits, or fails.
                Err(_) => {}
            }
        }
    }

    async fn release(&self, lease: &Cell<i64>) {
        self.revoke(lease.get()).await;
    }
}

impl Owner for Taken {
    type Backend = Site;

    fn grant(&self) -> Rc<Cell<i64>> {
        Rc::clone(&self.lease)
    }

    fn known(&self) -> Recovered {
        self.chain.known()
    }

    async fn begin(&mut self, follower: Option<Follower>) -> Result<Entries, Broken> {
        self.chain.finish().await?;
        self.chain.sweep().await?;
        let followed = match follower {
            Some(follower) => follower.until(self.chain.revision()).await,
            None => None,
        };
        match followed {
            Some(entries) => Ok(entries),
            None => {
                let read = self.chain.site().read().await;
                Ok(read.map_err(|text| Broken { text, flying: Outcome::NotApplied })?.0)
            }
        }
    }

    async fn prepare(&mut self, options: &RemoteOptions, is_over: bool) -> Result<Option<u64>, Broken> {
        self.chain.finish().await?;
        if !is_over {
            return Ok(None);
        }
        let site = self.chain.site();
        let (lease, sent_ns) = loop {
            let sent_ns = now_ns();
            match site.grant(options.lease_s.into()).await {
                Ok(lease) => break (lease.id, sent_ns),
                Err(failed) if failed.is_out_of_space() && site.waits_for_room(&failed).await => {}
                Err(failed) => return Err(Broken { text: site.error(failed), flying: Outcome::NotApplied }),
            }
        };
        site.queue.admit();
        self.lease.set(lease);
        self.chain.renew(lease).await?;
        Ok(Some(sent_ns + options.lease_ns()))
    }

    async fn commit(&mut self, group: &Group) -> Result<(), Broken> {
        self.chain.commit(group).await
    }

    async fn rise(&mut self) -> Result<(), Broken> {
        self.chain.rise().await
    }
}
