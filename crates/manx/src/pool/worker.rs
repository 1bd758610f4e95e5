//! A worker: it looks for a job, runs it, and looks again. Also the waits of its jobs.
//!
//! Between two jobs a worker asks, in this order: are too many workers active
//! ([`Workers::retire`](super::workers::Workers::retire))? does the quota pay for another job
//! ([`Pace`](super::pace::Pace))? which job is next ([`Queue::take`](super::queue::Queue::take))? A
//! worker that finds no job keeps looking for a few rounds, so that a job that comes then needs no
//! wake-up; then it parks.
//!
//! A job may wait: for other jobs of the pool ([`JoinHandle::join`](super::JoinHandle::join),
//! [`scope`](super::FriendlyPool::scope)) or for anything else ([`block_in_place`]). Then its
//! worker is not active, as the *waiters* of Jeffery and others ("Reducing tail latencies through
//! environment- and neighbour-aware thread management", section 2) are not. Another worker may be
//! active in its place, and the pool starts a thread for it if necessary. While the pool has spare
//! slots, none of these waits can keep the pool from going on. When the spare slots are used up, a
//! worker that waits for other jobs runs jobs meanwhile.

use super::error::drop_quietly;
use super::job::{Job, Priority};
use super::places::Place;
use super::queue::Local;
use super::shared::Shared;
use super::stats::Record;
use super::workers::Signal;
use platform::atomic::Ordering;
use platform::clock::{ns_to_ticks, ticks, ticks_to_ns};
use platform::{cpu, spin_bound, thread};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Rounds in which a worker that found nothing looks again before it parks: first it pauses …
const PAUSES: u32 = 8;
/// … and then it yields.
const YIELDS: u32 = 24;

/// For this time a slice counts as fresh: half of the shortest slice of the kernel.
const FRESH_NS: u64 = 500_000;
/// A yield that takes longer has let another thread run, with which the worker shares its CPU.
const SHARED_NS: u64 = 200_000;
/// The sleep of a worker after such a yield. At the end of the yield it is owed little time, and
/// would be interrupted as soon as it has got that. A sleeping thread keeps what it is owed, and
/// the other one gets ahead.
const REST_NS: u64 = 500_000;

/// The worker that runs on this thread, as its jobs see it.
pub(super) struct Current {
    pub(super) shared: Arc<Shared>,
    local: RefCell<Local>,
    pub(super) slot: usize,
    /// Whether the job says that it blocks.
    is_blocked: Cell<bool>,
    /// The number of jobs that run one inside another: the outer job waits for the inner one.
    depth: Cell<u32>,
    /// When the worker last began a job on a fresh slice.
    fresh_ticks: Cell<u64>,
    place: Place,
}

platform::thread_local! {
    static CURRENT: Cell<*const Current> = Cell::new(std::ptr::null());
    static SHEDDING: Cell<bool> = Cell::new(false);
}

/// Calls `look` with the worker that runs on the calling thread; with `None` on other threads.
pub(super) fn with_current_worker<R>(look: impl FnOnce(Option<&Current>) -> R) -> R {
    let current = CURRENT.try_with(Cell::get).unwrap_or(std::ptr::null());
    // SAFETY: not null only while `run` has the value on this thread's stack ([`CurrentGuard`]),
    // which waits for `look`.
    look(unsafe { current.as_ref() })
}

/// Sets `CURRENT` to a worker as long as the guard lives. The guard clears it when the worker ends,
/// and when it unwinds.
struct CurrentGuard;

impl CurrentGuard {
    fn new(current: *const Current) -> CurrentGuard {
        CURRENT.with(|it| it.set(current));
        CurrentGuard
    }
}

impl Drop for CurrentGuard {
    fn drop(&mut self) {
        CURRENT.with(|it| it.set(std::ptr::null()));
    }
}

/// Whether a job is being dropped by the calling thread because its deadline has passed.
pub(super) fn is_shedding() -> bool {
    SHEDDING.try_with(Cell::get).unwrap_or(false)
}

impl Current {
    /// Queues a job that a job of this worker made.
    pub(super) fn push(&self, job: Job, priority: Priority) {
        if priority == Priority::Normal {
            self.local.borrow().push(job);
        } else {
            self.shared.queue.count_more();
            self.shared.queue.push(job, priority);
        }
        self.shared.offer();
    }

    fn record(&self) -> &Record {
        self.shared.record(self.slot)
    }

    fn take(&self) -> Option<Job> {
        self.shared.queue.take(&mut self.local.borrow_mut())
    }

