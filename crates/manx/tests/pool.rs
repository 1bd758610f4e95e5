//! The pool: every queued job is run, whatever happens meanwhile.

use manx::pool::{
    BuildError, Control, ExecuteError, FriendlyPool, JoinError, JoinHandle, Priority, Shutdown, Task,
    TryExecuteError, block_in_place,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;
use testing::{LONG, until};

fn pool(workers: usize) -> FriendlyPool {
    FriendlyPool::builder().name("test").num_threads(workers).control(Control::Fixed).build().expect("a pool")
}

/// A job that has begun, and ends when the channel is dropped.
fn hold<T: Send + 'static>(pool: &FriendlyPool, result: T) -> (Sender<()>, JoinHandle<T>) {
    let (go, gone) = channel();
    let (begin, begun) = channel();
    let held = pool.submit(move || {
        begin.send(()).expect("a receiver");
        let _ = gone.recv();
        result
    });
    let held = held.expect("open");
    begun.recv().expect("it begins");
    (go, held)
}

/// Waits for the others.
fn rendezvous(all: &Barrier) {
    all.wait();
}

/// The threads of this process whose names begin with this.
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|its| its.starts_with(name)).count()
}

#[test]
fn every_job_runs_once_whichever_thread_queues_it() {
    for control in [Control::Pressure, Control::Share, Control::Fixed] {
        let pool = FriendlyPool::builder().num_threads(4).control(control).build().expect("a pool");
        let done = Arc::new(AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let done = done.clone();
                        pool.execute(move || {
                            done.fetch_add(1, Ordering::Relaxed);
                        })
                        .expect("open");
                    }
                });
            }
        });
        pool.shutdown(Shutdown::Drain, LONG).expect("ends");
        assert_eq!(done.load(Ordering::Relaxed), 8_000, "{control:?}");
        assert_eq!(pool.stats().completed, 8_000);
        assert_eq!((pool.stats().queued, pool.stats().active), (0, 0));
    }
}

#[test]
fn jobs_of_jobs_run_before_a_drained_pool_ends() {
    let pool = Arc::new(pool(2));
    let done = Arc::new(AtomicU32::new(0));
    fn more(pool: &Arc<FriendlyPool>, done: &Arc<AtomicU32>, depth: u32) {
        done.fetch_add(1, Ordering::Relaxed);
        for _ in 0..if depth == 0 { 0 } else { 2 } {
            let (theirs, done) = (pool.clone(), done.clone());
            pool.execute(move || more(&theirs, &done, depth - 1)).expect("from inside it is open");
        }
    }
    let (theirs, their_done) = (pool.clone(), done.clone());
    pool.execute(move || more(&theirs, &their_done, 9)).expect("open");
    until("jobs", || pool.shutdown(Shutdown::Drain, LONG).is_ok());
    assert_eq!(done.load(Ordering::Relaxed), (1 << 10) - 1);
    assert_eq!(pool.execute(|| ()), Err(ExecuteError::Closed));
}

#[test]
fn a_burst_wakes_all_workers_at_once() {
    let pool = pool(4);
    let all = Arc::new(Barrier::new(4));
    for _ in 0..50 {
        // None of the four ends before all have begun.
        let handles: Vec<_> =
            (0..4).map(|_| all.clone()).map(|all| pool.submit(move || rendezvous(&all))).collect();
        handles.into_iter().for_each(|handle| handle.expect("open").join().expect("no panic"));
    }
    assert_eq!(pool.stats().target, 4);
}

#[test]
fn at_most_the_builders_number_of_workers_is_active() {
    let pool = pool(2);
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    for _ in 0..300 {
        let (inside, most) = (inside.clone(), most.clone());
        pool.execute(move || {
            most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            thread::sleep(Duration::from_micros(200));
            inside.fetch_sub(1, Ordering::Relaxed);
        })
        .expect("open");
    }
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    assert_eq!(most.load(Ordering::Relaxed), 2);
}

