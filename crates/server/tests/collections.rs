//! Hashes and sorted sets: what many clients do to the same one, what stays after a restart, and
//! what YCSB's binding for Redis does.

mod support;

use manx::txn::durable::{Durable, DurableOptions};
use manx::txn::{Isolation, Store};
use server::resp::Reply::{self, Array, Bulk, Map, Null};
use server::{Model, Server};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::*;
use testing::until;

/// More members than a small collection has.
const MANY: usize = 1_000;

fn doubles(texts: &[&str]) -> Vec<Reply> {
    texts.iter().map(|text| Reply::Double((*text).into())).collect()
}

#[test]
fn version_three_has_maps_and_doubles() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.ask("HELLO 3");
        it.expect("HSET h a 1 b 2", int(2));
        it.expect("HGETALL h", Map(vec![(bulk("a"), bulk("1")), (bulk("b"), bulk("2"))]));
        it.expect("HGETALL none", Map(vec![]));
        it.expect("ZADD z 3.0 a 0.1 b -inf c", int(3));
        it.expect("ZMSCORE z a b c", Array(doubles(&["3", "0.10000000000000001", "-inf"])));
        it.expect("ZADD z INCR 1e300 a", doubles(&["1.0000000000000001e+300"]).remove(0));
        let pair = |member: &str, score: &str| Array(vec![bulk(member), doubles(&[score]).remove(0)]);
        it.expect("ZRANGE z 0 0 WITHSCORES", Array(vec![pair("c", "-inf")]));
        it.expect("ZSCORE z none", Null);
    });
}

#[test]
fn a_limit_below_zero_is_none() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect("ZADD z 1 a 2 b 3 c", int(3));
        let all = || Array(vec![bulk("b"), bulk("c")]);
        for limit in [-1, -2, i64::MIN, i64::MIN + 1] {
            it.expect(&format!("ZRANGEBYSCORE z -inf +inf LIMIT 1 {limit}"), all());
            it.expect(&format!("ZRANGEBYLEX z - + LIMIT 1 {limit}"), all());
        }
        it.expect("ZRANGEBYSCORE z -inf +inf LIMIT 0 0", Array(vec![]));
    });
}

/// All of a scan, and in how many steps.
fn scan(it: &mut Client, line: &str) -> (Vec<(String, String)>, usize) {
    let text = |part: &Reply| String::from_utf8(part.as_bytes().unwrap().to_vec()).unwrap();
    let (mut cursor, mut found, mut steps) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let Array(parts) = it.ask(&line.replace('@', &cursor)) else { panic!() };
        let [next @ Bulk(_), Array(pairs)] = &parts[..] else { panic!("{parts:?}") };
        found.extend(pairs.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))));
        steps += 1;
        cursor = text(next);
        if cursor == "0" {
            return (found, steps);
        }
    }
}

#[test]
fn a_scan_finds_every_member_once() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let all: Vec<_> = (0..MANY).map(|n| (format!("m{n:04}"), n.to_string())).collect();
        for (member, value) in &all {
            it.expect(&format!("HSET h {member} {value}"), int(1));
            it.expect(&format!("ZADD z {value} {member}"), int(1));
        }
        for command in ["HSCAN h", "ZSCAN z"] {
            assert_eq!(scan(it, &format!("{command} @")), (all.clone(), MANY / 10));
            assert_eq!(scan(it, &format!("{command} @ COUNT 999")), (all.clone(), 2));
            assert_eq!(scan(it, &format!("{command} @ MATCH m001* COUNT 4")), (all[10..20].to_vec(), 3));
        }
        // A cursor goes on also when its collection is another one; one of something else does not.
        let Array(parts) = it.ask("HSCAN h 0 COUNT 990") else { panic!() };
        let cursor = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
        it.expect("DEL h", int(1));
        it.expect("HSET h a 1 m0995 2", int(2));
        let rest = Array(vec![bulk("m0995"), bulk("2")]);
        it.expect(&format!("HSCAN h {cursor}"), Array(vec![bulk("0"), rest]));
        it.expect_error(&format!("SCAN {cursor}"), "ERR invalid cursor");
        it.expect_error("HSCAN h 12345", "ERR invalid cursor");
        it.expect("ZCARD z", int(MANY as i64));
        it.expect("ZRANGE z -2 -1", Array(vec![bulk("m0998"), bulk("m0999")]));
        it.expect("ZRANK z m0500", int(500));
        it.expect("ZREVRANK z m0500", int(499));
        it.expect("ZCOUNT z (10 20", int(10));
    });
}

