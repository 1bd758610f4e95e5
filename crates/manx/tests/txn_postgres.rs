//! The data component in PostgreSQL, with a real server that dies, stops and comes back, and with
//! connections that are cut.

#[path = "common/component.rs"]
mod component;
#[path = "common/remote.rs"]
mod remote;

use component::{conforms, delete, put, survives};
use manx::txn::postgres::{self, Address};
use manx::txn::{Batch, Change, Data, Outcome, Remote, RemoteOptions, Value};
use remote::{
    QUICK, a_large_batch_is_one, all, apply, get, it_goes_on_when_there_is_room, owners_wait_or_fence,
    readers_find_out, silence_ends_it, some,
};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use testing::postgres::{Access, Postgres};
use testing::{Direction, Proxy, Stop, can_mount, make_certificates, until};

/// For a server that is started again meanwhile.
const PATIENT: RemoteOptions = QUICK.patience(testing::LONG);

fn address(text: &str) -> Address {
    text.parse().expect("an address")
}

/// A store in the server's table `manx`.
fn open(server: &Postgres, options: RemoteOptions) -> Remote {
    postgres::open(&address(&server.address()), options).expect("opened")
}

fn open_at(server: &Postgres, proxy: &Proxy, options: RemoteOptions) -> Remote {
    postgres::open(&address(&server.address_at(&proxy.endpoint())), options).expect("opened")
}

#[test]
fn it_does_what_every_component_does() {
    let Some(server) = Postgres::start() else { return };
    let stores = AtomicU32::new(0);
    let in_table =
        |name: &str| postgres::open(&address(&format!("{}?table={name}", server.address())), QUICK);
    let next = || in_table(&format!("new_{}", stores.fetch_add(1, Ordering::Relaxed))).expect("opened");
    conforms(next);
    server.sql("CREATE SCHEMA shop");
    survives(|| in_table("shop.kept").expect("opened"));
    assert_eq!(server.sql("SELECT count(*) FROM shop.kept"), "2");
}

