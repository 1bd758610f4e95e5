//! A server that may use only so much memory: what it refuses, and which keys go.

mod support;

use server::resp::Reply::{Array, Bulk, Error, Integer, Simple};
use server::{Eviction, Options, Server};
use support::*;
use testing::until;

/// Enough for some hundred keys of a kilobyte.
const BYTES_MAX: u64 = 400 * 1024;
const VALUE: usize = 1_000;

fn limited(model: server::Model, eviction: Eviction) -> Server {
    start(Options { memory_bytes_max: Some(BYTES_MAX), eviction, ..options(model) })
}

fn set(it: &mut Client, key: &str, more: &str) -> server::resp::Reply {
    it.ask(&format!("SET {key} {}{more}", "x".repeat(VALUE)))
}

/// The number behind this word of INFO.
fn info(it: &mut Client, section: &str, word: &str) -> u64 {
    let text = it.info(section);
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{word} in {text}")).parse().unwrap()
}

const REFUSED: &str = "OOM command not allowed when used memory > 'maxmemory'.";

#[test]
fn without_eviction_writes_are_refused_and_all_else_goes_on() {
    for model in MODELS {
        let server = limited(model, Eviction::None);
        let it = &mut Client::to(&server);
        let pairs = ["maxmemory", &BYTES_MAX.to_string(), "maxmemory-policy", "noeviction"];
        let pairs = Array(pairs.into_iter().map(bulk).collect());
        it.expect("CONFIG GET maxmemory maxmemory-policy", pairs);
        it.expect_ok("SET counter 1");
        it.expect_ok("MULTI");
        it.expect("SET late 1", queued());
        let (other, mut written) = (&mut Client::to(&server), 0);
        while set(other, &format!("k{written}"), "") == ok() {
            written += 1;
        }
        assert!((200..400).contains(&written), "{written}");
        assert!(info(other, "memory", "used_memory") > BYTES_MAX);
        for line in ["SET k0 x", "INCR counter", "HSET h f v", "ZADD z 1 m", "APPEND k0 x", "MSET a 1"]
            .into_iter()
            .chain(["COPY k0 k", "SETBIT k0 9 1", "ZUNIONSTORE z 1 z", "ZRANGESTORE z z 0 1"])
            .chain([
                "INCRBYFLOAT f 1",
                "HINCRBYFLOAT h f 1",
                "BITOP NOT k k0",
                "BITFIELD k0",
                "SORT l STORE d",
                "GEOADD g 1 1 m",
            ])
        {
            other.expect_error(line, REFUSED);
        }
        other.expect_ok("RENAME counter other");
        other.expect_ok("RENAME other counter");
        other.expect("EXISTS k0 counter", int(2));
        other.expect("EXPIRE counter 100", int(1));
        // A transaction with such a command is refused as a whole.
        it.expect("EXEC", Error(format!("EXECABORT Transaction discarded because of: {REFUSED}")));
        it.expect_ok("MULTI");
        it.expect("DEL counter", queued());
        it.expect_error("SET late 1", REFUSED);
        it.expect_error("EXEC", "EXECABORT Transaction discarded because of previous errors");
        it.expect("EXISTS counter late", int(1));
        // There is room again.
        other.expect("DEL k0 k1 k2", int(3));
        assert_eq!(set(other, "k0", ""), ok());
        other.expect_ok("FLUSHALL");
        until("the memory is free", || info(other, "memory", "used_memory") < BYTES_MAX / 4);
        other.expect("HSET h f v", int(1));
        assert_eq!(info(other, "stats", "evicted_keys"), 0);
    }
}

/// Writes many more keys than there is room for.
fn overfill(it: &mut Client, more: &str) {
    for n in 0..2_000 {
        assert_eq!(set(it, &format!("k{n:04}"), more), ok(), "{n}");
    }
    let (used, evicted) = (info(it, "memory", "used_memory"), info(it, "stats", "evicted_keys"));
    assert!(used < BYTES_MAX + BYTES_MAX / 10, "{used}");
    assert!((1_600..2_000).contains(&evicted), "{evicted}");
}

fn there_are(it: &mut Client, from: usize, to: usize) -> i64 {
    let keys: String = (from..to).map(|n| format!(" k{n:04}")).collect();
    let server::resp::Reply::Integer(count) = it.ask(&format!("EXISTS{keys}")) else { panic!() };
    count
}

