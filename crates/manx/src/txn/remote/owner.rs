//! The thread that speaks with the other side for one store: it waits for its turn to own the
//! store, then commits what was appended and keeps the lease alive.
//!
//! ```text
//!   open ──► recover ──► waits while another server has the store ──► takes over ──► writes until it ends or breaks
//!                                                                     └──── keeps the lease alive ────┘
//! ```
//!
//! What it says to the other side is the [`Backend`]'s and the [`Owner`]'s. A lease that is over
//! without an answer is not the end: the owner goes on if no other server has come in between
//! ([`Owner::prepare`]).

use super::lease::Lease;
use super::options::RemoteOptions;
use super::queue::{Broken, Group, Queue};
use crate::lock::RwLock;
use crate::txn::{DataError, Recovered, Value};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

/// How often a server that waits looks whether the store is free.
pub(in crate::txn) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// All entries of a store.
pub(in crate::txn) type Entries = BTreeMap<Value, Value>;

/// Asks for the store; the answer goes back here.
pub(super) type Call = mpsc::Sender<Result<Recovered, DataError>>;

/// What the thread shares with those that call.
pub(in crate::txn) struct Shared {
    pub(super) queue: Arc<Queue>,
    pub(super) entries: RwLock<Entries>,
    pub(in crate::txn) lease: Lease,
}

/// What one task tells the other: that the lease is over, and that it has been renewed.
#[derive(Default)]
pub(in crate::txn) struct Tenure {
    is_over: Cell<bool>,
    renewed: Notify,
}

/// What became of an attempt to take a store.
pub(in crate::txn) enum Attempt<O> {
    /// It is this server's, as far as others know until this time.
    Taken(O, u64),
    /// Another server has it.
    Busy,
    /// Another server was quicker.
    Raced,
}

/// Where the data is.
pub(in crate::txn) trait Backend: Sized {
    /// A store there that was taken.
    type Owner: Owner<Backend = Self>;
    /// What a server knows that waits.
    type Standby: Default;
    /// What the other side knows the lease by.
    type Grant;

    /// The store's address, for messages.
    fn place(&self) -> &str;

    /// Takes the store over if it is free, or at once.
    async fn take(
        &self,
        options: &RemoteOptions,
        standby: &mut Self::Standby,
    ) -> Result<Attempt<Self::Owner>, String>;

    /// Another server has the store: for [`LOOK_EVERY`].
    async fn stand_by(&self, standby: &mut Self::Standby);

    /// Keeps the lease alive, for ever.
    async fn keep(&self, options: &RemoteOptions, grant: &Self::Grant, shared: &Shared, tenure: &Tenure);

    /// Gives the store free. If that fails the lease ends by itself.
    async fn release(&self, grant: &Self::Grant);
}

/// A store that was taken.
pub(in crate::txn) trait Owner {
    /// Where it is.
    type Backend: Backend<Owner = Self>;

    /// What came with it.
    fn grant(&self) -> Rc<<Self::Backend as Backend>::Grant>;

    /// What a later owner will find, and this owner's epoch.
    fn known(&self) -> Recovered;

    /// Puts in order what the last owner has left, and reads what is not known yet.
    async fn begin(&mut self, standby: <Self::Backend as Backend>::Standby) -> Result<Entries, Broken>;

    /// Comes before each commit, and after the last one. The lease is over if `is_over` says so:
    /// then returns until when it is this owner's again, if no other server has come in between.
    async fn prepare(&mut self, options: &RemoteOptions, is_over: bool) -> Result<Option<u64>, Broken>;

    /// Commits a group.
    async fn commit(&mut self, group: &Group) -> Result<(), Broken>;

    /// The same owner's next epoch.
    async fn rise(&mut self) -> Result<(), Broken>;
}

impl Shared {
    pub(super) fn new(queue: Arc<Queue>) -> Shared {
        Shared { queue, entries: RwLock::default(), lease: Lease::default() }
    }

    /// The other side no longer knows the lease. Returns once the owner has one again.
    pub(in crate::txn) async fn renewed(&self, tenure: &Tenure) {
        self.lease.set(0);
        tenure.is_over.set(true);
        self.queue.call.notify_one();
        tenure.renewed.notified().await;
    }
}

/// Serves calls until the store is closed.
pub(super) async fn run<B: Backend>(
    backend: B,
    shared: Arc<Shared>,
    options: RemoteOptions,
    mut calls: UnboundedReceiver<Call>,
) {
    let Some(call) = calls.recv().await else { return };
    let mut standby = B::Standby::default();
    let mut owner = match take(&backend, &shared, &options, &mut standby).await {
        Ok(Some(owner)) => owner,
        Ok(None) => return,
        Err(text) => {
            // The caller may be gone.
            let _ = call.send(Err(DataError::new(text)));
            return;
        }
    };
    let (grant, tenure) = (owner.grant(), Tenure::default());
    let work = async {
        *shared.entries.write() = owner.begin(standby).await?;
        shared.queue.begin(owner.known());
        let _ = call.send(Ok(owner.known()));
        write(&mut owner, &shared, &options, &tenure, &mut calls).await
    };
    let ended: Result<(), Broken> = tokio::select! {
        ended = work => ended,
        () = backend.keep(&options, &grant, &shared, &tenure) => Ok(()),
    };
    shared.lease.set(0);
    if let Err(broken) = ended {
        let error = DataError::new(broken.text.clone()).with_outcome(broken.flying);
        shared.queue.give_up(broken);
        // A caller that still waits for the store has the error from this.
        let is_new = call.send(Err(error.clone())).is_err();
        if let (Some(tell), true) = (options.lost, is_new) {
            tell(&error);
        }
    }
    backend.release(&grant).await;
    // Later calls get their answer from the queue.
    drop(calls);
}

/// Waits until the store is free, and takes it over; `None` if the store is closed before.
async fn take<B: Backend>(
    backend: &B,
    shared: &Shared,
    options: &RemoteOptions,
    standby: &mut B::Standby,
) -> Result<Option<B::Owner>, String> {
    let mut told = false;
    while !shared.queue.is_closing() {
        match backend.take(options, standby).await? {
            Attempt::Taken(owner, until_ns) => {
                shared.lease.set(until_ns);
                return Ok(Some(owner));
            }
            Attempt::Busy => {
                if let (Some(tell), false) = (options.waiting, told) {
                    tell(backend.place());
                }
                told = true;
                backend.stand_by(standby).await;
            }
            Attempt::Raced => {}
        }
    }
    Ok(None)
}

/// Commits what is appended, until the store is closed.
async fn write<O: Owner>(
    owner: &mut O,
    shared: &Shared,
    options: &RemoteOptions,
    tenure: &Tenure,
    calls: &mut UnboundedReceiver<Call>,
) -> Result<(), Broken> {
    loop {
        if let Some(until_ns) = owner.prepare(options, tenure.is_over.get()).await? {
            tenure.is_over.set(false);
            shared.lease.set(until_ns);
            tenure.renewed.notify_one();
        }
        if let Some(group) = shared.queue.take() {
            owner.commit(&group).await?;
            shared.queue.done(&group);
            continue;
        }
        if shared.queue.is_closing() {
            return Ok(());
        }
        tokio::select! {
            () = shared.queue.call.notified() => {}
            // The same server owns the store once more: with another epoch.
            Some(call) = calls.recv() => {
                owner.rise().await?;
                shared.queue.begin(owner.known());
                let _ = call.send(Ok(owner.known()));
            }
        }
    }
}
