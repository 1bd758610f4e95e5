//! Epochs as values: a name, a target, and a guard that ends what it began.

use super::histogram::{Histogram, Summary};
use super::percentile::Percentile;
use super::thread;
use platform::clock::{self, duration_ns};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// A latency target: the given part of the epochs is to end within the bound.
///
/// ```
/// use manx::slo::{Percentile, Slo};
/// use std::time::Duration;
///
/// const TARGET: Slo = Slo::p999(Duration::from_millis(2));
/// assert_eq!(TARGET.bound(), Duration::from_millis(2));
/// assert_eq!(TARGET.percentile(), Percentile::P999);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    bound_ns: u64,
    percentile: Percentile,
}

impl Slo {
    /// Makes a target: this percentile of the epochs is to end within `bound`, which is 584 years
    /// at most.
    pub const fn new(bound: Duration, percentile: Percentile) -> Slo {
        Slo { bound_ns: duration_ns(bound), percentile }
    }

    /// Makes a target at the median: 50 % of the epochs are to end within `bound`.
    pub const fn p50(bound: Duration) -> Slo {
        Slo::new(bound, Percentile::P50)
    }

    /// Makes a target at the 99th percentile: 99 % of the epochs are to end within `bound`.
    pub const fn p99(bound: Duration) -> Slo {
        Slo::new(bound, Percentile::P99)
    }

    /// Makes a target at the 99.9th percentile: 99.9 % of the epochs are to end within `bound`.
    pub const fn p999(bound: Duration) -> Slo {
        Slo::new(bound, Percentile::P999)
    }

    /// Returns the time within which epochs are to end.
    pub const fn bound(self) -> Duration {
        Duration::from_nanos(self.bound_ns)
    }

    /// Returns the part of the epochs that is to end in time.
    pub const fn percentile(self) -> Percentile {
        self.percentile
    }
}

/// Ids of epochs that have a name begin here, far from the ids that programs choose themselves.
static NEXT_ID: AtomicU64 = AtomicU64::new(1 << 63);

struct Shared {
    id: u64,
    name: &'static str,
    bound_ns: AtomicU64,
    percentile: AtomicU64,
    recording: AtomicBool,
    histogram: Histogram,
}

/// A kind of work with a latency target, such as a request. Clones are the same epoch.
///
/// Each thread learns for each epoch a window: for how long the locks that are taken inside may let
/// other threads overtake it. A window grows by a unit after each epoch that met its target, and
/// halves after a miss. An epoch takes about 20 ns.
///
/// Source: Liu and others, "Asymmetry-aware scalable locking" (PPoPP 2022), Algorithm 2.
///
/// ```
/// use manx::slo::{Epoch, Slo};
/// use std::time::Duration;
///
/// let checkout = Epoch::new("checkout", Slo::p99(Duration::from_millis(2)));
/// {
///     let _request = checkout.enter();
///     // Locks that are taken here let others pass for as long as the 2 ms allow.
/// }
/// ```
#[derive(Clone)]
pub struct Epoch(Arc<Shared>);

impl std::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoch").field("name", &self.0.name).field("slo", &self.slo()).finish()
    }
}

impl Epoch {
    /// A kind of work with this name and target.
    ///
    /// ```
    /// use manx::slo::{Epoch, Slo};
    /// use std::time::Duration;
    ///
    /// let checkout = Epoch::new("checkout", Slo::p99(Duration::from_millis(2)));
    /// checkout.set_slo(Slo::p999(Duration::from_millis(5)));
    /// assert_eq!((checkout.name(), checkout.slo().bound()), ("checkout", Duration::from_millis(5)));
    /// ```
    pub fn new(name: &'static str, slo: Slo) -> Epoch {
        Epoch(Arc::new(Shared {
            // Relaxed, here and below: numbers that stand for themselves.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name,
            bound_ns: AtomicU64::new(slo.bound_ns),
            percentile: AtomicU64::new(u64::from(slo.percentile.hundredths())),
            recording: AtomicBool::new(false),
            histogram: Histogram::new(),
        }))
    }

    /// Returns the name that it was made with.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// The number by which threads know it, for tests.
    #[doc(hidden)]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns the target.
    pub fn slo(&self) -> Slo {
        let hundredths = self.0.percentile.load(Ordering::Relaxed) as u16;
        Slo {
            bound_ns: self.0.bound_ns.load(Ordering::Relaxed),
            percentile: Percentile::new(hundredths).unwrap_or(Percentile::P99),
        }
    }

    /// Changes the target, for epochs that end from now on.
    pub fn set_slo(&self, slo: Slo) {
        self.0.percentile.store(u64::from(slo.percentile.hundredths()), Ordering::Relaxed);
        self.0.bound_ns.store(slo.bound_ns, Ordering::Relaxed);
    }

