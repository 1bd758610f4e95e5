//! CLIENT, and what is not from a client of this protocol: compared with a real server of Redis
//! where a connection's end or a missing answer is the point.

mod support;

use server::resp::Reply::{self, Bulk, Simple};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use support::redis::Redis;
use support::*;
use testing::until;

/// All that is answered to these bytes, until the server closes the connection or has nothing more
/// to say.
fn answers(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut received = Vec::new();
    // A connection with unread bytes is reset.
    let _ = stream.read_to_end(&mut received);
    received.escape_ascii().to_string()
}

fn same_as_redis(sessions: &[&[u8]]) {
    let Some(redis) = Redis::start() else { return };
    for_each_model(|server| {
        for session in sessions {
            let (ours, theirs) = (answers(server.address(), session), answers(redis.address, session));
            assert_eq!(ours, theirs, "{}", session.escape_ascii());
        }
    });
}

#[test]
fn answers_are_left_out_as_by_redis() {
    same_as_redis(&[
        b"CLIENT REPLY SKIP\r\nPING a\r\nPING b\r\n",
        b"CLIENT REPLY SKIP\r\nWHAT\r\nPING b\r\n",
        b"CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING a\r\nPING b\r\n",
        b"CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nPING a\r\n",
        b"CLIENT REPLY OFF\r\nPING a\r\nCLIENT REPLY what\r\nCLIENT REPLY SKIP\r\nPING b\r\nCLIENT REPLY ON\r\nPING c\r\n",
        b"CLIENT REPLY OFF\r\nMULTI\r\nSET k v\r\nEXEC\r\nCLIENT REPLY ON\r\nGET k\r\n",
        b"CLIENT REPLY OFF\r\nRESET\r\nPING a\r\n",
        b"CLIENT REPLY OFF\r\nSET a \"b\r\n",
        b"CLIENT REPLY OFF\r\nQUIT\r\n",
    ]);
}

#[test]
fn a_request_of_http_is_closed_and_nothing_behind_it_is_done() {
    let sessions: [&[u8]; 5] = [
        b"POST / HTTP/1.1\r\nSET k stolen\r\n",
        b"post x\r\nSET k stolen\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost:6379\r\n\r\nSET k stolen\r\n",
        b"HOST: x\r\nSET k stolen\r\n",
        b"*1\r\n$4\r\nPOST\r\nSET k stolen\r\n",
    ];
    for_each_model(|server| {
        let it = &mut Client::to(server);
        for session in sessions {
            let answers = answers(server.address(), session);
            assert!(!answers.contains("OK"), "{answers}");
            it.expect("EXISTS k", int(0));
        }
        assert!(it.info("stats").contains("protocol_errors:5\r\n"));
        // As a value and as a key they are what they are.
        it.expect_ok("SET post host:");
        it.expect("GET post", bulk("host:"));
    });
    let Some(redis) = Redis::start() else { return };
    let it = &mut Client::connect(redis.address);
    for session in sessions {
        answers(redis.address, session);
        it.expect("EXISTS k", int(0));
    }
}

fn fields(it: &mut Client, line: &str) -> Vec<Vec<(String, String)>> {
    let Bulk(text) = it.ask(line) else { panic!() };
    let text = String::from_utf8(text).unwrap();
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().map(|line| line.split(' ').map(|word| pair(word).unwrap()).collect()).collect()
}

fn field(line: &[(String, String)], name: &str) -> String {
    line.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("{name}: {line:?}")).1.clone()
}

#[test]
fn clients_are_listed_by_id_and_type() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        other.expect_ok("CLIENT SETNAME other");
        let Reply::Integer(id) = other.ask("CLIENT ID") else { panic!() };
        it.expect("PING", Simple("PONG".into()));
        assert_eq!(fields(it, "CLIENT LIST").len(), 2);
        assert_eq!(fields(it, "CLIENT LIST TYPE normal").len(), 2);
        let found = fields(it, &format!("CLIENT LIST ID 99999 {id} {id}"));
        assert_eq!(found.len(), 2);
        assert_eq!(field(&found[0], "name"), "other");
        assert_eq!(field(&found[0], "addr"), other.stream.local_addr().unwrap().to_string());
        assert_eq!(field(&found[0], "laddr"), server.address().to_string());
    });
}

#[test]
fn clients_are_killed_by_what_they_are() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let mut killed = |how: &dyn Fn(&mut Client, i64) -> String, answer: Reply| {
            let other = &mut Client::to(server);
            let Reply::Integer(id) = other.ask("CLIENT ID") else { panic!() };
            let line = how(other, id);
            it.expect(&line, answer);
            assert_eq!(other.next(), None, "{line}");
            it.expect(&format!("CLIENT KILL ID {id}"), int(0));
        };
        killed(&|other, _| format!("CLIENT KILL {}", other.stream.local_addr().unwrap()), ok());
        killed(&|other, _| format!("CLIENT KILL ADDR {}", other.stream.local_addr().unwrap()), int(1));
        killed(&|_, id| format!("CLIENT KILL ID {id}"), int(1));
        killed(
            &|_, id| format!("CLIENT KILL ID {id} TYPE normal LADDR {} SKIPME no", server.address()),
            int(1),
        );
        killed(&|_, _| "CLIENT KILL TYPE normal".into(), int(1));
        killed(&|_, _| format!("CLIENT KILL LADDR {}", server.address()), int(1));
        it.expect_error("CLIENT KILL MAXAGE 0", "ERR maxage should be greater than 0");
        it.expect_error("CLIENT KILL MAXAGE x", "ERR maxage is not an integer or out of range");
        it.expect("CLIENT KILL MAXAGE 1000000", int(0));
        it.expect("CLIENT KILL TYPE replica", int(0));
        // It gets its answer, and nothing behind it is done.
        it.send(b"CLIENT KILL TYPE normal SKIPME no\r\nSET k v\r\n");
        assert_eq!((it.next(), it.next()), (Some(int(1)), None));
        let it = &mut Client::to(server);
        it.expect("EXISTS k", int(0));
        let own = it.stream.local_addr().unwrap();
        it.send(format!("CLIENT KILL {own}\r\n").as_bytes());
        assert_eq!((it.next(), it.next()), (Some(ok()), None));
        // EXEC may run what is queued twice.
        let it = &mut Client::to(server);
        it.expect_ok("MULTI");
        it.expect_error("CLIENT KILL ID 1", "ERR Command not allowed inside a transaction");
        it.expect_error("EXEC", "EXECABORT");
    });
}

/// What it had sent before may be done; what it sends later is not.
#[test]
fn a_killed_client_does_nothing_more() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        let Reply::Integer(id) = other.ask("CLIENT ID") else { panic!() };
        other.send(&b"INCR n\r\n".repeat(50_000));
        it.expect(&format!("CLIENT KILL ID {id}"), int(1));
        assert_eq!(fields(it, "CLIENT LIST").len(), 1);
        until("it is gone", || it.info("clients").contains("connected_clients:1\r\n"));
        let before = it.ask("GET n");
        it.expect("GET n", before);
    });
}
