//! MULTI, EXEC and WATCH, and what several clients do to the same keys.

mod support;

use server::resp::Reply::{Array, Error, Integer, Null};
use std::sync::Barrier;
use support::*;

#[test]
fn commands_are_queued_and_done_as_one() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        it.expect_ok("MULTI");
        it.expect("SET k 1", queued());
        it.expect("INCR k", queued());
        it.expect("GET k", queued());
        it.expect("PING", queued());
        other.expect("GET k", Null);
        it.expect("EXEC", Array(vec![ok(), int(2), bulk("2"), support_pong()]));
        other.expect("GET k", bulk("2"));
        // An error of one does not undo the others.
        it.expect_ok("MULTI");
        it.expect("SET s text", queued());
        it.expect("INCR s", queued());
        it.expect("SET t 1", queued());
        let Array(parts) = it.ask("EXEC") else { panic!() };
        assert_eq!((&parts[0], &parts[2]), (&ok(), &ok()));
        assert!(matches!(&parts[1], Error(text) if text.starts_with("ERR value is not an integer")));
        other.expect("MGET s t", Array(vec![bulk("text"), bulk("1")]));
        // A command that cannot be queued refuses all.
        it.expect_ok("MULTI");
        it.expect("SET k 5", queued());
        it.expect_error("GET", "ERR wrong number");
        it.expect_error("EXEC", "EXECABORT Transaction discarded because of previous errors.");
        it.expect("GET k", bulk("2"));
        it.expect_ok("MULTI");
        it.expect_error("SHUTDOWN", "ERR Command not allowed inside a transaction");
        it.expect_error("EXEC", "EXECABORT");
        it.expect_ok("MULTI");
        it.expect("SET k 6", queued());
        it.expect_ok("DISCARD");
        it.expect("GET k", bulk("2"));
        it.expect_ok("MULTI");
        it.expect("EXEC", Array(vec![]));
        it.expect_error("EXEC", "ERR EXEC without MULTI");
        it.expect_error("DISCARD", "ERR DISCARD without MULTI");
        it.expect_ok("MULTI");
        it.expect_error("MULTI", "ERR MULTI calls can not be nested");
        it.expect_error("WATCH k", "ERR WATCH inside MULTI is not allowed");
        it.expect_ok("DISCARD");
    });
}

fn support_pong() -> server::resp::Reply {
    server::resp::Reply::Simple("PONG".into())
}

#[test]
fn a_watched_key_that_changed_refuses_the_transaction() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        for (before, change, goes_through) in [
            ("SET k 1", "SET k 2", false),
            // The same value, but another write.
            ("SET k 1", "SET k 1", false),
            ("SET k 1", "DEL k", false),
            ("DEL k", "SET k 1", false),
            ("SET k 1", "EXPIRE k 100", false),
            ("SET k 1", "FLUSHALL", false),
            ("SET k 1", "GET k", true),
            ("SET k 1", "SET unrelated 1", true),
            ("DEL k", "DEL k", true),
        ] {
            it.ask(before);
            it.expect_ok("WATCH other k");
            other.ask(change);
            it.expect_ok("MULTI");
            it.expect("SET result 1", queued());
            let expected = if goes_through { Array(vec![ok()]) } else { Null };
            it.expect("EXEC", expected);
            other.expect("EXISTS result", int(i64::from(goes_through)));
            other.ask("DEL result");
        }
        // It watches no longer after EXEC, DISCARD and UNWATCH.
        for end in [&["MULTI", "EXEC"][..], &["MULTI", "DISCARD"], &["UNWATCH"]] {
            it.expect_ok("WATCH k");
            end.iter().for_each(|line| drop(it.ask(line)));
            other.ask("SET k again");
            it.expect_ok("MULTI");
            it.expect("PING", queued());
            it.expect("EXEC", Array(vec![support_pong()]));
        }
        // Its own change counts as well.
        it.expect_ok("WATCH k");
        it.expect_ok("SET k mine");
        it.expect_ok("MULTI");
        it.expect("EXEC", Null);
    });
}