#[test]
fn keys_that_were_not_used_for_long_go_first() {
    for model in MODELS {
        let server = limited(model, Eviction::AllKeysLru);
        let it = &mut Client::to(&server);
        for n in 0..20 {
            it.expect_ok(&format!("SET used{n} v"));
        }
        for n in 0..2_000 {
            // One of twenty each time, and time has to pass for one to be older than another.
            it.expect(&format!("GET used{}", n % 20), bulk("v"));
            assert_eq!(set(it, &format!("k{n:04}"), ""), ok());
            if n % 20 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        let used: String = (0..20).map(|n| format!(" used{n}")).collect();
        it.expect(&format!("EXISTS{used}"), int(20));
        // Of the last ones nearly all are there, of the first ones hardly any.
        assert!(there_are(it, 1_800, 2_000) >= 150, "{}", there_are(it, 1_800, 2_000));
        assert!(there_are(it, 0, 1_000) <= 50, "{}", there_are(it, 0, 1_000));
    }
}

#[test]
fn keys_that_are_used_rarely_go_first() {
    let server = limited(server::Model::Pool, Eviction::AllKeysLfu);
    let it = &mut Client::to(&server);
    for n in 0..20 {
        it.expect_ok(&format!("SET used{n} v"));
        (0..200).for_each(|_| it.expect(&format!("GET used{n}"), bulk("v")));
    }
    overfill(it, "");
    let used: String = (0..20).map(|n| format!(" used{n}")).collect();
    it.expect(&format!("EXISTS{used}"), int(20));
}

#[test]
fn any_key_goes_if_that_is_asked_for() {
    for model in MODELS {
        let server = limited(model, Eviction::AllKeysRandom);
        let it = &mut Client::to(&server);
        it.expect("HSET collection f v", int(1));
        overfill(it, "");
        assert!(there_are(it, 0, 1_000) > 0);
        let server::resp::Reply::Integer(left) = it.ask("DBSIZE") else { panic!() };
        assert_eq!(left as u64, 2_001 - info(it, "stats", "evicted_keys"));
    }
}

#[test]
fn only_keys_with_an_expiry_go_if_that_is_asked_for() {
    for eviction in [Eviction::VolatileLru, Eviction::VolatileLfu, Eviction::VolatileRandom] {
        let server = limited(server::Model::Pool, eviction);
        let it = &mut Client::to(&server);
        for n in 0..50 {
            it.expect_ok(&format!("SET kept{n} v"));
        }
        overfill(it, " EX 1000");
        let kept: String = (0..50).map(|n| format!(" kept{n}")).collect();
        it.expect(&format!("EXISTS{kept}"), int(50));
        // Once none of these is left, writes are refused.
        let mut written = 0;
        while set(it, &format!("lasting{written}"), "") == ok() {
            written += 1;
        }
        assert!((200..400).contains(&written), "{eviction}: {written}");
        assert_eq!(there_are(it, 0, 2_000), 0);
        it.expect_error("SET another x EX 100", REFUSED);
    }
}

#[test]
fn keys_that_expire_soonest_go_first() {
    let server = limited(server::Model::Pool, Eviction::VolatileTtl);
    let it = &mut Client::to(&server);
    for n in 0..2_000 {
        // Those of odd numbers expire much later.
        let seconds = 1_000 + n % 2 * 1_000_000;
        assert_eq!(set(it, &format!("k{n:04}"), &format!(" EX {seconds}")), ok());
    }
    let of = |it: &mut Client, odd: usize| {
        let keys: String = (0..1_000).map(|n| format!(" k{:04}", 2 * n + odd)).collect();
        let server::resp::Reply::Integer(count) = it.ask(&format!("EXISTS{keys}")) else { panic!() };
        count
    };
    let (soon, late) = (of(it, 0), of(it, 1));
    assert!(soon <= 20 && late >= 200, "{soon} soon, {late} late");
}

#[test]
fn clients_that_overfill_it_at_once_stay_within_the_limit() {
    for model in MODELS {
        let server = limited(model, Eviction::AllKeysLru);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let server = &server;
                scope.spawn(move || {
                    let it = &mut Client::to(server);
                    for n in 0..400 {
                        assert_eq!(set(it, &format!("{client}:{n}"), ""), ok());
                        it.ask(&format!("GET {client}:{}", n / 2));
                    }
                });
            }
        });
        let it = &mut Client::to(&server);
        let used = info(it, "memory", "used_memory");
        assert!(used < BYTES_MAX + BYTES_MAX / 10, "{used}");
        let server::resp::Reply::Integer(left) = it.ask("DBSIZE") else { panic!() };
        assert!((200..400).contains(&left), "{left}");
    }
}

