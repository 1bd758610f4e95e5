//! Range locks across machines, on a real cluster of etcd.
//!
//! Sessions stand for machines: each has its own connection and its own lease.

#[path = "common/sessions.rs"]
mod sessions;

use manx::etcd::{Address, Plain};
use manx::range::cluster::{self, Error, Options, RangeLock, Session};
use manx::range::{Access, InvalidRange, Span, SpanSet};
use sessions::{TTL, member, options, session, waiting};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use testing::etcd::{Cluster, Setting, Tls};
use testing::process::is_installed;
use testing::{LONG, make_certificates, until};

/// Calls etcd without a lock.
fn plain(cluster: &Cluster, call: impl AsyncFnOnce(Plain) -> Result<(), String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address: Address = format!("etcd://{}/x", cluster.endpoints().join(",")).parse().unwrap();
    runtime.block_on(async { call(Plain::new(&address).unwrap()).await }).unwrap();
}

#[test]
fn ranges_that_overlap_exclude_each_other_unless_both_are_shared() {
    let Some(cluster) = member() else { return };
    let (one, other) = (session(cluster), session(cluster));
    let (one, other) = (one.range_lock::<u64>("basics"), other.range_lock::<u64>("basics"));
    let held = one.lock(10..20).unwrap();
    assert_eq!(
        (held.span().to_string(), held.access(), held.is_lost()),
        ("10..20".into(), Access::Exclusive, false)
    );
    for overlapping in [Span::new(0, 11).unwrap(), Span::from(19), Span::all(), Span::point(15)] {
        assert_eq!(other.try_lock(overlapping.clone()).unwrap_err(), Error::WouldBlock);
        assert_eq!(other.try_lock_shared(overlapping).unwrap_err(), Error::WouldBlock);
    }
    drop((other.try_lock(0..10).unwrap(), other.try_lock(20..).unwrap()));
    assert_eq!(other.lock_timeout(15..16, Duration::from_millis(20)).unwrap_err(), Error::TimedOut);
    assert_eq!(other.lock(5..5).unwrap_err(), Error::InvalidRange(InvalidRange::Empty));
    let before = held.token();
    held.unlock().unwrap();
    let readers = [one.lock_shared(0..10).unwrap(), other.lock_shared(5..15).unwrap()];
    assert!(readers.iter().all(|reader| reader.token() > before));
    assert_eq!(one.try_lock(7..8).unwrap_err(), Error::WouldBlock);
    drop(readers);
    // Another name is another lock, also if one begins as the other.
    let _held = one.lock(..).unwrap();
    for name in ["basic", "basics/", "basics#requests/"] {
        drop(session(cluster).range_lock::<u64>(name).try_lock(..).unwrap());
    }
}

#[test]
fn a_session_that_ends_gives_back_all_at_once() {
    let Some(cluster) = member() else { return };
    let (one, other) = (session(cluster), session(cluster));
    let lock = one.range_lock::<String>("ends");
    let guard = lock.lock("a".to_owned().."b".to_owned()).unwrap();
    let told = std::sync::Arc::new(AtomicBool::new(false));
    let callback = std::sync::Arc::clone(&told);
    one.on_lost(move || callback.store(true, Ordering::SeqCst));
    assert!(!one.is_lost() && one.ttl() >= TTL);
    // An operator ends it.
    plain(cluster, async |client| client.revoke(one.id()).await);
    let mine = other.range_lock::<String>("ends").lock("a".to_owned()..).unwrap();
    until("the session is lost", || one.is_lost());
    assert!(guard.is_lost());
    assert!(matches!(guard.unlock(), Err(Error::SessionLost(_))));
    let error = lock.try_lock("x".to_owned()..).unwrap_err();
    assert!(matches!(error, Error::SessionLost(_)), "{error}");
    until("the callback", || told.load(Ordering::SeqCst));
    drop(mine);
    // The last handle ends the lease, and with it what nothing gives back.
    let third = session(cluster);
    let owner = third.range_lock::<String>("ends").owner();
    drop(third);
    assert!(!owner.is_lost());
    drop(owner);
}

