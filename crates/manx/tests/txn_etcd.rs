//! The data component in an etcd cluster, with real members that die, stop and come back.

#[path = "common/component.rs"]
mod component;
#[path = "common/remote.rs"]
mod remote;

use component::{conforms, delete, put, survives};
use manx::etcd::Address;
use manx::txn::{Batch, Change, Data, Isolation, Options, Outcome, Remote, RemoteOptions, Store, etcd};
use remote::{all, apply, get, some};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use testing::etcd::{Cluster, Setting};
use testing::process::is_installed;
use testing::{eventually, until};

const QUICK: RemoteOptions = RemoteOptions::new().lease_s(1);

/// The address of a store in the cluster.
fn address(cluster: &Cluster, prefix: &str) -> Address {
    format!("etcd://{}/{prefix}", cluster.endpoints().join(",")).parse().expect("an address")
}

fn open(cluster: &Cluster, prefix: &str, options: RemoteOptions) -> Remote {
    etcd::open(&address(cluster, prefix), options).expect("opened")
}

#[test]
fn it_does_what_every_component_does() {
    let Some(cluster) = Cluster::start(3) else { return };
    let stores = AtomicU32::new(0);
    conforms(|| open(&cluster, &format!("new/{}", stores.fetch_add(1, Ordering::Relaxed)), QUICK));
    survives(|| open(&cluster, "kept", QUICK));
}

#[test]
fn a_batch_beyond_the_limits_of_etcd_is_one_batch() {
    let Some(cluster) = Cluster::start(1) else { return };
    let first = open(&cluster, "large", QUICK);
    let owner = first.recover().expect("taken over");
    apply(&first, owner, 1, &[put("gone", "1"), put("stays", "1")]).expect("applied");
    let mut changes: Vec<Change> = (0..1000_u32)
        .map(|number| {
            let bytes = if number == 500 { 1 << 20 } else { 5000 };
            Change::Put {
                key: number.to_be_bytes().into(),
                value: vec![number.to_be_bytes()[3]; bytes].into(),
            }
        })
        .collect();
    changes.push(delete("gone"));
    let place =
        first.append(Batch { epoch: owner.epoch, id: 2, ..Batch::new(&changes, true) }).expect("appended");
    // What comes behind it is behind it.
    apply(&first, owner, 3, &[put("stays", "2")]).expect("applied");
    assert!(first.durable() > place);
    let expected = all(&first);
    assert_eq!((expected.len(), get(&first, "gone"), get(&first, "stays")), (1001, Ok(None), some("2")));
    drop(first);
    let second = open(&cluster, "large", QUICK);
    assert_eq!(second.recover().expect("taken over").last_id, 3);
    assert!(all(&second) == expected, "the same entries");
    // A store of transactions tells what does not fit.
    let store = Store::open(Options::new(), Box::new(second)).expect("opened");
    let error = store.run(Isolation::Snapshot, |it| it.put(b"key", &vec![0; (1 << 20) + 1])).unwrap_err();
    assert!(error.to_string().contains("1048576"), "{error}");
    store.run(Isolation::Snapshot, |it| it.put(b"key", &vec![0; 1 << 20])).expect("just within");
}

#[test]
fn a_server_waits_for_the_one_before_or_fences_it() {
    let Some(cluster) = Cluster::start(3) else { return };
    let first = open(&cluster, "shared", QUICK);
    let owner = first.recover().expect("taken over");
    apply(&first, owner, 1, &[put("a", "1")]).expect("applied");
    // The second one waits, the third one does not.
    static WAITS: AtomicBool = AtomicBool::new(false);
    let waiting = QUICK.when_waiting(|place| WAITS.store(place.ends_with("/shared"), Ordering::SeqCst));
    let (second, third) = (open(&cluster, "shared", waiting), open(&cluster, "shared", QUICK.at_once(true)));
    thread::scope(|scope| {
        let waits = scope.spawn(|| second.recover().expect("taken over"));
        until("it waits", || WAITS.load(Ordering::SeqCst));
        apply(&first, owner, 2, &[put("a", "2")]).expect("the store is still the first one's");
        let later = third.recover().expect("taken over");
        assert!(later.epoch > owner.epoch && later.last_id == 2);
        assert_eq!(get(&third, "a"), some("2"));
        let refused = apply(&first, owner, 3, &[put("a", "3")]).expect_err("fenced");
        assert_eq!(refused.outcome(), Outcome::Fenced, "{refused}");
        assert!(refused.to_string().contains("another server"), "{refused}");
        assert_eq!(get(&first, "a").expect_err("fenced").outcome(), Outcome::Fenced);
        apply(&third, later, 3, &[put("b", "1")]).expect("applied");
        // The end of an owner gives the store free at once.
        drop(third);
        let last = waits.join().expect("no panic");
        assert!(last.epoch > later.epoch && last.last_id == 3);
    });
    assert_eq!((get(&second, "a"), get(&second, "b")), (some("2"), some("1")));
    // One that only reads finds out too.
    let fourth = open(&cluster, "shared", QUICK.at_once(true));
    fourth.recover().expect("taken over");
    eventually("it is fenced", || second.get(b"a").err().filter(|error| error.outcome() == Outcome::Fenced));
}

