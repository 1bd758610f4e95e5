//! The workers of a pool under loom: a job that is queued is done, whichever workers park, are
//! called, retire, block or are dismissed meanwhile.
//!
//! Here the queue is a number, and a worker's thread is there from the start: it waits at its slot
//! until it is called. Loom reports a deadlock if a job stays behind, because then its worker
//! sleeps for ever and the first thread waits for it.

mod common;

use common::{check, join};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use manx_loom::pool::workers::{Call, Signal, Workers};
use std::sync::Arc;

/// A pool that does nothing with its jobs but count them.
struct Pool {
    workers: Workers,
    queued: AtomicU32,
    done: AtomicU32,
    /// Workers inside a job, and the most of them that there ever were.
    inside: AtomicU32,
    most: AtomicU32,
    started: AtomicU32,
}

impl Pool {
    fn new(slots: usize, target: u32) -> Arc<Pool> {
        Arc::new(Pool {
            workers: Workers::new(slots, target),
            queued: AtomicU32::new(0),
            done: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            most: AtomicU32::new(0),
            started: AtomicU32::new(0),
        })
    }

    fn take(&self) -> bool {
        // As a real queue would: the taker of a job sees what its submitter wrote.
        let mut queued = self.queued.load(Ordering::Acquire);
        while queued > 0 {
            match self.queued.compare_exchange(queued, queued - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => queued = now,
            }
        }
        false
    }

    fn is_empty(&self) -> bool {
        self.queued.load(Ordering::Acquire) == 0
    }

    fn push(self: &Arc<Pool>) -> Option<thread::JoinHandle<()>> {
        self.queued.fetch_add(1, Ordering::Release);
        self.offer()
    }

    fn offer(self: &Arc<Pool>) -> Option<thread::JoinHandle<()>> {
        match self.workers.offer(self.workers.target()) {
            Call::Start(slot) => {
                self.started.fetch_add(1, Ordering::Relaxed);
                let pool = self.clone();
                Some(thread::spawn(move || pool.work(slot)))
            }
            _ => None,
        }
    }

    /// A worker's life, as in `worker.rs`, without its rounds of looking. A thread that it had to
    /// start it waits for in the end.
    fn work(self: Arc<Pool>, slot: usize) {
        let mut started = Vec::new();
        'life: loop {
            if !self.take() {
                self.workers.rest(slot);
                if !self.is_empty() {
                    started.extend(self.offer());
                }
                if self.told(slot) == Signal::Exit {
                    break;
                }
                continue;
            }
            if self.workers.found() && !self.is_empty() {
                started.extend(self.offer());
            }
            loop {
                self.job();
                if self.workers.retire(slot, self.workers.target()) {
                    if !self.is_empty() {
                        started.extend(self.offer());
                    }
                    match self.told(slot) {
                        Signal::Exit => break 'life,
                        Signal::Search => continue 'life,
                    }
                }
                if !self.take() {
                    break;
                }
            }
            self.workers.search();
        }
        join(started);
    }

    fn told(&self, slot: usize) -> Signal {
        match self.workers.wait(slot) {
            Signal::Exit if !self.is_empty() && self.workers.stay(self.workers.target()) => Signal::Search,
            signal => signal,
        }
    }

    fn job(&self) {
        let inside = self.inside.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(inside, Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Release);
    }

    fn until_done(&self, jobs: u32) {
        while self.done.load(Ordering::Acquire) < jobs {
            thread::yield_now();
        }
    }
}

#[test]
fn a_worker_that_parks_misses_no_job() {
    check(3, || {
        let pool = Pool::new(1, 1);
        let worker = pool.push();
        let none = pool.push();
        assert!(worker.is_some() && none.is_none());
        pool.until_done(2);
        pool.workers.close();
        worker.unwrap().join().unwrap();
        assert_eq!((pool.workers.active(), pool.most.load(Ordering::Relaxed)), (0, 1));
    });
}

#[test]
fn two_threads_that_queue_and_one_worker() {
    check(2, || {
        let pool = Pool::new(1, 1);
        let worker = pool.push();
        let other = thread::spawn({
            let pool = pool.clone();
            move || assert!(pool.push().is_none())
        });
        pool.until_done(2);
        other.join().unwrap();
        pool.workers.close();
        worker.unwrap().join().unwrap();
        assert_eq!(pool.workers.active(), 0);
    });
}

#[test]
fn no_more_are_active_than_are_to_be() {
    check(2, || {
        let pool = Pool::new(2, 1);
        let mut workers: Vec<_> = pool.push().into_iter().collect();
        workers.extend(pool.push());
        workers.extend(pool.push());
        pool.until_done(3);
        pool.workers.close();
        join(workers);
        assert_eq!((pool.workers.active(), pool.most.load(Ordering::Relaxed)), (0, 1));
    });
}

#[test]
fn a_pool_that_grows_and_shrinks_meanwhile_does_all_jobs() {
    check(1, || {
        let pool = Pool::new(2, 2);
        let mut workers: Vec<_> = pool.push().into_iter().collect();
        workers.extend(pool.push());
        pool.workers.set_target(1);
        workers.extend(pool.push());
        pool.workers.set_target(2);
        if !pool.is_empty() {
            workers.extend(pool.offer());
        }
        pool.until_done(3);
        pool.workers.close();
        join(workers);
        assert_eq!(pool.workers.active(), 0);
    });
}

#[test]
fn a_job_that_was_queued_while_the_pool_is_closed_is_done() {
    check(3, || {
        let pool = Pool::new(1, 1);
        let worker = pool.push().unwrap();
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.workers.close()
        });
        // No other worker would do it: it was queued before the worker could have ended, or it is
        // still there.
        let none = pool.push();
        other.join().unwrap();
        worker.join().unwrap();
        if let Some(again) = none {
            again.join().unwrap();
        }
        assert_eq!(pool.done.load(Ordering::Relaxed) + pool.queued.load(Ordering::Relaxed), 2);
        assert_eq!(pool.workers.active(), 0);
    });
}

#[test]
fn a_job_for_which_a_blocked_worker_waits_is_done() {
    check(2, || {
        let pool = Pool::new(2, 1);
        // This thread stands for a worker inside a job, which is active.
        assert_eq!(pool.workers.offer(1), Call::Start(0));
        let _ = pool.workers.found();
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.push()
        });
        pool.workers.block();
        let own = if pool.is_empty() { None } else { pool.offer() };
        pool.until_done(1);
        pool.workers.unblock();
        pool.workers.close();
        pool.workers.search();
        pool.workers.rest(0);
        assert_eq!(pool.told(0), Signal::Exit);
        let worker = other.join().unwrap().or(own);
        worker.expect("one of the two called it").join().unwrap();
        assert_eq!((pool.workers.active(), pool.workers.blocked()), (0, 0));
    });
}

#[test]
fn a_seat_without_a_thread_can_be_called_again() {
    check(2, || {
        let pool = Pool::new(1, 1);
        pool.queued.fetch_add(1, Ordering::Release);
        assert_eq!(pool.workers.offer(1), Call::Start(0));
        pool.workers.start_failed(0);
        assert_eq!(pool.workers.active(), 0);
        let worker = pool.offer().unwrap();
        pool.until_done(1);
        pool.workers.close();
        worker.join().unwrap();
    });
}
