//! Range locks across machines while processes and members of etcd are killed, stopped, and started
//! again.

#[path = "common/sessions.rs"]
mod sessions;

use manx::range::cluster::{Error, Options, Session};
use sessions::{TTL, member, options, session, waiting};
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use testing::etcd::Cluster;
use testing::process::Running;
use testing::{LONG, Stop, eventually, full, until};

/// Where a child of a test finds etcd.
const ENDPOINTS: &str = "MANX_ETCD";

#[test]
fn members_are_killed_stopped_and_started_again() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let leader = eventually("a leader", || cluster.leader());
    cluster.kill(leader);
    until("another leader", || cluster.leader().is_some_and(|other| other != leader));
    cluster.restart(&[leader]);
    let leader = eventually("a leader", || cluster.leader());
    cluster.stop(leader);
    until("another leader", || cluster.leader().is_some_and(|other| other != leader));
    cluster.go_on(leader);
    cluster.restart(&[0, 1, 2]);
    assert_eq!((cluster.members(), cluster.endpoints().len()), (3, 3));
}

/// What the tests of processes run, each in a process of its own: it holds a range, and writes a
/// line for each line that it reads.
#[test]
fn holder() {
    let Some(endpoints) = std::env::var_os(ENDPOINTS) else { return };
    let endpoints: Vec<String> = endpoints.to_string_lossy().split(',').map(Into::into).collect();
    let session = Session::connect(Options::new(endpoints).ttl(TTL).connect_timeout(LONG)).unwrap();
    let (send, receive) = mpsc::channel();
    session.on_lost(move || send.send(()).unwrap());
    let guard = session.range_lock::<u64>("process").lock(0..10).unwrap();
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() > 0 {
        // A session that is lost tells it.
        let is_lost = guard.is_lost();
        if is_lost {
            receive.recv_timeout(LONG).unwrap();
        }
        println!("token={} {is_lost}", guard.token());
        line.clear();
    }
}

fn start_holder(cluster: &Cluster) -> (Running, u64) {
    let endpoints = cluster.endpoints().join(",");
    let mut holder = Running::again("holder", &[(ENDPOINTS, OsStr::new(&endpoints))]);
    let answer = holder.ask("", "token=");
    let (token, is_lost) = answer.split_once(' ').unwrap();
    assert_eq!(is_lost, "false");
    (holder, token.parse().unwrap())
}

#[test]
fn the_ranges_of_a_process_that_is_killed_or_stopped_go_to_others() {
    let Some(cluster) = member() else { return };
    let session = session(cluster);
    let lock = session.range_lock::<u64>("process");
    let (mut killed, first) = start_holder(cluster);
    assert_eq!(lock.try_lock(5..6).unwrap_err(), Error::WouldBlock);
    killed.child.kill().unwrap();
    let second = lock.lock(5..6).unwrap();
    assert!(second.token() > first);
    drop(second);
    let (mut stopped, third) = start_holder(cluster);
    let signal = |name: &str| {
        let kill = format!("kill -{name} {}", stopped.child.id());
        assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    };
    signal("STOP");
    let fourth = lock.lock(5..6).unwrap();
    // A resource that has seen this token refuses that of the stopped process.
    assert!(fourth.token() > third);
    signal("CONT");
    assert_eq!(stopped.ask("", "token="), format!("{third} true"));
}

#[test]
fn a_waiter_finds_another_member_when_its_own_dies_or_stops() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    // The holder asks member 2, and the waiters ask member 0 first.
    let patient = Duration::from_secs(60);
    let holder = Session::connect(Options::new(&cluster.endpoints()[2..]).ttl(patient)).unwrap();
    let waits = Session::connect(options(&cluster).ttl(5 * TTL)).unwrap();
    let (holds, waits) = (holder.range_lock::<u64>("resumed"), waits.range_lock::<u64>("resumed"));
    for kills in [true, false] {
        let held = holds.lock(0..10).unwrap();
        let (token, leader) = (held.token(), eventually("a leader", || cluster.leader()));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| waits.lock_timeout(5..6, LONG).map(|guard| guard.token()));
            waiting(&holds, 1);
            let member = if kills { 0 } else { 1 };
            if kills {
                cluster.kill(member);
            } else {
                cluster.stop(member);
            }
            if leader == member {
                until("another leader", || cluster.leader().is_some_and(|other| other != member));
            }
            held.unlock().unwrap();
            assert!(waiter.join().unwrap().unwrap() > token);
            cluster.restart(&[member]);
        });
    }
}

