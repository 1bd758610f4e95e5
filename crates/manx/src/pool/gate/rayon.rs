//! A gate for rayon's workers.
//!
//! rayon has no place between two jobs where a program could hold a worker back, but it has jobs
//! that go to each worker: broadcasts. A worker takes one when its own deque is empty, before it
//! steals. So the checks are broadcasts, and a worker that parks in one has no job in its deque
//! that others would have to know of.
//!
//! **The danger** is a worker that parks *below* something. A worker that waits in a `join` for a
//! job that was stolen from it takes other jobs meanwhile, and checks too. If it parked there until
//! there is room again, what its `join` is a part of would stand still though its job is done; if
//! all other threads wait for it, for ever. So a worker must know whether it came to the check from
//! its own main loop, where no thread can wait for it, or from a wait. It sees that by how deep its
//! stack is. The check has always as many bytes of stack below it when it is called from the main
//! loop, and more when there is a wait (and a job, and what that called) between the two. That
//! number of bytes is measured before any other code has the pool.
//!
//! - From the main loop it parks until it is called. A broadcast of the program would wait for it.
//!   So it checks for broadcasts on a signal ([`Gated::broadcast`], [`Gated::spawn_broadcast`]),
//!   and otherwise each [`LOOK_MS`].
//! - From a wait it parks for a *slice*, 1 to 8 ms, puts a check into its own deque, and goes back
//!   to the wait. If the wait is over, the worker continues. The check stays where other workers
//!   steal first, and the worker that steals it parks instead. If the wait is not over, the worker
//!   takes the check out again and parks for another slice. So a wait ends at most one slice late,
//!   and the program always makes progress.
//!
//! Invariants:
//! 1. While too few are parked there is a check in some queue, or on its way: each lowering sends
//!    checks to all, and a worker that steps out of the gate leaves a check behind.
//! 2. A worker that parks has an empty deque.
//! 3. Only two things wait for a worker that parks without a limit: broadcasts, which it looks for,
//!    and the end of the pool, which closes the gate.
//!
//! A worker whose deque never gets empty, because each of its jobs queues the next one without end,
//! comes to no check: rayon looks at nothing else before. Work that divides (`join`, parallel
//! iterators) and jobs from outside are not of that kind.
//!
//! Programs whose tasks wait for each other in other ways (a channel, a barrier) need as many
//! active workers as tasks that wait: that is so with rayon alone too, with a pool of that size.

use super::{Follower, Gate, Rank, Stay};
use platform::atomic::{AtomicU32, AtomicUsize, Ordering};
use platform::clock;
use platform::futex;
use rayon_core::{BroadcastContext, ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a worker that is parked for long checks for broadcasts without a signal, in
/// milliseconds.
pub const LOOK_MS: u64 = 1_000;
/// How often while a thread waits for a broadcast.
const LOOK_HURRIED: Duration = Duration::from_millis(1);
/// A worker that parks while its `join` waits does so for this long at first, …
const SLICE_NS_MIN: u64 = 1_000_000;
/// … and at most, if it happens again and again.
const SLICE_NS_MAX: u64 = 8_000_000;
/// Stacks begin at addresses that differ in how they fit to the widest registers.
const ALIGNMENT: usize = 64;
/// The maximum number of checks for each worker in its queue; further checks wait for the worker
/// that comes first.
const QUEUED_EACH: usize = 16;

thread_local! {
    /// Where this worker's stack was when it was handed to rayon.
    static BASE: Cell<usize> = const { Cell::new(0) };
    /// This worker is parked already: it looks for broadcasts.
    static IS_PARKED: Cell<bool> = const { Cell::new(false) };
    /// The last slice: how long it was, and when it ended.
    static SLICE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// How a check came to its worker. What is between it and the main loop differs.
#[derive(Clone, Copy)]
enum Way {
    Broadcast,
    Spawned,
}

#[derive(Debug)]
struct Shared {
    gate: Gate,
    /// `None`: the global pool.
    pool: Option<Weak<ThreadPool>>,
    /// How deep the stack is at a check from the main loop, by the way it came; 0 until it is
    /// known.
    depths: [AtomicUsize; 2],
    /// The number of depths that are still to be measured: a futex.
    to_measure: AtomicU32,
    /// Checks that are not done yet.
    queued: AtomicUsize,
    /// The number of threads that wait for a broadcast.
    broadcasting: AtomicUsize,
    /// Counts the broadcasts that no thread waits for.
    broadcasts: AtomicUsize,
}

/// A pool of rayon's, and the gate in front of its workers. It is used as the pool; dropped, it
/// opens the gate and ends the pool, as rayon does: when its jobs are done.
///
/// ```
/// use manx::pool::gate::rayon::Gated;
/// use rayon_core::ThreadPoolBuilder;
///
/// let pool = Gated::build(ThreadPoolBuilder::new().num_threads(4))?;
/// pool.set_active(1);
/// let (one, other) = pool.install(|| rayon_core::join(|| 1, || 2));
/// assert_eq!(one + other, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gated {
    shared: Arc<Shared>,
    pool: Option<Arc<ThreadPool>>,
}

impl fmt::Debug for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gated").field("gate", &self.shared.gate).finish_non_exhaustive()
    }
}

