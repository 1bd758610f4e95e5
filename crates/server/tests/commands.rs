//! Every command, in both models and both versions of the protocol.

mod support;

use manx::txn::{Isolation, Store};
use server::resp::Reply::{self, Array, Bulk, Map, Null, Simple};
use server::{Options, SESSIONS_BESIDE, Server};
use support::*;
use testing::until;

#[test]
fn strings() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect("GET k", Null);
        it.expect_ok("SET k v");
        it.expect("GET k", bulk("v"));
        it.expect("get k", bulk("v"));
        it.expect("STRLEN k", int(1));
        it.expect("APPEND k alue", int(5));
        it.expect("APPEND new x", int(1));
        it.expect("GETRANGE k 1 -2", bulk("alu"));
        it.expect("SETRANGE k 7 end", int(10));
        it.expect("GET k", Bulk(b"value\0\0end".to_vec()));
        it.expect("GETSET k again", Bulk(b"value\0\0end".to_vec()));
        it.expect("GETDEL k", bulk("again"));
        it.expect("GETDEL k", Null);
        it.expect_ok("MSET a 1 b 2 a 3");
        it.expect("MGET a b c", Array(vec![bulk("3"), bulk("2"), Null]));
        it.expect("MSETNX c 1 a 1", int(0));
        it.expect("EXISTS c", int(0));
        it.expect("MSETNX c 1 d 1", int(1));
        it.expect("SETNX c 2", int(0));
        it.expect("SETNX e 2", int(1));
        it.expect("TYPE e", Simple("string".into()));
        it.expect("TYPE none", Simple("none".into()));
        it.expect_error("MSET a 1 b", "ERR wrong number of arguments for 'mset' command");
        // Any bytes are a key and a value.
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(it.ask_bytes(&[b"SET", &bytes, &bytes]), ok());
        assert_eq!(it.ask_bytes(&[b"GET", &bytes]), Bulk(bytes));
        it.expect_ok("SET \"\" empty");
        it.expect("GET \"\"", bulk("empty"));
    });
}

#[test]
fn set_has_options() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect("SET k 1 XX", Null);
        it.expect_ok("SET k 1 NX");
        it.expect("SET k 2 NX", Null);
        it.expect("SET k 2 NX GET", bulk("1"));
        it.expect_ok("SET k 2 XX");
        it.expect("SET k 3 GET", bulk("2"));
        it.expect("SET new 3 GET", Null);
        it.expect_ok("SET k 4 EX 100");
        it.expect("TTL k", int(100));
        it.expect_ok("SET k 5 KEEPTTL");
        it.expect("TTL k", int(100));
        it.expect_ok("SET k 6");
        it.expect("TTL k", int(-1));
        it.expect_ok("SET k 7 px 1000000");
        it.expect("TTL k", int(1000));
        it.expect_ok("SET k 8 EXAT 4000000000");
        it.expect("EXPIRETIME k", int(4_000_000_000));
        it.expect_ok("SET k 9 PXAT 1");
        it.expect("GET k", Null);
        it.expect_ok("SETEX k 100 v");
        it.expect_ok("PSETEX k 100000 v");
        it.expect("TTL k", int(100));
        for line in
            ["SET k v EX", "SET k v EX 1 PX 1", "SET k v NX XX", "SET k v EX 1 KEEPTTL", "SET k v what"]
        {
            it.expect_error(line, "ERR syntax error");
        }
        it.expect_error("SET k v EX 0", "ERR invalid expire time in 'set' command");
        it.expect_error("SETEX k -1 v", "ERR invalid expire time in 'setex' command");
        it.expect_error("SET k v EX x", "ERR value is not an integer or out of range");
        it.expect_error("SET k v EX 9223372036854775807", "ERR invalid expire time");
        it.expect("GET k", bulk("v"));
    });
}

#[test]
fn counters() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect("INCR n", int(1));
        it.expect("INCRBY n 41", int(42));
        it.expect("DECR n", int(41));
        it.expect("DECRBY n 50", int(-9));
        it.expect("GET n", bulk("-9"));
        it.expect_ok("SET n 9223372036854775807");
        it.expect_error("INCR n", "ERR increment or decrement would overflow");
        it.expect_error("DECRBY n -9223372036854775808", "ERR decrement would overflow");
        it.expect_error("INCRBY n 1.5", "ERR value is not an integer or out of range");
        it.expect_ok("SET n x EX 100");
        it.expect_error("INCR n", "ERR value is not an integer or out of range");
        it.expect_ok("SET n 5 EX 100");
        it.expect("INCR n", int(6));
        it.expect("TTL n", int(100));
    });
}