#[test]
fn an_owner_is_never_in_its_own_way() {
    let Some(cluster) = member() else { return };
    let (one, other) = (session(cluster), session(cluster));
    let (one, other) = (one.range_lock::<u64>("owner"), other.range_lock::<u64>("owner"));
    let mut owner = one.owner();
    owner.lock_shared(0..100).unwrap();
    owner.lock(10..20).unwrap();
    owner.lock(12..13).unwrap();
    owner.try_lock(50..120).unwrap();
    let token = owner.token();
    assert!(other.try_lock_shared(15..16).is_err() && other.try_lock_shared(60..61).is_err());
    drop(other.try_lock_shared(20..50).unwrap());
    owner.unlock(10..20).unwrap();
    assert!(other.try_lock_shared(12..13).is_err(), "it was locked twice");
    drop(other.try_lock_shared(13..14).unwrap());
    assert_eq!(owner.unlock(10..20), Err(Error::NotHeld));
    owner.release(12..80).unwrap();
    let held: Vec<String> = owner.held().map(|(span, access)| format!("{access:?} {span}")).collect();
    assert_eq!(held, ["Shared 0..12", "Shared 80..100", "Exclusive 80..120"]);
    let theirs = other.try_lock(12..80).unwrap();
    assert!(theirs.token() > token);
    assert!(other.try_lock_shared(80..81).is_err() && other.try_lock(0..1).is_err());
    assert_eq!(owner.release(30..40), Err(Error::NotHeld));
    owner.release_all().unwrap();
    drop(other.try_lock(80..).unwrap());
}

#[test]
fn an_upgrade_passes_a_waiter_that_waits_for_it() {
    let Some(cluster) = member() else { return };
    let (one, other) = (session(cluster), session(cluster));
    let (one, other) = (one.range_lock::<u64>("upgrade"), other.range_lock::<u64>("upgrade"));
    let mut owner = one.owner();
    owner.lock_shared(0..10).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock_timeout(0..10, LONG).unwrap().token());
        waiting(&one, 1);
        owner.lock(5..8).unwrap();
        // It keeps what it took past the waiter, also without the range that had this one wait.
        owner.unlock(0..10).unwrap();
        waiting(&one, 1);
        let token = owner.token();
        owner.release_all().unwrap();
        assert!(waiter.join().unwrap() > token);
    });
}

#[test]
fn an_owner_keeps_what_it_took_past_a_waiter_that_does_not_know_all_its_requests() {
    let Some(cluster) = member() else { return };
    let sessions = [(); 4].map(|()| session(cluster));
    let [zero, one, two, three] = sessions.each_ref().map(|its| its.range_lock::<u64>("grown"));
    let mut owner = one.owner();
    owner.lock(4..5).unwrap();
    let held = two.lock(0..2).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| zero.lock_shared_timeout(3..5, LONG).map(drop));
        waiting(&one, 1);
        // It passes the reader, so its first request grows when it is granted.
        let grows = scope.spawn(|| owner.lock(1..4).map(|()| owner));
        waiting(&one, 2);
        // This one waits for the second request: the first one has not grown yet.
        let waiter = scope.spawn(|| three.lock_timeout(0..2, Duration::from_secs(2)).map(drop));
        waiting(&one, 3);
        drop(held);
        let mut owner = grows.join().unwrap().unwrap();
        owner.lock(0..1).unwrap();
        owner.unlock(1..4).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Error::TimedOut));
        drop(owner);
        reader.join().unwrap().unwrap();
    });
}

#[test]
fn waiters_are_served_in_the_order_of_their_arrival() {
    let Some(cluster) = member() else { return };
    let first = session(cluster);
    let lock = first.range_lock::<u64>("order");
    let held = lock.lock(..).unwrap();
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..6_u64 {
            let (cluster, order) = (&cluster, &order);
            scope.spawn(move || {
                let session = session(cluster);
                // Readers and writers, and each overlaps its neighbours.
                let lock = session.range_lock::<u64>("order");
                let range = number * 10..number * 10 + 25;
                let guard = match number {
                    2 | 3 => lock.lock_shared_timeout(range, LONG).unwrap(),
                    _ => lock.lock_timeout(range, LONG).unwrap(),
                };
                order.lock().unwrap().push((number, guard.token()));
            });
            waiting(&lock, number as usize + 1);
        }
        assert!(order.lock().unwrap().is_empty());
        drop(held);
    });
    let order = order.into_inner().unwrap();
    assert_eq!(order.len(), 6);
    let at = |number| order.iter().position(|(its, _)| *its == number).unwrap();
    // Of two that conflict the first one was first, and has the lower token.
    for (early, late) in [(0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 4), (3, 5), (4, 5)] {
        assert!(at(early) < at(late), "{order:?}");
        assert!(order[at(early)].1 < order[at(late)].1, "{order:?}");
    }
}

#[test]
fn disjoint_ranges_do_not_wait_for_each_other() {
    let Some(cluster) = member() else { return };
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for number in 0..4_u64 {
            let (cluster, barrier) = (&cluster, &barrier);
            scope.spawn(move || {
                let session = session(cluster);
                let lock = session.range_lock::<u64>("disjoint");
                let _held = lock.lock(number * 10..(number + 1) * 10).unwrap();
                // All four hold their ranges here.
                barrier.wait();
            });
        }
    });
}

