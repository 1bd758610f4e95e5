//! The connected clients, as others see them: for CLIENT LIST, for the clock that disconnects the
//! idle, and for the end.

use crate::acl::User;
use crate::bell::{Bell, Bells};
use crate::resp::Version;
use socket2::Socket;
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A connection.
pub(crate) struct Peer {
    pub(crate) id: u64,
    pub(crate) socket: Socket,
    /// As CLIENT LIST shows it: the client's …
    pub(crate) address: Box<str>,
    /// … and the server's.
    pub(crate) local_address: Box<str>,
    /// It came through a file: what it sends is not seen outside of this machine.
    pub(crate) is_unix: bool,
    /// It has identified itself: TLS is agreed on, and a password was said if one is needed.
    is_established: AtomicBool,
    /// CLIENT KILL has ended it: what it still sends is not done.
    is_killed: AtomicBool,
    /// The memory of its buffers.
    pub(crate) buffer_bytes: AtomicU64,
    name: Mutex<Box<[u8]>>,
    /// As which it has logged in.
    user: Mutex<Arc<User>>,
    since: Instant,
    /// When it last sent something, in milliseconds after `since`.
    heard_ms: AtomicU64,
    /// Commands that it sent. One thread at a time counts.
    commands: AtomicU64,
    version: AtomicU64,
    /// [`WAITS`] and the like.
    wait: AtomicU8,
    /// How many channels, patterns and channels of shards it subscribes to.
    subscriptions: [AtomicUsize; 3],
    /// Of a connection that has a thread of its own, and listens.
    bell: OnceLock<Bell>,
}

/// How CLIENT UNBLOCK ends what a client's command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unblock {
    /// As if its time were over.
    Timeout,
    Error,
}

/// A client's command waits, …
const WAITS: u8 = 1;
/// … and is to end as if its time were over, …
const TIMEOUT: u8 = 2;
/// … or with an error.
const ERROR: u8 = 3;

/// Names of connections are of these characters.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

impl Peer {
    pub(crate) fn new(
        id: u64,
        socket: Socket,
        (address, local_address): (Box<str>, Box<str>),
        is_unix: bool,
        user: Arc<User>,
    ) -> Peer {
        Peer {
            id,
            socket,
            address,
            local_address,
            is_unix,
            is_established: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            buffer_bytes: AtomicU64::new(0),
            name: Mutex::default(),
            user: Mutex::new(user),
            since: Instant::now(),
            heard_ms: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            version: AtomicU64::new(2),
            wait: AtomicU8::new(0),
            subscriptions: Default::default(),
            bell: OnceLock::new(),
        }
    }

    pub(crate) fn age_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    // Relaxed, here and below: figures for people, and a clock that may be a round late.
    pub(crate) fn record_commands(&self, commands: u64, version: Version) {
        self.heard_ms.store(self.age_ms(), Relaxed);
        self.commands.store(self.commands.load(Relaxed) + commands, Relaxed);
        self.version.store(if version == Version::Two { 2 } else { 3 }, Relaxed);
    }

    pub(crate) fn record_subscriptions(&self, counts: [usize; 3]) {
        self.subscriptions.iter().zip(counts).for_each(|(known, count)| known.store(count, Relaxed));
    }

    /// Whether it subscribes to anything.
    pub(crate) fn is_subscriber(&self) -> bool {
        self.subscriptions.iter().any(|count| count.load(Relaxed) > 0)
    }

    /// For how long it has sent nothing.
    pub(crate) fn idle_ms(&self) -> u64 {
        self.age_ms().saturating_sub(self.heard_ms.load(Relaxed))
    }

    /// It has identified itself, and may stay.
    pub(crate) fn establish(&self) {
        self.is_established.store(true, Relaxed);
    }

    /// Whether it has not identified itself in this time.
    pub(crate) fn is_late(&self, limit: Duration) -> bool {
        !self.is_established.load(Relaxed) && self.since.elapsed() > limit
    }

