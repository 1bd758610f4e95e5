//! The data component in an etcd cluster, with real members that die, stop and come back.

#[path = "common/component.rs"]
mod component;
#[path = "common/remote.rs"]
mod remote;

use component::{conforms, delete, put, survives};
use manx::etcd::Address;
use manx::txn::{Batch, Change, Data, Isolation, Options, Remote, RemoteOptions, Store, Value, etcd};
use remote::{
    QUICK, a_large_batch_is_one, all, apply, get, it_goes_on_when_there_is_room, owners_wait_or_fence,
    readers_find_out, silence_ends_it, some,
};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use testing::etcd::{Cluster, Setting, Tls};
use testing::process::is_installed;
use testing::{LONG, eventually, make_certificates, until};

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
    let again = a_large_batch_is_one(|| open(&cluster, "large", QUICK), 1000, 5000, 1 << 20);
    // A store of transactions tells what does not fit.
    let store = Store::open(Options::new(), Box::new(again)).expect("opened");
    let error = store.run(Isolation::Snapshot, |it| it.put(b"key", &vec![0; (1 << 20) + 1])).unwrap_err();
    assert!(error.to_string().contains("1048576"), "{error}");
    store.run(Isolation::Snapshot, |it| it.put(b"key", &vec![0; 1 << 20])).expect("just within");
}

#[test]
fn a_server_waits_for_the_one_before_or_fences_it() {
    let Some(cluster) = Cluster::start(3) else { return };
    owners_wait_or_fence(|options| open(&cluster, "shared", options), "/shared");
}

/// A server that waits has followed all changes when it takes over: also over the loss of the
/// member that told them.
#[test]
fn a_server_that_waits_knows_all_entries() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    // No other server takes it over however slowly this one goes on.
    let first = open(&cluster, "followed", QUICK.lease_s(600));
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
    readers_find_out(|options| open(&cluster, "read", options));
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
    // Two of three: there is no majority, and the third one cannot answer.
    let stop = || [0, 1].iter().for_each(|member| cluster.stop(*member));
    let go_on = || [0, 1].iter().for_each(|member| cluster.go_on(*member));
    silence_ends_it(|options| open(&cluster, "silent", options), stop, go_on);
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
    // Old revisions stay until they are compacted.
    let large = |id: u64| {
        let value = format!("{id} {}", "x".repeat(100_000));
        (format!("key{}", id % 8), Value::from(value.as_bytes()))
    };
    let make_room = || {
        // Another store is told at once, and makes nothing.
        let other = open(&cluster, "other", QUICK);
        assert!(other.recover().expect_err("refused").to_string().contains("space exceeded"));
        let status = cluster.control(None, &["endpoint", "status", "-w", "json"]);
        let revision = status.split_once("\"revision\":").expect("a revision").1;
        let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
        cluster.control(None, &["compact", &revision]);
        cluster.control(None, &["defrag", "--cluster"]);
        cluster.control(None, &["alarm", "disarm"]);
    };
    let words = ["space exceeded", "defragment"];
    it_goes_on_when_there_is_room(
        |options| open(&cluster, "full", options),
        (it, owner),
        large,
        &words,
        make_room,
    );
}

#[test]
fn what_is_no_store_is_told() {
    let Some(cluster) = Cluster::start(1) else { return };
    let error = |text: &str, patience: Duration| {
        let opened = etcd::open(&text.parse().expect("an address"), QUICK.patience(patience));
        opened.expect_err("refused").to_string()
    };
    let none = error("etcd://127.0.0.1:1/x", Duration::from_secs(1));
    assert!(none.contains("127.0.0.1:1: ") && none.contains("refused"), "{none}");
    let user = error(&format!("etcd://me:secret@{}/x", cluster.endpoints()[0]), LONG);
    assert!(user.contains("authentication is not enabled") && !user.contains("secret"), "{user}");
    let it = open(&cluster, "a", QUICK);
    assert!(it.append(Batch::default()).expect_err("refused").to_string().contains("recover"));
}

#[test]
fn members_are_reached_by_tls_and_as_a_user() {
    if !is_installed("etcdctl", "version") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    if !make_certificates(folder.path()) {
        return;
    }
    let Some(cluster) =
        Cluster::start_with(1, Setting { tls: Some(Tls::of(folder.path())), ..Setting::default() })
    else {
        return;
    };
    cluster.demand_user(Some(folder.path()), "app", "open sesame", "shop//");
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a certificate");
    let place = |prefix: &str| -> Address {
        let text = format!("etcds://app@{}/{prefix}", cluster.endpoints()[0]);
        text.parse::<Address>().expect("an address").with_identity(read("client.pem"), read("client.key"))
    };
    let known = place("shop").with_ca(read("ca.pem"));
    let it = etcd::open(&known.clone().with_password("open sesame"), QUICK).expect("opened");
    let owner = it.recover().expect("taken over");
    apply(&it, owner, 1, &[put("tea", "1")]).expect("applied");
    assert_eq!(get(&it, "tea"), some("1"));

    let refused = |address: &Address, patience: Duration| {
        let opened = etcd::open(address, QUICK.patience(patience)).and_then(|it| it.recover());
        opened.expect_err("refused").to_string()
    };
    let wrong = refused(&known.with_password("abracadabra"), LONG);
    assert!(wrong.contains("invalid user ID or password") && !wrong.contains("abracadabra"), "{wrong}");
    let elsewhere = refused(&place("other").with_ca(read("ca.pem")).with_password("open sesame"), LONG);
    assert!(elsewhere.contains("permission denied"), "{elsewhere}");
    // Another member may have another certificate, so it goes on for as long as it may.
    let stranger = place("shop").with_ca(read("client.pem")).with_password("open sesame");
    let mut patience = Duration::from_millis(500);
    until("the certificate is refused", || {
        patience *= 2;
        refused(&stranger, patience).contains("certificate")
    });
}
