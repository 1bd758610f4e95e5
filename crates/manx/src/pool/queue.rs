//! What is to be done: a queue for each priority, and one for each worker.
//!
//! Jobs from outside go to the queue of their priority. What a job itself queues, with normal
//! priority, goes to its worker's own queue, where it costs next to nothing; an idle worker steals
//! it there. All are the work-stealing queues of crossbeam-deque, first in, first out, because a
//! tail is made by the job that came first and was served last.
//!
//! The order in which a worker looks: urgent jobs, its own, normal ones, those of other workers,
//! and what has time. So that none of these starves another, one look in [`FAIR`] begins with
//! another place, each in its turn.
//!
//! The bound is on jobs from outside. A job may always queue another one, because it could not wait
//! for room: the room may be what it is in.
//!
//! Invariants:
//! 1. `outside` is at least the number of jobs in the queues by priority: it is raised before a job
//!    is queued, and lowered after one is taken. A thread that comes from outside raises it up to
//!    `bound` only.
//! 2. A thread that takes a job from outside tells the threads that wait for room.

use super::job::{Job, Priority};
use crate::wait::{Event, Policy};
use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use platform::atomic::{AtomicUsize, Ordering};
use platform::futex::Deadline;
use std::sync::OnceLock;
use std::time::Duration;

/// One look in this number of looks begins with another place than urgent jobs.
const FAIR: u32 = 61;

/// Where jobs are.
#[derive(Clone, Copy)]
enum Place {
    Outside(Priority),
    Own,
    Others,
}

/// In the order in which a worker looks.
const PLACES: [Place; 5] = [
    Place::Outside(Priority::High),
    Place::Own,
    Place::Outside(Priority::Normal),
    Place::Others,
    Place::Outside(Priority::Low),
];

/// The jobs of a pool.
pub(super) struct Queue {
    by_priority: [Injector<Job>; 3],
    /// By slot, from the moment on when the slot's worker is started.
    of_workers: Box<[OnceLock<Stealer<Job>>]>,
    /// All slots from here on have no worker yet.
    started: AtomicUsize,
    outside: AtomicUsize,
    bound: usize,
    room: Event,
}

/// A worker's own part of the queue.
pub(super) struct Local {
    jobs: Worker<Job>,
    slot: usize,
    looks: u32,
}

impl Local {
    pub(super) fn push(&self, job: Job) {
        self.jobs.push(job);
    }

    /// What this worker queued itself, if anything is left of it.
    pub(super) fn pop(&self) -> Option<Job> {
        self.jobs.pop()
    }
}

impl Queue {
    pub(super) fn new(slots: usize, bound: usize) -> Queue {
        Queue {
            by_priority: [Injector::new(), Injector::new(), Injector::new()],
            of_workers: (0..slots).map(|_| OnceLock::new()).collect(),
            started: AtomicUsize::new(0),
            outside: AtomicUsize::new(0),
            bound,
            room: Event::new(),
        }
    }

    /// The own queue of the worker of this slot, which begins to work.
    pub(super) fn local(&self, slot: usize) -> Local {
        let jobs = Worker::new_fifo();
        let first = self.of_workers[slot].set(jobs.stealer()).is_ok();
        debug_assert!(first, "a slot is started once");
        // Release: a thread that counts this slot in, with acquire, finds its queue. A job in it is
        // offered after a fence besides.
        self.started.fetch_max(slot + 1, Ordering::Release);
        Local { jobs, slot, looks: slot as u32 }
    }

    /// Takes room for one job from outside, if there is any (Invariant 1).
    pub(super) fn reserve(&self) -> bool {
        // Relaxed: a number, which orders nothing.
        let more = |outside| (outside < self.bound).then_some(outside + 1);
        self.outside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Waits for room, at the longest until `deadline`, as long as `is_open`.
    pub(super) fn reserve_until(&self, deadline: Option<Deadline>, is_open: impl Fn() -> bool) -> bool {
        let mut reserved = false;
        let ended = || {
            reserved = reserved || self.reserve();
            reserved || !is_open()
        };
        match deadline {
            None => {
                self.room.until(ended);
            }
            Some(deadline) => {
                self.room.until_for(Duration::from_nanos(deadline.remaining_ns()), ended);
            }
        }
        reserved
    }

    /// Queues a job for which there is room.
    pub(super) fn push(&self, job: Job, priority: Priority) {
        self.by_priority[priority as usize].push(job);
    }

    /// Makes room for one job beyond the bound.
    pub(super) fn count_more(&self) {
        self.outside.fetch_add(1, Ordering::Relaxed);
    }

    /// Wakes the threads that wait for room, so that they see whether their wait is in vain.
    pub(super) fn wake_submitters(&self) {
        self.room.signal_all();
    }

    /// The next job for this worker.
    pub(super) fn take(&self, local: &mut Local) -> Option<Job> {
        local.looks = local.looks.wrapping_add(1);
        let local = &*local;
        // In one of `FAIR` looks another place comes first, each in its turn.
        let first =
            if local.looks.is_multiple_of(FAIR) { (local.looks / FAIR) as usize % PLACES.len() } else { 0 };
        let favoured = (first > 0).then(|| self.take_at(PLACES[first], local)).flatten();
        favoured.or_else(|| PLACES.into_iter().find_map(|place| self.take_at(place, local)))
    }

    fn take_at(&self, place: Place, local: &Local) -> Option<Job> {
        match place {
            Place::Outside(priority) => self.outside(priority),
            Place::Own => local.pop(),
            Place::Others => self.steal(local.slot),
        }
    }

    /// Returns about how many jobs from outside are queued; at least 1, for a caller that has just
    /// queued one.
    pub(super) fn waiting(&self) -> u32 {
        self.outside.load(Ordering::Relaxed).clamp(1, u32::MAX as usize) as u32
    }

    /// Takes any job at all, for a thread that is no worker.
    pub(super) fn take_any(&self) -> Option<Job> {
        [Priority::High, Priority::Normal, Priority::Low]
            .into_iter()
            .find_map(|priority| self.outside(priority))
            .or_else(|| self.steal(0))
    }

    fn outside(&self, priority: Priority) -> Option<Job> {
        let queue = &self.by_priority[priority as usize];
        if queue.is_empty() {
            return None;
        }
        let job = taken(|| queue.steal())?;
        self.outside.fetch_sub(1, Ordering::Relaxed);
        self.room.signal_one();
        Some(job)
    }

    /// From another worker's own queue, beginning behind this slot.
    fn steal(&self, slot: usize) -> Option<Job> {
        let workers = self.workers();
        let (before, from) = workers.split_at(slot.min(workers.len()));
        let mut others = from.iter().chain(before).filter_map(OnceLock::get);
        others.find_map(|other| if other.is_empty() { None } else { taken(|| other.steal()) })
    }

    /// The queues of the workers that are started, and perhaps of some that are about to be.
    fn workers(&self) -> &[OnceLock<Stealer<Job>>] {
        &self.of_workers[..self.started.load(Ordering::Acquire)]
    }

    /// Whether anything is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.by_priority.iter().all(Injector::is_empty)
            && self.workers().iter().filter_map(OnceLock::get).all(Stealer::is_empty)
    }

