//! The workers of a pool under randomized schedules: more workers, more submitters, and a target
//! that changes all the time.
//!
//! As in `twins/loom/manx/tests/pool.rs`, the queue is a number. A job that stays behind is a
//! deadlock: the first thread waits for it without a limit.

use manx_shuttle::pool::workers::{Call, Signal, Workers};
use manx_shuttle::wait::{Event, Policy};
use platform::explore::check;
use platform::{site, thread};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

const SLOTS: usize = 4;
const SUBMITTERS: u32 = 3;
const JOBS: u32 = 4;

struct Pool {
    workers: Workers,
    queued: AtomicU32,
    done: AtomicU32,
    progress: Event,
    inside: AtomicU32,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Pool {
    fn new(target: u32) -> Arc<Pool> {
        Arc::new(Pool {
            workers: Workers::new(SLOTS, target),
            queued: AtomicU32::new(0),
            done: AtomicU32::new(0),
            progress: Event::new(),
            inside: AtomicU32::new(0),
            threads: Mutex::new(Vec::new()),
        })
    }

    fn take(&self) -> bool {
        let less = |queued: u32| queued.checked_sub(1);
        self.queued.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn is_empty(&self) -> bool {
        self.queued.load(Ordering::SeqCst) == 0
    }

    fn push(self: &Arc<Pool>) {
        self.queued.fetch_add(1, Ordering::SeqCst);
        self.offer();
    }

    fn offer(self: &Arc<Pool>) {
        if let Call::Start(slot) = self.workers.offer(self.workers.target()) {
            let pool = self.clone();
            let thread = thread::spawn(move || pool.work(slot));
            self.threads.lock().unwrap().push(thread);
        }
    }

    /// A worker's life, as in `worker.rs`, without its rounds of looking.
    fn work(self: Arc<Pool>, slot: usize) {
        loop {
            if !self.take() {
                self.workers.rest(slot);
                if self.is_told_to_end(slot) {
                    return;
                }
                continue;
            }
            if self.workers.found() && !self.is_empty() {
                self.offer();
            }
            let retired = loop {
                self.job(slot);
                if self.workers.retire(slot, self.workers.target()) {
                    break true;
                }
                if !self.take() {
                    break false;
                }
            };
            if !retired {
                self.workers.search();
            } else if self.is_told_to_end(slot) {
                return;
            }
        }
    }

    fn is_told_to_end(self: &Arc<Pool>, slot: usize) -> bool {
        if !self.is_empty() {
            self.offer();
        }
        match self.workers.wait(slot) {
            Signal::Search => false,
            Signal::Exit => self.is_empty() || !self.workers.stay(self.workers.target()),
        }
    }

    /// Every second worker blocks in its jobs for a moment.
    fn job(self: &Arc<Pool>, slot: usize) {
        assert!(self.inside.fetch_add(1, Ordering::SeqCst) < SLOTS as u32);
        if slot % 2 == 1 {
            self.workers.block();
            if !self.is_empty() {
                self.offer();
            }
            thread::yield_now();
            self.workers.unblock();
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
        self.progress.signal_all();
    }

    fn end(self: &Arc<Pool>, jobs: u32) {
        self.progress.until(|| self.done.load(Ordering::SeqCst) == jobs);
        self.workers.close();
        loop {
            let Some(thread) = self.threads.lock().unwrap().pop() else { break };
            thread.join().unwrap();
        }
        assert_eq!(
            (self.workers.active(), self.workers.blocked(), self.queued.load(Ordering::SeqCst)),
            (0, 0, 0)
        );
    }
}

#[test]
fn all_jobs_are_done_from_all_threads_and_with_any_number_of_active_workers() {
    check(site!(), || {
        let pool = Pool::new(2);
        let submitters: Vec<_> = (0..SUBMITTERS)
            .map(|_| {
                let pool = pool.clone();
                thread::spawn(move || (0..JOBS).for_each(|_| pool.push()))
            })
            .collect();
        for target in [1, 4, 1, 3] {
            pool.workers.set_target(target);
            if !pool.is_empty() {
                pool.offer();
            }
            thread::yield_now();
        }
        submitters.into_iter().for_each(|thread| thread.join().unwrap());
        pool.end(SUBMITTERS * JOBS);
    });
}

#[test]
fn a_pool_that_is_closed_while_it_works_does_what_was_queued() {
    check(site!(), || {
        let pool = Pool::new(2);
        (0..JOBS).for_each(|_| pool.push());
        pool.workers.close();
        pool.end(JOBS);
    });
}