#[test]
fn an_expired_one_is_gone_and_begins_anew() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect("HSET h a 1", int(1));
        it.expect("PEXPIRE h 1", int(1));
        until("the expiry", || it.ask("HLEN h") == int(0));
        it.expect("TYPE h", Reply::Simple("none".into()));
        it.expect("ZADD h 1 b", int(1));
        it.expect("TTL h", int(-1));
        it.expect("ZRANGE h 0 -1", Array(vec![bulk("b")]));
    });
}

/// What was acknowledged is there, whatever other clients write.
#[test]
fn fields_of_many_clients_are_all_there_and_the_last_one_takes_the_hash_with_it() {
    const CLIENTS: usize = 8;
    const FIELDS: usize = 150;
    for_each_model(|server| {
        // Each has fields of its own, and deletes every second one at once.
        let each = |work: &(dyn Fn(&mut Client, String, usize) + Sync)| {
            std::thread::scope(|scope| {
                for client in 0..CLIENTS {
                    scope.spawn(move || {
                        let it = &mut Client::to(server);
                        (0..FIELDS).for_each(|number| work(it, format!("f{client}:{number}"), number));
                    });
                }
            });
        };
        each(&|it, field, number| {
            it.expect(&format!("HSET h {field} {number}"), int(1));
            if number % 2 == 0 {
                it.expect(&format!("HDEL h {field}"), int(1));
            }
        });
        let it = &mut Client::to(server);
        it.expect("HLEN h", int((CLIENTS * FIELDS / 2) as i64));
        let Array(fields) = it.ask("HKEYS h") else { panic!() };
        assert_eq!(fields.len(), CLIENTS * FIELDS / 2);
        each(&|it, field, number| {
            let there = i64::from(number % 2 == 1);
            it.expect(&format!("HEXISTS h {field}"), int(there));
            it.expect(&format!("HDEL h {field}"), int(there));
        });
        it.expect("EXISTS h", int(0));
        it.expect("DBSIZE", int(0));
    });
}

/// Makes a hash of one field, which was larger before if it is to be wide.
fn hash_of_one(it: &mut Client, key: &str, field: &str, is_wide: bool) {
    if is_wide {
        let fields: Vec<_> = (0..600).map(|n| format!("x{n}")).collect();
        it.expect(&format!("HSET {key} {} 0", fields.join(" 0 ")), int(600));
        it.expect(&format!("HSET {key} {field} 1"), int(1));
        it.expect(&format!("HDEL {key} {}", fields.join(" ")), int(600));
    } else {
        it.expect(&format!("HSET {key} {field} 1"), int(1));
    }
    it.expect(&format!("HLEN {key}"), int(1));
}

/// Two clients prepare themselves, and then do something at once. Returns what each was answered.
fn at_once(
    server: &Server,
    prepare: impl Fn(usize, &mut Client) + Sync,
    act: impl Fn(usize, &mut Client) -> Reply + Sync,
) -> [Reply; 2] {
    let (barrier, prepare, act) = (&Barrier::new(2), &prepare, &act);
    std::thread::scope(|scope| {
        let client = |own| {
            scope.spawn(move || {
                let it = &mut Client::to(server);
                prepare(own, it);
                barrier.wait();
                act(own, it)
            })
        };
        [client(0), client(1)].map(|client| client.join().unwrap())
    })
}

