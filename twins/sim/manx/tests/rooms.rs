//! Rooms of manx that are not plain locks, on every machine and with several seeds: readers and
//! writers, condition variables, the crew of a pool, snapshots of transactions. A run in which no
//! thread is ever woken again fails by itself.
//!
//! What threads do is counted in the standard library's atomics, which are no steps of the program.

use manx_sim::lock::{RawCondvar, RawLock, RawMutex, RawRwLock};
use manx_sim::pool::workers::{Call, Signal, Workers};
use manx_sim::txn::coordinator::{Coordinator, Protocol, Session};
use platform::chance::Chance;
use platform::machine::Machine;
use platform::memory::Allocator;
use platform::{clock, cpu, simulation, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const SEEDS: u64 = 6;
const THREADS: u64 = 6;
const ROUNDS: u32 = 200;

/// Runs a program with each seed on each machine.
fn everywhere(program: impl Fn(u64) + Copy + 'static) {
    for name in Machine::names() {
        let machine = Machine::known(name).expect("a machine");
        (0..SEEDS).for_each(|seed| drop(simulation::run(&machine, seed, move || program(seed))));
    }
}

/// Threads that each do this, with random numbers of their own.
fn together(seed: u64, threads: u64, one: impl Fn(u64, &mut Chance) + Clone + Send + 'static) {
    let start = |number: u64| {
        let one = one.clone();
        thread::spawn(move || one(number, &mut Chance::new(seed ^ number << 32)))
    };
    let all: Vec<_> = (0..threads).map(start).collect();
    all.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn readers_exclude_writers_and_writers_all() {
    everywhere(|seed| {
        let shared = Arc::new((RawRwLock::new(), AtomicU32::new(0), AtomicU32::new(0)));
        together(seed, THREADS, move |_, chance| {
            let (lock, readers, writers) = &*shared;
            for _ in 0..ROUNDS {
                if chance.below(4) == 0 {
                    lock.write();
                    assert_eq!(
                        (writers.fetch_add(1, Ordering::Relaxed), readers.load(Ordering::Relaxed)),
                        (0, 0)
                    );
                    cpu::work(chance.below(2_000));
                    writers.fetch_sub(1, Ordering::Relaxed);
                    // SAFETY: held by this thread for writing.
                    unsafe { lock.release_write() };
                } else {
                    lock.read();
                    readers.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(writers.load(Ordering::Relaxed), 0);
                    cpu::work(chance.below(2_000));
                    readers.fetch_sub(1, Ordering::Relaxed);
                    // SAFETY: held by this thread for reading.
                    unsafe { lock.release_read() };
                }
                cpu::work(chance.below(3_000));
            }
        });
    });
}

/// A place for one item under a mutex, with a condition variable for each change.
struct Place {
    mutex: RawMutex,
    changed: RawCondvar,
    full: AtomicU32,
}

impl Place {
    /// Waits until the place is in this state, and changes it.
    fn change(&self, from: u32) {
        RawLock::lock(&self.mutex);
        while self.full.load(Ordering::Relaxed) != from {
            let ticket = self.changed.enter();
            // SAFETY: locked by this thread.
            unsafe { RawLock::unlock(&self.mutex, ()) };
            let outcome = self.changed.sleep(&ticket, None);
            self.changed.leave(ticket, outcome);
            RawLock::lock(&self.mutex);
        }
        self.full.store(1 - from, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { RawLock::unlock(&self.mutex, ()) };
        self.changed.broadcast();
    }
}

#[test]
fn each_item_that_is_put_into_a_place_is_taken() {
    everywhere(|seed| {
        let place = Place { mutex: RawLock::new(), changed: RawCondvar::new(), full: AtomicU32::new(0) };
        let place = Arc::new(place);
        let its = Arc::clone(&place);
        together(seed, THREADS, move |number, chance| {
            for _ in 0..ROUNDS / 4 {
                its.change((number % 2) as u32);
                cpu::work(chance.below(2_000));
            }
        });
        assert_eq!(place.full.load(Ordering::Relaxed), 0, "as many were taken as put");
    });
}

/// A pool whose jobs are a number.
struct Pool {
    workers: Workers,
    queued: AtomicU64,
    done: AtomicU64,
}

impl Pool {
    fn take(&self) -> bool {
        let less = |queued: u64| queued.checked_sub(1);
        self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn offer(self: &Arc<Pool>) -> Option<thread::JoinHandle<()>> {
        let Call::Start(slot) = self.workers.offer(self.workers.target()) else { return None };
        let pool = Arc::clone(self);
        Some(thread::spawn(move || pool.work(slot)))
    }

    /// A worker's life: it does jobs, parks when there are none, and calls others.
    fn work(self: Arc<Pool>, slot: usize) {
        let mut started = Vec::new();
        loop {
            if self.take() {
                if self.workers.found() {
                    started.extend(self.offer());
                }
                cpu::work(700);
                self.done.fetch_add(1, Ordering::Relaxed);
                self.workers.search();
                continue;
            }
            self.workers.rest(slot);
            if self.queued.load(Ordering::Relaxed) > 0 {
                started.extend(self.offer());
            }
            if self.workers.wait(slot) == Signal::Exit {
                break;
            }
        }
        started.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_pool_does_each_job() {
    everywhere(|seed| {
        let pool = Pool { workers: Workers::new(4, 3), queued: AtomicU64::new(0), done: AtomicU64::new(0) };
        let (pool, mut chance) = (Arc::new(pool), Chance::new(seed));
        let mut started = Vec::new();
        for _ in 0..ROUNDS {
            pool.queued.fetch_add(1, Ordering::Relaxed);
            started.extend(pool.offer());
            cpu::work(chance.below(2_000));
        }
        while pool.done.load(Ordering::Relaxed) < u64::from(ROUNDS) {
            assert!(clock::now_ns() < 1_000_000_000, "a job stayed behind");
            thread::sleep_ns(10_000);
        }
        pool.workers.close();
        started.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_snapshot_shows_what_is_over_and_nothing_else() {
    everywhere(|seed| {
        for protocol in Protocol::ALL {
            let coordinator = Coordinator::with_protocol(protocol, THREADS as u32);
            // The ids up to which all are over, as each thread knows them.
            let over: Arc<Vec<AtomicU64>> = Arc::new((0..THREADS).map(|_| AtomicU64::new(0)).collect());
            together(seed, THREADS, move |number, chance| {
                let mut session: Session = coordinator.session().expect("a place");
                for _ in 0..ROUNDS / 8 {
                    let known: Vec<u64> = over.iter().map(|id| id.load(Ordering::Relaxed)).collect();
                    let seen = session.snapshot().clone();
                    assert!(known.iter().all(|id| *id == 0 || seen.sees(*id)), "{known:?} were over");
                    let id = session.allocate();
                    assert!(!seen.sees(id) && !session.snapshot().sees(id), "it is at work");
                    cpu::work(chance.below(1_500));
                    session.end();
                    over[number as usize].store(id, Ordering::Relaxed);
                }
            });
        }
    });
}