impl Deref for Gated {
    type Target = ThreadPool;

    fn deref(&self) -> &ThreadPool {
        self.pool.as_deref().expect("there until it is dropped")
    }
}

impl Gated {
    /// Builds a pool with a gate. Its threads are started here, with the builder's names and stack
    /// sizes.
    ///
    /// # Errors
    /// What the builder says.
    pub fn build(builder: ThreadPoolBuilder) -> Result<Gated, ThreadPoolBuildError> {
        let pool = Arc::new(builder.spawn_handler(start).build()?);
        let shared = Shared::new(pool.current_num_threads(), Some(Arc::downgrade(&pool)));
        // A pool may have the thread that builds it for a worker, which comes to no check yet.
        let others = shared.gate.workers() - usize::from(pool.current_thread_index().is_some());
        shared.measure(others);
        Ok(Gated { shared, pool: Some(pool) })
    }

    /// Allows `workers` workers to be active, at least 1: the others park when they have done their
    /// current job.
    pub fn set_active(&self, workers: usize) {
        self.shared.set_active(workers);
    }

    /// Calls the pool's own `broadcast`, and tells the parked workers of it.
    ///
    /// ```
    /// use manx::pool::gate::rayon::Gated;
    /// use rayon_core::ThreadPoolBuilder;
    ///
    /// let pool = Gated::build(ThreadPoolBuilder::new().num_threads(3))?;
    /// pool.set_active(1);
    /// // On each worker, the parked ones too.
    /// assert_eq!(pool.broadcast(|context| context.index()).len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        struct Waits<'a>(&'a Shared);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                // Relaxed: the parked look more often for a moment too long, or too little.
                self.0.broadcasting.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.shared.broadcasting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.shared);
        self.shared.gate.nudge();
        // Through the pool: this method's name is the same.
        ThreadPool::broadcast(self, op)
    }

    /// Calls the pool's own `spawn_broadcast`, and tells the parked workers of it.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        ThreadPool::spawn_broadcast(self, op);
        // Relaxed: the nudge releases it.
        self.shared.broadcasts.fetch_add(1, Ordering::Relaxed);
        self.shared.gate.nudge();
    }

    /// The count.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Keeps as many workers active as this process may use whole CPUs, until what this returns is
    /// dropped.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn follow_budget(&self) -> std::io::Result<Follower> {
        self.shared.follow_budget()
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        // First, because parked workers are a part of what the pool waits for before it ends.
        self.shared.gate.close();
        self.pool = None;
    }
}

/// The gate in front of rayon's global pool, which never ends. Dropped, it opens.
///
/// ```
/// use manx::pool::gate::rayon::Global;
/// use rayon_core::ThreadPoolBuilder;
///
/// let gate = Global::build(ThreadPoolBuilder::new().num_threads(4))?;
/// let _follower = gate.follow_budget()?;
/// assert_eq!(rayon_core::join(|| 1, || 2), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Global {
    shared: Arc<Shared>,
}