#[test]
fn flushall_within_a_transaction_deletes_what_was_before_it() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        it.expect_ok("MSET a 1 b 2 c 3");
        it.expect_ok("MULTI");
        for line in ["SET a 4", "FLUSHALL", "DBSIZE", "EXISTS a b", "SET b 5", "SET d 6 EX 100", "DBSIZE"] {
            it.expect(line, queued());
        }
        let answers = vec![ok(), ok(), int(0), int(0), ok(), ok(), int(2)];
        it.expect("EXEC", Array(answers));
        other.expect("KEYS *", Array(vec![bulk("b"), bulk("d")]));
        other.expect("DBSIZE", int(2));
        let text = other.info("keyspace");
        assert!(text.contains("db0:keys=2,expires=1,"), "{text}");
        // Two in one transaction.
        it.expect_ok("MULTI");
        for line in ["FLUSHALL", "SET a 1", "FLUSHALL", "SET e 1"] {
            it.expect(line, queued());
        }
        it.expect("EXEC", Array(vec![ok(), ok(), ok(), ok()]));
        other.expect("KEYS *", Array(vec![bulk("e")]));
        other.expect("DBSIZE", int(1));
    });
}

/// FLUSHALL conflicts with no writer, and what is counted is what is there.
#[test]
fn clients_that_write_and_clients_that_flush_agree_on_what_is_there() {
    const CLIENTS: usize = 6;
    const TIMES: usize = 200;
    for_each_model(|server| {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || {
                    let it = &mut Client::to(server);
                    for time in 0..TIMES {
                        match (client + time) % 5 {
                            0 => it.expect_ok("FLUSHALL"),
                            1 => it.expect_ok(&format!("SET own:{client} {time} EX 100")),
                            2 => drop(it.ask(&format!("HSET hash:{} {client} 1", time % 3))),
                            3 => drop(it.ask(&format!("DEL own:{client} hash:0"))),
                            _ => {
                                it.expect_ok("MULTI");
                                for line in ["FLUSHALL", "SET only 1", "DBSIZE", "KEYS *"] {
                                    it.expect(line, queued());
                                }
                                let only = Array(vec![bulk("only")]);
                                it.expect("EXEC", Array(vec![ok(), ok(), int(1), only]));
                            }
                        }
                    }
                });
            }
        });
        let it = &mut Client::to(server);
        let Array(keys) = it.ask("KEYS *") else { panic!("an array") };
        it.expect("DBSIZE", int(keys.len() as i64));
        let expiries = keys.iter().filter(|key| key.as_bytes().unwrap().starts_with(b"own")).count();
        let text = it.info("keyspace");
        let expected = format!("db0:keys={},expires={expiries},", keys.len());
        assert!(keys.is_empty() || text.contains(&expected), "{text}, not {expected}");
        it.expect_ok("FLUSHALL");
        it.expect("DBSIZE", int(0));
    });
}

#[test]
fn increments_of_many_clients_sum_up() {
    const CLIENTS: usize = 8;
    const TIMES: usize = 300;
    for_each_model(|server| {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || {
                    let it = &mut Client::to(server);
                    for time in 0..TIMES {
                        match (client + time) % 3 {
                            0 => drop(it.ask("INCR n")),
                            1 => {
                                it.expect_ok("MULTI");
                                it.expect("INCR n", queued());
                                assert!(matches!(it.ask("EXEC"), Array(_)));
                            }
                            _ => loop {
                                it.expect_ok("WATCH n");
                                let now = it.ask("GET n").as_bytes().map_or(0, |text| {
                                    std::str::from_utf8(text).unwrap().parse::<i64>().unwrap()
                                });
                                it.expect_ok("MULTI");
                                it.expect(&format!("SET n {}", now + 1), queued());
                                if it.ask("EXEC") != Null {
                                    break;
                                }
                            },
                        }
                    }
                });
            }
        });
        Client::to(server).expect("GET n", bulk(&(CLIENTS * TIMES).to_string()));
    });
}

/// Two accounts must never both be empty. Each client looks at both, by WATCH or inside of EXEC,
/// and empties one.
#[test]
fn of_two_that_write_what_the_other_watches_one_is_refused() {
    for_each_model(|server| {
        let barrier = Barrier::new(2);
        for round in 0..200 {
            let keys = [format!("left:{round}"), format!("right:{round}")];
            // Whether the keys are there at the beginning makes a difference to the store.
            let there = round % 2 == 0;
            if there {
                Client::to(server).expect_ok(&format!("MSET {} 1 {} 1", keys[0], keys[1]));
            }
            let done: Vec<bool> = std::thread::scope(|scope| {
                let clients: Vec<_> = (0..2)
                    .map(|own| {
                        let (keys, barrier) = (&keys, &barrier);
                        scope.spawn(move || {
                            let it = &mut Client::to(server);
                            it.expect_ok(&format!("WATCH {}", keys[1 - own]));
                            it.expect_ok("MULTI");
                            let line = if there { "DEL" } else { "INCR" };
                            it.expect(&format!("{line} {}", keys[own]), queued());
                            barrier.wait();
                            it.ask("EXEC") != Null
                        })
                    })
                    .collect();
                clients.into_iter().map(|client| client.join().unwrap()).collect()
            });
            assert_ne!(done, [true, true], "round {round}");
            assert!(done[0] || done[1], "round {round}: nobody went through");
        }
    });
}