/// A collection's members are deleted after its key. Keys that were evicted meanwhile would be too
/// many.
#[test]
fn as_few_large_collections_go_as_are_needed() {
    const MEMBERS: usize = 200;
    for model in MODELS {
        let server = limited(model, Eviction::AllKeysLru);
        let it = &mut Client::to(&server);
        // Each of them has an eighth of the room, or a sixth.
        let fill = |it: &mut Client, of: usize| {
            let fields: String = (0..MEMBERS).map(|n| format!(" f{n} {}", "x".repeat(50))).collect();
            it.expect(&format!("HSET collection{of}{fields}"), int(MEMBERS as i64));
        };
        const COLLECTIONS: usize = 20;
        (0..COLLECTIONS).for_each(|of| fill(it, of));
        // Strings make further room necessary, little by little.
        for n in 0..20 {
            assert_eq!(set(it, &format!("k{n}"), ""), ok());
        }
        let evicted = info(it, "stats", "evicted_keys");
        let server::resp::Reply::Integer(left) = it.ask("DBSIZE") else { panic!() };
        assert_eq!(left as u64 + evicted, COLLECTIONS as u64 + 20);
        assert!(left >= 24, "{left} keys are left, and {evicted} are gone");
        let used = info(it, "memory", "used_memory");
        assert!(used < BYTES_MAX + BYTES_MAX / 4, "{used}");
    }
}

/// Each of them is below its own limit.
#[test]
fn the_client_with_the_largest_buffers_goes_if_all_together_have_too_much() {
    const MIB: usize = 1 << 20;
    for model in MODELS {
        let server = start(Options { buffers_bytes_max: Some(8 * MIB as u64), ..options(model) });
        let it = &mut Client::to(&server);
        // A part of a command each.
        let mut clients: Vec<_> = (1..=4).map(|_| Client::to(&server)).collect();
        for (client, mib) in clients.iter_mut().zip([1, 1, 4, 1]) {
            let mut part = b"*2\r\n$4\r\nECHO\r\n$10000000\r\n".to_vec();
            part.resize(mib * MIB - 100_000, b'x');
            client.send(&part);
        }
        until("all has come", || info(it, "memory", "mem_clients_normal") > 6 * MIB as u64);
        assert_eq!(info(it, "stats", "evicted_clients"), 0);
        // A queue counts too.
        let queue = &mut Client::to(&server);
        queue.expect_ok("MULTI");
        let (value, mut count) = (vec![b'x'; MIB], 0);
        while info(it, "stats", "evicted_clients") == 0 {
            assert_eq!(queue.ask_bytes(&[b"SET", b"k", &value]), queued());
            count += 1;
        }
        assert!(clients[2].next().is_none(), "it had the most");
        queue.expect("EXEC", Array(vec![ok(); count]));
        until("it is gone", || info(it, "clients", "connected_clients") == 5);
        drop(clients);
        until("nothing is left", || info(it, "memory", "mem_clients_normal") < MIB as u64 / 4);
    }
}

