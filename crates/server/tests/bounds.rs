//! What a client may leave unread, and what becomes of what it has asked for.

mod support;

use server::resp::Reply::{Array, Simple};
use server::{Options, Password, Server};
use std::io::{ErrorKind, Read as _, Write as _};
use support::*;

const BOUND: usize = 64 * 1024;

fn bounded(model: server::Model) -> Server {
    start(Options { output_bytes_max: BOUND, ..options(model) })
}

fn disconnections(it: &mut Client) -> u64 {
    let info = it.info("stats");
    let (_, behind) = info.split_once("client_output_buffer_limit_disconnections:").unwrap();
    behind.split_once("\r\n").unwrap().0.parse().unwrap()
}

/// Whatever the system's buffers would take: half of an answer is none, and what follows must not
/// be taken for the rest of it.
#[test]
fn a_client_that_asks_for_more_than_the_bound_is_disconnected_without_an_answer() {
    for model in MODELS {
        let server = bounded(model);
        let other = &mut Client::to(&server);
        let long = "x".repeat(BOUND / 10);
        for n in 10..30 {
            other.expect_ok(&format!("SET k{n} {long}"));
            other.expect(&format!("HSET h f{n} {long}"), int(1));
            other.expect(&format!("ZADD z {n} {n}{long}"), int(1));
            // The key itself is long.
            other.expect_ok(&format!("SET {n}{long} v"));
        }
        let keys: String = (10..30).map(|n| format!(" k{n}")).collect();
        let fields: String = (10..30).map(|n| format!(" f{n}")).collect();
        let gets: String = (10..30).map(|n| format!("\r\nGET k{n}")).collect();
        for (number, line) in [
            format!("MGET{keys}"),
            format!("HMGET h{fields}"),
            "HGETALL h".into(),
            "HKEYS h\r\nHVALS h".into(),
            "ZRANGE z 0 -1 WITHSCORES".into(),
            "ZUNION 2 z z WITHSCORES".into(),
            "ZRANDMEMBER z 100".into(),
            "HRANDFIELD h -1000000000 WITHVALUES".into(),
            "KEYS *".into(),
            "SORT z BY nosort".into(),
            "GEOSEARCH z FROMLONLAT -179 -85 BYRADIUS 30000 km".into(),
            "SORT z ALPHA GET #".into(),
            format!("MULTI{gets}\r\nEXEC"),
            "HELLO 3\r\nHGETALL h".into(),
        ]
        .iter()
        .enumerate()
        {
            let it = &mut Client::to(&server);
            it.send(format!("{line}\r\nPING\r\n").as_bytes());
            let mut received = Vec::new();
            match it.stream.read_to_end(&mut received) {
                Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                    panic!("{model}: {line}: {error}")
                }
                _ => assert!(received.is_empty(), "{model}: {line}"),
            }
            assert_eq!(disconnections(other), number as u64 + 1, "{model}: {line}");
        }
        other.expect("PING", Simple("PONG".into()));
    }
}

#[test]
fn a_command_that_pops_more_than_may_be_answered_pops_all_of_it() {
    for model in MODELS {
        let server = bounded(model);
        let other = &mut Client::to(&server);
        let long = "x".repeat(BOUND / 10);
        for line in ["LPOP l 15", "LMPOP 1 l RIGHT COUNT 15", "ZMPOP 1 z MIN COUNT 15"] {
            other.expect_ok("FLUSHALL");
            for n in 0..20 {
                other.expect(&format!("RPUSH l {n}{long}"), int(n + 1));
                other.expect(&format!("ZADD z {n} {n}{long}"), int(1));
            }
            let it = &mut Client::to(&server);
            it.send(format!("{line}\r\n").as_bytes());
            let mut received = Vec::new();
            let _ = it.stream.read_to_end(&mut received);
            assert!(received.is_empty(), "{model}: {line}");
            let count = if line.starts_with('Z') { "ZCARD z" } else { "LLEN l" };
            other.expect(count, int(5));
        }
    }
}

#[test]
fn a_transaction_whose_answers_are_too_many_is_done_as_a_whole() {
    for model in MODELS {
        let server = bounded(model);
        let (it, other) = (&mut Client::to(&server), &mut Client::to(&server));
        other.expect_ok("MSET a 100 b 100");
        other.expect_ok(&format!("SET big {}", "x".repeat(BOUND / 10)));
        let gets = "GET big\r\n".repeat(100);
        it.send(format!("MULTI\r\nDECRBY a 5\r\n{gets}INCRBY b 5\r\nEXEC\r\nDECRBY a 5\r\n").as_bytes());
        let mut received = Vec::new();
        let _ = it.stream.read_to_end(&mut received);
        let both = server::resp::Reply::Array(vec![bulk("95"), bulk("105")]);
        other.expect("MGET a b", both);
    }
}