#[test]
fn keys_expire() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect("TTL k", int(-2));
        it.expect("EXPIRE k 10", int(0));
        it.expect_ok("SET k v");
        it.expect("PTTL k", int(-1));
        it.expect("PERSIST k", int(0));
        it.expect("EXPIRE k 100", int(1));
        it.expect("EXPIRE k 200 NX", int(0));
        it.expect("EXPIRE k 200 LT", int(0));
        it.expect("EXPIRE k 200 GT", int(1));
        it.expect("TTL k", int(200));
        it.expect("PEXPIREAT k 4000000000123", int(1));
        it.expect("PEXPIRETIME k", int(4_000_000_000_123));
        it.expect("PERSIST k", int(1));
        it.expect("TTL k", int(-1));
        it.expect_error("EXPIRE k x", "ERR value is not an integer");
        it.expect_error("EXPIRE k 1 what", "ERR Unsupported option what");
        it.expect_error("EXPIRE k 1 NX XX", "ERR NX and XX");
        it.expect("EXPIRE k -1", int(1));
        it.expect("EXISTS k", int(0));
        // An expired key is gone for all clients, whether deleted or not.
        it.expect_ok("SET k v PX 1");
        until("the expiry", || it.ask("GET k") == Null);
        it.expect("EXISTS k", int(0));
        // The housekeeping deletes it.
        until("its deletion", || it.ask("DBSIZE") == int(0));
        it.expect("KEYS *", Array(vec![]));
        it.expect("DEL k", int(0));
        it.expect("SET k v XX", Null);
        it.expect("INCR k", int(1));
        it.expect("TTL k", int(-1));
    });
}

#[test]
fn keys_are_found_and_deleted() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect_ok("MSET user:1 a user:2 b other c");
        it.expect("EXISTS user:1 user:1 none", int(2));
        it.expect("TOUCH user:1 none", int(1));
        it.expect("KEYS user:*", Array(vec![bulk("user:1"), bulk("user:2")]));
        it.expect("KEYS *[12]", Array(vec![bulk("user:1"), bulk("user:2")]));
        it.expect("DBSIZE", int(3));
        it.expect("DEL user:1 user:1 none", int(1));
        it.expect("UNLINK user:2", int(1));
        it.expect_ok("FLUSHDB");
        it.expect("DBSIZE", int(0));
        it.expect_ok("SET k v");
        it.expect_ok("FLUSHALL ASYNC");
        it.expect_error("FLUSHALL now", "ERR syntax error");
        it.expect("GET k", Null);
    });
}

/// A whole scan; each step's number of keys too.
fn scan(it: &mut Client, options: &str) -> (Vec<String>, Vec<usize>) {
    let (mut cursor, mut keys, mut steps) = ("0".to_owned(), Vec::new(), Vec::new());
    loop {
        let Array(mut parts) = it.ask(format!("SCAN {cursor} {options}").trim_end()) else { panic!() };
        let (Some(Array(found)), Some(Bulk(next))) = (parts.pop(), parts.pop()) else { panic!() };
        steps.push(found.len());
        keys.extend(found.iter().map(|key| String::from_utf8(key.as_bytes().unwrap().to_vec()).unwrap()));
        cursor = String::from_utf8(next).unwrap();
        cursor.parse::<u64>().expect("a number");
        if cursor == "0" {
            return (keys, steps);
        }
    }
}

