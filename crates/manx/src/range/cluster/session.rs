//! A session: a lease in etcd, and the thread that keeps it alive.
//!
//! The thread beats at least five times in the time of the lease, and each answer makes the lease
//! last for that time from the moment at which the beat was *sent*. The session is lost when this
//! time is over, or when etcd says that the lease has ended.
//!
//! 1. A session that is lost stays lost, also if etcd still has its lease.
//! 2. Our time of the lease begins no later than etcd's, so a session knows that it is lost before
//!    etcd gives its ranges to others, as long as the clocks of both run at the same speed. Whether
//!    it is lost is computed from the clock when it is asked, so a process that was stopped knows
//!    it as soon as it goes on.
//! 3. A holder may still be stopped between a look at the session and the use of a range. The
//!    tokens of ranges ([`RangeGuard::token`](super::RangeGuard::token)) are for that.

use super::driver::{Driver, unusable};
use super::error::Error;
use super::options::Options;
use crate::etcd::client::{Answer, Client, Failed};
use crate::etcd::messages::{
    LEASE_GRANT, LEASE_REVOKE, LeaseGrantRequest, LeaseRequest, LeaseResponse, Nothing, WatchRequest,
    WatchResponse,
};
use prost::Message;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::Streaming;

/// The limits of the time for which a member may be silent.
const SILENCE_MIN: Duration = Duration::from_millis(200);
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// For a call that ends with the session.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

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
    driver: Driver,
    /// The number of the next request or owner.
    next: AtomicU64,
    /// Numbers of requests that have left.
    free: Mutex<Vec<u64>>,
    /// Its end ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    name: String,
}

/// The lease, as the thread knows it.
pub(super) struct Alive {
    pub client: Client,
    pub lease: i64,
    endpoints: String,
    /// How long a member may be silent: five heartbeats are in the time of the lease.
    silence: Duration,
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
        let driver = Driver::new()?;
        let alive = Arc::new(driver.run(begin(&options))?);
        let (stop, stopped) = mpsc::channel();
        let (runtime, beats) = (Arc::clone(driver.runtime()), Arc::clone(&alive));
        let thread = thread::Builder::new().name("manx-etcd".into());
        let thread = thread.spawn(move || beats.run(&runtime, &stopped)).map_err(unusable)?;
        let (name, next, free) = (options.name, AtomicU64::new(1), Mutex::default());
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Session { shared: Arc::new(Shared { alive, driver, next, free, stop, thread, name }) })
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

    /// A number for the key of a request, which no other one has now.
    pub(super) fn take_number(&self) -> u64 {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| self.number())
    }

    /// The request with this number has left, and no call that makes or removes it is on its way.
    pub(super) fn free_number(&self, number: u64) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs this to its end.
    pub(super) fn run<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        self.driver.run(future)
    }

    /// The same as a future for a task.
    pub(super) async fn within<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.driver.within(future).await
    }

    /// Runs this in the background.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.driver.spawn(future);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A callback may have had the last handle: it runs in the thread itself.
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
        {
            // It has ended by a panic, or by itself.
            let _ = thread.join();
        }
    }
}

/// Makes the lease.
async fn begin(options: &Options) -> Result<Alive, Error> {
    let silence = (options.ttl / 5).clamp(SILENCE_MIN, SILENCE_MAX);
    let client = Client::new(&options.address()?, silence).map_err(Error::Unusable)?;
    let seconds = options.ttl.as_millis().div_ceil(1000).max(1);
    let request = LeaseGrantRequest { ttl_s: i64::try_from(seconds).unwrap_or(i64::MAX), id: 0 };
    let (endpoints, after) = (options.endpoints.join(", "), options.connect_timeout);
    let granted = client.ask(LEASE_GRANT, &request, (Instant::now() + after).into()).await;
    let Answer { value: lease, sent, .. } = granted.map_err(|failed| match failed.is_refusal {
        true => Error::Refused(failed.text),
        false => Error::Unreachable { endpoints: endpoints.clone(), after, why: failed.text },
    })?;
    let LeaseResponse { id: lease, ttl_s } = lease;
    let ttl = Duration::from_secs(ttl_s.unsigned_abs());
    Ok(Alive {
        client,
        lease,
        endpoints,
        silence,
        ttl,
        base: sent.into(),
        until_ns: AtomicU64::new(nanoseconds(ttl)),
        is_lost: AtomicBool::new(false),
        told: Mutex::new((String::new(), Vec::new())),
        lost: watch::Sender::new(false),
    })
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
            "" => {
                format!("etcd at {} did not answer for {:?}: {}", self.endpoints, self.ttl, self.client.why())
            }
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

    /// Calls until there is an answer, or the session is lost.
    pub(super) async fn ask<Q, R>(&self, path: &'static str, request: &Q) -> Result<Answer<R>, Error>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.check()?;
        let answer = tokio::select! {
            answer = self.client.ask(path, request, (Instant::now() + FOR_EVER).into()) => answer,
            error = self.lost() => return Err(error),
        };
        answer.map_err(refused)
    }

    /// Opens a stream of changes.
    pub(super) async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<Answer<Streaming<WatchResponse>>, Error> {
        let answer = self.client.watch(request, (Instant::now() + FOR_EVER).into()).await;
        answer.map_err(refused)
    }

    /// Keeps the session alive until it is stopped. Then the lease ends.
    fn run(&self, runtime: &Runtime, stopped: &mpsc::Receiver<()>) {
        let why = loop {
            let pause = match runtime.block_on(self.beat()) {
                Ok(()) => self.silence,
                Err(Beat::Ended) => break LEASE_ENDED.to_owned(),
                Err(Beat::Missed) => self.silence / 4,
            };
            if let Err(Error::SessionLost(why)) = self.check() {
                break why;
            }
            if stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Disconnected) {
                return runtime.block_on(self.revoke());
            }
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
        runtime.block_on(self.revoke());
    }

    async fn revoke(&self) {
        let until = Instant::now() + self.silence;
        // If it cannot be reached, the lease ends by itself.
        let _: Result<Nothing, Failed> =
            self.client.call(LEASE_REVOKE, &LeaseRequest { id: self.lease }, until.into()).await;
    }

    /// Beats once. A member that does not answer is left for the next one.
    async fn beat(&self) -> Result<(), Beat> {
        match self.client.keep_alive(self.lease, (Instant::now() + self.silence).into()).await {
            Ok(answer) if answer.value.ttl_s > 0 => {
                self.lasts_from(answer.sent.into());
                Ok(())
            }
            Ok(_) => Err(Beat::Ended),
            Err(failed) if is_ended(&failed) => Err(Beat::Ended),
            Err(_) => Err(Beat::Missed),
        }
    }
}

/// Why a heartbeat has failed.
enum Beat {
    /// There is no such lease any more.
    Ended,
    /// The next one may succeed.
    Missed,
}

const LEASE_ENDED: &str = "its lease has ended";

fn is_ended(failed: &Failed) -> bool {
    failed.text.contains("lease not found")
}

/// What etcd has said to a call that it will not do.
fn refused(failed: Failed) -> Error {
    if is_ended(&failed) { Error::SessionLost(LEASE_ENDED.into()) } else { Error::Refused(failed.text) }
}
