//! What the workers, the control and the handles of a pool share, and how it ends.
//!
//! Invariants:
//! 1. `alive` counts the workers that have been started and have not ended. The last one to end
//!    does what is still queued. A worker calls the exit handler only after that, so that all jobs
//!    of its thread are done.
//! 2. A job that was queued is begun, or dropped by the thread that shuts the pool down, also if
//!    the two race: a thread that queues looks at `stage` afterwards, and a worker that ends looks
//!    at the queue after it has left `alive`. Each has a sequentially consistent fence in between,
//!    so one of them sees the other.
//! 3. `stage` only goes up.
//! 4. Once a thread has seen the end of all threads ([`ENDED`]), none is started any more. A job
//!    that is queued later passed [`Shared::admits`] before the pool was closed: the thread that
//!    queues it drops it.

use super::control::Steering;
use super::error::{ExecuteError, drop_quietly};
use super::hooks::Hooks;
use super::job::{Job, Priority};
use super::pace::Pace;
use super::places::Places;
use super::queue::Queue;
use super::stats::{self, Latencies, Record, Stats};
use super::workers::{Call, Workers};
use crate::cpu::{ShortageKeeper, ThreadPressure, keep_shortage};
use crate::lock::Mutex;
use platform::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use platform::clock::{duration_ns, ticks};
use platform::futex::{self, Deadline};
use platform::thread::JoinHandle;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// Takes jobs.
const OPEN: u8 = 0;
/// Takes no jobs, but does the queued ones.
const DRAINING: u8 = 1;
/// Takes no jobs, and drops the queued ones.
const DISCARDING: u8 = 2;
/// What `alive` is after the end.
const ENDED: u32 = u32::MAX;

/// How a pool is shut down.
///
/// ```
/// use manx::pool::{FriendlyPool, Shutdown};
/// use std::time::Duration;
///
/// let pool = FriendlyPool::builder().build()?;
/// let answer = pool.submit(|| 42)?;
/// pool.shutdown(Shutdown::Drain, Duration::from_secs(60))?;
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// Queued jobs are run first.
    Drain,
    /// Queued jobs are dropped. A thread that waits for one gets
    /// [`JoinError::Discarded`](super::JoinError::Discarded). The tasks of a
    /// [`scope`](super::FriendlyPool::scope) are run nevertheless, since they borrow from the stack
    /// of a waiting thread.
    Discard,
}

/// By slot: what its worker is known by, once it is started.
#[derive(Default)]
pub(super) struct Slot {
    record: OnceLock<Box<Record>>,
    pressure: OnceLock<Option<ThreadPressure>>,
}

/// What the pool's threads run. The builder names both, so that what the threads share lies below
/// them.
pub(super) struct Entries {
    /// The worker of a slot.
    pub(super) worker: fn(Arc<Shared>, usize),
    /// The control thread.
    pub(super) control: fn(&Arc<Shared>),
}

pub(super) struct Shared {
    pub(super) name: String,
    pub(super) workers: Workers,
    pub(super) queue: Queue,
    pub(super) pace: Pace,
    pub(super) places: Places,
    pub(super) steering: Steering,
    pub(super) hooks: Hooks,
    stack_size: usize,
    generation: u32,
    entries: Entries,
    slots: Box<[Slot]>,
    stage: AtomicU8,
    alive: AtomicU32,
    /// Where the thread that made the pool might run then, and so where its first worker may until
    /// it is moved.
    built_where: platform::cpu::Mask,
    /// The kernel's number of the first worker; 0 while it has not run.
    first_thread: AtomicU32,
    threads: Mutex<Vec<JoinHandle<()>>>,
    threads_refused: AtomicU64,
    /// While there is the pool, waiters know whether CPUs are short.
    _keeper: Option<ShortageKeeper>,
}

/// What a pool is made of.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) slots: usize,
    pub(super) queue_capacity: usize,
    pub(super) stack_size: usize,
    pub(super) steering: Steering,
    pub(super) hooks: Hooks,
    pub(super) entries: Entries,
}