#[test]
fn a_scan_finds_every_key_once() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let mut all: Vec<String> = (0..100).map(|n| format!("a-long-common-prefix:{n:03}")).collect();
        for key in &all {
            it.expect_ok(&format!("SET {key} v"));
        }
        let (keys, steps) = scan(it, "");
        assert_eq!((keys, steps), (all.clone(), vec![10; 10]));
        assert_eq!(scan(it, "COUNT 33").1, [33, 33, 33, 1]);
        assert_eq!(scan(it, "COUNT 1000").1, [100]);
        assert_eq!(scan(it, "MATCH *:0?5 COUNT 7").0.len(), 10);
        assert_eq!(scan(it, "MATCH a-long-common-prefix:09* COUNT 3").1, [3, 3, 3, 1]);
        assert_eq!(scan(it, "TYPE hash").0.len(), 0);
        assert_eq!(scan(it, "TYPE string").0, all);
        // What is deleted behind the cursor does not disturb it, nor does the cursor's own key.
        let Array(parts) = it.ask("SCAN 0 COUNT 50") else { panic!() };
        let cursor = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
        it.expect("DEL a-long-common-prefix:049 a-long-common-prefix:050", int(2));
        let Array(parts) = it.ask(&format!("SCAN {cursor} COUNT 100")) else { panic!() };
        let Array(found) = &parts[1] else { panic!() };
        let rest = all.split_off(51);
        assert_eq!(found.len(), rest.len());
        it.expect_error("SCAN x", "ERR invalid cursor");
        it.expect_error("SCAN 12345", "ERR invalid cursor");
        it.expect_error("SCAN 0 COUNT 0", "ERR syntax error");
        it.expect_error("SCAN 0 COUNT x", "ERR value is not an integer");
        it.expect_error("SCAN 0 COUNT", "ERR syntax error");
    });
}

#[test]
fn connections_and_servers_tell_of_themselves() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect("PING", Simple("PONG".into()));
        it.expect("PING hello", bulk("hello"));
        it.expect("ECHO hello", bulk("hello"));
        it.expect_ok("SELECT 0");
        it.expect_error("SELECT 1", "ERR DB index is out of range");
        it.expect_error("AUTH x", "ERR AUTH <password> called without any password");
        it.expect("CONFIG GET save", Array(vec![bulk("save"), bulk("")]));
        it.expect("CONFIG GET append*ly", Array(vec![bulk("appendonly"), bulk("no")]));
        it.expect("CONFIG GET no-such-thing", Array(vec![]));
        it.expect_error("CONFIG SET save 1", "ERR CONFIG SET failed");
        it.expect_ok("CONFIG RESETSTAT");
        it.expect_error("CONFIG WHAT", "ERR unknown subcommand 'WHAT'. Try CONFIG HELP.");
        it.expect("CLIENT GETNAME", Null);
        it.expect_ok("CLIENT SETNAME me");
        it.expect("CLIENT GETNAME", bulk("me"));
        it.expect_ok("CLIENT SETINFO lib-name x");
        assert_eq!(
            it.ask_bytes(&[b"CLIENT", b"SETNAME", b"a b"]),
            Reply::Error("ERR Client names cannot contain spaces, newlines or special characters.".into())
        );
        let Reply::Integer(id) = it.ask("CLIENT ID") else { panic!() };
        let Bulk(list) = it.ask("CLIENT LIST") else { panic!() };
        assert!(String::from_utf8(list).unwrap().contains(&format!("id={id} ")));
        let Bulk(info) = it.ask("INFO") else { panic!() };
        let info = String::from_utf8(info).unwrap();
        for line in [
            "# Server\r\n",
            "redis_version:7",
            "connected_clients:1\r\n",
            &format!("tcp_port:{}", server.address().port()),
        ] {
            assert!(info.contains(line), "{line} in {info}");
        }
        let Bulk(info) = it.ask("INFO clients") else { panic!() };
        assert!(info.starts_with(b"# Clients\r\n") && !info.windows(8).any(|some| some == b"# Server"));
        let Array(all) = it.ask("COMMAND") else { panic!() };
        it.expect("COMMAND COUNT", int(all.len() as i64));
        let Array(some) = it.ask("COMMAND INFO get nothing") else { panic!() };
        let Array(get) = &some[0] else { panic!() };
        assert_eq!((&get[..2], &some[1]), (&[bulk("get"), int(2)][..], &Null));
        let Array(docs) = it.ask("COMMAND DOCS get") else { panic!() };
        assert_eq!(docs[0], bulk("get"));
        let Array(time) = it.ask("TIME") else { panic!() };
        assert_eq!(time.len(), 2);
        it.expect("RESET", Simple("RESET".into()));
        it.expect("CLIENT GETNAME", Null);
        it.expect_ok("QUIT");
        assert_eq!(it.next(), None);
    });
}

