//! A worker: looks for a job, does it, and looks again; and what its jobs may ask of it.
//!
//! Between two jobs a worker asks, in this order: are too many active ([`Workers::retire`])? does
//! the quota pay for another job ([`Pace`](super::pace::Pace))? what is to be done
//! ([`Queue::take`](super::queue::Queue::take))? A worker that finds nothing looks on for a few
//! rounds, in which the next job needs no wake-up, and parks.
//!
//! A job may wait: for other jobs of the pool ([`JoinHandle::join`](super::JoinHandle::join),
//! [`scope`](super::FriendlyPool::scope)) or for anything else ([`block_in_place`]). Then its
//! worker is not active, as the *waiters* of the paper (section 2) are not, and another one may be,
//! which is started for it if need be. While its worker has spare slots none of these waits can
//! keep the pool from going on; when they are used up, a worker that waits for other jobs does jobs
//! meanwhile.

use super::workers::Signal;
use super::error::{drop_quietly, panic_text};
use super::job::{Job, Priority};
use super::queue::Local;
use super::shared::Shared;
use super::stats::Record;
use platform::clock::{ns_to_ticks, ticks, ticks_to_ns};
use platform::{cpu, spin_bound, thread};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Rounds in which a worker that found nothing looks again before it parks: first it pauses …
const PAUSES: u32 = 8;
/// … and then it yields.
const YIELDS: u32 = 24;

/// A slice is as good as fresh for so long: a half of the shortest that the kernel gives.
const FRESH_NS: u64 = 500_000;

/// What a worker's jobs find of it.
pub(super) struct Here {
    pub(super) shared: Arc<Shared>,
    local: RefCell<Local>,
    pub(super) slot: usize,
    /// Whether the job says that it blocks.
    is_blocked: Cell<bool>,
    /// Jobs that are done inside of jobs that wait for them, one in another.
    depth: Cell<u32>,
    /// When the worker last began a job on a fresh slice.
    fresh_ticks: Cell<u64>,
}