    /// About how many jobs are queued.
    pub(super) fn len(&self) -> usize {
        self.by_priority.iter().map(Injector::len).sum::<usize>()
            + self.workers().iter().filter_map(OnceLock::get).map(Stealer::len).sum::<usize>()
    }
}

/// Tries again as long as another thread was faster. Each time some thread has a job, so this ends.
fn taken(mut steal: impl FnMut() -> Steal<Job>) -> Option<Job> {
    loop {
        match steal() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::job::NEVER;
    use std::sync::atomic::AtomicU32;

    /// A job that is known by its number.
    fn job(number: u64) -> Job {
        Job { run: Box::new(|| ()), queued_ticks: number, deadline_ticks: NEVER, is_scoped: false }
    }

    fn numbers(queue: &Queue, local: &mut Local) -> Vec<u64> {
        std::iter::from_fn(|| queue.take(local)).map(|job| job.queued_ticks).collect()
    }

    #[test]
    fn urgent_jobs_come_first_and_the_others_in_their_order() {
        let queue = Queue::new(2, 10);
        let (mut local, other) = (queue.local(0), queue.local(1));
        for (number, priority) in
            [(1, Priority::Low), (2, Priority::Normal), (3, Priority::High), (4, Priority::Normal)]
        {
            assert!(queue.reserve());
            queue.push(job(number), priority);
        }
        local.push(job(5));
        local.push(job(6));
        other.push(job(7));
        assert_eq!(queue.len(), 7);
        assert_eq!(numbers(&queue, &mut local), [3, 5, 6, 2, 4, 7, 1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn nothing_starves() {
        let queue = Queue::new(2, 10);
        let mut local = queue.local(0);
        assert!(queue.reserve());
        queue.push(job(1), Priority::Low);
        // A job at the back of each place but the first, which is never empty.
        let other = queue.local(1);
        other.push(job(2));
        local.push(job(3));
        for number in [4, 5] {
            assert!(queue.reserve());
            queue.push(job(number), if number == 4 { Priority::Normal } else { Priority::High });
        }
        let mut left = vec![1, 2, 3, 4];
        for _ in 0..PLACES.len() as u32 * FAIR {
            let taken = queue.take(&mut local).expect("there is always one").queued_ticks;
            left.retain(|&it| it != taken);
            if taken == 5 {
                assert!(queue.reserve());
                queue.push(job(5), Priority::High);
            }
        }
        assert_eq!(left, [0; 0], "never taken");
    }

    #[test]
    fn the_bound_is_for_those_from_outside() {
        let queue = Queue::new(1, 2);
        let mut local = queue.local(0);
        for number in 0..2 {
            assert!(queue.reserve());
            queue.push(job(number), Priority::Normal);
        }
        assert!(!queue.reserve());
        queue.count_more();
        queue.push(job(2), Priority::Normal);
        assert!(!queue.reserve_until(Some(Deadline::after(std::time::Duration::from_millis(1))), || true));
        assert!(!queue.reserve_until(None, || false));
        let _ = queue.take(&mut local).expect("three are there");
        assert!(!queue.reserve(), "two are left");
        let _ = queue.take(&mut local).expect("two are there");
        assert!(queue.reserve());
    }

    #[test]
    fn a_caller_that_waits_for_room_gets_an_error_at_shutdown() {
        let queue = std::sync::Arc::new(Queue::new(1, 1));
        let mut local = queue.local(0);
        assert!(queue.reserve());
        queue.push(job(0), Priority::Normal);
        let looks = std::sync::Arc::new(AtomicU32::new(0));
        let waiter = std::thread::spawn({
            let (queue, looks) = (queue.clone(), looks.clone());
            move || {
                queue.reserve_until(None, || {
                    looks.fetch_add(1, Ordering::Relaxed);
                    true
                })
            }
        });
        while looks.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
        let _ = queue.take(&mut local).expect("one is there");
        assert!(waiter.join().expect("ends"));
    }
}
