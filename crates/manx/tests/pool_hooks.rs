//! The functions of the program's that a pool calls: each worker starts and exits once, and a panic
//! in one of them changes nothing.

use manx::pool::{Control, ExecuteError, FriendlyPool, FriendlyPoolBuilder, Shutdown, block_in_place};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;
use testing::{LONG, until};

/// Which thread was which worker, as the handlers saw it.
#[derive(Clone, Default)]
struct Seen {
    started: Arc<Mutex<Vec<(usize, ThreadId)>>>,
    exited: Arc<Mutex<Vec<(usize, ThreadId)>>>,
}

impl Seen {
    fn watch(&self, builder: FriendlyPoolBuilder) -> FriendlyPoolBuilder {
        let note = |list: &Arc<Mutex<Vec<(usize, ThreadId)>>>| {
            let list = list.clone();
            move |index| list.lock().expect("no poison").push((index, thread::current().id()))
        };
        builder.start_handler(note(&self.started)).exit_handler(note(&self.exited))
    }

    /// By index, after it is checked that each worker has started and exited once.
    fn workers(&self) -> BTreeMap<usize, ThreadId> {
        let started = self.started.lock().expect("no poison");
        let mut exited = self.exited.lock().expect("no poison").clone();
        let workers: BTreeMap<_, _> = started.iter().copied().collect();
        assert_eq!(workers.len(), started.len(), "an index twice: {started:?}");
        exited.sort_by_key(|it| it.0);
        assert_eq!(workers.iter().map(|(&index, &id)| (index, id)).collect::<Vec<_>>(), exited);
        workers
    }
}

fn builder(threads: usize) -> FriendlyPoolBuilder {
    FriendlyPool::builder().num_threads(threads).max_blocking_threads(0).control(Control::Fixed)
}

/// Has `threads` threads run a job each, and none of them end it before all have begun.
fn occupy(pool: &FriendlyPool, threads: usize) -> Vec<ThreadId> {
    let all = Arc::new(Barrier::new(threads));
    let job = |all: Arc<Barrier>| {
        move || {
            block_in_place(|| all.wait());
            thread::current().id()
        }
    };
    let handles: Vec<_> = (0..threads).map(|_| pool.submit(job(all.clone())).expect("open")).collect();
    handles.into_iter().map(|handle| handle.join().expect("done")).collect()
}

