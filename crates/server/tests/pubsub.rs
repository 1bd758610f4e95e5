//! Publishing with many clients at once, what it may take, and its rights.

mod support;

use fastrand::Rng;
use server::resp::Reply::{self, Array};
use server::{Options, Server};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use support::*;
use testing::until;

fn message(channel: &str, text: &str) -> Reply {
    Array(vec![bulk("message"), bulk(channel), bulk(text)])
}

fn subscribed(word: &str, channel: &str, count: i64) -> Reply {
    Array(vec![bulk(word), bulk(channel), int(count)])
}

/// A client that subscribes to a channel.
fn subscriber(server: &Server, channel: &str) -> Client {
    let mut it = Client::to(server);
    it.expect(&format!("SUBSCRIBE {channel}"), subscribed("subscribe", channel, 1));
    it
}

/// A client of RESP 3, which may do other things while it subscribes to something.
fn modern(server: &Server) -> Client {
    let mut it = Client::to(server);
    it.ask("HELLO 3");
    it
}

/// The text of a message.
fn text(reply: Option<Reply>) -> String {
    match reply {
        Some(Array(parts)) if [3, 4].contains(&parts.len()) => {
            String::from_utf8_lossy(parts.last().and_then(Reply::as_bytes).expect("a text")).into_owned()
        }
        other => panic!("no message: {other:?}"),
    }
}