/// More than there is room for at the same time.
#[test]
fn large_commands_wait_for_each_other_and_for_no_slow_client() {
    const BLOCK: usize = 251;
    const BYTES: usize = BLOCK * 100_000;
    const CLIENTS: u8 = 8;
    for_each_model(|server| {
        let block = |of: u8| -> Vec<u8> { (0..BLOCK).map(|at| at as u8 ^ of).collect() };
        let value = |of: u8| block(of).repeat(BYTES / BLOCK);
        // These send a part, and the rest when all others are done.
        let mut slow: Vec<_> = (0..4).map(|_| Client::to(server)).collect();
        let command = frame(&[b"SET", b"slow", &value(99)]);
        let (part, rest) = command.split_at(2 << 20);
        slow.iter_mut().for_each(|client| client.send(part));
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || {
                    let it = &mut Client::to(server);
                    let key = [b'a' + client % 2];
                    // Also a small command behind a large one.
                    it.send(&frame(&[b"SET", &key, &value(client)]));
                    it.send(&frame(&[b"STRLEN", &key]));
                    assert_eq!(it.next(), Some(ok()));
                    assert_eq!(it.next(), Some(int(BYTES as i64)));
                    it.expect("PING", Simple("PONG".into()));
                });
            }
        });
        let it = &mut Client::to(server);
        for (key, parity) in [("a", 0), ("b", 1)] {
            let Bulk(found) = it.ask(&format!("GET {key}")) else { panic!("no value") };
            let writer = found[0];
            assert!(writer < CLIENTS && writer % 2 == parity && found == value(writer));
        }
        // One is gone before it is done.
        drop(slow.pop());
        for client in &mut slow {
            client.send(rest);
            assert_eq!(client.next(), Some(ok()));
        }
        assert!(it.ask("GET slow") == Bulk(value(99)));
    });
}

#[test]
fn a_server_ends_while_large_commands_wait_for_room() {
    for model in MODELS {
        let server = start(options(model));
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let mut client = Client::to(&server);
                client.send(&frame(&[b"SET", b"k", &vec![b'x'; 60 << 20]])[..3 << 20]);
                client
            })
            .collect();
        server.stop();
        server.wait();
        drop(clients);
    }
}

#[test]
fn the_use_of_a_key_is_told_where_it_counts_and_to_ask_is_no_use() {
    for (eviction, told, other) in [
        (Eviction::None, None, ["ERR idle time is tracked with", "ERR An LFU maxmemory policy is not"]),
        (Eviction::AllKeysLru, Some("IDLETIME"), ["", "ERR An LFU maxmemory policy is not selected"]),
        (Eviction::AllKeysLfu, Some("FREQ"), ["ERR An LFU maxmemory policy is selected", ""]),
    ] {
        let server = limited(MODELS[0], eviction);
        let it = &mut Client::to(&server);
        it.expect_ok("SET k v");
        for (word, error) in ["IDLETIME", "FREQ"].into_iter().zip(other) {
            let line = format!("OBJECT {word} k");
            if told != Some(word) {
                it.expect_error(&line, error);
                continue;
            }
            let asked: Vec<_> = (0..100).map(|_| it.ask(&line)).collect();
            // A new key has been used five times, and uses are forgotten within minutes.
            match word {
                "FREQ" => assert!(asked.iter().all(|count| [int(4), int(5)].contains(count)), "{asked:?}"),
                _ => assert!(asked.iter().all(|idle| matches!(idle, Integer(0..60))), "{asked:?}"),
            }
            assert_eq!(it.ask(&format!("OBJECT {word} none")), server::resp::Reply::Null);
        }
    }
}

#[test]
fn the_memory_of_a_key_is_that_of_its_entries() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let mut usage = |line: &str, key: &str| {
            it.ask(line);
            match it.ask(&format!("MEMORY USAGE {key}")) {
                // Members are of one length, so some are as good as all.
                Integer(bytes) => it.expect(&format!("MEMORY USAGE {key} SAMPLES 0"), int(bytes)),
                other => panic!("{other:?}"),
            }
            let Integer(bytes) = it.ask(&format!("MEMORY USAGE {key}")) else { panic!() };
            bytes
        };
        let entry = usage("SET k v", "k");
        assert_eq!(usage(&format!("SET long {}", "x".repeat(1_000)), "long"), entry + 3 + 999);
        let numbers = |what: &str| (100..800).map(|n| format!(" {what}{n}")).collect::<String>();
        let set = usage(&format!("SADD s{}", numbers("")), "s");
        assert!((700 * 230..701 * 300 + 512 * 300).contains(&set), "{set}");
        let sorted = usage(&format!("ZADD z{}", numbers("1 ")), "z");
        assert!((set + 700 * 230..set + 700 * 300).contains(&sorted), "{sorted} {set}");
        let list = usage("RPUSH l a b c", "l");
        // Three elements and a header.
        assert!((4 * 230..4 * 300).contains(&list), "{list}");
    });
}