/// It does not read before it has sent everything: more than the system's buffers take in both
/// directions.
#[test]
fn a_long_pipeline_is_answered_also_if_nothing_is_read_before_its_end() {
    const COUNT: usize = 40_000;
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let text = "x".repeat(1000);
        it.send(&frame(&[b"ECHO", text.as_bytes()]).repeat(COUNT));
        let expected = format!("$1000\r\n{text}\r\n").repeat(COUNT);
        let mut received = vec![0; expected.len()];
        it.stream.read_exact(&mut received).unwrap();
        assert!(received == expected.as_bytes());
        it.expect("PING", Simple("PONG".into()));
    });
}

#[test]
fn a_client_without_the_password_leaves_little_unread() {
    for model in MODELS {
        let password = Some(Password::new(b"secret").unwrap());
        let server = start(Options { password, output_bytes_max: 1 << 30, ..options(model) });
        let it = &mut Client::to(&server);
        // A client that reads may ask as often as it likes.
        for _ in 0..5 {
            it.send(&b"GET k\r\n".repeat(3_000));
            for _ in 0..3_000 {
                assert!(
                    matches!(it.next(), Some(server::resp::Reply::Error(text)) if text.starts_with("NOAUTH"))
                );
            }
        }
        // Answers of more than the system's buffers take, and more than twice as long as what is
        // asked.
        let (asked, most) = (b"GET k\r\n".repeat(10_000), 300);
        let sent = (0..most).take_while(|_| it.stream.write_all(&asked).is_ok()).count();
        assert!(sent < most, "{model}: it is still connected");
        let other = &mut Client::to(&server);
        other.expect_ok("AUTH secret");
        assert_eq!(disconnections(other), 1);
    }
}

/// What it sends fills what a connection reads at once, so there may be more; but there is not,
/// before it has its answers.
#[test]
fn answers_are_sent_also_if_there_may_be_more_to_read() {
    const READ_AT_ONCE: usize = 16 * 1024;
    for_each_model(|server| {
        let value = "x".repeat(20_000);
        Client::to(server).expect_ok(&format!("SET k {value}"));
        // A connection that has read nothing yet has no more room than that.
        let it = &mut Client::to(server);
        let count = READ_AT_ONCE / b"GET k\r\n".len();
        let mut asked = b"GET k\r\n".repeat(count);
        // Empty lines ask for nothing.
        while asked.len() < READ_AT_ONCE {
            asked.push(b'\n');
        }
        it.send(&asked);
        let expected = format!("$20000\r\n{value}\r\n").repeat(count);
        let mut received = vec![0; expected.len()];
        it.stream.read_exact(&mut received).unwrap();
        assert!(received == expected.as_bytes());
        it.expect("PING", Simple("PONG".into()));
    });
}

#[test]
fn no_command_makes_a_value_or_a_table_that_is_longer_than_the_longest_command() {
    for model in MODELS {
        let server = start(Options { input_bytes_max: 4_096, ..options(model) });
        let it = &mut Client::to(&server);
        it.expect("BITFIELD k SET u8 #4095 1", Array(vec![int(0)]));
        for line in ["SET u8 #4096 1", "SET u8 32761 1", "INCRBY i64 4294967295 1"] {
            it.expect_error(
                &format!("BITFIELD k {line}"),
                "ERR bit offset is not an integer or out of range",
            );
        }
        it.expect("BITFIELD k GET u8 4294967295", Array(vec![int(0)]));
        it.expect("STRLEN k", int(4_096));
        it.expect("BITOP NOT k k", int(4_096));
        it.expect_ok(&format!("SET a {}", "x".repeat(31)));
        it.expect("LCS a a LEN", int(31));
        it.expect("APPEND a x", int(32));
        it.expect_error("LCS a a LEN", "ERR Insufficient memory, transient memory for LCS exceeds");
        it.expect("RPUSH l 1 2 3", int(3));
        let many = "GET # ".repeat(100);
        it.expect_error(
            &format!("SORT l {many}STORE d"),
            "ERR a list of more than 4096 bytes would be stored",
        );
        it.expect("EXISTS d", int(0));
        it.expect(&format!("SORT l LIMIT 0 1 {many}STORE d"), int(100));
    }
}
