//! Tasks have an identity at range locks, whatever thread polls them.
//!
//! Most tests poll by hand, so that nothing depends on how fast a thread is; windows are empty or
//! endless. Two tests run on tokio, whose tasks move between threads.

#[path = "common/free.rs"]
mod free;

use free::assert_free;
use manx::range::{Access, Deadlock, Dump, Holder, LockError, Options, RangeLock, Span, SpanSet, Task, task};
use std::cell::Cell;
use std::future::{self, Future};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;
use testing::future::poll;
use testing::until;

use Access::{Exclusive, Shared};

/// Keys are blocks, so that there are ranges within one shard, over several, and wide ones.
const SMALL: Options = Options::new().block_log2(0);
/// No waiter may be overtaken, or every one for ever.
const STRICT: Options = SMALL.window(Duration::ZERO);
const LENIENT: Options = SMALL.window(Duration::MAX);

type Lock = RangeLock<u64, 8, 2>;

fn span(first: u64, end: u64) -> Span<u64> {
    Span::new(first, end).expect("it has a key")
}

/// A future that is pending once, so that others are polled.
fn others_first() -> impl Future<Output = ()> {
    let mut polled = false;
    future::poll_fn(move |context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Counts how often it is called.
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn holders(dump: &Dump<u64>) -> Vec<Holder> {
    dump.held.iter().map(|held| held.holder).collect()
}

/// The circle that was reported.
fn circle<T>(answer: Result<T, LockError>) -> Deadlock {
    match answer {
        Err(LockError::Deadlock(circle)) => *circle,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("no circle was found"),
    }
}

// Identities.

#[test]
fn what_a_task_locks_is_the_tasks() {
    let lock = Lock::with(SMALL);
    let task = task(async {
        let by_waiting = lock.lock_async(span(0, 1), Exclusive).await.unwrap();
        let by_blocking = lock.lock(1..2).unwrap();
        let many = lock.lock_many(SpanSet::disjoint([span(2, 3), span(4, 5)]).unwrap()).unwrap();
        let shared = by_waiting.downgrade().unwrap();
        let owner = lock.owner();
        assert_ne!(owner.holder(), Holder::current());
        let dump = lock.dump();
        drop((shared, by_blocking, many));
        dump
    });
    let holder = task.holder();
    assert!(holder.task_number().is_some() && holder.thread().is_none() && holder.owner_number().is_none());
    let Poll::Ready(dump) = poll(pin!(task)) else { panic!("no holder is in the way") };
    assert_eq!(holders(&dump), [holder; 4]);
    let name = format!("task {}", holder.task_number().unwrap());
    assert!(dump.to_string().contains(&name) && dump.to_json().contains(&name), "{dump}");
    assert_free(&lock);
}

#[test]
fn a_future_outside_of_tasks_has_no_identity() {
    let lock = Lock::with(SMALL);
    let Poll::Ready(guard) = poll(pin!(lock.lock_async(span(0, 1), Exclusive))) else { panic!("it is free") };
    assert_eq!(holders(&lock.dump()), [Holder::NOBODY]);
    drop(guard);
    let guard = lock.lock(0..1).unwrap();
    assert_eq!(holders(&lock.dump()), [Holder::current()]);
    assert!(Holder::current().thread().is_some());
    drop(guard);
}

#[test]
fn a_task_that_moves_between_threads_is_the_same() {
    let lock = &Lock::with(SMALL.detecting_deadlocks());
    let task = task(async {
        let mut seen = Vec::new();
        let mut guards = Vec::new();
        for key in 0..4 {
            guards.push(lock.lock_async(span(key, key + 1), Exclusive).await.unwrap());
            guards.push(lock.try_lock(key + 10..key + 11).unwrap());
            seen.push((Holder::current(), thread::current().id()));
            others_first().await;
        }
        let dump = lock.dump();
        // It waits for itself, wherever it began.
        let circle = circle(lock.lock_async(span(0, 2), Exclusive).await);
        (seen, dump, circle)
    });
    let holder = task.holder();
    let mut task = Box::pin(task);
    let (seen, dump, circle) = loop {
        let polled = thread::scope(|scope| {
            let polled = scope.spawn(|| {
                let thread = Holder::current();
                let polled = poll(task.as_mut());
                assert_eq!(Holder::current(), thread, "the thread is itself again");
                polled
            });
            polled.join().unwrap()
        });
        if let Poll::Ready(output) = polled {
            break output;
        }
    };
    assert!(seen.iter().all(|(seen, _)| *seen == holder));
    assert!(seen.windows(2).all(|pair| pair[0].1 != pair[1].1), "each poll was on a thread of its own");
    assert_eq!(holders(&dump), [holder; 8]);
    assert_eq!((circle.links[0].waiter, circle.links[0].holder), (holder, holder));
    drop(task);
    assert_free(lock);
}

#[test]
fn the_inner_task_wins_and_the_outer_one_comes_back() {
    let thread = Holder::current();
    let outer = task(async {
        let outer = Holder::current();
        let inner = task(async {
            let inner = Holder::current();
            others_first().await;
            assert_eq!(Holder::current(), inner);
            inner
        });
        let holder = inner.holder();
        let mut inner = pin!(inner);
        assert!(poll(inner.as_mut()).is_pending());
        assert_eq!(Holder::current(), outer);
        assert_eq!(inner.await, holder);
        assert_eq!(Holder::current(), outer);
        [outer, holder]
    });
    let holder = outer.holder();
    let Poll::Ready([seen, inner]) = poll(pin!(outer)) else { panic!("nothing is waited for") };
    assert_eq!(seen, holder);
    assert_ne!(inner, holder);
    assert_eq!(Holder::current(), thread);
}

/// Shows the identity of the thread that drops it.
struct Shows<'a>(&'a Cell<Option<Holder>>);

impl Drop for Shows<'_> {
    fn drop(&mut self) {
        self.0.set(Some(Holder::current()));
    }
}