    /// Prepares for a job. Where threads outnumber CPUs, another thread will take this thread's CPU
    /// when its slice ends. If the slice is old, the worker moves to another CPU or yields now,
    /// between two jobs, and not in the middle of the next job. Returns the time at which the job
    /// begins.
    fn begin(&self) -> u64 {
        let now_ticks = ticks();
        if now_ticks.saturating_sub(self.fresh_ticks.get()) < ns_to_ticks(FRESH_NS) {
            return now_ticks;
        }
        let now_ticks = self.begin_afresh(now_ticks);
        self.fresh_ticks.set(now_ticks);
        now_ticks
    }

    fn begin_afresh(&self, now_ticks: u64) -> u64 {
        let (shared, places) = (&self.shared, &self.shared.places);
        if !shared.steering.should_yield(now_ticks) {
            self.place.note(places);
            self.place.begin(None);
            return now_ticks;
        }
        let waited_ns = || shared.waited_ns(self.slot);
        self.place.settle(places, shared.workers.active() > 1, waited_ns, now_ticks);
        let yielded_ticks = ticks();
        thread::yield_now();
        let is_shared = ticks().saturating_sub(yielded_ticks) > ns_to_ticks(SHARED_NS);
        if is_shared && shared.steering.may_rest.load(Ordering::Relaxed) {
            thread::sleep_ns(REST_NS);
        }
        self.place.begin(waited_ns());
        ticks()
    }

    /// Runs a job inside another job, which perhaps waits for this one.
    fn run_inside(&self, job: Job) {
        let _active = Blocked::not(self);
        self.depth.set(self.depth.get() + 1);
        self.run(job);
        self.depth.set(self.depth.get() - 1);
    }

    /// Runs a job, or drops the job if its deadline has passed.
    fn run(&self, job: Job) {
        let began_ticks = self.begin();
        if job.is_late(began_ticks) {
            self.record().late();
            shed(job);
            return;
        }
        let Job { run, queued_ticks, .. } = job;
        if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
            self.record().panicked();
            self.shared.hooks.report(payload);
        }
        let ended_ticks = ticks();
        let queue_ns = ticks_to_ns(began_ticks.saturating_sub(queued_ticks));
        self.record().record(queue_ns, ticks_to_ns(ended_ticks.saturating_sub(began_ticks)));
        // Now and then the control thread reads the budget, also if all goes well.
        if self.shared.steering.is_budget_old(ended_ticks) {
            self.shared.wake_control();
        }
    }
}

/// Drops a job whose deadline has passed.
fn shed(job: Job) {
    SHEDDING.with(|shedding| shedding.set(true));
    // What a closure holds may panic when it is dropped.
    drop_quietly(job);
    SHEDDING.with(|shedding| shedding.set(false));
}

/// A worker's life. It has been called: it is active, and searching.
pub(super) fn run(shared: Arc<Shared>, slot: usize) {
    let local = RefCell::new(shared.queue.local(slot));
    let current = Current {
        shared,
        local,
        slot,
        is_blocked: Cell::new(false),
        depth: Cell::new(0),
        fresh_ticks: Cell::new(0),
        place: Place::default(),
    };
    let guard = CurrentGuard::new(&raw const current);
    let shared = &current.shared;
    shared.record(slot);
    shared.show_pressure(slot);
    shared.share_affinity(slot);
    // Behind `share_affinity`, since the handler may bind the thread to a CPU.
    shared.hooks.started(slot);
    loop {
        let Some(job) = search(&current) else {
            match park(&current) {
                Signal::Search => continue,
                Signal::Exit => break,
            }
        };
        if shared.workers.found() && !shared.queue.is_empty() {
            shared.offer();
        }
        let mut next = Some(job);
        let mut signal = None;
        while let Some(job) = next {
            current.run(job);
            if shared.workers.retire(slot, shared.bound()) {
                signal = Some(park_now(&current));
                break;
            }
            shared.wait_for_turn();
            next = current.take();
        }
        match signal {
            None => shared.workers.search(),
            Some(Signal::Search) => {}
            Some(Signal::Exit) => break,
        }
    }
    drop(guard);
}

/// Looks for a job for a while.
fn search(current: &Current) -> Option<Job> {
    crate::cpu::refresh_if_old();
    for round in 0..=spin_bound(PAUSES + YIELDS) {
        if !current.shared.queue.is_empty() {
            current.shared.wait_for_turn();
            if let Some(job) = current.take() {
                return Some(job);
            }
        }
        if crate::cpu::short_of_cpus() {
            return None;
        }
        if round < PAUSES {
            cpu::pause();
        } else {
            thread::yield_now();
        }
    }
    None
}

/// Parks the worker after a search in vain.
fn park(current: &Current) -> Signal {
    current.shared.workers.rest(current.slot);
    park_now(current)
}

/// Looks for jobs a last time (Invariant 3 of `workers.rs`), and then sleeps.
fn park_now(current: &Current) -> Signal {
    let shared = &current.shared;
    current.place.leave(&shared.places);
    if !shared.queue.is_empty() {
        shared.offer();
    }
    match shared.workers.wait(current.slot) {
        // A thread queued a job while the pool was being closed, and all other workers may have
        // left.
        Signal::Exit if !shared.queue.is_empty() && shared.workers.stay(shared.bound()) => Signal::Search,
        signal => signal,
    }
}