fn subscriber_count(it: &mut Client, channel: &str) -> i64 {
    match it.ask(&format!("PUBSUB NUMSUB {channel}")) {
        Array(parts) => match parts[1] {
            Reply::Integer(count) => count,
            ref other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

const PUBLISHERS: usize = 4;
const SUBSCRIBERS: usize = 6;

/// Messages `PUBLISHER MESSAGE`, some at once.
fn publish_all(server: &Server, publisher: usize, count: usize, receivers: Option<i64>) {
    const TOGETHER: usize = 20;
    let it = &mut Client::to(server);
    for first in (0..count).step_by(TOGETHER) {
        let text = |number: usize| format!("{publisher} {number}").into_bytes();
        let all: Vec<u8> =
            (first..first + TOGETHER).flat_map(|number| frame(&[b"PUBLISH", b"c", &text(number)])).collect();
        it.send(&all);
        for _ in 0..TOGETHER {
            match it.next() {
                Some(Reply::Integer(got)) => assert!(receivers.is_none_or(|count| count == got), "{got}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Reads messages until each publisher has said all: in the order in which it has.
fn read_all(it: &mut Client, count: usize) {
    let mut next = [0; PUBLISHERS];
    for _ in 0..PUBLISHERS * count {
        let text = text(it.next());
        let (publisher, number) = text.split_once(' ').unwrap();
        let next = &mut next[publisher.parse::<usize>().unwrap()];
        assert_eq!(number.parse(), Ok(*next), "of publisher {publisher}");
        *next += 1;
    }
}

#[test]
fn many_publishers_and_subscribers_keep_the_order() {
    const COUNT: usize = 2_000;
    for_each_model(|server| {
        let subscribers: Vec<_> = (0..SUBSCRIBERS)
            .map(|number| {
                // Some by a pattern, which makes no difference.
                let mut it = modern(server);
                it.ask(if number % 2 == 0 { "SUBSCRIBE c" } else { "PSUBSCRIBE [c]" });
                it
            })
            .collect();
        thread::scope(|scope| {
            for publisher in 0..PUBLISHERS {
                scope.spawn(move || publish_all(server, publisher, COUNT, Some(SUBSCRIBERS as i64)));
            }
            for mut it in subscribers {
                scope.spawn(move || {
                    read_all(&mut it, COUNT);
                    // There is nothing behind them.
                    it.expect("GET k", Reply::Null);
                });
            }
        });
    });
}

/// Those that stay lose nothing, and those that leave get nothing later.
#[test]
fn subscribers_come_and_go_while_others_publish() {
    const COUNT: usize = 3_000;
    for_each_model(|server| {
        let staying: Vec<_> = (0..SUBSCRIBERS).map(|_| subscriber(server, "c")).collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let publishers: Vec<_> = (0..PUBLISHERS)
                .map(|publisher| scope.spawn(move || publish_all(server, publisher, COUNT, None)))
                .collect();
            for mut it in staying {
                scope.spawn(move || read_all(&mut it, COUNT));
            }
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        let mut it = subscriber(server, "c");
                        it.send(b"PSUBSCRIBE ?\r\nUNSUBSCRIBE c\r\nPUNSUBSCRIBE\r\nGET k\r\n");
                        let mut kinds = vec!["message"];
                        loop {
                            match it.next() {
                                Some(Array(parts)) => match &parts[0] {
                                    kind if *kind == bulk("psubscribe") => kinds.push("pmessage"),
                                    kind if *kind == bulk("unsubscribe") => {
                                        kinds.retain(|kind| *kind != "message")
                                    }
                                    kind if *kind == bulk("punsubscribe") => kinds.clear(),
                                    kind => {
                                        assert!(kinds.iter().any(|known| *kind == bulk(known)), "{kind:?}")
                                    }
                                },
                                Some(Reply::Null) => break,
                                other => panic!("{other:?}"),
                            }
                        }
                        assert!(kinds.is_empty());
                        // It leaves with or without a word, and perhaps in the middle of messages.
                        it.send(b"SUBSCRIBE c\r\n");
                        assert_eq!(it.next(), Some(subscribed("subscribe", "c", 1)));
                    }
                });
            }
            publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
            is_over.store(true, Relaxed);
        });
        let it = &mut Client::to(server);
        until("all are gone", || subscriber_count(it, "c") == 0);
        assert!(it.info("stats").contains("pubsub_channels:0\r\npubsub_patterns:0\r\n"));
    });
}

/// Publishes until the only subscriber is gone.
fn publish_until_gone(it: &mut Client, channel: &str) {
    let text = vec![b'x'; 50_000];
    let mut count = 0;
    while it.ask_bytes(&[b"PUBLISH", channel.as_bytes(), &text]) == int(1) {
        count += 1;
        assert!(count < 100_000, "it is still there");
    }
}

fn figure(info: &str, name: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {info}"))
}

#[test]
fn a_subscriber_that_does_not_read_is_disconnected_and_its_memory_is_freed() {
    for model in MODELS {
        let server = start(Options { output_bytes_max: 2 << 20, ..options(model) });
        let it = &mut Client::to(&server);
        let (slow, mut good) = (subscriber(&server, "c"), subscriber(&server, "d"));
        publish_until_gone(it, "c");
        until("it is gone", || subscriber_count(it, "c") == 0);
        let info = it.info("stats");
        assert_eq!(figure(&info, "client_output_buffer_limit_disconnections"), 1, "{info}");
        until("its memory is freed", || figure(&it.info("memory"), "mem_clients_normal") < 500_000);
        // Others are served.
        it.expect("PUBLISH d text", int(1));
        assert_eq!(good.next(), Some(message("d", "text")));
        drop(slow);
    }
}

/// What waits for a client is memory of its buffers.
#[test]
fn messages_that_wait_count_as_buffers() {
    for model in MODELS {
        let server =
            start(Options { output_bytes_max: 1 << 30, buffers_bytes_max: Some(8 << 20), ..options(model) });
        let it = &mut Client::to(&server);
        let slow = subscriber(&server, "c");
        publish_until_gone(it, "c");
        until("it is counted", || figure(&it.info("stats"), "evicted_clients") == 1);
        until("its memory is freed", || figure(&it.info("memory"), "mem_clients_normal") < 500_000);
        drop(slow);
    }
}

#[test]
fn a_subscriber_that_reads_late_gets_all() {
    for_each_model(|server| {
        let (it, late) = (&mut Client::to(server), &mut subscriber(server, "c"));
        // More than the system's buffers hold.
        let text = "x".repeat(100_000);
        for _ in 0..300 {
            it.expect(&format!("PUBLISH c {text}"), int(1));
        }
        for _ in 0..300 {
            assert!(late.next() == Some(message("c", &text)));
        }
        late.expect("PING", Array(vec![bulk("pong"), bulk("")]));
    });
}

#[test]
fn clients_that_subscribe_are_listed_and_killed_by_their_type() {
    for_each_model(|server| {
        let (it, plain) = (&mut Client::to(server), &mut modern(server));
        let mut other = modern(server);
        other.ask("SUBSCRIBE a");
        other.ask("PSUBSCRIBE b");
        other.ask("SSUBSCRIBE d");
        let list = |it: &mut Client, kind: &str| match it.ask(&format!("CLIENT LIST TYPE {kind}")) {
            Reply::Bulk(text) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        };
        let found = list(it, "pubsub");
        assert_eq!(found.lines().count(), 1);
        assert!(found.contains(" sub=1 psub=1 ssub=1 "), "{found}");
        assert_eq!(list(it, "normal").lines().count(), 2);
        it.expect("CLIENT KILL TYPE pubsub", int(1));
        // From then on nothing is sent to it.
        it.expect("PUBLISH a text", int(0));
        assert_eq!(other.next(), None);
        until("its subscriptions are gone", || {
            it.info("stats").contains("pubsub_channels:0\r\npubsub_patterns:0\r\npubsubshard_channels:0\r\n")
        });
        plain.expect("PUBLISH a text", int(0));
        // It gets its answer first.
        let mut other = modern(server);
        other.ask("SUBSCRIBE a");
        other.send(b"CLIENT KILL TYPE pubsub SKIPME no\r\n");
        assert_eq!((other.next(), other.next()), (Some(int(1)), None));
    });
}

/// All of a kind at once, in any order.
/// Each pattern is compared with each channel while others wait.
#[test]
fn names_that_are_too_long_are_refused() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        let (most, more) = ("c".repeat(4_096), "c".repeat(4_097));
        it.expect(&format!("PUBLISH {most} text"), int(0));
        for line in
            ["PUBLISH $ text", "SPUBLISH $ text", "SUBSCRIBE c $", "PSUBSCRIBE $", "PUBSUB CHANNELS $"]
        {
            it.expect_error(&line.replace('$', &more), "ERR a channel or pattern of more than 4096 bytes");
        }
        it.expect("PUBSUB NUMPAT", int(0));
        it.expect(&format!("SUBSCRIBE {most}"), subscribed("subscribe", &most, 1));
    });
}