/// A server that waits has followed all changes when it takes over: also over the loss of the
/// member that told them.
#[test]
fn a_server_that_waits_knows_all_entries() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let first = open(&cluster, "followed", QUICK);
    let owner = first.recover().expect("taken over");
    let many: Vec<Change> = (0..3000).map(|number| put(&format!("{number:04}"), "1")).collect();
    apply(&first, owner, 1, &many).expect("applied");
    static WAITS: AtomicBool = AtomicBool::new(false);
    let waiting = QUICK.when_waiting(|_| WAITS.store(true, Ordering::SeqCst));
    let second = open(&cluster, "followed", waiting);
    thread::scope(|scope| {
        let waits = scope.spawn(|| second.recover().expect("taken over"));
        until("it waits", || WAITS.load(Ordering::SeqCst));
        let mut dice = fastrand::Rng::with_seed(7);
        for id in 2..200 {
            let change = |_| {
                let key = format!("{:04}", dice.u32(..4000));
                if dice.bool() { put(&key, &id.to_string()) } else { delete(&key) }
            };
            let changes: Vec<Change> = (0..if id % 50 == 0 { 300 } else { 3 }).map(change).collect();
            apply(&first, owner, id, &changes).expect("applied");
            if id % 60 == 0 {
                cluster.restart(&[(id / 60) as usize % 3]);
            }
        }
        let expected = all(&first);
        drop(first);
        assert_eq!(waits.join().expect("no panic").last_id, 199);
        assert!(all(&second) == expected, "the same entries");
    });
}

#[test]
fn a_transaction_that_only_reads_finds_out_that_the_store_is_lost() {
    let Some(cluster) = Cluster::start(1) else { return };
    let store = Store::open(Options::new(), Box::new(open(&cluster, "read", QUICK))).expect("opened");
    store.run(Isolation::Snapshot, |it| it.put(b"a", b"1")).expect("committed");
    // An old snapshot keeps the versions of `a` in memory: no read of it asks the component.
    let mut old = store.session().expect("a session");
    let mut old = old.begin(Isolation::Snapshot).expect("begun");
    assert_eq!(old.get(b"a").expect("read").as_deref(), Some(&b"1"[..]));
    store.run(Isolation::Snapshot, |it| it.put(b"a", b"2")).expect("committed");
    let next = open(&cluster, "read", QUICK.at_once(true));
    let owner = next.recover().expect("taken over");
    apply(&next, owner, owner.last_id + 1, &[put("a", "3")]).expect("applied");
    eventually("it is told", || store.run(Isolation::Snapshot, |it| it.get(b"a")).err());
    old.commit().expect_err("lost");
}

#[test]
fn commits_go_on_while_a_majority_of_the_members_lives() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let it = open(&cluster, "faults", QUICK);
    let owner = it.recover().expect("taken over");
    let mut id = 0;
    let mut commit = |times: u64| {
        for _ in 0..times {
            id += 1;
            apply(&it, owner, id, &[put("count", &id.to_string())]).expect("applied");
            assert_eq!(get(&it, "count"), some(&id.to_string()));
        }
    };
    commit(5);
    for member in 0..3 {
        cluster.kill(member);
        commit(5);
        cluster.restart(&[member]);
        cluster.stop(member);
        commit(5);
        cluster.go_on(member);
        commit(5);
    }
    let leader = eventually("a leader", || cluster.leader());
    cluster.stop(leader);
    commit(5);
    cluster.go_on(leader);
    drop(it);
    let again = open(&cluster, "faults", QUICK);
    again.recover().expect("taken over");
    assert_eq!(get(&again, "count"), some(&id.to_string()));
}

#[test]
fn without_an_answer_nothing_is_changed_any_more() {
    let Some(cluster) = Cluster::start(3) else { return };
    let it = open(&cluster, "silent", QUICK.patience(Duration::from_secs(2)));
    let owner = it.recover().expect("taken over");
    apply(&it, owner, 1, &[put("a", "1")]).expect("applied");
    // Two of three: there is no majority, and the third one cannot answer.
    cluster.stop(0);
    cluster.stop(1);
    let change = [put("a", "2")];
    let batch = Batch { epoch: owner.epoch, id: 2, ..Batch::new(&change, true) };
    let error = it.apply(batch).expect_err("no answer");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert!(error.to_string().contains("start again"), "{error}");
    assert_eq!(it.append(batch).expect_err("still unknown").outcome(), Outcome::Unknown);
    assert_eq!(apply(&it, owner, 3, &[put("b", "1")]).expect_err("broken").outcome(), Outcome::NotApplied);
    get(&it, "a").expect_err("it may not be there");
    cluster.go_on(0);
    cluster.go_on(1);
    get(&it, "a").expect_err("it may not be there");
    drop(it);
    let again = open(&cluster, "silent", QUICK);
    let found = again.recover().expect("taken over");
    assert_eq!(get(&again, "a"), some(&found.last_id.to_string()), "the record and the entries agree");
    assert_eq!(get(&again, "b"), Ok(None));
}