#[test]
fn unknown_or_incomplete_commands_are_refused_in_redis_words() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        it.expect_error("WHAT a b", "ERR unknown command 'WHAT', with args beginning with: 'a' 'b' ");
        it.expect_error("GET", "ERR wrong number of arguments for 'get' command");
        it.expect_error("GET a b", "ERR wrong number of arguments for 'get' command");
        it.expect_error("PING a b", "ERR wrong number of arguments for 'ping' command");
        it.expect_error("CLIENT SETNAME", "ERR wrong number of arguments for 'client|setname' command");
        // An error has one line, whatever was sent.
        let reply = it.ask_bytes(&[b"a\r\n+OK\r\n", b"b"]);
        assert!(matches!(reply, Reply::Error(text) if text.starts_with("ERR unknown command 'a  +OK  '")));
        it.expect("PING", Simple("PONG".into()));
    });
}

#[test]
fn version_three_has_names_for_things() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let Array(two) = it.ask("HELLO") else { panic!() };
        assert_eq!((two.len(), &two[4..6]), (14, &[bulk("proto"), int(2)][..]));
        let Map(three) = it.ask("HELLO 3 SETNAME me") else { panic!() };
        assert_eq!(three[2], (bulk("proto"), int(3)));
        it.send(b"GET none\r\n");
        assert_eq!(it.next(), Some(Null));
        it.expect("CLIENT GETNAME", bulk("me"));
        it.expect("CONFIG GET save", Map(vec![(bulk("save"), bulk(""))]));
        assert!(matches!(it.ask("INFO"), Reply::Verbatim(_)));
        assert!(matches!(it.ask("COMMAND DOCS get"), Map(_)));
        it.expect_error("HELLO 4", "NOPROTO");
        it.expect_error("HELLO x", "ERR Protocol version is not an integer");
        it.expect_error("HELLO 3 WHAT", "ERR Syntax error in HELLO option 'WHAT'");
        assert!(matches!(it.ask("HELLO 2"), Array(_)));
        assert!(matches!(it.ask("INFO"), Bulk(_)));
    });
}

/// Returns how many values there are, expired ones too. It looks past the server, so no reader
/// tells it of them.
fn values_in(store: &Store) -> usize {
    let mut session = store.session().unwrap();
    let mut transaction = session.begin(Isolation::Snapshot).unwrap();
    transaction.scan::<[u8], _>(..).count()
}

/// Waits until `count` values are left.
fn until_there_are(count: usize, store: &Store) {
    until("the expiry", || values_in(store) <= count);
}

#[test]
fn expired_keys_that_nobody_reads_leave_the_store_and_living_ones_stay() {
    for model in MODELS {
        let store = Store::in_memory(manx::txn::Options::default());
        let server = Server::start(options(model), store.clone()).unwrap();
        let it = &mut Client::to(&server);
        it.expect_ok("SET alive v");
        it.expect_ok("SET long v EX 1000");
        let gone: String = (0..5_000).map(|n| format!("SET k{n} v PX 1\r\n")).collect();
        it.send(gone.as_bytes());
        (0..5_000).for_each(|_| assert_eq!(it.next(), Some(ok())));
        until_there_are(2, &store);
        it.expect("MGET alive long", Array(vec![bulk("v"), bulk("v")]));
    }
}

#[test]
fn keys_are_counted_also_when_all_connections_are_taken() {
    for model in MODELS {
        let sessions = 2 + SESSIONS_BESIDE;
        let store = Store::in_memory(manx::txn::Options::new().sessions_max(sessions));
        let server = Server::start(Options { connections_max: 2, ..options(model) }, store.clone()).unwrap();
        let (it, other) = (&mut Client::to(&server), &mut Client::to(&server));
        other.expect_ok("SET k v");
        other.expect_ok("SET gone v PX 1");
        // The housekeeping has its session from then on.
        until_there_are(1, &store);
        // What the housekeeping has deleted it counts a moment later.
        until("it is not counted any more", || it.info("keyspace").contains("db0:keys=1,expires=0"));
    }
}