#[test]
fn all_subscriptions_of_a_kind_end_at_once() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        for (word, count) in [("", 0), ("p", 2), ("s", 0)] {
            it.send(format!("{word}SUBSCRIBE a b c\r\n").as_bytes());
            let next = |it: &mut Client| match it.next() {
                Some(Array(parts)) => (parts[1].clone(), parts[2].clone()),
                other => panic!("{other:?}"),
            };
            (0..3).for_each(|_| drop(next(it)));
            if word == "p" {
                // The count is that of both.
                it.send(b"SUBSCRIBE x y\r\n");
                (0..2).for_each(|_| drop(next(it)));
            }
            it.send(format!("{word}UNSUBSCRIBE\r\n").as_bytes());
            let all: Vec<_> = (0..3).map(|_| next(it)).collect();
            let mut names: Vec<_> = all.iter().map(|(name, _)| name.clone()).collect();
            names.sort_by_key(|name| name.as_bytes().map(<[u8]>::to_vec));
            assert_eq!(names, ["a", "b", "c"].map(bulk));
            let counts: Vec<_> = all.into_iter().map(|(_, left)| left).collect();
            assert_eq!(counts, [2, 1, 0].map(|left| int(left + count)));
            it.expect("RESET", Reply::Simple("RESET".into()));
        }
    });
}

/// Transactions that conflict begin again, and their messages are sent once.
#[test]
fn what_a_transaction_publishes_is_sent_once() {
    const COUNT: i64 = 20;
    for_each_model(|server| {
        let (it, listener) = (&mut Client::to(server), &mut subscriber(server, "c"));
        let keys: String = (0..2_000).map(|number| format!(" key{number} v")).collect();
        it.expect_ok(&format!("MSET{keys}"));
        let mut sent = 0;
        until("some have begun again", || {
            thread::scope(|scope| {
                for _ in 0..PUBLISHERS {
                    scope.spawn(|| {
                        let it = &mut Client::to(server);
                        for _ in 0..COUNT {
                            it.expect_ok("MULTI");
                            // They conflict behind it, and the second one takes its time.
                            for line in ["PUBLISH c text", "KEYS *x", "INCR n", "INCR n"] {
                                it.expect(line, queued());
                            }
                            match it.ask("EXEC") {
                                Array(parts) if parts.len() == 4 && parts[0] == int(1) => {}
                                other => panic!("{other:?}"),
                            }
                        }
                    });
                }
            });
            sent += PUBLISHERS as i64 * COUNT;
            figure(&it.info("transactions"), "transactions_begun_again") > 0
        });
        for _ in 0..sent {
            assert_eq!(listener.next(), Some(message("c", "text")));
        }
        listener.expect("PING", Array(vec![bulk("pong"), bulk("")]));
        it.expect("GET n", bulk(&(2 * sent).to_string()));
    });
}

/// What is published was committed before.
#[test]
fn a_receiver_sees_what_the_transaction_has_written() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut modern(server));
        other.ask("SUBSCRIBE c");
        for number in 0..300 {
            it.expect_ok("MULTI");
            it.expect(&format!("PUBLISH c {number}"), queued());
            it.expect(&format!("SET k {number}"), queued());
            it.expect("EXEC", Array(vec![int(1), ok()]));
            assert_eq!(other.next(), Some(message("c", &number.to_string())));
            other.expect("GET k", bulk(&number.to_string()));
        }
    });
}

