//! Transactions: what each level of isolation shows and hides, how many may be at work, and which
//! conflict.

#[path = "common/map.rs"]
mod map;
#[path = "common/texts.rs"]
mod texts;

use manx::txn::coordinator::Protocol;
use manx::txn::{Error, Isolation, Options, Store, Transaction};
use map::Map;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;
use texts::{get, keys, put, stores};

use Isolation::{ReadCommitted, Serializable, Snapshot};
use testing::until;

#[test]
fn a_forgotten_transaction_is_rolled_back_when_its_session_goes_on() {
    for (store, isolation) in stores(Options::default)
        .into_iter()
        .zip([Snapshot; 2])
        .chain(stores(Options::default).into_iter().zip([ReadCommitted; 2]))
    {
        put(&store, "a", "1");
        let (mut one, mut two) = (store.session().unwrap(), store.session().unwrap());
        let mut forgotten = one.begin(isolation).unwrap();
        forgotten.put(b"a", b"2").unwrap();
        forgotten.put(b"b", b"2").unwrap();
        let id = forgotten.id();
        std::mem::forget(forgotten);
        put(&store, "c", "1");
        assert!(
            matches!(two.begin(Snapshot).unwrap().put(b"a", b"3"), Err(Error::Conflict { .. })),
            "it might go on"
        );
        let mut next = one.begin(isolation).unwrap();
        assert_eq!(next.id(), None);
        assert_eq!(keys(&mut next), ["a", "c"], "it sees what is there now");
        next.put(b"d", b"1").unwrap();
        assert_ne!(next.id(), id);
        next.commit().unwrap();
        assert_eq!(keys(&mut two.begin(Snapshot).unwrap()), ["a", "c", "d"]);
        let mut last = one.begin(isolation).unwrap();
        last.delete(b"a").unwrap();
        std::mem::forget(last);
        drop(one);
        assert_eq!(get(&mut two.begin(Snapshot).unwrap(), "a").as_deref(), Some("1"));
        put(&store, "a", "3");
    }
}

#[test]
fn the_first_writer_wins_and_the_other_learns_its_id() {
    for store in stores(Options::default) {
        put(&store, "a", "0");
        for isolation in [Snapshot, ReadCommitted] {
            let (mut one, mut two) = (store.session().unwrap(), store.session().unwrap());
            let mut first = one.begin(isolation).unwrap();
            let mut second = two.begin(isolation).unwrap();
            first.put(b"a", b"1").unwrap();
            let error = second.put(b"a", b"2").expect_err("somebody is at it");
            let id = first.id().expect("it has written");
            assert_eq!(error, Error::Conflict { key: (*b"a").into(), with: id });
            assert!(error.is_retryable() && error.to_string().contains("\"a\""), "{error}");
            assert_eq!(second.get(b"a"), Err(Error::Failed));
            assert_eq!(second.commit(), Err(error), "a caller that did not look at the error gets it here");
            first.commit().unwrap();
            // Only a transaction that may not see the first one conflicts with it.
            let mut third = two.begin(isolation).unwrap();
            third.put(b"a", b"3").expect("it is over");
        }
    }
}

#[test]
fn updates_are_not_lost() {
    for store in stores(Options::default) {
        for isolation in [Snapshot, Serializable] {
            put(&store, "counter", "0");
            let (threads, each) = (4, 200);
            thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        for _ in 0..each {
                            let increment = |it: &mut Transaction<'_>| {
                                let before: u64 = get_number(it, "counter")?;
                                it.put(b"counter", (before + 1).to_string().as_bytes())
                            };
                            store.run(isolation, increment).expect("it may be retried often enough");
                        }
                    });
                }
            });
            let mut session = store.session().unwrap();
            let counted = get(&mut session.begin(Snapshot).unwrap(), "counter");
            assert_eq!(counted, Some((threads * each).to_string()), "{isolation:?}");
        }
    }
}

fn get_number(it: &mut Transaction<'_>, key: &str) -> Result<u64, Error> {
    Ok(it.get(key.as_bytes())?.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap()))
}

