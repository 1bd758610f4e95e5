//! rayon's workers behind a gate: they park and resume, and all that they have begun makes
//! progress.

#[path = "common/gate.rs"]
mod gate;

use gate::{Together, WORKERS};
use manx::pool::gate::rayon::Gated;
use rayon_core::ThreadPoolBuilder;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use testing::{LONG, until};

fn pool(workers: usize) -> Gated {
    Gated::build(ThreadPoolBuilder::new().num_threads(workers)).expect("threads")
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (one, other) = rayon_core::join(|| fib(n - 1), || fib(n - 2));
    one + other
}

/// Returns when `count` jobs of the pool are in it at the same time.
fn run_at_once(pool: &Gated, count: usize) {
    let here = AtomicUsize::new(0);
    pool.in_place_scope(|scope| {
        for _ in 0..count {
            scope.spawn(|_| {
                here.fetch_add(1, SeqCst);
                until("all workers at once", || here.load(SeqCst) >= count);
            });
        }
    });
}

#[test]
fn workers_above_the_limit_park_and_resume() {
    let pool = pool(WORKERS);
    run_at_once(&pool, WORKERS);
    for active in [1, 2, 3, 1, 4, 2] {
        pool.set_active(active);
        until("parked", || pool.gate().parked() == WORKERS - active);
        let together = Together::default();
        let done = AtomicUsize::new(0);
        pool.in_place_scope(|scope| {
            for _ in 0..200 {
                scope.spawn(|_| {
                    together.work();
                    done.fetch_add(1, SeqCst);
                });
            }
        });
        assert_eq!(done.load(SeqCst), 200);
        assert!(together.most.load(SeqCst) <= active, "{} at once", together.most.load(SeqCst));
        run_at_once(&pool, active);
    }
    pool.set_active(WORKERS);
    run_at_once(&pool, WORKERS);
    assert_eq!(pool.gate().parked(), 0);
}

#[test]
fn workers_park_while_there_is_work_for_all() {
    let pool = Arc::new(pool(WORKERS));
    let stop = Arc::new(AtomicBool::new(false));
    let together = Arc::new(Together::default());
    // More callers than workers: there is always a job for every worker.
    let callers: Vec<_> = (0..3 * WORKERS)
        .map(|_| {
            let (pool, stop, together) = (Arc::clone(&pool), Arc::clone(&stop), Arc::clone(&together));
            std::thread::spawn(move || {
                while !stop.load(SeqCst) {
                    pool.install(|| rayon_core::join(|| together.work(), || fib(3)));
                }
            })
        })
        .collect();
    until("busy", || together.most.load(SeqCst) == WORKERS);
    pool.set_active(2);
    until("parked under load", || pool.gate().parked() == 2);
    pool.set_active(WORKERS);
    until("back", || pool.gate().parked() == 0);
    together.most.store(0, SeqCst);
    until("busy again", || together.most.load(SeqCst) == WORKERS);
    stop.store(true, SeqCst);
    for caller in callers {
        caller.join().expect("no panic");
    }
}

#[test]
fn a_join_ends_although_its_worker_parks() {
    for _ in 0..20 {
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let pool = pool(2);
            let stolen = AtomicBool::new(false);
            let gate = pool.gate();
            pool.install(|| {
                rayon_core::join(
                    || until("stolen", || stolen.load(SeqCst)),
                    || {
                        stolen.store(true, SeqCst);
                        // The other one waits for this, or is about to; it parks all the same.
                        pool.set_active(1);
                        until("parked below its join", || gate.parked() == 1);
                    },
                )
            });
            // This worker has gone on, and the other one is idle: the worker that came to a check
            // next is parked.
            until("parked", || gate.parked() == 1);
            assert_eq!(pool.install(|| fib(10)), 55);
            done.send(()).expect("waited for");
        });
        is_done.recv_timeout(LONG).expect("the join ends");
    }
}