#[test]
fn destructors_are_the_tasks() {
    let shown = Cell::new(None);
    let shows = Shows(&shown);
    let never = task(async move {
        let _shows = shows;
        future::pending::<()>().await;
    });
    let holder = never.holder();
    let mut never = Box::pin(never);
    assert!(poll(never.as_mut()).is_pending());
    drop(never);
    assert_eq!(shown.get(), Some(holder));
    assert_ne!(Holder::current(), holder);
}

#[test]
fn a_panic_brings_the_thread_back() {
    /// Panics when it is dropped.
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let thread = Holder::current();
    let outer = task(async {
        let me = Holder::current();
        let panics = async { panic!("on purpose") };
        assert!(catch_unwind(AssertUnwindSafe(|| poll(pin!(task(panics))).map(|(): ()| ()))).is_err());
        assert_eq!(Holder::current(), me);
        let dropped = task(future::ready(Panics));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(dropped))).is_err());
        assert_eq!(Holder::current(), me);
        panic!("on purpose, too");
    });
    assert!(catch_unwind(AssertUnwindSafe(|| poll(pin!(outer)).map(|(): ()| ()))).is_err());
    assert_eq!(Holder::current(), thread);
}

// Deadlocks.

#[test]
fn tasks_that_lock_in_opposite_orders_get_an_error() {
    for options in [STRICT, LENIENT] {
        let lock = &Lock::with(options.detecting_deadlocks());
        let transfer = |from: u64, to: u64| {
            task(async move {
                let _from = lock.lock_async(span(from, from + 1), Exclusive).await?;
                others_first().await;
                let _to = lock.lock_async(span(to, to + 1), Exclusive).await?;
                Ok::<(), LockError>(())
            })
        };
        let (one, other) = (transfer(0, 10), transfer(10, 0));
        let (first, second) = (one.holder(), other.holder());
        let (mut one, mut other) = (Box::pin(one), Box::pin(other));
        assert!(poll(one.as_mut()).is_pending() && poll(other.as_mut()).is_pending());
        assert!(poll(one.as_mut()).is_pending(), "it waits for the other one");
        let Poll::Ready(answer) = poll(other.as_mut()) else { panic!("no task could go on") };
        let circle = circle(answer);
        assert_eq!(circle.links.len(), 2);
        assert_eq!((circle.links[0].waiter, circle.links[0].holder), (second, first));
        assert_eq!((circle.links[1].waiter, circle.links[1].holder), (first, second));
        assert_eq!((&*circle.links[0].wants, &*circle.links[1].wants), ("0..1", "10..11"));
        let text = circle.to_string();
        assert!(text.contains(&first.to_string()) && text.contains(&second.to_string()), "{text}");
        // What it held it gave back.
        assert_eq!(poll(one.as_mut()), Poll::Ready(Ok(())));
        assert_free(lock);
    }
}