/// Each reads what the other writes: a snapshot lets both pass, and no order of the two explains
/// it.
fn skew(store: &Store, isolation: Isolation) -> [Result<(), Error>; 2] {
    store
        .run(Snapshot, |it| {
            it.put(b"alice", b"1")?;
            it.put(b"bob", b"1")
        })
        .unwrap();
    let both_read = Barrier::new(2);
    thread::scope(|scope| {
        ["alice", "bob"]
            .map(|who| {
                let both_read = &both_read;
                scope.spawn(move || {
                    let mut session = store.session()?;
                    let mut it = session.begin(isolation)?;
                    let on_call = get_number(&mut it, "alice")? + get_number(&mut it, "bob")?;
                    both_read.wait();
                    assert_eq!(on_call, 2);
                    it.put(who.as_bytes(), b"0")?;
                    it.commit()?;
                    Ok(())
                })
            })
            .map(|thread| thread.join().unwrap())
    })
}

#[test]
fn only_the_serializable_are_safe_from_skewed_writes() {
    for store in stores(Options::default) {
        assert_eq!(skew(&store, Snapshot), [Ok(()), Ok(())], "that is what a snapshot allows");
        let both = skew(&store, Serializable);
        let refused: Vec<_> = both.iter().filter_map(|result| result.as_ref().err()).collect();
        assert_eq!(refused.len(), 1, "one of the two: {both:?}");
        assert!(refused[0].is_retryable(), "{refused:?}");
    }
}

#[test]
fn a_serializable_transaction_sees_what_was_there_when_it_had_locked_the_first_thing() {
    for store in stores(Options::default) {
        put(&store, "a", "old");
        let mut session = store.session().unwrap();
        let mut it = session.begin(Serializable).unwrap();
        put(&store, "a", "new");
        assert_eq!(get(&mut it, "a").as_deref(), Some("new"));
        put(&store, "b", "newer");
        let error = it.get(b"b").expect_err("that is not what its snapshot has");
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
    }
}

#[test]
fn a_serializable_scan_has_no_phantoms() {
    for store in stores(Options::default) {
        for key in ["b", "d"] {
            put(&store, key, "1");
        }
        let mut session = store.session().unwrap();
        let mut reader = session.begin(Serializable).unwrap();
        let count = |it: &mut Transaction<'_>| it.scan("a".."m").filter(|entry| entry.is_ok()).count();
        assert_eq!(count(&mut reader), 2);
        let (store, is_written) = (&store, &Mutex::new(false));
        thread::scope(|scope| {
            scope.spawn(move || {
                store.run(Serializable, |it| it.put(b"z", b"outside of the range")).expect("in nobody's way");
                store.run(Serializable, |it| it.put(b"c", b"a phantom")).expect("after the reader");
                *is_written.lock().unwrap() = true;
            });
            // The first one has its id: the second one comes next.
            until("the first id", || store.stats().current_id >= 4);
            thread::sleep(Duration::from_millis(20));
            assert!(!*is_written.lock().unwrap());
            assert_eq!(count(&mut reader), 2);
            reader.commit().unwrap();
        });
        assert!(*is_written.lock().unwrap());
    }
}

#[test]
fn a_range_is_deleted_for_the_serializable_also_where_nothing_was() {
    for store in stores(Options::default) {
        for key in 0..300 {
            put(&store, &format!("k{key:03}"), "1");
        }
        let mut session = store.session().unwrap();
        let mut it = session.begin(Serializable).unwrap();
        assert_eq!(it.delete_range("k010".."k290").unwrap(), 280);
        let (mut other, started) = (store.session().unwrap(), Barrier::new(2));
        thread::scope(|scope| {
            let started = &started;
            let late = scope.spawn(move || {
                let mut late = other.begin(Serializable).unwrap();
                started.wait();
                // It waits for the range, whether there is something or not.
                late.put(b"k010x", b"1").unwrap();
                late.commit().unwrap().id.unwrap()
            });
            started.wait();
            let id = it.commit().unwrap().id.unwrap();
            assert!(late.join().unwrap() > id);
        });
        let mut session = store.session().unwrap();
        assert_eq!(keys(&mut session.begin(Snapshot).unwrap()).len(), 21);
        let mut it = session.begin(Snapshot).unwrap();
        assert!(matches!(it.delete_range("b".."a"), Err(Error::InvalidRange(_))));
        assert_eq!(it.scan("b".."a").count(), 0, "there is nothing in it");
    }
}