#[test]
fn subscribers_are_not_idle() {
    for model in MODELS {
        let idle_timeout = Some(Duration::from_millis(20));
        let server = start(Options { idle_timeout, ..options(model) });
        // A client that is slow to say something is disconnected: then there is another one.
        let subscriber = |lines: &[u8], answers: usize| loop {
            let mut it = Client::to(&server);
            let _ = it.stream.write_all(lines);
            if (0..answers).all(|_| it.next().is_some()) {
                break it;
            }
        };
        let mut one = subscriber(b"SUBSCRIBE a\r\n", 1);
        let mut other = subscriber(b"HELLO 3\r\nSUBSCRIBE b\r\n", 2);
        // A client that was silent for a shorter time is disconnected before.
        assert_eq!(Client::to(&server).next(), None);
        other.expect("PUBLISH a text", int(1));
        assert_eq!(one.next(), Some(message("a", "text")));
    }
}

#[test]
fn rights_are_asked_for_and_refusals_are_noted() {
    for_each_model(|server| {
        let (it, other) = (&mut Client::to(server), &mut Client::to(server));
        it.expect_ok("ACL SETUSER u on nopass +@all &a*");
        other.expect_ok("AUTH u x");
        other.expect_error(
            "PUBLISH b text",
            "NOPERM this user has no permissions to access one of the channels",
        );
        let Array(log) = it.ask("ACL LOG 1") else { panic!() };
        let Array(entry) = &log[0] else { panic!() };
        assert_eq!(entry[2..8], ["reason", "channel", "context", "toplevel", "object", "b"].map(bulk));
        // What was allowed when it was queued.
        other.expect_ok("MULTI");
        other.expect("PUBLISH a text", queued());
        other.expect("SUBSCRIBE a", queued());
        it.expect_ok("ACL SETUSER u resetchannels");
        let Array(parts) = other.ask("EXEC") else { panic!() };
        let is_refusal =
            |part: &Reply| matches!(part, Reply::Error(text) if text.starts_with("NOPERM ACLs rules"));
        assert!(parts.len() == 2 && parts.iter().all(is_refusal), "{parts:?}");
        // Its own rights: its answer comes first. (Redis 7.0.15 crashes.)
        let mut own = modern(server);
        own.ask("AUTH u x");
        it.expect_ok("ACL SETUSER u allchannels");
        own.ask("SUBSCRIBE a");
        own.send(b"ACL SETUSER u resetchannels\r\n");
        assert_eq!((own.next(), own.next()), (Some(ok()), None));
    });
}

/// Whether a right is taken away before or after the client subscribes: it hears nothing later.
#[test]
fn a_right_is_taken_away_while_clients_subscribe() {
    for_each_model(|server| {
        let it = &mut Client::to(server);
        for round in 0..100 {
            it.expect_ok("ACL SETUSER u reset on nopass +@all &*");
            let mut others: Vec<_> = (0..3).map(|_| Client::to(server)).collect();
            for other in &mut others {
                other.expect_ok("AUTH u x");
                other.send(b"SUBSCRIBE c\r\n");
            }
            it.expect_ok("ACL SETUSER u resetchannels");
            // A client that has just subscribed may be counted; it gets nothing.
            it.ask("PUBLISH c secret");
            for other in &mut others {
                match other.next() {
                    // It was too late.
                    Some(Reply::Error(text)) => assert!(text.starts_with("NOPERM"), "{text}"),
                    Some(reply) => {
                        assert_eq!(reply, subscribed("subscribe", "c", 1), "{round}");
                        assert_eq!(other.next(), None, "{round}");
                    }
                    None => {}
                }
            }
        }
    });
}

/// A mix of all that changes subscriptions, by many clients; at the end nothing is left of it.
#[test]
fn nothing_is_left_when_all_are_gone() {
    for_each_model(|server| {
        let received = AtomicU64::new(0);
        thread::scope(|scope| {
            for seed in 0..4 {
                let received = &received;
                scope.spawn(move || {
                    let mut dice = Rng::with_seed(seed);
                    for _ in 0..40 {
                        let mut it = modern(server);
                        let channel = |dice: &mut Rng| ["a", "b", "c", "[ab]", "*"][dice.usize(..5)];
                        for _ in 0..dice.usize(..40) {
                            let name = channel(&mut dice);
                            it.send(
                                match dice.u32(..6) {
                                    0 => format!("SUBSCRIBE {name}\r\n"),
                                    1 => format!("PSUBSCRIBE {name}\r\n"),
                                    2 => format!("UNSUBSCRIBE {name}\r\n"),
                                    3 => "PUNSUBSCRIBE\r\n".into(),
                                    _ => format!("PUBLISH {name} text\r\n"),
                                }
                                .as_bytes(),
                            );
                        }
                        it.send(b"ECHO end\r\n");
                        while it.next() != Some(bulk("end")) {
                            received.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
        });
        assert!(received.into_inner() > 0);
        let it = &mut Client::to(server);
        until("all are gone", || {
            it.info("stats").contains("pubsub_channels:0\r\npubsub_patterns:0\r\npubsubshard_channels:0\r\n")
        });
    });
}