/// A circle through a task, a thread and an owner.
#[test]
fn a_circle_of_all_kinds_is_reported() {
    let lock = &Lock::with(LENIENT.detecting_deadlocks());
    let mut owner = lock.owner();
    owner.set_tag(17);
    owner.lock(0..1).unwrap();
    let name = owner.holder();
    let task = task(async move {
        let _held = lock.lock_async(span(10, 11), Exclusive).await.unwrap();
        // For the owner.
        lock.lock_async(span(0, 1), Exclusive).await.map(drop)
    });
    let holder = task.holder();
    let mut task = Box::pin(task);
    assert!(poll(task.as_mut()).is_pending());
    thread::scope(move |scope| {
        let thread = scope.spawn(|| {
            let _held = lock.lock(20..21).unwrap();
            // For the task.
            lock.lock(10..11).map(drop)
        });
        until("two waiters", || lock.dump().waiting.len() == 2);
        let mut waits = Box::pin(owner.lock_async(20..21));
        let Poll::Ready(answer) = poll(waits.as_mut()) else { panic!("no task could go on") };
        drop(waits);
        let circle = circle(answer);
        let waiters: Vec<Holder> = circle.links.iter().map(|link| link.waiter).collect();
        assert_eq!((waiters[0], waiters[2]), (name, holder));
        assert!(waiters[1].thread().is_some());
        assert_eq!((circle.links[0].waiter_tag, circle.links[2].holder_tag), (Some(17), Some(17)));
        drop(owner);
        assert_eq!(poll(task.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(thread.join().unwrap(), Ok(()));
    });
    assert_free(lock);
}

/// A task has a future that came first and that it does not poll, and waits for another one behind
/// that.
#[test]
fn a_task_that_waits_behind_itself_gets_an_error() {
    let lock = &Lock::with(STRICT.detecting_deadlocks());
    let stranger = lock.lock(0..1).unwrap();
    let waits = task(async {
        let mut forgotten = Box::pin(lock.lock_async(span(0, 5), Exclusive));
        assert!(poll(forgotten.as_mut()).is_pending());
        let answer = lock.lock_async(span(4, 9), Exclusive).await;
        circle(answer)
    });
    let holder = waits.holder();
    let Poll::Ready(circle) = poll(pin!(waits)) else { panic!("it is behind itself") };
    assert_eq!((circle.links[0].waiter, circle.links[0].holder), (holder, holder));
    drop(stranger);
    assert_free(lock);
}

// Courtesy.

/// A starving waiter waits for a task, which takes more of the wanted range.
#[test]
fn a_task_does_not_queue_behind_a_waiter_for_it() {
    let lock = &Lock::with(STRICT);
    let body = || async {
        let first = lock.lock_async(span(0, 1), Exclusive).await.unwrap();
        others_first().await;
        let more = lock.lock_async(span(20, 22), Exclusive).await.unwrap();
        let again = lock.lock_async(span(23, 24), Shared).await.unwrap();
        let tried = lock.try_lock(24..25).unwrap();
        let many = lock.lock_many(SpanSet::disjoint([span(25, 26), span(28, 29)]).unwrap()).unwrap();
        drop((first, more, again, tried, many));
    };
    for identified in [true, false] {
        // Without an identity the same future queues behind a waiter that waits for it, for ever.
        let mut holds: Pin<Box<dyn Future<Output = ()>>> =
            if identified { Box::pin(task(body())) } else { Box::pin(body()) };
        assert!(poll(holds.as_mut()).is_pending());
        let mut waits = Box::pin(task(lock.lock_async(span(0, 30), Exclusive)));
        assert!(poll(waits.as_mut()).is_pending() && poll(waits.as_mut()).is_pending());
        assert!(lock.dump().waiting[0].starving);
        {
            // The starving waiter does not want these.
            let mut other = Box::pin(task(lock.lock_async(span(20, 22), Exclusive)));
            assert!(poll(other.as_mut()).is_pending(), "it queues");
        }
        assert!(lock.try_lock(20..22).is_err(), "the thread is not the task");
        assert_eq!(poll(holds.as_mut()).is_ready(), identified);
        drop(holds);
        assert!(poll(waits.as_mut()).is_ready());
        drop(waits);
        assert_free(lock);
    }
}

/// All lock in the order of keys, and one wants two ranges at once. The second task queues behind
/// that one, which waits for the first; when the first comes to wait for the second, the second is
/// let pass.
#[test]
fn a_circle_by_way_of_a_waiter_for_several_is_opened() {
    let lock = &Lock::with(STRICT);
    let takes = |first: u64, then: u64| {
        Box::pin(task(async move {
            let first = lock.lock_async(Span::point(first), Exclusive).await.unwrap();
            others_first().await;
            let then = lock.lock_async(Span::point(then), Exclusive).await.unwrap();
            drop((first, then));
        }))
    };
    let (mut first, mut second) = (takes(0, 10), takes(10, 20));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    // The tasks go with the closure: should one be found wrong, no thread waits for what they hold.
    thread::scope(move |scope| {
        scope.spawn(|| {
            drop(lock.lock_many(SpanSet::disjoint([Span::point(0), Span::point(20)]).unwrap()).unwrap());
        });
        until("a starving waiter", || lock.dump().waiting.first().is_some_and(|waiter| waiter.starving));
        let calls = Arc::new(Calls(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&calls));
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "it queues");
        assert_eq!(calls.0.load(Ordering::Relaxed), 0);
        assert!(poll(first.as_mut()).is_pending());
        assert_eq!(calls.0.load(Ordering::Relaxed), 1, "it is let pass");
        assert!(poll(second.as_mut()).is_ready());
        assert!(poll(first.as_mut()).is_ready());
    });
    assert_free(lock);
}

/// A task's guard is dropped on another thread, where the task is not known.
#[test]
fn a_tasks_guard_is_given_back_on_another_thread() {
    for options in [STRICT, LENIENT] {
        let lock = &Lock::with(options);
        let Poll::Ready(guard) = poll(pin!(task(lock.lock_async(span(0, 4), Exclusive)))) else {
            panic!("it is free")
        };
        let guard = guard.unwrap();
        let calls = Arc::new(Calls(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&calls));
        let mut waits = Box::pin(task(lock.lock_async(span(2, 6), Exclusive)));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        thread::scope(|scope| scope.spawn(|| drop(guard)).join().unwrap());
        assert_eq!(calls.0.load(Ordering::Relaxed), 1);
        let holder = waits.holder();
        let Poll::Ready(guard) = poll(waits.as_mut()) else { panic!("its turn") };
        assert_eq!(holders(&lock.dump()), [holder]);
        drop(guard);
        assert_free(lock);
    }
}

/// A task is dropped on another thread while it holds something and waits for more.
#[test]
fn a_task_that_is_dropped_elsewhere_leaves_nothing_behind() {
    for options in [STRICT, LENIENT] {
        let lock = &Lock::with(options);
        let stranger = lock.lock(10..11).unwrap();
        let mut dropped: Pin<Box<Task<_>>> = Box::pin(task(async {
            let _held = lock.lock_async(span(0, 4), Exclusive).await;
            drop(lock.lock_async(span(10, 14), Exclusive).await);
        }));
        assert!(poll(dropped.as_mut()).is_pending());
        let mut waits = Box::pin(task(lock.lock_async(span(2, 6), Exclusive)));
        assert!(poll(waits.as_mut()).is_pending());
        thread::scope(|scope| scope.spawn(move || drop(dropped)).join().unwrap());
        assert!(poll(waits.as_mut()).is_ready());
        drop((waits, stranger));
        assert_free(lock);
    }
}

// On a runtime that moves tasks between threads.

/// Runs this number of tasks on four threads.
fn run<F: Future<Output = ()> + Send + 'static>(count: u64, body: impl Fn(u64) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let running: Vec<_> = (0..count).map(|me| tokio::spawn(task(body(me)))).collect();
        for task in running {
            task.await.unwrap();
        }
    });
}

