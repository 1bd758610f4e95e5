//! The owner of a store in PostgreSQL: its turn, and its lease.
//!
//! The owner renews its lease by a beat: it adds one to a number in the lease's row. A server that
//! waits looks at the row all the time. It takes over when it has seen the same beat for as long as
//! the lease lasts, by its own clock, and only if the beat is still the same then (`take_over`).
//!
//! The beat was sent before it was seen. So the owner's time, which counts from the sending
//! (`txn/remote/lease.rs`), is over before the other server's. No clock is compared with another
//! one: neither the database's, which may be set, or be another one's after a failover, nor those
//! of two servers. They only have to run equally fast, to one in twenty.
//!
//! An advisory lock of a session would not do. The database frees it when it thinks that the
//! connection is broken, which the owner learns later, and answers reads meanwhile; or it does not
//! notice for hours that the owner's machine is gone.
//!
//! Beats have a connection and a row of their own. So neither a long commit nor the reading of all
//! entries delays them.

use super::table::{Site, Table};
use crate::txn::Recovered;
use crate::txn::remote::options::RemoteOptions;
use crate::txn::remote::owner::{Attempt, Backend, Entries, LOOK_EVERY, Owner, Shared, Tenure};
use crate::txn::remote::queue::{Broken, Group};
use platform::clock::{SECOND_NS, now_ns};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

impl Backend for Site {
    type Owner = Table;
    /// The beat that was seen last, and when it was seen first.
    type Standby = Option<((i64, i64), u64)>;
    /// The owner's first epoch.
    type Grant = i64;

    fn place(&self) -> &str {
        &self.place
    }

    async fn take(
        &self,
        options: &RemoteOptions,
        seen: &mut Self::Standby,
    ) -> Result<Attempt<Table>, String> {
        let Some(found) = self.find().await? else {
            self.create().await?;
            return Ok(Attempt::Raced);
        };
        if found.lease_ms > 0 && !options.at_once {
            let now_ns = now_ns();
            let (_, since_ns) = *match seen {
                Some(seen) if seen.0 == found.beat => seen,
                _ => seen.insert((found.beat, now_ns)),
            };
            let lease_ns = u64::try_from(found.lease_ms).unwrap_or(0) * (SECOND_NS / 1000);
            if now_ns - since_ns < lease_ns + lease_ns / 20 {
                return Ok(Attempt::Busy);
            }
        }
        let sent_ns = now_ns();
        let lease_ms = i64::from(options.lease_s) * 1000;
        match self.take_over(&found, lease_ms).await? {
            Some(table) => Ok(Attempt::Taken(table, sent_ns + options.lease_ns())),
            None => Ok(Attempt::Raced),
        }
    }

    async fn stand_by(&self, _: &mut Self::Standby) {
        sleep(LOOK_EVERY).await;
    }

    async fn keep(&self, options: &RemoteOptions, owner: &i64, shared: &Shared, tenure: &Tenure) {
        let ttl = Duration::from_nanos(options.lease_ns());
        loop {
            sleep(ttl / 3).await;
            let sent_ns = now_ns();
            match self.beat(*owner, ttl).await {
                Ok(true) => shared.lease.set(sent_ns + options.lease_ns()),
                Ok(false) => shared.renewed(tenure).await,
                // No answer: once more. What needs the lease waits, or fails.
                Err(_) => {}
            }
        }
    }

    async fn release(&self, owner: &i64) {
        self.release(*owner).await;
    }
}

impl Owner for Table {
    type Backend = Site;

    fn grant(&self) -> Rc<i64> {
        Rc::new(self.owner)
    }

    fn known(&self) -> Recovered {
        self.known()
    }

    async fn begin(&mut self, _: <Site as Backend>::Standby) -> Result<Entries, Broken> {
        self.read().await
    }

    async fn prepare(&mut self, _: &RemoteOptions, is_over: bool) -> Result<Option<u64>, Broken> {
        if !is_over {
            return Ok(None);
        }
        // A lease without a rival is never over, so this is an error; or the next beat renews it.
        self.confirm().await.map(|()| Some(0))
    }

    async fn commit(&mut self, group: &Group) -> Result<(), Broken> {
        self.commit(group).await
    }

    async fn rise(&mut self) -> Result<(), Broken> {
        self.rise().await
    }
}