impl Shared {
    pub(super) fn new(parts: Parts) -> Arc<Shared> {
        platform::clock::init();
        platform::fork::watch();
        let Parts { name, slots, queue_capacity, stack_size, steering, hooks, entries } = parts;
        let built_where = platform::cpu::allowed();
        let keeper = steering.is_by_pressure().then(keep_shortage);
        Arc::new(Shared {
            name,
            workers: Workers::new(slots, steering.limit()),
            queue: Queue::new(slots, queue_capacity),
            pace: Pace::default(),
            places: Places::new(&built_where),
            steering,
            hooks,
            stack_size,
            generation: platform::fork::generation(),
            entries,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            stage: AtomicU8::new(OPEN),
            alive: AtomicU32::new(0),
            built_where,
            first_thread: AtomicU32::new(0),
            threads: Mutex::new(Vec::new()),
            threads_refused: AtomicU64::new(0),
            _keeper: keeper,
        })
    }

    /// Starts the first worker, so that a pool without any is known at once.
    pub(super) fn first_worker(self: &Arc<Shared>) -> std::io::Result<()> {
        self.answer(self.workers.offer(1))
    }

    pub(super) fn is_forked(&self) -> bool {
        self.generation != platform::fork::generation()
    }

    pub(super) fn is_open(&self) -> bool {
        self.stage.load(Ordering::Relaxed) == OPEN
    }

    /// Whether a job may be queued; one of the pool's own may until everything is done.
    pub(super) fn admits(&self, from_inside: bool) -> Result<(), ExecuteError> {
        match self.stage.load(Ordering::Relaxed) {
            _ if self.is_forked() => Err(ExecuteError::Forked),
            OPEN => Ok(()),
            DRAINING if from_inside => Ok(()),
            _ => Err(ExecuteError::Closed),
        }
    }

    /// Queues a job from outside, for which room was reserved, and sees that a thread comes to it.
    pub(super) fn push(self: &Arc<Shared>, job: Job, priority: Priority) {
        self.queue.push(job, priority);
        self.offer();
        // After the fence in `offer`: Invariant 2.
        if !self.is_open() && self.has_no_worker() {
            self.finish_queue();
        }
    }

    fn has_no_worker(&self) -> bool {
        matches!(self.alive.load(Ordering::Relaxed), 0 | ENDED)
    }

    /// A job has been queued: calls a worker, if one may be called.
    #[inline]
    pub(super) fn offer(self: &Arc<Shared>) {
        let call = self.workers.offer_of(self.workers.target(), self.queue.waiting());
        match call {
            Call::Needless => {}
            Call::Enough => self.offer_more(),
            Call::Woken | Call::Start(_) => drop(self.answer(call)),
        }
    }

    /// All workers that are to be active are: another one is called if a CPU is idle, and the
    /// control learns that there is more to do than is being done.
    fn offer_more(self: &Arc<Shared>) {
        if self.workers.active() < self.steering.limit() && self.steering.take_idle_cpu(ticks()) {
            let _ = self.answer(self.workers.offer(self.steering.limit()));
        }
        self.wake_control();
    }

    /// There is more to do than is being done: the control thread is to decide about that.
    #[inline]
    pub(super) fn wake_control(self: &Arc<Shared>) {
        self.steering.wake(|| {
            let name = format!("{}-control", self.name);
            self.start(&name, CONTROL_STACK_SIZE, |shared| (shared.entries.control)(&shared))
        });
    }

    /// Jobs are queued: calls workers until as many are active as are to be.
    pub(super) fn offer_if_few(self: &Arc<Shared>) {
        for _ in 0..self.steering.limit() {
            let call = self.workers.offer(self.workers.target());
            if matches!(call, Call::Needless | Call::Enough) || self.answer(call).is_err() {
                return;
            }
        }
    }

    /// How many may be active now: the target, or more while CPUs are idle.
    #[inline]
    pub(super) fn bound(&self) -> u32 {
        let target = self.workers.target();
        if self.workers.active() <= target || !self.steering.is_cpu_idle(ticks()) {
            target
        } else {
            self.steering.limit()
        }
    }

    /// Waits until the quota, if there is one, pays for another job.
    #[inline]
    pub(super) fn wait_for_turn(&self) {
        let is_needless = || self.queue.is_empty() || self.stage.load(Ordering::Relaxed) == DISCARDING;
        self.pace.wait_for_turn(|| self.steering.is_cpu_idle(ticks()), is_needless);
    }