/// A task that locks in the order of keys comes to an end, whatever others want at once.
#[test]
fn tasks_lock_in_the_order_of_keys() {
    for options in [STRICT, SMALL, LENIENT] {
        let lock: &'static Lock = Box::leak(Box::new(Lock::with(options)));
        run(16, |me| async move {
            for turn in 0..200 {
                let mut owner = (me % 4 == 1).then(|| lock.owner());
                let mut guards = Vec::new();
                if me % 4 == 0 {
                    let set = [Span::point(turn % 5), Span::point(5 + turn % 7), Span::point(15)];
                    drop(lock.lock_async(set[turn as usize % 3].clone(), Exclusive).await.unwrap());
                    // It holds nothing while it waits. The thread blocks, which others make up for.
                    drop(tokio::task::block_in_place(|| {
                        lock.lock_many(SpanSet::disjoint(set).unwrap()).unwrap()
                    }));
                    continue;
                }
                let mut key = (me + turn) % 4;
                while key < 16 {
                    let end = key + 1 + turn % 3;
                    match &mut owner {
                        Some(owner) => owner.lock_async(key..end).await.unwrap(),
                        None => guards.push(lock.lock_async(span(key, end), Exclusive).await.unwrap()),
                    }
                    if turn % 5 == 0 {
                        tokio::task::yield_now().await;
                    }
                    key = end + me % 3;
                }
            }
        });
        assert_free(lock);
    }
}

