//! Range locks across machines, for tasks: futures of any executor, which may be dropped.

#[path = "common/sessions.rs"]
mod sessions;

use manx::range::cluster::Error;
use manx::range::{Access, Span, SpanSet, task};
use sessions::{session, waiting};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use testing::etcd::Cluster;
use testing::{eventually, until};
use tokio::runtime::Builder;

fn span(start: u64, end: u64) -> Span<u64> {
    Span::new(start, end).expect("a range")
}

/// Polls it in this thread, which is no executor, until it is ready.
fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    eventually("the future", || match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    })
}

#[test]
fn tasks_of_any_executor_exclude_each_other() {
    let Some(cluster) = Cluster::start(1) else { return };
    let (one, other) = (session(&cluster), session(&cluster));
    let (one, other) = (one.range_lock::<u64>("tasks"), other.range_lock::<u64>("tasks"));
    let held = finish(one.lock_async(span(0, 10), Access::Exclusive)).unwrap();
    assert_eq!(other.try_lock(9..11).unwrap_err(), Error::WouldBlock);
    // Tasks that share two threads, and a thread.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let tasks: Vec<_> = (0..6_u64)
        .map(|number| {
            let lock = if number % 2 == 0 { one.clone() } else { other.clone() };
            runtime.spawn(task(async move {
                let guard = lock.lock_async(span(number, number + 6), Access::Exclusive).await?;
                let token = guard.token();
                guard.unlock_async().await?;
                Ok::<u64, Error>(token)
            }))
        })
        .collect();
    waiting(&other, 6);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| one.lock(5..6).unwrap().token());
        waiting(&other, 7);
        let before = held.token();
        finish(held.unlock_async()).unwrap();
        let mut tokens: Vec<u64> = tasks.into_iter().map(|it| finish(it).unwrap().unwrap()).collect();
        tokens.push(thread.join().unwrap());
        assert!(tokens.iter().all(|token| *token > before));
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), 7, "each of them alone");
    });
    // All or none, also for a task.
    let set = SpanSet::merged([Span::point(3), Span::point(7)]).unwrap();
    let both = finish(one.lock_many_async(set, Access::Exclusive)).unwrap();
    assert!(other.try_lock(3..4).is_err() && other.try_lock(4..7).is_ok());
    finish(both.unlock_async()).unwrap();
    drop(other.try_lock(..).unwrap());
}

#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    let Some(cluster) = Cluster::start(1) else { return };
    let (one, other) = (session(&cluster), session(&cluster));
    let (one, other) = (one.range_lock::<u64>("dropped"), other.range_lock::<u64>("dropped"));
    let held = one.lock(0..10).unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..40 {
        // Before it entered, while it enters, while it waits.
        let mut future = Box::pin(other.lock_async(span(9, 20), Access::Exclusive));
        for _ in 0..round % 4 {
            assert!(future.as_mut().poll(context).is_pending());
            std::thread::sleep(std::time::Duration::from_micros(random.u64(..800)));
        }
        if round == 39 {
            until("it waits", || {
                assert!(future.as_mut().poll(context).is_pending());
                one.dump().unwrap().iter().any(|entry| entry.waits)
            });
        }
        drop(future);
    }
    until("only the holder is left", || one.dump().unwrap().len() == 1);
    drop(held);
    // Granted, and not yet noticed: it goes as well.
    let held = one.lock(0..10).unwrap();
    let mut future = Box::pin(other.lock_async(span(9, 20), Access::Exclusive));
    until("it waits", || {
        assert!(future.as_mut().poll(context).is_pending());
        one.dump().unwrap().iter().any(|entry| entry.waits)
    });
    drop(held);
    drop(future);
    until("nothing is left", || one.dump().unwrap().is_empty());
    drop(one.try_lock(..).unwrap());
}

#[test]
fn owners_lock_without_a_thread() {
    let Some(cluster) = Cluster::start(1) else { return };
    let (one, other) = (session(&cluster), session(&cluster));
    let (one, other) = (one.range_lock::<u64>("owners"), other.range_lock::<u64>("owners"));
    let (mut first, mut second) = (one.owner(), other.owner());
    finish(first.lock_shared_async(0..10)).unwrap();
    finish(second.lock_async(20..30)).unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    {
        let mut waits = Box::pin(first.lock_as_async(span(20, 21), Access::Shared));
        until("it waits", || {
            assert!(waits.as_mut().poll(context).is_pending());
            other.dump().unwrap().iter().any(|entry| entry.waits)
        });
        assert!(matches!(finish(second.lock_async(5..6)), Err(Error::Deadlock(_))));
        finish(second.release_all_async()).unwrap();
        finish(waits).unwrap();
    }
    assert_eq!(first.held().count(), 2);
    // An upgrade past a waiter, which is dropped in the middle now and then.
    let mut waiter = Box::pin(other.lock_async(span(0, 10), Access::Exclusive));
    until("it waits", || {
        assert!(waiter.as_mut().poll(context).is_pending());
        one.dump().unwrap().iter().any(|entry| entry.waits)
    });
    for polls in 0..30 {
        let mut grows = Box::pin(first.lock_async(5..8));
        let is_done = (0..polls).any(|_| {
            std::thread::sleep(std::time::Duration::from_micros(300));
            grows.as_mut().poll(context).is_ready()
        });
        drop(grows);
        if is_done {
            first.unlock(5..8).unwrap();
        }
        assert_eq!(first.held().count(), 2);
    }
    finish(first.lock_async(5..8)).unwrap();
    first.unlock(0..10).unwrap();
    assert!(waiter.as_mut().poll(context).is_pending());
    finish(first.release_all_async()).unwrap();
    let guard = finish(waiter).unwrap();
    assert!(guard.token() > first.token());
    finish(guard.unlock_async()).unwrap();
    drop(one.try_lock(..).unwrap());
}