    fn answer(self: &Arc<Shared>, call: Call) -> std::io::Result<()> {
        let Call::Start(slot) = call else { return Ok(()) };
        if self.is_forked() {
            return Ok(());
        }
        let one_more = |alive| (alive != ENDED).then(|| alive + 1);
        if self.alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            // Invariant 4.
            self.workers.start_failed(slot);
            return Ok(());
        }
        let name = self.hooks.name_thread(slot).unwrap_or_else(|| format!("{}-{slot}", self.name));
        let started = self.start(&name, self.stack_size, move |shared| {
            (shared.entries.worker)(shared.clone(), slot);
            shared.end();
            // Behind `end`, which may do jobs in this thread.
            shared.hooks.exited(slot);
        });
        if started.is_err() {
            self.threads_refused.fetch_add(1, Ordering::Relaxed);
            self.workers.start_failed(slot);
            self.end();
            // A worker that parked meanwhile relied on the worker that is not to be had.
            fence(Ordering::SeqCst);
            if self.workers.has_parked() && !self.queue.is_empty() {
                let _ = self.answer(self.workers.offer(self.workers.target()));
            }
        }
        started
    }

    /// Starts a thread of the pool's.
    pub(super) fn start(
        self: &Arc<Shared>,
        name: &str,
        stack_size: usize,
        run: impl FnOnce(Arc<Shared>) + Send + 'static,
    ) -> std::io::Result<()> {
        let shared = self.clone();
        let thread = platform::thread::spawn_named(name, stack_size, move || run(shared))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// A worker has ended, or was not to be had.
    fn end(self: &Arc<Shared>) {
        // Release: a thread that waits for the end, with acquire, sees what the thread did.
        if self.alive.fetch_sub(1, Ordering::Release) > 1 {
            return;
        }
        // Pairs with the fence of `offer`: Invariant 2.
        fence(Ordering::SeqCst);
        if !self.is_open() {
            self.finish_queue();
            futex::wake_all(&self.alive);
        }
    }

    /// Does what is queued, or drops it, in the calling thread: there is no worker left.
    fn finish_queue(&self) {
        while let Some(job) = self.queue.take_any() {
            let is_wanted = self.stage.load(Ordering::Relaxed) == DRAINING
                && self.alive.load(Ordering::Relaxed) != ENDED
                && !job.is_late(ticks());
            if !is_wanted && !job.is_scoped {
                drop_quietly(job);
            } else if let Err(payload) = catch_unwind(AssertUnwindSafe(job.run)) {
                drop_quietly(payload);
            }
        }
    }

    /// Takes no more jobs, and lets the workers end.
    pub(super) fn close(self: &Arc<Shared>, how: Shutdown) {
        let stage = if how == Shutdown::Drain { DRAINING } else { DISCARDING };
        self.stage.fetch_max(stage, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if how == Shutdown::Discard {
            let (scoped, dropped): (Vec<_>, Vec<_>) =
                std::iter::from_fn(|| self.queue.take_any()).partition(|job| job.is_scoped);
            for job in scoped {
                self.queue.count_more();
                self.queue.push(job, Priority::Normal);
                self.offer();
            }
            dropped.into_iter().for_each(drop_quietly);
        }
        self.workers.close();
        self.queue.wake_submitters();
        self.steering.stop();
        if self.has_no_worker() {
            self.finish_queue();
        }
    }

    /// Waits until all threads have ended, until `deadline` at most; returns how many have not.
    pub(super) fn wait_for_end(&self, deadline: Option<Deadline>) -> u32 {
        loop {
            // Acquire: pairs with the release in `end`.
            let alive = match self.alive.compare_exchange(0, ENDED, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) | Err(ENDED) => break,
                Err(alive) => alive,
            };
            match deadline.map(Deadline::remaining_ns) {
                Some(0) => return alive,
                Some(left_ns) => futex::wait_for(&self.alive, alive, left_ns.min(END_NS)),
                None => futex::wait_for(&self.alive, alive, END_NS),
            };
        }
        self.steering.release();
        let threads = std::mem::take(&mut *self.threads.lock());
        let mut left = Vec::new();
        // A handler of the program's that waits for the end does not wait for its own thread.
        for thread in threads.into_iter().filter(|thread| !platform::thread::is_current(thread)) {
            // It has hardly anything to do any more, but that may be anything: what is queued late,
            // the exit handler, or destructors of its variables.
            while !thread.is_finished() && deadline.is_none_or(|deadline| deadline.remaining_ns() > 0) {
                platform::thread::sleep_ns(LAST_NS);
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                left.push(thread);
            }
        }
        let count = left.len() as u32;
        self.threads.lock().append(&mut left);
        count
    }

    /// The calling thread is the worker of this slot. It was started by the thread that queued a
    /// job, and that thread may be bound to some CPU: a worker runs where the first one runs.
    pub(super) fn share_affinity(&self, slot: usize) {
        if slot == 0 {
            self.first_thread.store(platform::thread::id(), Ordering::Relaxed);
            return;
        }
        match self.first_thread.load(Ordering::Relaxed) {
            0 => _ = platform::cpu::bind(&self.built_where),
            first => platform::cpu::join_affinity_of(first),
        }
    }

    /// The record of the worker of this slot.
    pub(super) fn record(&self, slot: usize) -> &Record {
        self.slots[slot].record.get_or_init(Box::default)
    }

    /// The calling thread is the worker of this slot: from now on others can see how long it waits
    /// for a CPU.
    pub(super) fn show_pressure(&self, slot: usize) {
        self.slots[slot].pressure.get_or_init(ThreadPressure::of_this_thread);
    }

    /// For how long the worker of this slot has waited for a CPU, as far as the kernel says.
    pub(super) fn waited_ns(&self, slot: usize) -> Option<u64> {
        Some(duration_ns(self.slots[slot].pressure.get()?.as_ref()?.times()?.wait_time))
    }

    /// By slot, what the scheduler did for the workers that are started.
    pub(super) fn pressures(&self) -> impl Iterator<Item = (usize, &ThreadPressure)> {
        // Slots are started in order (Invariant 5 of `workers.rs`).
        let started = self.slots.iter().take_while(|it| it.record.get().is_some()).enumerate();
        started.filter_map(|(slot, it)| Some((slot, it.pressure.get()?.as_ref()?)))
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.slots.iter().filter_map(|slot| Some(&**slot.record.get()?))
    }

    pub(super) fn latencies(&self) -> Latencies {
        stats::latencies(self.records())
    }

    pub(super) fn stats(&self) -> Stats {
        let records: Vec<&Record> = self.records().collect();
        let (active, blocked) = (self.workers.active(), self.workers.blocked());
        let mut stats = stats::sum(records.iter().copied());
        stats.queued = self.queue.len();
        (stats.active, stats.blocked) = (active, blocked);
        stats.parked = (records.len() as u32).saturating_sub(active + blocked);
        (stats.target, stats.limit) = (self.workers.target(), self.steering.limit());
        stats.paced = self.pace.sleeps();
        stats.threads_refused = self.threads_refused.load(Ordering::Relaxed);
        stats.budget_cpus = self.steering.budget_cpus();
        stats.decisions = self.steering.decisions.load(Ordering::Relaxed);
        stats.last = self.steering.last.lock().clone();
        stats
    }
}

