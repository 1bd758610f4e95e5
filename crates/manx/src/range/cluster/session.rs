//! A session: a lease in etcd, and the thread that keeps it alive.
//!
//! The thread beats at least five times in the time of the lease, and each answer makes the lease
//! last for that time from the moment at which the beat was *sent*. The session is lost when this
//! time is over, or when etcd says that the lease has ended.
//!
//! Calls run in the thread of their caller, so that a call costs no switch to another thread. One
//! of the threads that wait for the network reads for all of them; when it is done, another one
//! does. Between two beats, and while there are no calls, nothing is read.
//!
//! 1. A session that is lost stays lost, also if etcd still has its lease.
//! 2. Our time of the lease begins no later than etcd's, so a session knows that it is lost before
//!    etcd gives its ranges to others, as long as the clocks of both run at the same speed. Whether
//!    it is lost is computed from the clock when it is asked, so a process that was stopped knows
//!    it as soon as it goes on.
//! 3. A holder may still be stopped between a look at the session and the use of a range. The
//!    tokens of ranges ([`RangeGuard::token`](super::RangeGuard::token)) are for that.

use super::error::Error;
use super::link::{Failed, Link, ended};
use super::options::Options;
use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::time::timeout;

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
    /// `None` when this is dropped.
    runtime: Option<Arc<Runtime>>,
    /// The number of the next request or owner.
    next: AtomicU64,
    /// Its end ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
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
        let unusable = |error: std::io::Error| Error::Unusable(format!("etcd cannot be waited for: {error}"));
        let runtime = Arc::new(Builder::new_current_thread().enable_all().build().map_err(unusable)?);
        let alive = Arc::new(wait(&runtime, begin(&options))?);
        let (stop, stopped) = mpsc::channel();
        let (runs, beats) = (Arc::clone(&runtime), Arc::clone(&alive));
        let thread = thread::Builder::new().name("manx-etcd".into());
        let thread = thread.spawn(move || beats.run(&runs, &stopped)).map_err(unusable)?;
        let (name, next) = (options.name, AtomicU64::new(1));
        let (runtime, stop, thread) = (Some(runtime), Some(stop), Some(thread));
        Ok(Session { shared: Arc::new(Shared { alive, runtime, next, stop, thread, name }) })
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

    /// Runs this to its end.
    pub(super) fn run<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        wait(self.runtime.as_ref().expect("it is not dropped"), future)
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
        // The thread may have it still. It is not waited for, which a task of another runtime may
        // not do.
        if let Some(runtime) = self.runtime.take().and_then(Arc::into_inner) {
            runtime.shutdown_background();
        }
    }
}

/// Runs this to its end. A task of another runtime may not, so for it another thread does.
fn wait<T: Send>(runtime: &Runtime, future: impl Future<Output = T> + Send) -> T {
    if Handle::try_current().is_err() {
        return runtime.block_on(future);
    }
    thread::scope(|scope| {
        let ran = scope.spawn(|| runtime.block_on(future)).join();
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes the lease.
async fn begin(options: &Options) -> Result<Alive, Error> {
    let link = Link::new(options.clone());
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
            "" => format!(
                "etcd at {} did not answer for {:?}: {}",
                self.link.endpoints(),
                self.ttl,
                self.link.why()
            ),
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
    fn run(&self, runtime: &Runtime, stopped: &mpsc::Receiver<()>) {
        let mut beats = None;
        let why = loop {
            let pause = match runtime.block_on(self.beat(&mut beats)) {
                Ok(()) => self.link.attempt(),
                Err((_, Failed::Lasting(Error::SessionLost(why)))) => break why,
                Err((number, failed)) => {
                    beats = None;
                    self.link.failed(number, &failed.to_string());
                    self.link.attempt() / 4
                }
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
        let limit = self.link.attempt();
        let revoke = self.link.call(self.link.within(limit), |client| async move {
            client.lease_client().revoke(self.lease).await?;
            Ok(())
        });
        // If it cannot be reached, the lease ends by itself.
        let _ = timeout(limit, revoke).await;
    }

    /// Beats once, on the stream of the beat before if the link has not moved.
    async fn beat(&self, beats: &mut Option<Beats>) -> Result<(), (u64, Failed)> {
        let attempt = self.link.attempt();
        let late = || Failed::Passing(format!("no answer to a heartbeat within {attempt:?}"));
        beats.take_if(|beats| beats.number != self.link.number());
        let sent = Instant::now();
        if let Some(Beats { number, keeper, answers }) = beats {
            let answer = async {
                keeper.keep_alive().await?;
                answers.message().await
            };
            match timeout(attempt, answer).await {
                Ok(Ok(Some(answer))) if answer.ttl() > 0 => {}
                Ok(Ok(Some(_))) => return Err((*number, Failed::Lasting(ended()))),
                Ok(Ok(None)) => {
                    return Err((*number, Failed::Passing("the heartbeat's stream has ended".into())));
                }
                Ok(Err(error)) => return Err((*number, error.into())),
                Err(_) => return Err((*number, late())),
            }
        } else {
            let (number, client) = self.link.client().await?;
            let mut lease = client.lease_client();
            // The first beat belongs to it.
            match timeout(attempt, lease.keep_alive(self.lease)).await {
                Ok(Ok((keeper, answers))) => *beats = Some(Beats { number, keeper, answers }),
                Ok(Err(error)) => return Err((number, error.into())),
                Err(_) => return Err((number, late())),
            }
        }
        self.lasts_from(sent);
        Ok(())
    }
}

/// The stream of the heartbeats on one connection.
struct Beats {
    number: u64,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
}