#[test]
fn an_etcd_that_does_not_answer_ends_a_session_and_is_told() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    let session = Session::connect(options(&cluster).ttl(TTL)).unwrap();
    let lock = session.range_lock::<u64>("away");
    let held = lock.lock(0..10).unwrap();
    cluster.stop(0);
    let error = lock.lock(20..30).unwrap_err();
    let Error::SessionLost(why) = &error else { panic!("{error}") };
    assert!(why.contains("did not answer for"), "{error}");
    assert!(held.is_lost() && session.is_lost());
    drop((held, lock, session));
    let limit = Duration::from_millis(300);
    let options = Options::new(cluster.endpoints()).connect_timeout(limit);
    let error = Session::connect(options.clone()).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { after, .. } if *after == limit), "{error}");
    cluster.kill(0);
    // A member that refuses at once is asked very often in this time.
    let limit = Duration::from_secs(5);
    let error = Session::connect(options.connect_timeout(limit)).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { after, .. } if *after == limit), "{error}");
    cluster.restart(&[0]);
}

/// A resource that refuses tokens which are lower than one that it has seen, and knows its owners.
#[derive(Default)]
struct Resource {
    token: AtomicU64,
    /// The writer, or 0.
    writer: AtomicU64,
}

#[test]
fn clients_exclude_each_other_while_members_die_and_stop() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    const CLIENTS: u64 = 6;
    const KEYS: u64 = 4;
    let rounds = if full() { 60 } else { 6 };
    let resources: [Resource; KEYS as usize] = Default::default();
    let (done, granted) = (AtomicBool::new(false), AtomicU64::new(0));
    let tick = || granted.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let stop = Stop(&done);
        for client in 1..=CLIENTS {
            let mut endpoints = cluster.endpoints();
            endpoints.rotate_left(client as usize % 3);
            let (resources, done, granted) = (&resources, &done, &granted);
            scope.spawn(move || {
                // Such a session is not lost by an election.
                let options = Options::new(endpoints).ttl(Duration::from_secs(60)).connect_timeout(LONG);
                let session = Session::connect(options).unwrap();
                let lock = session.range_lock::<u64>("crowd");
                let mut random = fastrand::Rng::with_seed(client);
                while !done.load(Ordering::SeqCst) {
                    let start = random.u64(0..KEYS);
                    let range = start..random.u64(start + 1..=KEYS);
                    let guard = lock.lock(range.clone()).unwrap();
                    for resource in &resources[range.start as usize..range.end as usize] {
                        let before = resource.writer.swap(client, Ordering::SeqCst);
                        assert_eq!(before, 0, "two hold it at the same time");
                        let seen = resource.token.swap(guard.token(), Ordering::SeqCst);
                        assert!(seen < guard.token(), "{seen} was seen before {}", guard.token());
                    }
                    for resource in &resources[range.start as usize..range.end as usize] {
                        assert_eq!(resource.writer.swap(0, Ordering::SeqCst), client);
                    }
                    guard.unlock().unwrap();
                    granted.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let go_on = |what: &str| {
            let before = tick();
            until(what, || tick() > before + 3 * CLIENTS);
        };
        for round in 0..rounds {
            go_on("grants");
            let member = eventually("a leader", || cluster.leader());
            if round % 2 == 0 {
                cluster.kill(member);
                go_on("grants without a member");
                cluster.restart(&[member]);
            } else {
                cluster.stop(member);
                go_on("grants beside a stopped member");
                cluster.go_on(member);
            }
        }
        drop(stop);
    });
}