#[test]
fn keys_are_ordered_by_their_bytes_and_large_timestamps_survive() {
    let Some(server) = Postgres::start() else { return };
    let it = open(&server, QUICK);
    let owner = it.recover().expect("taken over");
    let keys: Vec<Vec<u8>> =
        (0..=255).flat_map(|byte| [vec![byte], vec![byte, 0], vec![byte; 2600]]).collect();
    let change = |key: &Vec<u8>| Change::Put { key: key[..].into(), value: key[..].into() };
    let changes: Vec<Change> = keys.iter().map(change).collect();
    let batch = Batch { epoch: owner.epoch, id: u64::MAX, timestamp: u64::MAX, ..Batch::new(&changes, true) };
    it.apply(batch).expect("applied");
    let error = it.append(Batch::new(&[change(&vec![0; 2601])], true)).expect_err("too long");
    assert!(error.to_string().contains("PostgreSQL takes keys of 2600 bytes"), "{error}");
    let expected = all(&it);
    drop(it);
    let again = open(&server, QUICK);
    let found = again.recover().expect("taken over");
    assert_eq!((found.last_id, found.timestamp), (u64::MAX, u64::MAX));
    assert!(all(&again) == expected, "the same entries");
    let ordered = server.sql("SELECT encode(key, 'hex') FROM manx ORDER BY key");
    let ours: Vec<String> =
        expected.keys().map(|key| key.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    assert!(ordered.lines().eq(ours), "the same order");
}

#[test]
fn a_batch_beyond_a_statement_is_one_batch() {
    let Some(server) = Postgres::start() else { return };
    a_large_batch_is_one(|| open(&server, QUICK), 10_000, 500, 5 << 20);
}

#[test]
fn a_server_waits_for_the_one_before_or_fences_it() {
    let Some(server) = Postgres::start() else { return };
    owners_wait_or_fence(|options| open(&server, options), "/postgres");
}

/// Two servers on one table never both write: also what was sent before, and arrives late.
#[test]
fn what_a_fenced_owner_has_sent_changes_nothing() {
    let Some(server) = Postgres::start() else { return };
    let proxy = Proxy::to(&server.endpoint());
    let first = open_at(&server, &proxy, QUICK);
    let owner = first.recover().expect("taken over");
    apply(&first, owner, 1, &[put("a", "1"), put("b", "1")]).expect("applied");
    let second = open(&server, QUICK.at_once(true));
    proxy.hold(Direction::Requests);
    thread::scope(|scope| {
        let late = scope.spawn(|| apply(&first, owner, 2, &[put("a", "late"), delete("b")]));
        until("it is on its way", || proxy.held() > 0);
        let later = second.recover().expect("taken over");
        apply(&second, later, 2, &[put("a", "2")]).expect("applied");
        proxy.mend();
        let refused = late.join().expect("no panic").expect_err("fenced");
        assert_eq!(refused.outcome(), Outcome::Fenced, "{refused}");
        apply(&second, later, 3, &[put("c", "1")]).expect("applied");
    });
    assert_eq!(
        server.sql("SELECT string_agg(convert_from(key || value, 'UTF8'), ' ') FROM manx"),
        "b1 a2 c1"
    );
}

#[test]
fn a_commit_whose_answer_is_lost_is_made_once() {
    let Some(server) = Postgres::start() else { return };
    let proxy = Proxy::to(&server.endpoint());
    let it = open_at(&server, &proxy, PATIENT);
    let owner = it.recover().expect("taken over");
    // The connection is there, and its statement.
    apply(&it, owner, 1, &[put("count", "1")]).expect("applied");
    let step = || server.sql("SELECT step FROM manx_record").parse::<u64>().expect("a number");
    let large: Vec<Change> = (0..9000).map(|number| put(&number.to_string(), "1")).collect();
    for id in 2..=6 {
        let before = step();
        let changes = if id == 3 { &large[..] } else { &[put("count", &id.to_string())] };
        proxy.hold(Direction::Answers);
        thread::scope(|scope| {
            let waits = scope.spawn(|| apply(&it, owner, id, changes));
            until("its answer is held", || proxy.held() > 0);
            if id != 3 {
                until("it is made", || step() == before + 1);
            }
            proxy.reset();
            proxy.mend();
            waits.join().expect("no panic").expect("applied");
        });
        assert_eq!(step(), before + if id == 3 { 3 } else { 1 }, "once");
    }
    assert_eq!(get(&it, "count"), some("6"));
    drop(it);
    let again = open(&server, QUICK);
    assert_eq!(again.recover().expect("taken over").last_id, 6);
    assert_eq!((all(&again).len(), get(&again, "count")), (9001, some("6")));
}

/// What happened to a batch comes out also if another server has taken over meanwhile.
#[test]
fn a_commit_that_the_next_owner_has_found_is_not_called_fenced() {
    let Some(server) = Postgres::start() else { return };
    let proxy = Proxy::to(&server.endpoint());
    let first = open_at(&server, &proxy, PATIENT);
    let owner = first.recover().expect("taken over");
    apply(&first, owner, 1, &[put("a", "1")]).expect("applied");
    proxy.hold(Direction::Answers);
    thread::scope(|scope| {
        let waits = scope.spawn(|| apply(&first, owner, 2, &[put("a", "2")]));
        until("it is made", || server.sql("SELECT last_id FROM manx_record") == "2");
        let second = open(&server, QUICK.at_once(true));
        assert_eq!(second.recover().expect("taken over").last_id, 2);
        assert_eq!(get(&second, "a"), some("2"));
        proxy.reset();
        proxy.mend();
        let error = waits.join().expect("no panic").expect_err("another has the store");
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    });
}

/// Writers go on while something is done to the server; nothing that they were told is lost.
fn commits_go_on(server: &mut Postgres, options: RemoteOptions, mut disturb: impl FnMut(&mut Postgres)) {
    let it = open(server, options);
    let owner = it.recover().expect("taken over");
    let (ids, over) = (AtomicU64::new(owner.last_id), AtomicBool::new(false));
    let counts: Vec<u64> = thread::scope(|scope| {
        let write = |writer: u64| {
            for count in 1.. {
                let id = ids.fetch_add(1, Ordering::Relaxed) + 1;
                let change = [put(&writer.to_string(), &count.to_string())];
                apply(&it, owner, id, &change).expect("applied");
                if over.load(Ordering::SeqCst) {
                    return count;
                }
            }
            unreachable!("it ends by the flag")
        };
        let threads: Vec<_> = (0..4).map(|writer| scope.spawn(move || write(writer))).collect();
        let stop = Stop(&over);
        disturb(server);
        drop(stop);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for (writer, count) in counts.iter().enumerate() {
        assert_eq!(get(&it, &writer.to_string()), some(&count.to_string()));
    }
    drop(it);
    server.restart();
    let again = open(server, PATIENT);
    again.recover().expect("taken over");
    for (writer, count) in counts.iter().enumerate() {
        assert_eq!(get(&again, &writer.to_string()), some(&count.to_string()));
    }
}

#[test]
fn commits_survive_the_kill_of_the_server() {
    let Some(mut server) = Postgres::start() else { return };
    commits_go_on(&mut server, PATIENT, |server| {
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(fastrand::u64(..300)));
            server.restart();
        }
    });
}

/// A role may have asked for less.
#[test]
fn commits_are_synchronous_whatever_the_users_settings_are() {
    let Some(mut server) = Postgres::start() else { return };
    server.sql("ALTER ROLE manx SET synchronous_commit = off");
    server.sql("ALTER ROLE manx SET default_transaction_isolation = serializable");
    let it = open(&server, PATIENT);
    let owner = it.recover().expect("taken over");
    for id in 1..=20 {
        apply(&it, owner, id, &[put("a", &id.to_string())]).expect("applied");
        if id % 5 == 0 {
            server.restart();
            let kept = server.sql("SELECT convert_from(value, 'UTF8') FROM manx");
            assert_eq!(kept, id.to_string());
        }
    }
}

#[test]
fn commits_survive_the_end_of_their_connections() {
    let Some(mut server) = Postgres::start() else { return };
    commits_go_on(&mut server, PATIENT, |server| {
        for _ in 0..40 {
            thread::sleep(Duration::from_millis(fastrand::u64(..30)));
            server.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'manx'",
            );
        }
    });
}