#[test]
fn a_circle_is_told_to_the_request_that_closes_it() {
    let Some(cluster) = member() else { return };
    let sessions = [0, 1, 2].map(|number| {
        Session::connect(options(cluster).name(format!("machine {number}"))).expect("etcd answers")
    });
    let locks = sessions.each_ref().map(|session| session.range_lock::<u64>("circle"));
    let mut owners = locks.each_ref().map(RangeLock::owner);
    for (number, owner) in (0_u64..).zip(&mut owners) {
        owner.set_tag(100 + number);
        owner.lock(number * 10..number * 10 + 5).unwrap();
    }
    let [first, second, third] = &mut owners;
    thread::scope(|scope| {
        let first = scope.spawn(|| first.lock_timeout(12..13, LONG));
        waiting(&locks[2], 1);
        let second = scope.spawn(|| second.lock_timeout(22..23, LONG).and_then(|()| second.release_all()));
        waiting(&locks[2], 2);
        let Err(Error::Deadlock(circle)) = third.lock(0..1) else { panic!("no deadlock") };
        let tags: Vec<_> = circle.links.iter().map(|link| (link.waiter.tag, link.holder.tag)).collect();
        assert_eq!(tags, [(Some(102), Some(100)), (Some(100), Some(101)), (Some(101), Some(102))]);
        assert!(circle.to_string().contains("machine 2"), "{circle}");
        // What it held it holds; the others go on when it gives that back.
        waiting(&locks[2], 2);
        third.release_all().unwrap();
        second.join().unwrap().unwrap();
        first.join().unwrap().unwrap();
    });
}

#[test]
fn a_thread_does_not_wait_for_itself() {
    let Some(cluster) = member() else { return };
    let session = session(cluster);
    let lock = session.range_lock::<u64>("itself");
    let held = lock.lock(0..10).unwrap();
    assert!(matches!(lock.lock(5..15), Err(Error::Deadlock(_))));
    assert_eq!(lock.lock_timeout(10..12, LONG).unwrap().span().to_string(), "10..12");
    drop(held);
    drop(lock.try_lock(5..15).unwrap());
}

#[test]
fn a_key_of_another_kind_is_named() {
    let Some(cluster) = member() else { return };
    plain(cluster, async |client| client.put("foreign#requests/x".into(), "y".into()).await);
    let error = session(cluster).range_lock::<u64>("foreign").lock(0..1).unwrap_err();
    assert_eq!(error, Error::Foreign("foreign#requests/x".into()));
}

#[test]
fn several_ranges_are_taken_together_or_not_at_all() {
    let Some(cluster) = member() else { return };
    let (one, other) = (session(cluster), session(cluster));
    let (one, other) = (one.range_lock::<u64>("many"), other.range_lock::<u64>("many"));
    let set = |keys: [u64; 2]| SpanSet::merged(keys.map(Span::point)).unwrap();
    let seven = other.lock(7..8).unwrap();
    assert_eq!(one.try_lock_many(set([3, 7]), Access::Exclusive).unwrap_err(), Error::WouldBlock);
    let late = one.lock_many_timeout(set([3, 7]), Access::Shared, Duration::from_millis(20));
    assert_eq!(late.unwrap_err(), Error::TimedOut);
    assert_eq!(
        one.lock_many_until(set([3, 7]), Access::Shared, Instant::now()).unwrap_err(),
        Error::TimedOut
    );
    drop(other.try_lock(3..4).expect("all or none"));
    let before = seven.token();
    drop(seven);
    let both = one.lock_many(set([7, 3])).unwrap();
    assert_eq!((both.spans(), both.access()), (&[Span::point(3), Span::point(7)][..], Access::Exclusive));
    assert!(both.token() > before && !both.is_lost());
    assert!(other.try_lock(3..4).is_err() && other.try_lock(7..8).is_err());
    drop(other.try_lock(4..7).unwrap());
    both.unlock().unwrap();
    let readers = (
        one.lock_many_as(set([3, 7]), Access::Shared).unwrap(),
        other.lock_many_as(set([7, 9]), Access::Shared).unwrap(),
    );
    drop(readers);
    // Owners take sets in different orders, and none of them is in a circle.
    thread::scope(|scope| {
        for lock in [&one, &other, &one, &other] {
            scope.spawn(move || {
                for round in 0..20 {
                    let mut owner = lock.owner();
                    let keys = if round % 2 == 0 { [3, 7] } else { [7, 3] };
                    owner.lock_many(set(keys), Access::Exclusive).unwrap();
                    owner.lock_many(set(keys), Access::Shared).expect("it has them");
                    assert_eq!(owner.held().count(), 4);
                    owner.unlock(Span::point(3)).unwrap();
                    assert!(lock.try_lock(3..4).is_err(), "it was locked twice");
                }
            });
        }
    });
    drop(one.try_lock(..).unwrap());
}