#[test]
fn a_deadlock_has_one_victim_which_learns_of_the_circle() {
    for store in stores(Options::default) {
        let both = Barrier::new(2);
        let results = thread::scope(|scope| {
            [("a", "b"), ("b", "a")]
                .map(|(mine, its)| {
                    let (store, both) = (&store, &both);
                    scope.spawn(move || {
                        let mut session = store.session().unwrap();
                        let mut it = session.begin(Serializable).unwrap();
                        it.put(mine.as_bytes(), b"1").unwrap();
                        both.wait();
                        let put = it.put(its.as_bytes(), b"1");
                        (mine, it.id().expect("it has written"), put.and_then(|()| it.commit()))
                    })
                })
                .map(|thread| thread.join().unwrap())
        });
        let victims: Vec<_> = results.iter().filter(|(_, _, result)| result.is_err()).collect();
        let [(mine, id, Err(Error::Deadlock { cycle }))] = victims[..] else {
            panic!("one victim: {results:?}")
        };
        let (its, other, _) = results.iter().find(|(_, other, _)| other != id).expect("the other");
        let (mine, its) = (format!("\"{mine}\"..\"{mine}\\x00\""), format!("\"{its}\"..\"{its}\\x00\""));
        assert_eq!(
            *cycle,
            format!(
                "transaction {id} waits for {its}, of which transaction {other} has {its}; \
                 transaction {other} waits for {mine}, of which transaction {id} has {mine}"
            )
        );
    }
}

/// Two that have read the same want to write it.
#[test]
fn a_deadlock_of_readers_that_write_names_the_key() {
    for store in stores(Options::default) {
        let both = Barrier::new(2);
        let results = thread::scope(|scope| {
            let run = || {
                let mut session = store.session()?;
                let mut it = session.begin(Serializable)?;
                it.get(b"k")?;
                both.wait();
                it.put(b"k", b"1")?;
                it.commit()
            };
            [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().unwrap())
        });
        let victims: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        let [Error::Deadlock { cycle }] = &victims[..] else { panic!("one victim: {results:?}") };
        assert_eq!(cycle.matches("one that has written nothing yet waits for \"k\"").count(), 2, "{cycle}");
    }
}

/// With a limit it ends, though no circle would.
#[test]
fn a_serializable_transaction_waits_no_longer_than_it_may() {
    let options = Options::new().lock_wait(Duration::from_millis(20)).tries_max(2);
    let store = Store::in_memory(options);
    let (mut one, mut other) = (store.session().unwrap(), store.session().unwrap());
    let mut holder = one.begin(Serializable).unwrap();
    holder.put(b"b", b"1").unwrap();
    let limit = Duration::from_millis(20);
    let mut waiter = other.begin(Serializable).unwrap();
    waiter.put(b"a", b"1").unwrap();
    let error = waiter.scan("a".."c").next().unwrap().unwrap_err();
    assert!(error == Error::TimedOut { limit } && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("lock_wait"), "{error}");
    assert_eq!(waiter.get(b"x"), Err(Error::Failed), "it can only be rolled back");
    drop(waiter);
    let retried = store.run(Serializable, |it| it.put(b"b", b"2")).unwrap_err();
    assert!(matches!(retried, Error::Retried { times: 2, .. }), "{retried}");
    holder.commit().unwrap();
    store.run(Serializable, |it| it.put(b"b", b"2")).unwrap();
    assert_eq!(get(&mut other.begin(Snapshot).unwrap(), "a"), None);
    assert_eq!(get(&mut other.begin(Snapshot).unwrap(), "b").as_deref(), Some("2"));
}