/// A hash that is under one of two names, and becomes wide meanwhile.
#[test]
fn fields_that_come_while_a_hash_is_renamed_are_all_there() {
    const CLIENTS: usize = 3;
    const FIELDS: usize = 250;
    for_each_model(|server| {
        Client::to(server).expect("HSET a first 1", int(1));
        let left = AtomicUsize::new(CLIENTS);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let it = &mut Client::to(server);
                let began = Instant::now();
                while left.load(Ordering::Relaxed) > 0 {
                    assert!(began.elapsed() < Duration::from_secs(60), "the others do not come to an end");
                    it.expect_ok("RENAME a b");
                    it.expect("RENAMENX b a", int(1));
                    // A copy takes its place.
                    it.expect_ok("MULTI");
                    it.expect("COPY a b", queued());
                    it.expect("DEL a", queued());
                    it.expect("RENAME b a", queued());
                    it.expect("HLEN a", queued());
                    it.expect("HGETALL a", queued());
                    let Array(parts) = it.ask("EXEC") else { panic!("EXEC has parts") };
                    let [Reply::Integer(1), _, _, Reply::Integer(length), Array(fields)] = &parts[..] else {
                        panic!("{parts:?}")
                    };
                    assert_eq!(fields.len(), *length as usize * 2);
                    // The others are to get a turn.
                    it.expect_ok("RENAME a b");
                    std::thread::sleep(Duration::from_millis(5));
                    it.expect_ok("RENAME b a");
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            for client in 0..CLIENTS {
                let left = &left;
                scope.spawn(move || {
                    let it = &mut Client::to(server);
                    for number in 0..FIELDS {
                        loop {
                            it.expect_ok("WATCH a b");
                            let key = if it.ask("EXISTS a") == int(1) { "a" } else { "b" };
                            it.expect_ok("MULTI");
                            it.expect(&format!("HSET {key} f{client}:{number} 1"), queued());
                            if it.ask("EXEC") != Null {
                                break;
                            }
                        }
                    }
                    left.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        let it = &mut Client::to(server);
        let all = CLIENTS * FIELDS + 1;
        it.expect("HLEN a", int(all as i64));
        let Array(fields) = it.ask("HKEYS a") else { panic!() };
        assert_eq!(fields.len(), all);
        it.expect("DBSIZE", int(1));
    });
}

/// Each reads what the other writes: the last field goes while another one comes.
#[test]
fn a_field_that_comes_while_the_last_one_goes_is_there() {
    for_each_model(|server| {
        for round in 0..150 {
            let key = &format!("h{round}");
            hash_of_one(&mut Client::to(server), key, "last", round % 3 == 0);
            let lines = [format!("HDEL {key} last"), format!("HSET {key} new 1")];
            let answers = at_once(server, |_, it| drop(it.ask("PING")), |own, it| it.ask(&lines[own]));
            assert_eq!(answers, [int(1), int(1)], "round {round}");
            let it = &mut Client::to(server);
            it.expect(&format!("HGETALL {key}"), Array(vec![bulk("new"), bulk("1")]));
            it.expect(&format!("HLEN {key}"), int(1));
        }
    });
}

/// If each of two EXECs reads a member that the other one writes, one is before the other and is
/// seen by it.
#[test]
fn execs_are_in_an_order_also_by_members() {
    for_each_model(|server| {
        for round in 0..100 {
            let keys = [format!("left{round}"), format!("right{round}")];
            for key in &keys {
                hash_of_one(&mut Client::to(server), key, "f", round % 3 == 0);
            }
            // In some rounds it is all members that are read.
            let read = if round % 2 == 0 { "HGET @ f" } else { "HLEN @" };
            let write = if round % 2 == 0 { "HSET @ f 2" } else { "HSET @ g 2" };
            let queue = |own: usize, it: &mut Client| {
                it.expect_ok("MULTI");
                it.expect(&read.replace('@', &keys[1 - own]), queued());
                it.expect(&write.replace('@', &keys[own]), queued());
            };
            let seen = at_once(server, queue, |_, it| {
                let Array(mut parts) = it.ask("EXEC") else { panic!("EXEC has parts") };
                parts.remove(0)
            });
            let before = if round % 2 == 0 { bulk("1") } else { int(1) };
            assert!(seen.iter().any(|seen| *seen != before), "round {round}: neither saw the other");
        }
    });
}

#[test]
fn a_member_that_changed_refuses_the_transaction_of_a_watcher() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        for is_wide in [false, true] {
            hash_of_one(it, "h", "f", is_wide);
            for (change, goes_through) in [
                ("HSET h f 2", false),
                ("HSET h f 2", false),
                ("HSET h g 2", false),
                ("HDEL h g", false),
                ("EXPIRE h 100", false),
                ("PERSIST h", false),
                ("HGETALL h", true),
                ("HDEL h none", true),
                ("HSETNX h f 9", true),
                ("HSET unrelated f 2", true),
                ("HDEL h f", false),
                ("ZADD h 1 a", false),
                ("ZADD h 1 a", true),
                ("ZADD h 2 a", false),
                ("SET h text", false),
                ("DEL h", false),
            ] {
                it.expect_ok("WATCH h");
                other.ask(change);
                it.expect_ok("MULTI");
                it.expect("SET result 1", queued());
                it.expect("EXEC", if goes_through { Array(vec![ok()]) } else { Null });
            }
        }
    });
}

/// A user's key, as the binding makes it, and its score there: a hash code of it.
fn user(number: usize) -> (String, f64) {
    let key = format!("user{}", (number as u64).wrapping_mul(6_364_136_223_846_793_005));
    let hash = key.bytes().fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)));
    (key, f64::from(hash))
}