/// A waiter for a thread's last steps looks again after this time.
const LAST_NS: u64 = 20_000;
/// A waiter for the end looks again after this time: the last thread wakes it, unless it was the
/// only one.
const END_NS: u64 = 10_000_000;
/// Enough for reading a few files.
const CONTROL_STACK_SIZE: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::super::FriendlyPool;
    use super::super::job::NEVER;
    use super::*;

    /// A thread that queues a job is stopped between its look at the pool and the queue, and the
    /// pool ends meanwhile.
    #[test]
    fn a_job_that_is_queued_after_the_end_is_dropped_and_starts_no_thread() {
        let pool = FriendlyPool::builder().build().unwrap();
        let shared = pool.shared.clone();
        shared.admits(false).unwrap();
        assert!(shared.queue.reserve());
        pool.shutdown(Shutdown::Drain, testing::LONG).unwrap();
        let kept = Arc::new(());
        let of_job = kept.clone();
        let run = Box::new(move || panic!("it runs with {of_job:?}"));
        shared.push(
            Job { run, queued_ticks: ticks(), deadline_ticks: NEVER, is_scoped: false },
            Priority::Normal,
        );
        assert_eq!((Arc::strong_count(&kept), shared.threads.lock().len()), (1, 0));
        // It has ended all the same.
        pool.shutdown(Shutdown::Discard, testing::LONG).unwrap();
    }
}