/// A task that locks in any order gives all back when it gets a circle, and tries again until it
/// has all.
#[test]
fn tasks_lock_in_any_order_and_circles_are_reported() {
    for options in [STRICT, SMALL, LENIENT] {
        let lock: &'static Lock = Box::leak(Box::new(Lock::with(options.detecting_deadlocks())));
        let circles: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
        run(12, |me| async move {
            for turn in 0..100 {
                let wanted = [(me * 7 + turn) % 12, (me * 5 + turn * 3) % 12, (me + turn * 11) % 12];
                'again: loop {
                    let mut owner = (me % 2 == 0).then(|| lock.owner());
                    let mut guards = Vec::new();
                    for (nth, key) in wanted.into_iter().enumerate() {
                        if wanted[..nth].contains(&key) {
                            continue;
                        }
                        let taken = match &mut owner {
                            Some(owner) => owner.lock_async(key..key + 1).await,
                            None => {
                                lock.lock_async(Span::point(key), Exclusive).await.map(|one| guards.push(one))
                            }
                        };
                        if let Err(error) = taken {
                            assert!(matches!(error, LockError::Deadlock(_)), "{error}");
                            circles.fetch_add(1, Ordering::Relaxed);
                            drop((owner, guards));
                            tokio::task::yield_now().await;
                            continue 'again;
                        }
                        tokio::task::yield_now().await;
                    }
                    break;
                }
            }
        });
        assert!(circles.load(Ordering::Relaxed) > 0, "no two tasks met");
        assert_free(lock);
    }
}