#[test]
fn accounts_add_up_in_every_snapshot_whatever_the_protocol() {
    for protocol in Protocol::ALL {
        let options = Options::new().protocol(protocol);
        for store in [Store::in_memory(options), Store::open(options, Box::new(Map::default())).unwrap()] {
            transfers(&store, 8, 100);
        }
    }
}

/// Some transfer, some add up, and the sum is always the same.
fn transfers(store: &Store, accounts: u64, rounds: u64) {
    let name = |account: u64| format!("account {account}");
    for account in 0..accounts {
        put(store, &name(account), "100");
    }
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for round in 0..rounds {
                    let (from, to) =
                        ((round * 7 + thread) % accounts, (round * 3 + thread * 5 + 1) % accounts);
                    if from == to {
                        continue;
                    }
                    let transfer = |it: &mut Transaction<'_>| {
                        let (had, has) = (get_number(it, &name(from))?, get_number(it, &name(to))?);
                        let amount = had.min(round % 10);
                        it.put(name(from).as_bytes(), (had - amount).to_string().as_bytes())?;
                        it.put(name(to).as_bytes(), (has + amount).to_string().as_bytes())
                    };
                    store
                        .run(if thread == 0 { Serializable } else { Snapshot }, transfer)
                        .expect("retried often enough");
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = store.session().unwrap();
                for _ in 0..rounds {
                    let mut it = session.begin(Snapshot).unwrap();
                    let sum: u64 =
                        (0..accounts).map(|account| get_number(&mut it, &name(account)).unwrap()).sum();
                    assert_eq!(sum, accounts * 100);
                    let scanned: u64 = it
                        .scan("account ".."account~")
                        .map(|entry| std::str::from_utf8(&entry.unwrap().1).unwrap().parse::<u64>().unwrap())
                        .sum();
                    assert_eq!(scanned, accounts * 100);
                }
            });
        }
    });
}

#[test]
fn sessions_come_and_go_by_thousands() {
    let store = Store::in_memory(Options::new().sessions_max(10_000));
    let mut sessions: Vec<_> = (0..10_000).map(|_| store.session().unwrap()).collect();
    assert_eq!(store.session().map(drop), Err(Error::TooManySessions { limit: 10_000 }));
    let mut at_work: Vec<_> = sessions.iter_mut().map(|session| session.begin(Snapshot).unwrap()).collect();
    for (number, it) in at_work.iter_mut().enumerate() {
        it.put(&number.to_be_bytes(), b"1").unwrap();
    }
    at_work.truncate(5_000);
    let first = at_work.remove(0);
    first.commit().unwrap();
    drop(at_work);
    drop(sessions);
    let mut session = store.session().unwrap();
    assert_eq!(session.begin(Snapshot).unwrap().scan::<[u8], _>(..).count(), 1);
}

#[test]
fn no_more_are_at_work_than_may_be() {
    let options = Options::new().active_max(2).active_wait(Duration::from_millis(50));
    let store = Store::in_memory(options);
    let mut sessions: Vec<_> = (0..3).map(|_| store.session().unwrap()).collect();
    let [one, two, three] = &mut sessions[..] else { unreachable!("three") };
    let (one, _two) = (one.begin(Snapshot).unwrap(), two.begin(Snapshot).unwrap());
    let error = three.begin(Snapshot).map(drop).expect_err("two are");
    assert!(error == Error::TooMany { limit: 2 } && error.is_retryable());
    let run = store.run(Snapshot, |it| it.put(b"a", b"1"));
    assert_eq!(run, Err(error), "it has waited long enough");
    drop(one);
    three.begin(Snapshot).expect("one has ended").commit().unwrap();
}

#[test]
fn a_session_goes_from_thread_to_thread() {
    let store = Store::in_memory(Options::default());
    let mut session = store.session().unwrap();
    session.begin(Snapshot).unwrap().put(b"a", b"1").unwrap();
    let mut session = thread::spawn(move || {
        let mut it = session.begin(Snapshot).unwrap();
        it.put(b"a", b"2").unwrap();
        it.commit().unwrap();
        session
    })
    .join()
    .unwrap();
    assert_eq!(get(&mut session.begin(Snapshot).unwrap(), "a").as_deref(), Some("2"));
}