#[test]
fn a_panic_is_contained_and_reported() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let their = heard.clone();
    let pool = FriendlyPool::builder()
        .num_threads(2)
        .panic_handler(move |text| {
            their.lock().expect("no poison").push(text.to_owned());
            panic!("a report that panics itself");
        })
        .build()
        .expect("a pool");
    let handles: Vec<_> =
        (0..100).map(|n| pool.submit(move || if n % 2 == 0 { panic!("job {n}") } else { n })).collect();
    for (n, handle) in handles.into_iter().enumerate() {
        match handle.expect("open").join() {
            Ok(value) => assert_eq!(value, n),
            Err(error) => assert_eq!(error.panic_message(), Some(&*format!("job {n}"))),
        }
    }
    pool.execute(|| std::panic::panic_any(7)).expect("open");
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.panicked, heard.lock().expect("no poison").len()), (101, 51, 51));
}

#[test]
fn a_payload_that_panics_in_drop_ends_no_worker() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("when dropped");
        }
    }
    let pool = pool(1);
    pool.execute(|| std::panic::panic_any(Bomb)).expect("open");
    assert_eq!(pool.submit(|| 1).expect("open").join().expect("done"), 1);
}

#[test]
fn a_full_queue_returns_an_error_and_the_job() {
    let pool = FriendlyPool::builder().num_threads(1).queue_capacity(2).build().expect("a pool");
    let (go, _held) = hold(&pool, ());
    pool.execute(|| ()).expect("room");
    pool.try_execute(|| ()).expect("room");
    let value = String::from("mine");
    let Err(TryExecuteError::Full(job)) = pool.try_execute(move || drop(value)) else { panic!("room") };
    let error = pool.execute_timeout(job, Duration::from_millis(5)).expect_err("no room");
    assert!(matches!(error, TryExecuteError::Full(_)), "{error}");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.execute(error.into_inner()));
        drop(go);
        waiting.join().expect("no panic").expect("room at last");
    });
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    assert_eq!(pool.stats().completed, 4);
}

#[test]
fn a_caller_that_waits_for_room_gets_an_error_at_shutdown() {
    let pool = FriendlyPool::builder().num_threads(1).queue_capacity(1).build().expect("a pool");
    let (go, _held) = hold(&pool, ());
    pool.execute(|| ()).expect("room");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.execute(|| ()));
        thread::sleep(Duration::from_millis(5));
        assert!(pool.shutdown(Shutdown::Drain, Duration::ZERO).is_err_and(|left| left.threads >= 1));
        assert_eq!(waiting.join().expect("no panic"), Err(ExecuteError::Closed));
        drop(go);
    });
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    assert_eq!(pool.stats().completed, 2);
}

#[test]
fn discarded_and_late_jobs_return_errors() {
    let pool = pool(1);
    let (go, first) = hold(&pool, ());
    let late = pool.submit_task(Task::new(|| ()).within(Duration::ZERO)).expect("open");
    let in_time = pool.submit_task(Task::new(|| 1).within(LONG).priority(Priority::High)).expect("open");
    drop(go);
    assert!(matches!(late.join(), Err(JoinError::Late)));
    assert_eq!(in_time.join().expect("in time"), 1);
    first.join().expect("ends");

    let (go, running) = hold(&pool, 2);
    let queued = pool.submit(|| ()).expect("open");
    assert!(pool.shutdown(Shutdown::Discard, Duration::ZERO).is_err());
    assert!(matches!(queued.join(), Err(JoinError::Discarded)));
    drop(go);
    assert_eq!(running.join().expect("it was begun"), 2);
    pool.shutdown(Shutdown::Discard, LONG).expect("ends");
    assert_eq!((pool.stats().late, pool.stats().completed), (1, 3));
    let latencies = pool.latencies();
    for histogram in [&latencies.queue, &latencies.service, &latencies.total] {
        assert_eq!(histogram.buckets().map(|(.., jobs)| jobs).sum::<u64>(), 3, "what is late has none");
    }
}

