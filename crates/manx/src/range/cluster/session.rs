//! A session: a lease in etcd, and the thread that keeps it alive.
//!
//! The thread runs everything that waits for the network. It beats at least five times in the time
//! of the lease, and each answer makes the lease last for that time from the moment at which the beat was
//! *sent*. The session is lost when this time is over, or when etcd says that the lease has ended.
//!
//! 1. A session that is lost stays lost, also if etcd still has its lease.
//! 2. Our time of the lease begins no later than etcd's, so a session knows that it is lost before
//!    etcd gives its ranges to others, as long as the clocks of both run at the same speed. Whether
//!    it is lost is computed from the clock when it is asked, so a process that was stopped knows
//!    it as soon as it goes on.
//! 3. A holder may still be stopped between a look at the session and the use of a range. The
//!    tokens of ranges ([`RangeGuard::token`](super::RangeGuard::token)) are for that.

use super::error::Error;
use super::link::{Failed, Link};
use super::options::Options;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// What is called when a session is lost.
type Callback = Box<dyn FnOnce() + Send>;

/// A connection to etcd, with all that is held through it.
///
/// When the process dies, etcd gives back what the session holds as soon as the lease is over
/// ([`Options::ttl`]). When the last of the session, its locks, guards and owners is dropped, the
/// lease ends at once.
///
/// ```no_run
/// use manx::range::cluster::{Options, RangeLock, Session};
///
/// let session = Session::connect(Options::new(["10.0.0.1:2379", "10.0.0.2:2379"]))?;
/// let table: RangeLock<u64> = session.range_lock("tables/customers");
/// let rows = table.lock(100..200)?;
/// // No other process on any machine has these rows. What is written shows the token.
/// println!("write with token {}", rows.token());
/// # Ok::<(), manx::range::cluster::Error>(())
/// ```
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

/// What all handles of a session share.
pub(super) struct Shared {
    pub alive: Arc<Alive>,
    runtime: Handle,
    /// The number of the next request or owner.
    next: AtomicU64,
    /// Ends the thread.
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    name: String,
}

/// The lease, as the thread knows it.
pub(super) struct Alive {
    pub link: Link,
    pub lease: i64,
    ttl: Duration,
    base: Instant,
    /// Until when the lease lasts, in nanoseconds from `base`.
    until_ns: AtomicU64,
    is_lost: AtomicBool,
    /// Why it is lost; what to call then.
    told: Mutex<(String, Vec<Callback>)>,
    lost: watch::Sender<bool>,
}

impl Session {
    /// Connects to etcd and begins a session.
    ///
    /// # Errors
    /// [`Error::Unreachable`] after [`Options::connect_timeout`]; [`Error::Refused`];
    /// [`Error::Unusable`] options.
    pub fn connect(options: Options) -> Result<Session, Error> {
        options.check()?;
        let unusable = |error: std::io::Error| Error::Unusable(format!("no thread for etcd can be started: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(unusable)?;
        let (name, link) = (options.name.clone(), Link::new(options.clone()));
        let handle = runtime.handle().clone();
        let (stop, stopped) = watch::channel(false);
        let (send, receive) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("manx-etcd".into()).spawn(move || {
            runtime.block_on(async move {
                match begin(link, &options).await {
                    Ok(alive) => {
                        let alive = Arc::new(alive);
                        // Nobody waits for it if the caller has panicked.
                        let _ = send.send(Ok(Arc::clone(&alive)));
                        alive.run(stopped).await;
                    }
                    Err(error) => drop(send.send(Err(error))),
                }
            });
        });
        let thread = thread.map_err(unusable)?;
        let alive = receive.recv().unwrap_or_else(|_| Err(Error::Unusable("the thread for etcd has ended".into())))?;
        let (thread, next) = (Mutex::new(Some(thread)), AtomicU64::new(1));
        Ok(Session { shared: Arc::new(Shared { alive, runtime: handle, next, stop, thread, name }) })
    }

    /// The id of the session's lease: `etcdctl lease revoke` with it, in hexadecimal, ends the
    /// session and frees what it holds.
    pub fn id(&self) -> i64 {
        self.shared.alive.lease
    }

    /// The time after which the ranges of a dead process are free, as etcd has granted it.
    pub fn ttl(&self) -> Duration {
        self.shared.alive.ttl
    }

    /// Whether the session is lost: then nothing is held any more.
    pub fn is_lost(&self) -> bool {
        self.shared.alive.is_lost()
    }

    /// Calls `callback` when the session is lost; at once if it is lost. It runs in the session's
    /// thread, or in this one, within a fifth of the time of the lease. It must not wait for
    /// anything of this session.
    pub fn on_lost(&self, callback: impl FnOnce() + Send + 'static) {
        let mut told = self.shared.alive.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.shared.alive.lost.borrow() {
            drop(told);
            callback();
        } else {
            told.1.push(Box::new(callback));
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alive = &self.shared.alive;
        let mut shown = to.debug_struct("Session");
        shown.field("name", &self.shared.name).field("id", &format_args!("{:x}", alive.lease));
        shown.field("is_lost", &alive.is_lost()).finish_non_exhaustive()
    }
}

impl Shared {
    /// A number that no other request or owner of the session has.
    pub(super) fn number(&self) -> u64 {
        // Relaxed: the numbers only have to differ.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs this in the session's thread, and waits for it.
    pub(super) fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
        let (send, receive) = mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            // The caller waits.
            let _ = send.send(future.await);
        });
        receive.recv().map_err(|_| Error::SessionLost("its thread has ended".into()))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A callback may have had the last handle: it runs in the thread itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // It has ended by a panic, or by itself.
            let _ = thread.join();
        }
    }
}