/// Runs `block`, which may wait for something other than a job of this pool: a lock, a file, a
/// socket, a timer. Meanwhile another worker may be active in place of this one. In a thread that
/// is no worker of a pool, this only runs `block`.
///
/// ```
/// use manx::pool::{FriendlyPool, block_in_place};
/// use std::sync::mpsc;
///
/// // One worker; yet a job can wait for another one.
/// let pool = FriendlyPool::builder().num_threads(1).build()?;
/// let (tell, hear) = mpsc::channel();
/// let first = pool.submit(move || block_in_place(|| hear.recv()))?;
/// pool.execute(move || tell.send("hello").unwrap())?;
/// assert_eq!(first.join()?, Ok("hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn block_in_place<R>(block: impl FnOnce() -> R) -> R {
    with_current_worker(|current| match current {
        None => block(),
        Some(current) => {
            let _blocked = Blocked::new(current);
            block()
        }
    })
}

/// Marks the current worker as blocked, or as not blocked, until this value is dropped. Then the
/// old mark is back.
struct Blocked<'a> {
    current: &'a Current,
    was_blocked: bool,
}

impl<'a> Blocked<'a> {
    fn new(current: &'a Current) -> Blocked<'a> {
        Blocked { current, was_blocked: set_blocked(current, true) }
    }

    /// The opposite: a job that waits runs another job itself.
    fn not(current: &'a Current) -> Blocked<'a> {
        Blocked { current, was_blocked: set_blocked(current, false) }
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        set_blocked(self.current, self.was_blocked);
    }
}

/// Marks the current worker as blocked or not. Blocking lets another worker be active in its place,
/// and calls one if jobs are queued. After unblocking, more workers than the target may be active
/// for a short time. Returns the old mark, for `Blocked` to restore.
fn set_blocked(current: &Current, blocked: bool) -> bool {
    let was_blocked = current.is_blocked.replace(blocked);
    let shared = &current.shared;
    match (was_blocked, blocked) {
        (false, true) => {
            shared.workers.block();
            // Jobs are queued already: another worker must take over.
            if !shared.queue.is_empty() {
                shared.offer();
            }
        }
        (true, false) => shared.workers.unblock(),
        // Already so.
        (true, true) | (false, false) => {}
    }
    was_blocked
}

/// What a worker does first when one of its jobs waits for other jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Help {
    /// It runs the jobs that it has queued itself: most likely its job waits for these.
    First,
    /// It blocks at once.
    Last,
}

/// The maximum number of jobs that run one inside another. At this depth a worker that waits
/// blocks, if another worker can be active in its place.
const DEPTH_MAX: u32 = 32;
/// A worker that blocks looks after this time whether other workers run the queued jobs: at first …
const BLOCK_NS: u64 = 5_000_000;
/// … and at most.
const BLOCK_NS_MAX: u64 = 100_000_000;

/// Waits for other jobs. `is_done` says whether they are done; `block` waits for that, for at most
/// the given number of nanoseconds, and returns whether they are. A worker first runs the jobs that
/// it has queued itself, and then blocks; if no other worker can be active in its place, it runs
/// any job.
pub(super) fn wait_until(help: Help, mut is_done: impl FnMut() -> bool, mut block: impl FnMut(u64) -> bool) {
    with_current_worker(|current| {
        let Some(current) = current else {
            while !is_done() {
                block(u64::MAX);
            }
            return;
        };
        let shared = &current.shared;
        let mut block_ns = BLOCK_NS;
        while !is_done() {
            let has_spare = shared.workers.has_spare();
            let may_help = help == Help::First && current.depth.get() < DEPTH_MAX;
            let own = if may_help || !has_spare { current.local.borrow().pop() } else { None };
            if let Some(job) = own {
                current.run_inside(job);
                continue;
            }
            if has_spare {
                let _blocked = Blocked::new(current);
                if block(block_ns) {
                    continue;
                }
                block_ns = (block_ns * 2).min(BLOCK_NS_MAX);
            } else {
                block(BLOCK_NS / 25);
            }
            // No worker runs the queued jobs: spare slots are used up, or the system has no more
            // threads.
            if !shared.queue.is_empty() && (!has_spare || shared.workers.active() < shared.workers.target()) {
                let next = current.take();
                if let Some(job) = next {
                    current.run_inside(job);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_unwinds_clears_the_current_worker() {
        let current = std::ptr::dangling::<Current>();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _guard = CurrentGuard::new(current);
            assert_eq!(CURRENT.get(), current);
            panic!("in the worker");
        }));
        assert!(panic.is_err() && CURRENT.get().is_null());
    }
}