/// Whichever is first, both keys have the same then.
#[test]
fn of_two_keys_that_are_copied_into_each_other_one_is_left() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let long = "x".repeat(100_000);
        let members: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let barrier = Barrier::new(2);
        for round in 0..100 {
            // What makes a key, what copies it, and what shows what it has then.
            let (make, copy, look) = [
                ("SADD", "SUNIONSTORE {to} {from}", "SMEMBERS {key}"),
                ("SET", "COPY {from} {to} REPLACE", "GET {key}"),
                ("SET", "BITOP OR {to} {from}", "GET {key}"),
                ("RPUSH", "SORT {from} ALPHA STORE {to}", "SORT_RO {key} ALPHA"),
                ("GEOADD", "GEOSEARCHSTORE {to} {from} FROMLONLAT 1 1 BYRADIUS 1 m", "ZRANGE {key} 0 -1"),
            ][round % 5];
            for key in ["a", "b"] {
                let made = match make {
                    "SET" => format!("SET {key} {key}{long}"),
                    "GEOADD" => format!("GEOADD {key} 1 1 {key}{}", members.join(&format!(" 1 1 {key}"))),
                    _ => format!("{make} {key} {key}{}", members.join(&format!(" {key}"))),
                };
                it.ask(&format!("DEL {key}"));
                it.ask(&made);
            }
            std::thread::scope(|scope| {
                for (from, to) in [("a", "b"), ("b", "a")] {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let it = &mut Client::to(server);
                        it.ask("PING");
                        barrier.wait();
                        it.ask(&copy.replace("{from}", from).replace("{to}", to));
                    });
                }
            });
            let both = ["a", "b"].map(|key| it.ask(&look.replace("{key}", key)));
            assert!(both[0] == both[1], "round {round}");
        }
    });
}

#[test]
fn no_client_sees_half_of_a_transaction() {
    for_each_model(|server| {
        Client::to(server).expect_ok("MSET a 0 b 0");
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let it = &mut Client::to(server);
                for number in 1..=500 {
                    it.send(b"MULTI\r\nINCR a\r\nDECR b\r\nEXEC\r\n");
                    assert_eq!(
                        [it.next(), it.next(), it.next()],
                        [Some(ok()), Some(queued()), Some(queued())]
                    );
                    assert_eq!(it.next(), Some(Array(vec![int(number), int(-number)])));
                    if number == 1 {
                        tell.send(()).unwrap();
                    }
                }
            });
            let it = &mut Client::to(server);
            told.recv().unwrap();
            let mut rounds = 0;
            while rounds == 0 || !writer.is_finished() {
                rounds += 1;
                let Array(both) = it.ask("MGET a b") else { panic!() };
                let sum: i64 = both
                    .iter()
                    .map(|part| {
                        std::str::from_utf8(part.as_bytes().unwrap()).unwrap().parse::<i64>().unwrap()
                    })
                    .sum();
                assert_eq!(sum, 0);
                it.expect_ok("MULTI");
                it.expect("INCRBY a 0", queued());
                it.expect("INCRBY b 0", queued());
                let Array(both) = it.ask("EXEC") else { panic!() };
                let [Integer(a), Integer(b)] = both[..] else { panic!("{both:?}") };
                assert_eq!(a + b, 0);
            }
            it.expect("MGET a b", Array(vec![bulk("500"), bulk("-500")]));
        });
    });
}

#[test]
fn a_transaction_has_a_bound() {
    for model in MODELS {
        let server = start(server::Options { input_bytes_max: 4096, ..options(model) });
        let it = &mut Client::to(&server);
        it.expect_ok("MULTI");
        let long = "x".repeat(1000);
        let mut refused = false;
        for _ in 0..10 {
            refused |= matches!(it.ask(&format!("SET k {long}")), Error(text) if text.starts_with("ERR a transaction of more than 4096 bytes"));
        }
        assert!(refused);
        it.expect_error("EXEC", "EXECABORT");
        it.expect_error(
            &format!("APPEND k {}", "x".repeat(4080)),
            "ERR Protocol error: a command of more than",
        );
    }
}