impl Global {
    /// Builds the global pool with a gate. Call it where `build_global` would be called: before the
    /// pool is used.
    ///
    /// # Errors
    /// What the builder says: above all, that there is a global pool already.
    pub fn build(builder: ThreadPoolBuilder) -> Result<Global, ThreadPoolBuildError> {
        builder.spawn_handler(start).build_global()?;
        let shared = Shared::new(rayon_core::current_num_threads(), None);
        let others = shared.gate.workers() - usize::from(rayon_core::current_thread_index().is_some());
        shared.measure(others);
        Ok(Global { shared })
    }

    /// As [`Gated::set_active`].
    pub fn set_active(&self, workers: usize) {
        self.shared.set_active(workers);
    }

    /// The count.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// As [`Gated::follow_budget`].
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn follow_budget(&self) -> std::io::Result<Follower> {
        self.shared.follow_budget()
    }
}

impl Drop for Global {
    fn drop(&mut self) {
        self.shared.gate.close();
    }
}

/// Starts a worker's thread, and notes where its stack begins.
fn start(worker: ThreadBuilder) -> std::io::Result<()> {
    let mut thread = std::thread::Builder::new();
    if let Some(name) = worker.name() {
        thread = thread.name(name.to_owned());
    }
    if let Some(bytes) = worker.stack_size() {
        thread = thread.stack_size(bytes);
    }
    thread.spawn(|| run(worker)).map(drop)
}

#[inline(never)]
fn run(worker: ThreadBuilder) {
    let here = 0u8;
    BASE.set((&raw const here).addr());
    worker.run();
}

impl Shared {
    fn new(workers: usize, pool: Option<Weak<ThreadPool>>) -> Arc<Shared> {
        Arc::new(Shared {
            gate: Gate::new(workers),
            pool,
            depths: [AtomicUsize::new(0), AtomicUsize::new(0)],
            to_measure: AtomicU32::new(0),
            queued: AtomicUsize::new(0),
            broadcasting: AtomicUsize::new(0),
            broadcasts: AtomicUsize::new(0),
        })
    }

    /// Has `workers` workers come to a check in either way, from their main loops: no other code
    /// has the pool yet.
    fn measure(self: &Arc<Self>, workers: usize) {
        // Relaxed: the broadcast hands it over.
        self.to_measure.store(2 * workers as u32, Ordering::Relaxed);
        self.broadcast();
        loop {
            // Acquire: pairs with the release of the workers that counted; the depths are there
            // then.
            match self.to_measure.load(Ordering::Acquire) {
                0 => return,
                left => drop(futex::wait(&self.to_measure, left)),
            }
        }
    }

    /// Notes how deep the stack is at a check, while that is being measured.
    fn is_measuring(self: &Arc<Self>, way: Way, depth: usize) -> bool {
        // Relaxed: while something is to be measured this thread itself has a part of it to do, and
        // before that no worker checks.
        if self.to_measure.load(Ordering::Relaxed) == 0 {
            return false;
        }
        // Relaxed: ordered by the count.
        self.depths[way as usize].fetch_max(depth, Ordering::Relaxed);
        if matches!(way, Way::Broadcast) {
            self.spawn_check();
        }
        self.to_measure.fetch_sub(1, Ordering::Release);
        futex::wake_all(&self.to_measure);
        true
    }

    fn set_active(self: &Arc<Self>, workers: usize) {
        let missing = self.gate.set_active(workers);
        if missing > 0 {
            self.send(missing);
        }
    }

    fn follow_budget(self: &Arc<Self>) -> std::io::Result<Follower> {
        let shared = Arc::clone(self);
        Follower::of_budget(move |active| shared.set_active(active))
    }

    /// Sends checks, so that the workers that should park do so.
    fn send(self: &Arc<Self>, missing: usize) {
        let workers = self.gate.workers();
        // Relaxed: it only bounds how many there are. A worker in a long job has its own checks
        // left, so there may be many while others have none; the checks that go to the worker that
        // comes first are few enough then.
        let queued = self.queued.load(Ordering::Relaxed);
        if queued < QUEUED_EACH * workers {
            self.outside(Self::broadcast);
        } else if queued < (QUEUED_EACH + 1) * workers {
            self.outside(move |shared| {
                for _ in 0..missing {
                    shared.inject_check();
                }
            });
        }
    }