/// YCSB's binding for Redis: a record is a hash, and all keys are in a sorted set, where a scan
/// looks for them.
struct Binding(Client);

const INDEX: &str = "_indices";
const FIELDS: usize = 10;

impl Binding {
    fn fields(value: &str) -> String {
        (0..FIELDS).map(|field| format!(" field{field} {value}{field}")).collect()
    }

    fn insert(&mut self, number: usize) {
        let (key, score) = user(number);
        self.0.expect_ok(&format!("HMSET {key}{}", Binding::fields("first")));
        self.0.expect(&format!("ZADD {INDEX} {score:E} {key}"), int(1));
    }

    fn read(&mut self, number: usize) -> Vec<Reply> {
        let Array(all) = self.0.ask(&format!("HGETALL {}", user(number).0)) else { panic!() };
        all
    }

    fn read_one(&mut self, number: usize, field: usize) -> Reply {
        self.0.ask(&format!("HMGET {} field{field}", user(number).0))
    }

    fn update(&mut self, number: usize, field: usize) {
        self.0.expect_ok(&format!("HMSET {} field{field} second", user(number).0));
    }

    fn delete(&mut self, number: usize) {
        let key = user(number).0;
        self.0.expect(&format!("DEL {key}"), int(1));
        self.0.expect(&format!("ZREM {INDEX} {key}"), int(1));
    }

    fn scan(&mut self, from: usize, count: usize) -> Vec<Vec<Reply>> {
        let line = format!("ZRANGEBYSCORE {INDEX} {:E} +inf LIMIT 0 {count}", user(from).1);
        let Array(keys) = self.0.ask(&line) else { panic!() };
        let records = keys.iter().map(|key| match self.0.ask_bytes(&[b"HGETALL", key.as_bytes().unwrap()]) {
            Array(fields) => fields,
            other => panic!("{other:?}"),
        });
        records.collect()
    }
}

#[test]
fn collections_serve_the_commands_of_ycsbs_binding() {
    const CLIENTS: usize = 8;
    const RECORDS: usize = 100;
    for_each_model(|server| {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || {
                    let it = &mut Binding(Client::to(server));
                    let own = client * RECORDS..(client + 1) * RECORDS;
                    own.clone().for_each(|number| it.insert(number));
                    for number in own.clone() {
                        assert_eq!(it.read(number).len(), FIELDS * 2);
                        it.update(number, number % FIELDS);
                        let expected = Array(vec![bulk("second")]);
                        assert_eq!(it.read_one(number, number % FIELDS), expected);
                        let found = it.scan(number, 5);
                        assert!((1..=5).contains(&found.len()));
                    }
                    own.step_by(2).for_each(|number| it.delete(number));
                });
            }
        });
        let left = CLIENTS * RECORDS / 2;
        let it = &mut Binding(Client::to(server));
        it.0.expect(&format!("ZCARD {INDEX}"), int(left as i64));
        it.0.expect("DBSIZE", int(left as i64 + 1));
        let mut users: Vec<_> = (0..CLIENTS * RECORDS).filter(|number| number % 2 == 1).map(user).collect();
        users.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
        let expected = users.iter().map(|(key, _)| bulk(key)).collect();
        it.0.expect(&format!("ZRANGEBYSCORE {INDEX} -inf +inf"), Array(expected));
    });
}