#[test]
fn a_blocked_worker_is_not_active() {
    let pool = pool(1);
    // A chain: each waits for the next one, on one active worker.
    let (mut first, mut hear) = channel::<u32>();
    let mut handles = Vec::new();
    for _ in 0..20 {
        let (tell, next) = channel();
        let own = std::mem::replace(&mut hear, next);
        handles.push(pool.submit(move || {
            let value = block_in_place(|| own.recv().expect("a message"));
            tell.send(value + 1).expect("heard");
        }));
    }
    until("all block", || pool.stats().blocked == 20);
    assert_eq!(pool.submit(|| 5).expect("open").join().expect("there is room for it"), 5);
    first.send(0).expect("heard");
    assert_eq!(hear.recv(), Ok(20));
    handles.into_iter().for_each(|handle| handle.expect("open").join().expect("done"));
    first = channel().0;
    drop(first);
    until("no worker blocks", || pool.stats().blocked == 0 && pool.stats().active == 0);
}

#[test]
fn jobs_that_wait_for_jobs_end_also_without_blocking_threads() {
    for threads in [0, 1, 64] {
        let pool =
            FriendlyPool::builder().num_threads(1).max_blocking_threads(threads).build().expect("a pool");
        fn fib(pool: &FriendlyPool, n: u32) -> u32 {
            if n < 2 {
                return n;
            }
            let (mut one, mut two) = (0, 0);
            pool.scope(|scope| {
                scope.spawn(|| one = fib(pool, n - 1));
                scope.spawn(|| two = fib(pool, n - 2));
            });
            one + two
        }
        assert_eq!(fib(&pool, 14), 377, "{threads}");
    }
}

#[test]
fn a_scope_ends_after_its_tasks_and_passes_on_their_panic() {
    let pool = pool(3);
    let mut values = vec![0; 64];
    pool.scope(|scope| {
        for (at, value) in values.iter_mut().enumerate() {
            scope.spawn(move || *value = at);
        }
    });
    assert!(values.iter().enumerate().all(|(at, value)| at == *value));
    let ended = AtomicUsize::new(0);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.scope(|scope| {
            for n in 0..10 {
                let ended = &ended;
                scope.spawn(move || {
                    ended.fetch_add(1, Ordering::Relaxed);
                    assert_ne!(n, 5, "the sixth");
                });
            }
        });
    }));
    assert!(result.is_err());
    assert_eq!(ended.into_inner(), 10);
    pool.shutdown(Shutdown::Discard, LONG).expect("ends");
    let mut done = false;
    pool.scope(|scope| scope.spawn(|| done = true));
    assert!(done, "by the calling thread");
}

#[test]
fn a_handle_can_be_awaited_and_dropped() {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let pool = pool(1);
    let (go, gone) = channel::<()>();
    let handle = pool
        .submit(move || {
            let _ = gone.recv();
            9
        })
        .expect("open");
    let handle = handle.join_timeout(Duration::from_millis(1)).expect_err("it waits");
    let mut handle = std::pin::pin!(handle);
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(handle.as_mut().poll(&mut context).is_pending());
    drop(go);
    use std::future::Future;
    let value = loop {
        match handle.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => break value,
            std::task::Poll::Pending => thread::park_timeout(LONG),
        }
    };
    assert_eq!(value.expect("done"), 9);
}

#[test]
fn a_thousand_pools_leave_no_threads() {
    for round in 0..1_000 {
        let pool = FriendlyPool::builder().name("thousand").num_threads(2).build().expect("a pool");
        if round % 2 == 0 {
            assert_eq!(pool.submit(move || round).expect("open").join().expect("done"), round);
        }
    }
    assert_eq!(threads_named("thousand"), 0);
}

#[test]
fn a_pool_may_be_dropped_by_its_own_job() {
    let own = Arc::new(pool(1));
    let their = own.clone();
    let (tell, hear) = channel();
    own.execute(move || {
        // The last one, once the other has been dropped.
        until("the other owner to end", || Arc::strong_count(&their) == 1);
        drop(their);
        tell.send(()).expect("heard");
    })
    .expect("open");
    drop(own);
    hear.recv().expect("it goes on");
}