#[test]
fn each_worker_starts_and_exits_once_also_for_blocked_workers() {
    let seen = Seen::default();
    let pool = seen.watch(builder(1).max_blocking_threads(4)).build().expect("a pool");
    let mut ids = occupy(&pool, 5);
    assert!(seen.exited.lock().expect("no poison").is_empty(), "no worker ends before the pool");
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    let workers = seen.workers();
    assert_eq!(workers.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let mut started: Vec<_> = workers.into_values().collect();
    ids.sort_by_key(|id| format!("{id:?}"));
    started.sort_by_key(|id| format!("{id:?}"));
    assert_eq!(started, ids);
    // Neither a second shutdown nor the drop calls anything again, and the handlers are dropped.
    pool.shutdown(Shutdown::Discard, LONG).expect("has ended");
    drop(pool);
    assert_eq!(seen.workers().len(), 5);
    until("the end of what the handlers hold", || Arc::strong_count(&seen.started) == 1);
}

#[test]
fn the_drop_of_a_pool_calls_the_exit_handlers_too() {
    for how in [Shutdown::Drain, Shutdown::Discard] {
        let seen = Seen::default();
        let pool = seen.watch(builder(3)).shutdown_on_drop(how, LONG).build().expect("a pool");
        occupy(&pool, 3);
        drop(pool);
        assert_eq!(seen.workers().len(), 3, "{how:?}");
    }
}

#[test]
fn a_worker_that_had_no_job_starts_and_exits() {
    let seen = Seen::default();
    drop(seen.watch(builder(2)).build().expect("a pool"));
    assert_eq!(seen.workers().len(), 1, "the first worker is started with the pool");
}

#[test]
fn every_job_runs_between_the_start_and_the_exit_of_its_thread() {
    std::thread_local! {
        static IS_WORKER: Cell<bool> = const { Cell::new(false) };
    }
    let outside = Arc::new(AtomicUsize::new(0));
    let pool = builder(4)
        .start_handler(|_| IS_WORKER.set(true))
        .exit_handler(|_| IS_WORKER.set(false))
        .build()
        .expect("a pool");
    for _ in 0..5_000 {
        let outside = outside.clone();
        pool.execute(move || {
            outside.fetch_add(usize::from(!IS_WORKER.get()), Ordering::Relaxed);
        })
        .expect("open");
    }
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    assert_eq!((pool.stats().completed, outside.load(Ordering::Relaxed)), (5_000, 0));
}

#[test]
fn handlers_that_panic_are_reported_and_harm_nothing() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let their = heard.clone();
    let pool = builder(2)
        .start_handler(|index| panic!("start {index}"))
        .exit_handler(|index| std::panic::panic_any(format!("exit {index}")))
        .thread_name(|index| panic!("name {index}"))
        .panic_handler(move |message| {
            their.lock().expect("no poison").push(message.to_owned());
            panic!("a panic handler that panics itself");
        })
        .build()
        .expect("a pool");
    occupy(&pool, 2);
    assert_eq!(pool.submit(|| 7).expect("open").join().expect("done"), 7);
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    let mut heard = heard.lock().expect("no poison").clone();
    heard.sort();
    let expected = ["exit 0", "exit 1", "name 0", "name 1", "start 0", "start 1"];
    assert_eq!(heard, expected);
    assert_eq!((pool.stats().completed, pool.stats().panicked), (3, 0), "handlers are no jobs");
}

#[test]
fn a_shutdown_waits_for_the_exit_handlers() {
    let (go, gone) = channel::<()>();
    let (gone, has_exited) = (Mutex::new(gone), Arc::new(AtomicBool::new(false)));
    let theirs = has_exited.clone();
    let pool = builder(1)
        .exit_handler(move |_| {
            let _ = gone.lock().expect("no poison").recv();
            theirs.store(true, Ordering::Release);
        })
        .build()
        .expect("a pool");
    let error = pool.shutdown(Shutdown::Drain, Duration::from_millis(20)).expect_err("it exits still");
    assert_eq!(error.threads, 1);
    drop(go);
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    assert!(has_exited.load(Ordering::Acquire));
}

#[test]
fn handlers_may_use_the_pool() {
    static POOL: OnceLock<FriendlyPool> = OnceLock::new();
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    let built = builder(2)
        .start_handler(|_| {
            // The first worker is started before the pool is there.
            if let Some(pool) = POOL.get() {
                pool.execute(|| _ = STARTED.fetch_add(1, Ordering::Relaxed)).expect("open");
            }
        })
        .exit_handler(|_| {
            let pool = POOL.get().expect("built");
            let is_refused = pool.execute(|| ()) == Err(ExecuteError::Closed);
            REFUSED.fetch_add(usize::from(is_refused), Ordering::Relaxed);
            pool.shutdown(Shutdown::Drain, LONG).expect("the others end");
        })
        .build()
        .expect("a pool");
    let pool = POOL.get_or_init(|| built);
    occupy(pool, 2);
    until("the job of a handler", || STARTED.load(Ordering::Relaxed) >= 1);
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    until("the exits", || REFUSED.load(Ordering::Relaxed) == 2);
}

#[test]
fn threads_have_the_names_that_the_program_gives_them() {
    let pool = builder(2).name("pool").thread_name(|index| format!("io\0 {index}")).build().expect("a pool");
    assert_eq!(pool.name(), "pool");
    let name = pool.submit(|| thread::current().name().map(str::to_owned)).expect("open").join();
    let name = name.expect("done").expect("a name");
    assert!(["io 0", "io 1"].contains(&&*name), "{name}");
}