std::thread_local! {
    static HERE: Cell<*const Here> = const { Cell::new(std::ptr::null()) };
    static SHEDDING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `look` with the worker that the calling thread is, if it is one.
pub(super) fn with_here<R>(look: impl FnOnce(Option<&Here>) -> R) -> R {
    let here = HERE.try_with(Cell::get).unwrap_or(std::ptr::null());
    // SAFETY: not null only while `run` has the value on this thread's stack ([`Present`]), which
    // waits for `look`.
    look(unsafe { here.as_ref() })
}

/// The calling thread is the worker that this was made of, until it is dropped: when the worker
/// ends, and when it unwinds.
struct Present;

impl Present {
    fn new(here: *const Here) -> Present {
        HERE.set(here);
        Present
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        HERE.set(std::ptr::null());
    }
}

/// Whether a job is being dropped by the calling thread because its deadline has passed.
pub(super) fn is_shedding() -> bool {
    SHEDDING.try_with(Cell::get).unwrap_or(false)
}

impl Here {
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

    /// Before a job: where threads outnumber CPUs another thread will take this one's CPU when its
    /// slice ends. Then let that be now, between two jobs, and not in the middle of the next one.
    /// Returns the time at which the job begins.
    fn begin(&self) -> u64 {
        let now_ticks = ticks();
        if now_ticks.saturating_sub(self.fresh_ticks.get()) < ns_to_ticks(FRESH_NS) {
            return now_ticks;
        }
        self.fresh_ticks.set(now_ticks);
        if !self.shared.steering.gives_way(now_ticks) {
            return now_ticks;
        }
        thread::yield_now();
        let now_ticks = ticks();
        self.fresh_ticks.set(now_ticks);
        now_ticks
    }

    /// Does a job inside of another job, which perhaps waits for it.
    fn run_inside(&self, job: Job) {
        let _active = Blocked::not(self);
        self.depth.set(self.depth.get() + 1);
        self.run(job);
        self.depth.set(self.depth.get() - 1);
    }

    /// Does a job, or drops it if it is too late.
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
            if let Some(report) = &self.shared.report
                // A report that panics itself is not reported.
                && let Err(own) = catch_unwind(AssertUnwindSafe(|| report(panic_text(&*payload))))
            {
                drop_quietly(own);
            }
            drop_quietly(payload);
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
    let here = Here {
        shared,
        local,
        slot,
        is_blocked: Cell::new(false),
        depth: Cell::new(0),
        fresh_ticks: Cell::new(0),
    };
    let present = Present::new(&raw const here);
    let shared = &here.shared;
    shared.record(slot);
    shared.show_pressure(slot);
    shared.share_affinity(slot);
    loop {
        let Some(job) = search(&here) else {
            match park(&here) {
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
            here.run(job);
            if shared.workers.retire(slot, shared.bound()) {
                signal = Some(park_now(&here));
                break;
            }
            shared.wait_for_turn();
            next = here.take();
        }
        match signal {
            None => shared.workers.search(),
            Some(Signal::Search) => {}
            Some(Signal::Exit) => break,
        }
    }
    drop(present);
}

/// Looks for a job for a while.
fn search(here: &Here) -> Option<Job> {
    crate::cpu::refresh_if_old();
    for round in 0..=spin_bound(PAUSES + YIELDS) {
        if !here.shared.queue.is_empty() {
            here.shared.wait_for_turn();
            if let Some(job) = here.take() {
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

/// Found nothing: parks.
fn park(here: &Here) -> Signal {
    here.shared.workers.rest(here.slot);
    park_now(here)
}

/// The last look of Invariant 3 of `workers.rs`, and then sleep.
fn park_now(here: &Here) -> Signal {
    let shared = &here.shared;
    if !shared.queue.is_empty() {
        shared.offer();
    }
    match shared.workers.wait(here.slot) {
        // A thread queued a job while the pool was being closed, and all other workers may have
        // left.
        Signal::Exit if !shared.queue.is_empty() && shared.workers.stay(shared.bound()) => Signal::Search,
        signal => signal,
    }
}

/// Runs `block`, which may wait for something that is no job of this pool: a lock, a file, a
/// socket, a timer. Meanwhile the worker is not active, and another one may be. In a thread that is
/// no worker this just runs it.
///
/// ```
/// use manx::pool::{FriendlyPool, block_in_place};
/// use std::sync::mpsc;
///
/// // One worker; yet a job can wait for another one.
/// let pool = FriendlyPool::builder().workers_max(1).build()?;
/// let (tell, hear) = mpsc::channel();
/// let first = pool.submit(move || block_in_place(|| hear.recv()))?;
/// pool.execute(move || tell.send("hello").unwrap())?;
/// assert_eq!(first.join()?, Ok("hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn block_in_place<R>(block: impl FnOnce() -> R) -> R {
    with_here(|here| match here {
        None => block(),
        Some(here) => {
            let _blocked = Blocked::new(here);
            block()
        }
    })
}

/// A worker that is not active, because its job waits: until this is dropped. In a job that is so
/// already it changes nothing.
struct Blocked<'a> {
    here: &'a Here,
    was: bool,
}

impl<'a> Blocked<'a> {
    fn new(here: &'a Here) -> Blocked<'a> {
        Blocked { here, was: set_blocked(here, true) }
    }

    /// The other way round: a job that waits does something itself.
    fn not(here: &'a Here) -> Blocked<'a> {
        Blocked { here, was: set_blocked(here, false) }
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        set_blocked(self.here, self.was);
    }
}

/// Returns what it was before.
fn set_blocked(here: &Here, blocked: bool) -> bool {
    let was = here.is_blocked.replace(blocked);
    let shared = &here.shared;
    match (was, blocked) {
        (false, true) => {
            shared.workers.block();
            if !shared.queue.is_empty() {
                shared.offer();
            }
        }
        (true, false) => shared.workers.unblock(),
        _ => {}
    }
    was
}

/// What a worker that waits for jobs does first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Help {
    /// What it has queued itself, which is what its job waits for most likely.
    First,
    /// It blocks at once.
    Last,
}

/// The maximum number of jobs that are done one inside another; then a worker that waits blocks, if
/// another one can stand in.
const DEPTH_MAX: u32 = 32;
/// A worker that blocks looks after this time whether another one does what it waits for: at
/// first …
const BLOCK_NS: u64 = 5_000_000;
/// … and at most.
const BLOCK_NS_MAX: u64 = 100_000_000;

/// Waits for other jobs: `is_done` says whether they are, and `block` waits for so long at most
/// until they are. A worker that has done what it has queued itself blocks; if no other worker can
/// be active in its place, it does any job.
pub(super) fn wait_until(help: Help, mut is_done: impl FnMut() -> bool, mut block: impl FnMut(u64) -> bool) {
    with_here(|here| {
        let Some(here) = here else {
            while !is_done() {
                block(u64::MAX);
            }
            return;
        };
        let shared = &here.shared;
        let mut block_ns = BLOCK_NS;
        while !is_done() {
            let has_spare = shared.workers.has_spare();
            let may_help = help == Help::First && here.depth.get() < DEPTH_MAX;
            let own = if may_help || !has_spare { here.local.borrow().pop() } else { None };
            if let Some(job) = own {
                here.run_inside(job);
                continue;
            }
            if has_spare {
                let _blocked = Blocked::new(here);
                if block(block_ns) {
                    continue;
                }
                block_ns = (block_ns * 2).min(BLOCK_NS_MAX);
            } else {
                block(BLOCK_NS / 25);
            }
            // No worker does what is queued: stand-ins are used up, or the system has no more
            // threads.
            if !shared.queue.is_empty() && (!has_spare || shared.workers.active() < shared.workers.target()) {
                let next = here.take();
                if let Some(job) = next {
                    here.run_inside(job);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_unwinds_leaves_no_trace_of_itself() {
        let here = std::ptr::dangling::<Here>();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _present = Present::new(here);
            assert_eq!(HERE.get(), here);
            panic!("in the worker");
        }));
        assert!(panic.is_err() && HERE.get().is_null());
    }
}