#[test]
fn a_forked_child_gets_an_error() {
    let pool = pool(2);
    let pending = pool.submit(|| thread::sleep(Duration::from_millis(50))).expect("open");
    // SAFETY: the child uses what is its own, and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = pool.execute(|| ()) == Err(ExecuteError::Forked);
        let lost = matches!(pending.join(), Err(JoinError::Forked));
        let mut done = false;
        pool.scope(|scope| scope.spawn(|| done = true));
        drop(pool);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!(refused && lost && done))) };
    }
    let mut status = -1;
    // SAFETY: waits for the child of a moment ago.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    pending.join().expect("the parent's goes on");
}

#[test]
fn invalid_numbers_are_refused_with_a_reason() {
    let build = FriendlyPool::builder;
    assert!(matches!(build().num_threads(0).build(), Err(BuildError::NumThreads(0))));
    assert!(matches!(build().num_threads(1 << 20).build(), Err(BuildError::NumThreads(_))));
    assert!(matches!(build().queue_capacity(0).build(), Err(BuildError::QueueCapacity)));
    assert!(matches!(build().tick(Duration::ZERO).build(), Err(BuildError::Tick(_))));
    let error = build().num_threads(0).build().expect_err("no threads");
    assert_eq!(error.to_string(), "a pool needs 1 to 4096 threads, not 0");
    for overcommit in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = build().overcommit(overcommit).build().expect_err("no number of workers");
        assert!(error.to_string().contains("overcommitment"), "{error}");
    }
}

#[test]
fn an_idle_pool_uses_no_cpu_time() {
    let pool = FriendlyPool::builder().name("idling").num_threads(2).build().expect("a pool");
    let both = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let both = both.clone();
        pool.execute(move || rendezvous(&both)).expect("open");
    }
    // More than two: the control is born.
    for _ in 0..200 {
        pool.execute(|| thread::sleep(Duration::from_micros(100))).expect("open");
    }
    until("all is done", || pool.stats().completed == 202 && pool.stats().active == 0);
    let switches = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("proc");
        let status = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
        let ours = status.filter(|text| text.starts_with("Name:\tidling"));
        let count = |text: String| {
            let lines = text.lines().filter(|line| line.contains("ctxt_switches"));
            lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>()
        };
        ours.map(count).collect::<Vec<_>>()
    };
    assert!(switches().len() >= 2);
    // On a busy machine its threads may need some time until they sleep.
    until("none of its threads runs for 300 ms", || {
        let before = switches();
        thread::sleep(Duration::from_millis(300));
        before == switches()
    });
}

#[test]
fn each_worker_has_its_own_name() {
    let pool =
        FriendlyPool::builder().name("named").num_threads(3).control(Control::Fixed).build().expect("a pool");
    let all = Arc::new(Barrier::new(3));
    let name = |all: Arc<Barrier>| {
        move || {
            all.wait();
            thread::current().name().map(str::to_owned)
        }
    };
    let handles: Vec<_> = (0..3).map(|_| pool.submit(name(all.clone())).expect("open")).collect();
    let names: HashSet<_> =
        handles.into_iter().map(|handle| handle.join().expect("done").expect("a name")).collect();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| name.starts_with("named-")), "{names:?}");
}

#[test]
fn blocking_may_be_nested_and_mixed_with_waiting() {
    let pool = Arc::new(pool(1));
    let (tell, hear) = channel();
    let nested = pool
        .submit(move || block_in_place(|| block_in_place(|| hear.recv().expect("a message"))))
        .expect("open");
    until("it blocks", || pool.stats().blocked == 1);
    pool.execute(move || tell.send(3).expect("heard")).expect("open");
    assert_eq!(nested.join().expect("done"), 3);
    let own = pool.clone();
    let joined = pool.submit(move || {
        let inner = own.submit(|| 4).expect("from inside");
        block_in_place(|| inner.join().expect("done"))
    });
    assert_eq!(joined.expect("open").join().expect("done"), 4);
    until("no worker is active", || pool.stats().active == 0 && pool.stats().blocked == 0);
}