    /// Calls rayon's functions for the global pool, which mean the pool of the calling thread if it
    /// is a worker: in another thread, then.
    fn outside(self: &Arc<Self>, send: impl FnOnce(&Arc<Self>) + Send) {
        if self.pool.is_none() && rayon_core::current_thread_index().is_some() {
            // If there is no thread to be had, the next change sends checks.
            std::thread::scope(|scope| {
                let _ = std::thread::Builder::new().spawn_scoped(scope, || send(self));
            });
        } else {
            send(self);
        }
    }

    /// A check for each worker.
    fn broadcast(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let check = move |_: BroadcastContext<'_>| shared.check(Way::Broadcast);
        match &self.pool {
            Some(pool) => {
                let Some(pool) = pool.upgrade() else { return };
                self.queued.fetch_add(self.gate.workers(), Ordering::Relaxed);
                pool.spawn_broadcast(check);
            }
            None => {
                self.queued.fetch_add(self.gate.workers(), Ordering::Relaxed);
                rayon_core::spawn_broadcast(check);
            }
        }
    }

    /// Sends a check from outside, for the worker that comes first.
    fn inject_check(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        match &self.pool {
            Some(pool) => {
                let Some(pool) = pool.upgrade() else { return };
                self.queued.fetch_add(1, Ordering::Relaxed);
                pool.spawn(move || shared.check(Way::Spawned));
            }
            None => {
                self.queued.fetch_add(1, Ordering::Relaxed);
                rayon_core::spawn(move || shared.check(Way::Spawned));
            }
        }
    }

    /// A check in the calling worker's own deque.
    fn spawn_check(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.queued.fetch_add(1, Ordering::Relaxed);
        rayon_core::spawn(move || shared.check(Way::Spawned));
    }

    /// What a worker does that comes to a check.
    #[inline(never)]
    fn check(self: &Arc<Self>, way: Way) {
        let here = 0u8;
        let depth = BASE.get().wrapping_sub((&raw const here).addr());
        self.queued.fetch_sub(1, Ordering::Relaxed);
        if self.is_measuring(way, depth) || IS_PARKED.get() || !self.gate.try_park() {
            return;
        }
        // Relaxed: measured before any other code had the pool. A thread that rayon was lent, not
        // given, has no base, and is deep.
        let from_main_loop = depth <= self.depths[way as usize].load(Ordering::Relaxed) + ALIGNMENT;
        IS_PARKED.set(true);
        let goes_on = if from_main_loop { self.park() } else { self.park_for_a_slice() };
        IS_PARKED.set(false);
        if !goes_on {
            // By Invariant 1, and in this order: a check that came first would find no worker
            // missing.
            self.gate.step_out();
            self.spawn_check();
        }
    }

    /// Parks a worker that no thread waits for.
    fn park(self: &Arc<Self>) -> bool {
        // Relaxed, here and below: a thread that changes these nudges the gate afterwards, and the
        // look behind that sees it.
        let (broadcasting, broadcasts) = (&self.broadcasting, &self.broadcasts);
        loop {
            let seen = broadcasts.load(Ordering::Relaxed);
            let hurried = broadcasting.load(Ordering::Relaxed) > 0;
            // The deque is empty (Invariant 2), so what there is came by a broadcast.
            while rayon_core::yield_local() == Some(rayon_core::Yield::Executed) {}
            let look = if hurried { LOOK_HURRIED } else { Duration::from_millis(LOOK_MS) };
            let has_signal = || {
                broadcasts.load(Ordering::Relaxed) != seen
                    || !hurried && broadcasting.load(Ordering::Relaxed) > 0
            };
            if self.gate.stay_unless(Rank::Free, Some(look), has_signal) == Stay::Called {
                return true;
            }
        }
    }

    /// Parks a worker that waits for something below. Returns whether it was called.
    fn park_for_a_slice(self: &Arc<Self>) -> bool {
        let (last_ns, ended_ns) = SLICE.get();
        // If it had done anything since the last slice, it would be longer ago.
        let again = clock::now_ns().saturating_sub(ended_ns) < SLICE_NS_MIN / 4;
        let slice_ns = if again { (2 * last_ns).min(SLICE_NS_MAX) } else { SLICE_NS_MIN };
        let stay = self.gate.stay(Rank::Urgent, Some(Duration::from_nanos(slice_ns)));
        SLICE.set((slice_ns, clock::now_ns()));
        stay == Stay::Called
    }
}