#[test]
fn an_owner_without_rivals_survives_the_loss_of_its_lease() {
    let Some(cluster) = Cluster::start(3) else { return };
    let it = open(&cluster, "alone", QUICK);
    let owner = it.recover().expect("taken over");
    apply(&it, owner, 1, &[put("a", "1")]).expect("applied");
    for member in 0..3 {
        cluster.stop(member);
    }
    thread::sleep(Duration::from_millis(1500));
    for member in 0..3 {
        cluster.go_on(member);
    }
    assert_eq!(get(&it, "a"), some("1"));
    apply(&it, owner, 2, &[put("a", "2")]).expect("applied");
    assert_eq!(get(&it, "a"), some("2"));
}

/// Etcd's space is exhausted: writes are refused, reads go on, and so do writes when an operator
/// has made room.
#[test]
fn without_room_in_etcd_reads_go_on_and_writes_do_when_there_is_room() {
    if !is_installed("etcdctl", "version") {
        return;
    }
    let options = vec![format!("--quota-backend-bytes={}", 8 << 20)];
    let Some(cluster) = Cluster::start_with(3, Setting { options, ..Setting::default() }) else { return };
    let it = open(&cluster, "full", QUICK);
    let owner = it.recover().expect("taken over");
    let large = |id: u64| put(&format!("key{}", id % 8), &format!("{id} {}", "x".repeat(100_000)));
    // Old revisions stay until they are compacted.
    let (last, error) = (1_u64..)
        .find_map(|id| Some((id, apply(&it, owner, id, &[large(id)]).err()?)))
        .expect("there is an end");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert!(
        error.to_string().contains("space exceeded") && error.to_string().contains("defragment"),
        "{error}"
    );
    static WAITS: AtomicBool = AtomicBool::new(false);
    let second = open(&cluster, "full", QUICK.when_waiting(|_| WAITS.store(true, Ordering::SeqCst)));
    thread::scope(|scope| {
        let waits = scope.spawn(|| second.recover());
        until("it waits", || WAITS.load(Ordering::SeqCst));
        // For longer than the lease: it is still the owner.
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            assert!(
                get(&it, &format!("key{}", (last - 1) % 8))
                    .unwrap()
                    .unwrap()
                    .starts_with(&(last - 1).to_string())
            );
            let error = apply(&it, owner, last + 1, &[delete("key0")]).expect_err("refused");
            assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        }
        assert!(!waits.is_finished());
        // Another store is told at once, and makes nothing.
        let other = open(&cluster, "other", QUICK);
        assert!(other.recover().expect_err("refused").to_string().contains("space exceeded"));

        let status = cluster.control(None, &["endpoint", "status", "-w", "json"]);
        let revision = status.split_once("\"revision\":").expect("a revision").1;
        let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
        cluster.control(None, &["compact", &revision]);
        cluster.control(None, &["defrag", "--cluster"]);
        cluster.control(None, &["alarm", "disarm"]);
        eventually("writes go on", || apply(&it, owner, last + 1, &[put("after", "1")]).ok());
        // What was not known is made: it came before.
        assert!(get(&it, &format!("key{}", last % 8)).unwrap().unwrap().starts_with(&last.to_string()));
        let expected = all(&it);
        drop(it);
        assert_eq!(waits.join().expect("no panic").expect("taken over").last_id, last + 1);
        assert!(all(&second) == expected, "the same entries");
    });
}

#[test]
fn what_is_no_store_is_told() {
    let Some(cluster) = Cluster::start(1) else { return };
    let error = |text: &str| {
        let quick = QUICK.patience(Duration::from_secs(1));
        etcd::open(&text.parse().expect("an address"), quick).expect_err("refused").to_string()
    };
    let none = error("etcd://127.0.0.1:1/x");
    assert!(none.contains("127.0.0.1:1: ") && none.contains("refused"), "{none}");
    let user = error(&format!("etcd://me:secret@{}/x", cluster.endpoints()[0]));
    assert!(user.contains("authentication is not enabled") && !user.contains("secret"), "{user}");
    let it = open(&cluster, "a", QUICK);
    assert!(it.append(Batch::default()).expect_err("refused").to_string().contains("recover"));
}