    /// Records latencies from now on, or no longer.
    ///
    /// ```
    /// use manx::slo::{Epoch, Slo};
    /// use std::time::Duration;
    ///
    /// let lookup = Epoch::new("lookup", Slo::p99(Duration::from_secs(60)));
    /// drop(lookup.enter()); // not recorded
    /// lookup.record(true);
    /// drop(lookup.enter());
    /// assert_eq!(lookup.latencies().count, 1);
    /// ```
    pub fn record(&self, on: bool) {
        self.0.recording.store(on, Ordering::Relaxed);
    }

    /// Returns what has been recorded since [`Epoch::record`] began it.
    pub fn latencies(&self) -> Summary {
        self.0.histogram.summary()
    }

    /// Begins an epoch on the calling thread, inside of the epochs that are open on it. It ends
    /// when the guard is dropped.
    pub fn enter(&self) -> EpochGuard<'_> {
        thread::start(self.0.id);
        EpochGuard { epoch: self, _thread: std::marker::PhantomData }
    }

    /// A future that is this epoch: it begins now, wherever it is polled the locks know of it, and
    /// it ends when the future is ready. It also ends when it is dropped before, if it was polled:
    /// what is given up is often what took too long.
    ///
    /// ```
    /// use manx::slo::{Epoch, Slo};
    /// use std::future::{Future, ready};
    ///
    /// let epoch = Epoch::new("fetch", Slo::p99(std::time::Duration::from_millis(5)));
    /// let mut request = Box::pin(epoch.carry(ready(42)));
    /// let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// assert_eq!(request.as_mut().poll(&mut context), std::task::Poll::Ready(42));
    /// ```
    pub fn carry<F: Future>(&self, future: F) -> EpochFuture<F> {
        clock::init();
        EpochFuture { open: Open { epoch: self.clone(), began_ticks: clock::ticks(), polled: false }, future }
    }

    fn ended(&self, latency_ns: u64, slo: Slo) {
        if self.0.recording.load(Ordering::Relaxed) {
            self.0.histogram.record(latency_ns, latency_ns > slo.bound_ns);
        }
    }
}

/// The guard of an open epoch: [`Epoch::enter`] makes it. Dropping it ends the epoch, on the thread
/// that began it.
///
/// ```
/// use manx::slo::{Epoch, EpochGuard, Slo};
/// use std::time::Duration;
///
/// fn serve(request: EpochGuard<'_>, is_valid: bool) {
///     if !is_valid {
///         // No measure of how long requests take.
///         return request.abandon();
///     }
///     // … the epoch ends here.
/// }
/// let checkout = Epoch::new("checkout", Slo::p99(Duration::from_millis(2)));
/// serve(checkout.enter(), true);
/// ```
#[must_use = "the epoch ends when this is dropped"]
#[derive(Debug)]
pub struct EpochGuard<'a> {
    epoch: &'a Epoch,
    /// Neither `Send` nor `Sync`: the thread's table knows of it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl EpochGuard<'_> {
    /// Ends the epoch without a result: it failed early, say, and its latency means nothing.
    pub fn abandon(self) {
        thread::abandon(self.epoch.0.id);
    }
}

impl Drop for EpochGuard<'_> {
    fn drop(&mut self) {
        let slo = self.epoch.slo();
        // `None`: it was abandoned, or forgotten because too many are open inside of others of the
        // same id.
        if let Some(latency_ns) = thread::end_at(self.epoch.0.id, slo.bound_ns, slo.percentile) {
            self.epoch.ended(latency_ns, slo);
        }
    }
}

/// A future whose polls are all in one epoch: [`Epoch::carry`] makes it. The epoch ends when the
/// future is ready, or when it is dropped after it was polled.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct EpochFuture<F> {
    open: Open,
    future: F,
}

/// An epoch that may hop from thread to thread, and ends when this is dropped.
#[derive(Debug)]
struct Open {
    epoch: Epoch,
    began_ticks: u64,
    polled: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        let latency_ticks = clock::ticks().wrapping_sub(self.began_ticks);
        // A clock that went back says nothing.
        if !self.polled || latency_ticks > i64::MAX as u64 {
            return;
        }
        let (epoch, slo) = (&self.epoch, self.epoch.slo());
        let latency_ns = clock::ticks_to_ns(latency_ticks);
        thread::report(epoch.0.id, latency_ns, slo.bound_ns, slo.percentile);
        epoch.ended(latency_ns, slo);
        self.polled = false;
    }
}

/// The epoch is open on the thread that polls, and on no other.
struct OnThisThread<'a>(&'a Epoch);

impl Drop for OnThisThread<'_> {
    fn drop(&mut self) {
        // What a single poll took is no epoch's latency.
        thread::abandon(self.0.0.id);
    }
}

impl<F: Future> Future for EpochFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with the whole and never moved out of it; the other field is
        // not pinned.
        let (open, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.open, Pin::new_unchecked(&mut this.future))
        };
        open.polled = true;
        thread::start(open.epoch.0.id);
        let here = OnThisThread(&open.epoch);
        let result = future.poll(context);
        drop(here);
        if result.is_ready() {
            // It ends now, and not when the future is dropped.
            drop(std::mem::replace(open, Open { epoch: open.epoch.clone(), began_ticks: 0, polled: false }));
        }
        result
    }
}