#[test]
fn recursion_continues_while_the_limit_changes() {
    let pool = Arc::new(pool(WORKERS));
    let stop = Arc::new(AtomicBool::new(false));
    let changer = std::thread::spawn({
        let (pool, stop) = (Arc::clone(&pool), Arc::clone(&stop));
        move || {
            let mut changes = 0;
            while !stop.load(SeqCst) {
                pool.set_active(1 + changes * 7 % 4);
                changes += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
            changes
        }
    });
    let end = Instant::now() + Duration::from_secs(5);
    let mut rounds = 0;
    while Instant::now() < end {
        assert_eq!(pool.install(|| fib(20)), 6_765);
        rounds += 1;
    }
    stop.store(true, SeqCst);
    let changes = changer.join().expect("no panic");
    println!("{rounds} rounds, {changes} changes");
    assert!(changes > 10);
    pool.set_active(WORKERS);
    run_at_once(&pool, WORKERS);
}

#[test]
fn a_broadcast_reaches_parked_workers() {
    let pool = pool(WORKERS);
    pool.set_active(1);
    until("parked", || pool.gate().parked() == WORKERS - 1);
    for _ in 0..20 {
        let mut indices = pool.broadcast(|context| context.index());
        indices.sort_unstable();
        assert_eq!(indices, [0, 1, 2, 3]);
    }
    let done = Arc::new(AtomicUsize::new(0));
    pool.spawn_broadcast({
        let done = Arc::clone(&done);
        move |_| {
            done.fetch_add(1, SeqCst);
        }
    });
    until("a broadcast", || done.load(SeqCst) == WORKERS);
    // By the pool's own method; the gate does not learn of it.
    assert_eq!(rayon_core::ThreadPool::broadcast(&pool, |_| ()).len(), WORKERS);
    assert_eq!(pool.gate().parked(), WORKERS - 1);
}

#[test]
fn jobs_that_panic_are_reported_and_leave_the_gate_unchanged() {
    let panics = Arc::new(AtomicUsize::new(0));
    let builder = ThreadPoolBuilder::new().num_threads(WORKERS).panic_handler({
        let panics = Arc::clone(&panics);
        move |_| {
            panics.fetch_add(1, SeqCst);
        }
    });
    let pool = Gated::build(builder).expect("threads");
    for round in 0..40 {
        pool.set_active(1 + round % WORKERS);
        pool.spawn(|| panic!("a job that panics, in a test"));
        let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.install(|| rayon_core::join(|| fib(5), || panic!("a join that panics, in a test")))
        }));
        assert!(joined.is_err());
    }
    until("reported", || panics.load(SeqCst) == 40);
    pool.set_active(WORKERS);
    run_at_once(&pool, WORKERS);
}

#[test]
fn pools_end_at_any_number_of_active_workers() {
    for active in 1..=WORKERS {
        for wait in [false, true] {
            let ended = Arc::new(AtomicUsize::new(0));
            let done = Arc::new(AtomicUsize::new(0));
            let builder = ThreadPoolBuilder::new().num_threads(WORKERS).exit_handler({
                let ended = Arc::clone(&ended);
                move |_| {
                    ended.fetch_add(1, SeqCst);
                }
            });
            let pool = Gated::build(builder).expect("threads");
            pool.set_active(active);
            if wait {
                until("parked", || pool.gate().parked() == WORKERS - active);
            }
            for _ in 0..50 {
                let done = Arc::clone(&done);
                pool.spawn(move || {
                    done.fetch_add(1, SeqCst);
                });
            }
            drop(pool);
            until("ended", || ended.load(SeqCst) == WORKERS);
            assert_eq!(done.load(SeqCst), 50);
        }
    }
}

#[test]
fn the_thread_that_builds_a_pool_may_be_one_of_its_workers() {
    std::thread::spawn(|| {
        let pool =
            Gated::build(ThreadPoolBuilder::new().num_threads(3).use_current_thread()).expect("threads");
        pool.set_active(1);
        until("parked", || pool.gate().parked() == 2);
        assert_eq!(pool.install(|| fib(12)), 144);
        pool.set_active(3);
        assert_eq!(pool.install(|| fib(12)), 144);
        until("back", || pool.gate().parked() == 0);
    })
    .join()
    .expect("no panic");
}

#[test]
fn pools_within_pools() {
    let (outer, inner) = (pool(2), pool(2));
    for active in [1, 2, 1] {
        outer.set_active(active);
        inner.set_active(3 - active);
        let sum =
            outer.install(|| rayon_core::join(|| inner.install(|| fib(12)), || inner.install(|| fib(11))));
        assert_eq!(sum, (144, 89));
    }
}

#[test]
fn a_pool_follows_the_budget() {
    let pool = pool(64);
    let follower = pool.follow_budget().expect("a thread");
    let budget = manx::cpu::CpuBudget::now().count(manx::cpu::Rounding::Floor);
    assert_eq!(pool.gate().active(), budget.min(64));
    until("parked", || pool.gate().parked() == 64 - budget.min(64));
    assert_eq!(pool.install(|| fib(15)), 610);
    drop(follower);
}