#[test]
fn payloads_that_panic_in_drop_end_no_worker_and_no_scope() {
    struct Endless;
    impl Drop for Endless {
        fn drop(&mut self) {
            if !thread::panicking() {
                std::panic::panic_any(Endless);
            }
        }
    }
    let pool = pool(1);
    pool.execute(|| std::panic::panic_any(Endless)).expect("open");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.scope(|scope| {
            scope.spawn(|| panic!("the first"));
            for _ in 0..3 {
                scope.spawn(|| std::panic::panic_any(Endless));
            }
        });
    }));
    assert!(result.is_err_and(|payload| {
        let first = payload.is::<&str>();
        std::mem::forget(payload);
        first
    }));
    assert_eq!(pool.submit(|| 1).expect("open").join().expect("done"), 1);
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
}

#[test]
fn many_tasks_that_wait_for_tasks_need_little_stack() {
    let pool = FriendlyPool::builder().num_threads(1).stack_size(256 * 1024).build().expect("a pool");
    let done = AtomicU32::new(0);
    pool.scope(|outer| {
        outer.spawn(|| {
            pool.scope(|scope| {
                for _ in 0..5_000 {
                    scope.spawn(|| {
                        pool.scope(|inner| {
                            for _ in 0..2 {
                                inner.spawn(|| {
                                    done.fetch_add(1, Ordering::Relaxed);
                                });
                            }
                        });
                    });
                }
            });
        });
    });
    assert_eq!(done.into_inner(), 10_000);
}

#[test]
fn pools_that_wait_for_room_in_each_other_make_progress() {
    let build =
        || Arc::new(FriendlyPool::builder().num_threads(1).queue_capacity(1).build().expect("a pool"));
    let (one, two) = (build(), build());
    let done = Arc::new(AtomicU32::new(0));
    for n in 0..100 {
        let (from, to) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let (to, done) = (to.clone(), done.clone());
        from.execute(move || {
            let done = done.clone();
            to.execute(move || {
                done.fetch_add(1, Ordering::Relaxed);
            })
            .expect("open");
        })
        .expect("open");
    }
    until("all", || done.load(Ordering::Relaxed) == 100);
}

#[test]
fn a_draining_pool_still_replaces_blocked_workers() {
    let pool =
        Arc::new(FriendlyPool::builder().num_threads(2).max_blocking_threads(0).build().expect("a pool"));
    let both = Arc::new(Barrier::new(2));
    let (own, their) = (pool.clone(), both.clone());
    // Both workers are born, and one is parked when the pool is closed.
    let warm: Vec<_> =
        (0..2).map(|_| both.clone()).map(|both| pool.submit(move || rendezvous(&both))).collect();
    warm.into_iter().for_each(|handle| handle.expect("open").join().expect("done"));
    let (begin, begun) = channel();
    let (go, gone) = channel::<()>();
    pool.execute(move || {
        begin.send(()).expect("heard");
        let _ = gone.recv();
        own.execute(move || rendezvous(&their)).expect("from inside");
        block_in_place(|| both.wait());
    })
    .expect("open");
    begun.recv().expect("it begins");
    assert!(pool.shutdown(Shutdown::Drain, Duration::ZERO).is_err());
    drop(go);
    pool.shutdown(Shutdown::Drain, LONG).expect("ends");
}

#[test]
fn all_workers_have_the_affinity_of_the_first_one() {
    let pool = pool(2);
    let all = platform::cpu::count();
    let both = Arc::new(Barrier::new(2));
    let counts = thread::scope(|scope| {
        let bound = scope.spawn(|| {
            platform::cpu::restrict(1);
            let count = |both: Arc<Barrier>| {
                move || {
                    both.wait();
                    platform::cpu::count()
                }
            };
            [0, 1].map(|_| pool.submit(count(both.clone())).expect("open"))
        });
        bound.join().expect("no panic").map(|handle| handle.join().expect("done"))
    });
    assert_eq!(counts, [all, all]);
}
