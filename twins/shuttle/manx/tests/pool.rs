//! The crew of a pool under randomized schedules: more workers, more submitters, and a target that
//! changes all the time.
//!
//! As in `twins/loom/manx/tests/pool.rs`, the queue is a number. A job that stays behind is a
//! deadlock: the first thread waits for it without a limit.

use manx_shuttle::pool::crew::{Call, Crew, Told};
use manx_shuttle::wait::{Event, Policy};
use platform::explore::check;
use platform::{site, thread};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

const SEATS: usize = 4;
const SUBMITTERS: u32 = 3;
const JOBS: u32 = 4;

struct Pool {
    crew: Crew,
    queued: AtomicU32,
    done: AtomicU32,
    progress: Event,
    inside: AtomicU32,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Pool {
    fn new(target: u32) -> Arc<Pool> {
        Arc::new(Pool {
            crew: Crew::new(SEATS, target),
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
        if let Call::Unborn(seat) = self.crew.offer(self.crew.target()) {
            let pool = self.clone();
            let thread = thread::spawn(move || pool.work(seat));
            self.threads.lock().unwrap().push(thread);
        }
    }

    /// A worker's life, as in `worker.rs`, without its rounds of looking.
    fn work(self: Arc<Pool>, seat: usize) {
        loop {
            if !self.take() {
                self.crew.rest(seat);
                if self.is_told_to_end(seat) {
                    return;
                }
                continue;
            }
            if self.crew.found() && !self.is_empty() {
                self.offer();
            }
            let retired = loop {
                self.job(seat);
                if self.crew.retire(seat, self.crew.target()) {
                    break true;
                }
                if !self.take() {
                    break false;
                }
            };
            if !retired {
                self.crew.search();
            } else if self.is_told_to_end(seat) {
                return;
            }
        }
    }

    fn is_told_to_end(self: &Arc<Pool>, seat: usize) -> bool {
        if !self.is_empty() {
            self.offer();
        }
        match self.crew.wait(seat) {
            Told::Search => false,
            Told::End => self.is_empty() || !self.crew.stay(self.crew.target()),
        }
    }

    /// Every second worker blocks in its jobs for a moment.
    fn job(self: &Arc<Pool>, seat: usize) {
        assert!(self.inside.fetch_add(1, Ordering::SeqCst) < SEATS as u32);
        if seat % 2 == 1 {
            self.crew.block();
            if !self.is_empty() {
                self.offer();
            }
            thread::yield_now();
            self.crew.unblock();
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
        self.progress.signal_all();
    }

    fn end(self: &Arc<Pool>, jobs: u32) {
        self.progress.until(|| self.done.load(Ordering::SeqCst) == jobs);
        self.crew.close();
        loop {
            let Some(thread) = self.threads.lock().unwrap().pop() else { break };
            thread.join().unwrap();
        }
        assert_eq!((self.crew.active(), self.crew.blocked(), self.queued.load(Ordering::SeqCst)), (0, 0, 0));
    }
}

#[test]
fn all_jobs_are_done_whoever_queues_them_and_however_many_are_to_be_active() {
    check(site!(), || {
        let pool = Pool::new(2);
        let submitters: Vec<_> = (0..SUBMITTERS)
            .map(|_| {
                let pool = pool.clone();
                thread::spawn(move || (0..JOBS).for_each(|_| pool.push()))
            })
            .collect();
        for target in [1, 4, 1, 3] {
            pool.crew.set_target(target);
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
        pool.crew.close();
        pool.end(JOBS);
    });
}