#[test]
fn commits_go_on_after_a_stop_of_the_server() {
    let Some(mut server) = Postgres::start() else { return };
    commits_go_on(&mut server, PATIENT, |server| {
        for time_ms in [20, 1500, 300] {
            server.stop();
            thread::sleep(Duration::from_millis(time_ms));
            server.go_on();
            thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn without_an_answer_nothing_is_changed_any_more() {
    let Some(server) = Postgres::start() else { return };
    silence_ends_it(|options| open(&server, options), || server.stop(), || server.go_on());
}

#[test]
fn an_error_of_the_database_is_told_and_has_changed_nothing() {
    let Some(server) = Postgres::start() else { return };
    let it = open(&server, QUICK);
    let owner = it.recover().expect("taken over");
    apply(&it, owner, 1, &[put("a", "1")]).expect("applied");
    server.sql("ALTER TABLE manx ADD CHECK (length(value) < 5)");
    let error = apply(&it, owner, 2, &[put("a", "12345")]).expect_err("refused");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    assert!(error.to_string().contains("check constraint"), "{error}");
    get(&it, "a").expect_err("what is in memory is not there");
    drop(it);
    let again = open(&server, QUICK);
    assert_eq!(again.recover().expect("taken over").last_id, 1);
    assert_eq!(get(&again, "a"), some("1"));
}

/// The database's disk is full: writes are refused, reads go on, and so do writes when there is
/// room.
#[test]
fn without_room_on_its_disk_reads_go_on_and_writes_do_when_there_is_room() {
    let Some(server) = Postgres::start() else { return };
    if !can_mount() {
        return;
    }
    let filler = server.small_disk("small", 8 << 20).join("filler");
    let it = open(&server, QUICK);
    let owner = it.recover().expect("taken over");
    server.sql("ALTER TABLE manx SET TABLESPACE small");
    fs::write(&filler, vec![0; 4 << 20]).expect("there is room");
    // Dice: PostgreSQL compresses what repeats.
    let large = |id: u64| {
        let mut dice = fastrand::Rng::with_seed(id);
        let value: Vec<u8> = std::iter::repeat_with(|| dice.u8(..)).take(100_000).collect();
        (id.to_string(), Value::from(value))
    };
    it_goes_on_when_there_is_room(
        |options| open(&server, options),
        (it, owner),
        large,
        &["make room on its disk"],
        || fs::remove_file(&filler).expect("it is there"),
    );
}

#[test]
fn a_transaction_that_only_reads_finds_out_that_the_store_is_lost() {
    let Some(server) = Postgres::start() else { return };
    readers_find_out(|options| open(&server, options));
}

#[test]
fn what_is_no_store_is_told() {
    let Some(server) = Postgres::start_with(Access { password: Some("secret"), identity: None }) else {
        return;
    };
    let hasty = QUICK.patience(Duration::from_millis(500));
    let none = postgres::open(&address("postgres://me@127.0.0.1:1/x"), hasty);
    let none = none.expect_err("nobody is there").to_string();
    // A refusal comes at once.
    let error = |address: &Address| postgres::open(address, PATIENT).expect_err("refused").to_string();
    assert!(none.starts_with("postgres://me@127.0.0.1:1/x: ") && none.contains("refused"), "{none}");
    let known = address(&server.address()).with_password("secret");
    let wrong = error(&known.clone().with_password("guess"));
    assert!(wrong.contains("password authentication failed") && !wrong.contains("guess"), "{wrong}");
    let missing = error(&address(&server.address()));
    assert!(missing.contains("password missing"), "{missing}");
    let elsewhere = address(&server.address().replace("/postgres", "/other"));
    let elsewhere = error(&elsewhere.with_password("secret"));
    assert!(elsewhere.contains("database \"other\" does not exist"), "{elsewhere}");
    let secure = error(&address(&format!("{}?sslmode=require", server.address())));
    assert!(secure.contains("which servers to trust"), "{secure}");
    assert!(error(&known.clone().with_ca("nothing")).contains("no certificate"));

    server.sql("CREATE TABLE manx (price int)");
    let foreign = error(&known);
    assert!(foreign.contains("table `manx`") && foreign.contains("another with ?table="), "{foreign}");
    server.sql("DROP TABLE manx");
    let it = postgres::open(&known, QUICK).expect("opened");
    assert!(it.append(Batch::default()).expect_err("refused").to_string().contains("recover"));
    it.recover().expect("taken over");
    drop(it);
    for (setting, is_fine) in [("off", false), ("on", true)] {
        server.sql(&format!("ALTER SYSTEM SET fsync = {setting}"));
        server.sql("SELECT pg_reload_conf()");
        until(setting, || match postgres::open(&known, PATIENT) {
            Ok(_) => is_fine,
            Err(error) => error.to_string().contains("fsync is off") && !is_fine,
        });
    }
    server.sql("UPDATE manx_record SET title = 'manx 2'");
    assert!(error(&known).contains("another version"));
    server.sql("DELETE FROM manx_record");
    assert!(error(&known).contains("its record is gone"));
}

#[test]
fn the_server_is_reached_by_tls_and_with_a_password() {
    let [folder, strangers] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    if !make_certificates(folder.path()) || !make_certificates(strangers.path()) {
        return;
    }
    let identity = (folder.path().join("member.pem"), folder.path().join("member.key"));
    let access = Access { password: Some("open sesame"), identity: Some((&identity.0, &identity.1)) };
    let Some(server) = Postgres::start_with(access) else { return };
    let trusting = |authority: &Path| {
        let ca = fs::read(authority.join("ca.pem")).expect("a certificate");
        address(&server.address()).with_password("open sesame").with_ca(ca)
    };
    let it = postgres::open(&trusting(folder.path()), QUICK).expect("opened");
    let owner = it.recover().expect("taken over");
    apply(&it, owner, 1, &[put("tea", "1")]).expect("applied");
    assert_eq!(get(&it, "tea"), some("1"));
    let is_secure = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE application_name = 'manx'";
    assert_eq!(server.sql(is_secure), "t");
    let stranger = postgres::open(&trusting(strangers.path()), PATIENT).expect_err("refused").to_string();
    assert!(stranger.contains("invalid peer certificate"), "{stranger}");
}