/// Makes the lease.
async fn begin(link: Link, options: &Options) -> Result<Alive, Error> {
    let seconds = options.ttl.as_millis().div_ceil(1000).max(1);
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let until = link.within(options.connect_timeout);
    let grant = link.call(until, |client| async move {
        let sent = Instant::now();
        let granted = client.lease_client().grant(seconds, None).await?;
        Ok((sent, granted.id(), granted.ttl()))
    });
    let (sent, lease, ttl) = grant.await?.value;
    let ttl = Duration::from_secs(ttl.unsigned_abs());
    Ok(Alive {
        link,
        lease,
        ttl,
        base: sent,
        until_ns: AtomicU64::new(nanoseconds(ttl)),
        is_lost: AtomicBool::new(false),
        told: Mutex::new((String::new(), Vec::new())),
        lost: watch::Sender::new(false),
    })
}

/// Returns when the session is stopped.
async fn ends(stopped: &mut watch::Receiver<bool>) {
    // The sender stops it before it goes.
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Alive {
    pub(super) fn is_lost(&self) -> bool {
        // SeqCst, here and below: it is not worth an argument beside the network.
        if self.is_lost.load(Ordering::SeqCst) {
            return true;
        }
        if nanoseconds(self.base.elapsed()) < self.until_ns.load(Ordering::SeqCst) {
            return false;
        }
        self.is_lost.store(true, Ordering::SeqCst);
        true
    }

    /// The error of a lost session, if it is lost.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.is_lost() { Err(self.error()) } else { Ok(()) }
    }

    fn error(&self) -> Error {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let why = match told.0.as_str() {
            "" => format!("etcd at {} did not answer for {:?}: {}", self.link.endpoints(), self.ttl, self.link.why()),
            known => known.to_owned(),
        };
        Error::SessionLost(why)
    }

    /// Ends when the session is lost, within a beat.
    pub(super) async fn lost(&self) -> Error {
        // The sender is here, so it is not gone.
        let _ = self.lost.subscribe().wait_for(|lost| *lost).await;
        self.error()
    }

    fn lasts_from(&self, sent: Instant) {
        // If the time was over already, the session was lost at that moment, and stays so.
        if !self.is_lost() {
            let until = sent.duration_since(self.base) + self.ttl;
            self.until_ns.store(nanoseconds(until), Ordering::SeqCst);
        }
    }

    /// Keeps the session alive until it is stopped. Then the lease ends.
    async fn run(&self, mut stopped: watch::Receiver<bool>) {
        let why = tokio::select! {
            why = self.keep_alive() => why,
            () = ends(&mut stopped) => return self.revoke(self.link.attempt()).await,
        };
        self.is_lost.store(true, Ordering::SeqCst);
        let callbacks = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.0 = why;
            // Calls that are on their way end.
            self.lost.send_replace(true);
            std::mem::take(&mut told.1)
        };
        for callback in callbacks {
            callback();
        }
        // What it holds is free earlier, if etcd can be reached.
        tokio::select! {
            () = self.revoke(self.ttl) => ends(&mut stopped).await,
            () = ends(&mut stopped) => {}
        }
    }

    async fn revoke(&self, limit: Duration) {
        let until = self.link.within(limit);
        let revoke = self.link.call(until, |client| async move {
            client.lease_client().revoke(self.lease).await?;
            Ok(())
        });
        // If it cannot be reached, the lease ends by itself.
        let _ = timeout(limit, revoke).await;
    }

    /// Beats. Returns why the session is lost.
    async fn keep_alive(&self) -> String {
        loop {
            let (number, failed) = match self.link.client().await {
                Ok((number, client)) => (number, self.beat(number, client).await),
                Err(failed) => failed,
            };
            match failed {
                Failed::Lasting(Error::SessionLost(why)) => return why,
                Failed::Lasting(other) => self.link.failed(number, &other.to_string()),
                Failed::Passing(why) => self.link.failed(number, &why),
            }
            if let Err(Error::SessionLost(why)) = self.check() {
                return why;
            }
            sleep(self.link.attempt() / 4).await;
        }
    }

    /// Beats on one connection, until that does not do any more.
    async fn beat(&self, number: u64, client: etcd_client::Client) -> Failed {
        let attempt = self.link.attempt();
        let late = || Failed::Passing(format!("no answer to a heartbeat within {attempt:?}"));
        let sent = Instant::now();
        // The first beat belongs to it.
        let mut lease = client.lease_client();
        let opened = timeout(attempt, lease.keep_alive(self.lease)).await;
        let (mut keeper, mut answers) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return error.into(),
            Err(_) => return late(),
        };
        self.lasts_from(sent);
        loop {
            tokio::select! {
                () = sleep(attempt) => {}
                // A call had no answer; its word suffices.
                () = self.link.has_moved(number) => return Failed::Passing("the link has moved".into()),
            }
            let sent = Instant::now();
            if let Err(error) = keeper.keep_alive().await {
                return error.into();
            }
            match timeout(attempt, answers.message()).await {
                Ok(Ok(Some(answer))) if answer.ttl() > 0 => self.lasts_from(sent),
                Ok(Ok(Some(_))) => return Failed::Lasting(Error::SessionLost("its lease has ended".into())),
                Ok(Ok(None)) => return Failed::Passing("the heartbeat's stream has ended".into()),
                Ok(Err(error)) => return error.into(),
                Err(_) => return late(),
            }
            if self.is_lost() {
                return Failed::Passing("a heartbeat came too late".into());
            }
        }
    }
}