#[test]
fn a_deadline_limits_the_wait_and_nothing_else() {
    let Some(cluster) = member() else { return };
    let (one, other) = (session(cluster), session(cluster));
    let (one, other) = (one.range_lock::<u64>("until"), other.range_lock::<u64>("until"));
    let over = Instant::now();
    let held = one.lock_until(0..10, over).expect("it is free");
    assert_eq!(other.lock_until(9..11, over).unwrap_err(), Error::TimedOut);
    assert_eq!(other.lock_shared_until(9..11, over).unwrap_err(), Error::TimedOut);
    let mut owner = other.owner();
    owner.lock_until(20..30, over).unwrap();
    assert_eq!(owner.lock_shared_until(9..11, over), Err(Error::TimedOut));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock_shared_until(9..11, Instant::now() + LONG).map(drop));
        waiting(&one, 1);
        drop(held);
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(owner.held().count(), 1);
    owner.lock_shared_until(9..11, over).unwrap();
}

/// Many requests of several sizes: what a request reads has all that is in its way.
#[test]
fn a_crowd_of_ranges_of_all_sizes_excludes_as_a_few_do() {
    let Some(cluster) = member() else { return };
    let (one, other) = (session(cluster), session(cluster));
    let (one, other) = (one.range_lock::<u64>("sizes"), other.range_lock::<u64>("sizes"));
    let mut random = fastrand::Rng::with_seed(3);
    let mut held: Vec<(Span<u64>, _)> = Vec::new();
    for _ in 0..400 {
        let (far, long) = (random.u32(4..40), random.u32(1..20));
        let start = random.u64(0..1 << far);
        let span = Span::new(start, start + random.u64(1..1 << long)).unwrap();
        let is_free = held.iter().all(|(other, _)| !span.overlaps(other));
        let lock = if random.bool() { &one } else { &other };
        match lock.try_lock(span.clone()) {
            Ok(guard) => {
                assert!(is_free, "{span}");
                held.push((span, guard));
            }
            Err(error) => assert!(error == Error::WouldBlock && !is_free, "{span}: {error}"),
        }
        if random.u32(..4) == 0 && !held.is_empty() {
            drop(held.swap_remove(random.usize(..held.len())));
        }
    }
    assert!(held.len() > 50);
    assert!(one.try_lock(..).is_err() && other.try_lock(Span::from(u64::MAX)).is_ok());
    drop(held);
    drop(one.try_lock(..).unwrap());
}

#[test]
fn locks_are_reached_by_tls_and_as_a_user() {
    if !is_installed("etcdctl", "version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    if !make_certificates(folder.path()) {
        return;
    }
    let Some(cluster) =
        Cluster::start_with(1, Setting { tls: Some(Tls::of(folder.path())), ..Setting::default() })
    else {
        return;
    };
    cluster.demand_user(Some(folder.path()), "app", "open sesame", "files/");
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let tls = || cluster::Tls {
        authority: read("ca.pem"),
        identity: Some((read("client.pem"), read("client.key"))),
        domain: None,
    };
    let secure = |tls| options(&cluster).tls(tls).user("app", "open sesame");
    let named = cluster::Tls { domain: Some("member.test".into()), ..tls() };
    let (one, other) = (Session::connect(secure(tls())).unwrap(), Session::connect(secure(named)).unwrap());
    let held = one.range_lock::<u64>("files/1").lock(0..10).unwrap();
    let lock = other.range_lock::<u64>("files/1");
    assert_eq!(lock.try_lock(9..11).unwrap_err(), Error::WouldBlock);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.lock_timeout(9..11, LONG).map(|guard| guard.token()));
        waiting(&lock, 1);
        let token = held.token();
        held.unlock().unwrap();
        assert!(waiter.join().unwrap().unwrap() > token);
    });
    let error = one.range_lock::<u64>("others/1").lock(0..10).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("permission denied")), "{error}");
    // Without the right certificate, name or password it does not come in. A refusal by etcd comes
    // at once. Other members may have other certificates, so such an attempt ends with its time.
    let refused = |options: &Options, time: Duration| {
        Session::connect(options.clone().connect_timeout(time)).unwrap_err().to_string()
    };
    let error = refused(&options(&cluster).tls(tls()).user("app", "abracadabra"), LONG);
    assert!(error.contains("invalid user ID or password") && !error.contains("abracadabra"), "{error}");
    for (options, words) in [
        (secure(cluster::Tls { authority: read("client.pem"), ..tls() }), "certificate"),
        (secure(cluster::Tls { domain: Some("another.test".into()), ..tls() }), "certificate"),
        (options(&cluster).user("app", "open sesame"), "did not answer"),
    ] {
        let mut time = Duration::from_millis(150);
        until(words, || {
            time *= 2;
            refused(&options, time).contains(words)
        });
    }
    let error = refused(&Options::new(["http://127.0.0.1:1"]).tls(tls()), LONG);
    assert!(error.contains("https://"), "{error}");
}