/// What of a store's entries is not a key's own.
fn members_in(store: &Store) -> usize {
    let mut session = store.session().unwrap();
    let mut transaction = session.begin(Isolation::Snapshot).unwrap();
    // Keys have names that begin with a byte of 1, or of 6 after FLUSHALL; the last one is the
    // generation's.
    transaction.scan([2_u8].as_slice()..&[6]).count()
}

fn on(store: &Store, model: Model) -> Server {
    Server::start(server::Options { durable: true, ..options(model) }, store.clone()).unwrap()
}

#[test]
fn collections_outlive_a_restart_and_dead_ones_do_not() {
    for model in MODELS {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let durable = Durable::open(folder.path(), DurableOptions::default()).unwrap();
            Store::open(manx::txn::Options::default(), Box::new(durable)).unwrap()
        };
        let store = open();
        let server = on(&store, model);
        let it = &mut Client::to(&server);
        let members: String = (0..3 * MANY).map(|n| format!(" {n} m{n}")).collect();
        it.expect("HSET h a 1 b 2", int(2));
        it.expect(&format!("ZADD z{members}"), int(3 * MANY as i64));
        it.expect(&format!("ZADD dead{members}"), int(3 * MANY as i64));
        it.expect(&format!("ZADD replaced{members}"), int(3 * MANY as i64));
        it.expect_ok("SET replaced text");
        it.expect("DEL dead", int(1));
        it.expect("ZADD dead 1 alive", int(1));
        // Under another name, and a copy that dies.
        it.expect_ok("RENAME z renamed");
        it.expect("COPY renamed z", int(1));
        it.expect_ok("RENAME renamed z");
        it.expect("COPY z copy", int(1));
        it.expect("DEL copy", int(1));
        server.stop();
        server.wait();
        drop(store);
        let store = open();
        let server = on(&store, model);
        let it = &mut Client::to(&server);
        it.expect("HGETALL h", Array(vec![bulk("a"), bulk("1"), bulk("b"), bulk("2")]));
        it.expect("ZCARD z", int(3 * MANY as i64));
        it.expect("ZRANGE dead 0 -1", Array(vec![bulk("alive")]));
        it.expect("GET replaced", bulk("text"));
        it.expect("HSET h c 3", int(1));
        it.expect("DEL z", int(1));
        // Three of `h`, and of `dead` one in both orders; everything else belongs to no collection.
        until("the others' deletion", || members_in(&store) == 5);
        it.expect("HLEN h", int(3));
        it.expect("DBSIZE", int(3));
        it.expect_ok("FLUSHALL");
        it.expect("DBSIZE", int(0));
        it.expect("HSET h d 4", int(1));
        it.expect("HGETALL h", Array(vec![bulk("d"), bulk("4")]));
        it.expect("DBSIZE", int(1));
        server.stop();
        server.wait();
        drop(store);
        let store = open();
        let server = on(&store, model);
        let it = &mut Client::to(&server);
        it.expect("HGETALL h", Array(vec![bulk("d"), bulk("4")]));
        it.expect("SCAN 0", Array(vec![bulk("0"), Array(vec![bulk("h")])]));
        // What FLUSHALL has left is deleted in the background: the new `h` has a header and a
        // field, and there is the generation.
        let mut session = store.session().unwrap();
        let mut count = || session.begin(Isolation::Snapshot).unwrap().scan::<[u8], _>(..).count();
        until("its deletion", || count() == 3);
    }
}