    /// Ends its connection: nothing of what it has sent is begun any more, and nothing is answered.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Relaxed);
        // It fails if the client has already disconnected.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    #[inline]
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Relaxed)
    }

    // Relaxed, in these four: a client that has been unblocked is woken afterwards, and sees it
    // then.

    /// It waits for what its command wants.
    pub(crate) fn begin_wait(&self) {
        self.wait.store(WAITS, Relaxed);
    }

    pub(crate) fn end_wait(&self) {
        self.wait.store(0, Relaxed);
    }

    pub(crate) fn waits(&self) -> bool {
        self.wait.load(Relaxed) != 0
    }

    /// It is to wait no more, once it is woken. Returns whether it waits.
    pub(crate) fn unblock(&self, how: Unblock) -> bool {
        let how = if how == Unblock::Timeout { TIMEOUT } else { ERROR };
        self.wait.compare_exchange(WAITS, how, Relaxed, Relaxed).is_ok()
    }

    /// Whether and how it was told to wait no more.
    pub(crate) fn is_unblocked(&self) -> Option<Unblock> {
        match self.wait.load(Relaxed) {
            TIMEOUT => Some(Unblock::Timeout),
            ERROR => Some(Unblock::Error),
            _ => None,
        }
    }

    /// Its thread is to listen.
    ///
    /// # Errors
    /// The answer if there are no descriptors left for that.
    pub(crate) fn make_bell(&self, bells: &Arc<Bells>) -> Result<(), String> {
        if self.bell.get().is_none() {
            let bell = Bell::new(bells).map_err(|error| format!("ERR {error}"))?;
            // No other thread makes one.
            let _ = self.bell.set(bell);
        }
        Ok(())
    }

    /// The bell to which its thread listens.
    pub(crate) fn bell(&self) -> Option<&Bell> {
        self.bell.get()
    }

    /// Wakes its thread, if that listens.
    pub(crate) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }

    fn user(&self) -> MutexGuard<'_, Arc<User>> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_user(&self, user: Arc<User>) {
        *self.user() = user;
    }

    /// Whether it has logged in as this user.
    pub(crate) fn is_of(&self, user: &Arc<User>) -> bool {
        Arc::ptr_eq(&self.user(), user)
    }

    fn locked_name(&self) -> MutexGuard<'_, Box<[u8]>> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> Box<[u8]> {
        self.locked_name().clone()
    }

    /// Gives it this name, if it is one.
    pub(crate) fn set_name(&self, name: &[u8]) -> bool {
        let is_good = is_name(name);
        if is_good {
            *self.locked_name() = name.into();
        }
        is_good
    }

    /// What CLIENT LIST says about it.
    pub(crate) fn line(&self) -> String {
        let name = String::from_utf8_lossy(&self.name()).into_owned();
        let [sub, psub, ssub] = self.subscriptions.each_ref().map(|count| count.load(Relaxed));
        format!(
            "id={} addr={} laddr={} name={name} age={} idle={} db=0 sub={sub} psub={psub} ssub={ssub} tot-mem={} tot-cmds={} user={} resp={}\n",
            self.id,
            self.address,
            self.local_address,
            self.age_ms() / 1000,
            self.idle_ms() / 1000,
            self.buffer_bytes.load(Relaxed),
            self.commands.load(Relaxed),
            String::from_utf8_lossy(&self.user().name),
            self.version.load(Relaxed),
        )
    }
}

/// All connections.
#[derive(Default)]
pub(crate) struct Peers {
    all: Mutex<BTreeMap<u64, Arc<Peer>>>,
    /// Commands of the clients that have left.
    left_commands: AtomicU64,
}

/// Keeps a peer among [`Peers`] until it is dropped.
pub(crate) struct Registration {
    peers: Arc<Peers>,
    peer: Arc<Peer>,
}

impl Registration {
    /// Of a peer that was added.
    pub(crate) fn new(peers: &Arc<Peers>, peer: &Arc<Peer>) -> Registration {
        Registration { peers: Arc::clone(peers), peer: Arc::clone(peer) }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.peers.remove(&self.peer);
    }
}

impl Peers {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Peer>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, peer: Arc<Peer>) {
        self.locked().insert(peer.id, peer);
    }

    pub(crate) fn remove(&self, peer: &Peer) {
        if self.locked().remove(&peer.id).is_some() {
            self.left_commands.fetch_add(peer.commands.load(Relaxed), Relaxed);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.locked().len()
    }

    pub(crate) fn commands(&self) -> u64 {
        let here: u64 = self.locked().values().map(|peer| peer.commands.load(Relaxed)).sum();
        here + self.left_commands.load(Relaxed)
    }

    /// The one of this id.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Peer>> {
        self.locked().get(&id).cloned()
    }

    /// Those that fit.
    pub(crate) fn filter(&self, fits: impl Fn(&Peer) -> bool) -> Vec<Arc<Peer>> {
        self.locked().values().filter(|peer| fits(peer)).cloned().collect()
    }

    /// All of them, now.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Peer>> {
        self.locked().values().cloned().collect()
    }
}
