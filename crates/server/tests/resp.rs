//! The protocol: no bytes make it panic, it does not matter where a stream is cut, and what is
//! written is what is read.

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use server::resp::{Limits, NESTING_MAX, Parser, ProtocolError, Replies, Reply, Step, Version};

const LIMITS: Limits = Limits { command_bytes_max: 4096, stranger: false };

/// What comes out of a stream whose pieces come one after the other, as a connection does it.
fn commands(pieces: &[&[u8]], limits: Limits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut parser, mut bytes, mut found) = (Parser::new(), Vec::new(), Vec::new());
    for piece in pieces {
        bytes.extend_from_slice(piece);
        loop {
            let taken = match parser.step(&bytes, limits) {
                Ok(Step::Command(args, taken)) => {
                    found.push(args.from(0).map(<[u8]>::to_vec).collect());
                    taken
                }
                Ok(Step::Nothing(taken)) => taken,
                Ok(Step::More(more)) => {
                    assert!(more > bytes.len());
                    break;
                }
                Err(error) => return (found, Some(error)),
            };
            assert!(taken > 0 && taken <= bytes.len());
            bytes.drain(..taken);
        }
    }
    (found, None)
}

/// Bytes that look like the protocol more often than by chance.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(&b"*"[..]),
        Just(&b"$"[..]),
        Just(&b"\r\n"[..]),
        Just(&b"\n"[..]),
        Just(&b"-1"[..]),
        Just(&b"0"[..]),
        Just(&b"1"[..]),
        Just(&b"3"[..]),
        Just(&b"99999999999999999999"[..]),
        Just(&b"GET"[..]),
        Just(&b" "[..]),
        Just(&b"\""[..]),
        Just(&b"'"[..]),
        Just(&b"\\x4"[..]),
        Just(&b"*1\r\n$4\r\nPING\r\n"[..]),
        Just(&b"_\r\n:5\r\n%1\r\n+a\r\n"[..]),
    ];
    prop_oneof![vec(any::<u8>(), 0..200), vec(token, 0..60).prop_map(|tokens| tokens.concat()),]
}

fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for place in places {
        pieces.push(&bytes[start..place]);
        start = place;
    }
    pieces.push(&bytes[start..]);
    pieces
}

fn reply() -> impl Strategy<Value = Reply> {
    let text = "[ -~]{0,12}";
    let leaf = prop_oneof![
        text.prop_map(Reply::Simple),
        text.prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Integer),
        vec(any::<u8>(), 0..50).prop_map(Reply::Bulk),
        text.prop_map(Reply::Verbatim),
        Just(Reply::Null),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Reply::Array),
            vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
        ]
    })
}

fn write(reply: &Reply, out: &mut Replies) {
    match reply {
        Reply::Simple(text) => out.simple(text),
        Reply::Error(text) => out.error(text),
        Reply::Integer(value) => out.integer(*value),
        Reply::Bulk(bytes) => out.bulk(bytes),
        Reply::Verbatim(text) => out.verbatim(text),
        Reply::Null => out.null(),
        Reply::Array(parts) => {
            out.array(parts.len());
            parts.iter().for_each(|part| write(part, out));
        }
        Reply::Map(pairs) => {
            out.map(pairs.len());
            for (key, value) in pairs {
                write(key, out);
                write(value, out);
            }
        }
        other => unreachable!("{other:?} is not made up"),
    }
}

/// What RESP 2 makes of it.
fn in_two(reply: &Reply) -> Reply {
    match reply {
        Reply::Verbatim(text) => Reply::Bulk(text.clone().into()),
        Reply::Array(parts) => Reply::Array(parts.iter().map(in_two).collect()),
        Reply::Map(pairs) => {
            Reply::Array(pairs.iter().flat_map(|(key, value)| [in_two(key), in_two(value)]).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in noise(), stranger: bool, places in vec(any::<usize>(), 0..8)) {
        let limits = Limits { stranger, ..LIMITS };
        let whole = commands(&[&bytes], limits);
        // … and it does not matter where they are cut.
        prop_assert_eq!(&whole, &commands(&cut(&bytes, &places), limits));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&whole, &commands(&single, limits));
        let _ = Reply::read(&bytes);
    }

    #[test]
    fn commands_come_out_as_they_went_in(
        all in vec(vec(vec(any::<u8>(), 0..40), 1..6), 0..8),
        places in vec(any::<usize>(), 0..20),
    ) {
        let mut stream = Vec::new();
        for command in &all {
            let args: Vec<&[u8]> = command.iter().map(|arg| &**arg).collect();
            stream.extend(support::frame(&args));
        }
        prop_assert_eq!((all, None), commands(&cut(&stream, &places), LIMITS));
    }

    #[test]
    fn answers_come_out_as_they_went_in(replies in vec(reply(), 1..5), version in prop_oneof![Just(Version::Two), Just(Version::Three)]) {
        let mut out = Replies::new(usize::MAX);
        out.set_version(version);
        replies.iter().for_each(|reply| write(reply, &mut out));
        let mut rest = out.bytes();
        for reply in &replies {
            let expected = if version == Version::Two { in_two(reply) } else { reply.clone() };
            for end in 0..rest.len() {
                match Reply::read(&rest[..end]).unwrap() {
                    None => {}
                    Some((early, taken)) => {
                        prop_assert_eq!((&early, taken), (&expected, end));
                        break;
                    }
                }
            }
            let (read, taken) = Reply::read(rest).unwrap().expect("all of it is there");
            prop_assert_eq!(read, expected);
            rest = &rest[taken..];
        }
        prop_assert!(rest.is_empty());
    }
}

#[test]
fn protocol_errors_are_reported_in_redis_words() {
    let stranger = Limits { stranger: true, ..LIMITS };
    for (bytes, limits, text) in [
        (&b"*x\r\n"[..], LIMITS, "invalid multibulk length"),
        (b"*1048577\r\n", LIMITS, "invalid multibulk length"),
        (b"*1\r\n+PING\r\n", LIMITS, "expected '$', got '+'"),
        (b"*1\r\n\r\n", LIMITS, "expected '$', got '\\r'"),
        (b"*1\r\n$x\r\n", LIMITS, "invalid bulk length"),
        (b"*1\r\n$-1\r\n", LIMITS, "invalid bulk length"),
        (b"*1\r\n$9223372036854775807\r\n", LIMITS, "invalid bulk length"),
        (b"*1\r\n$999999999999999999\r\n", LIMITS, "invalid bulk length"),
        (b"*1\r\n$5000\r\n", LIMITS, "invalid bulk length"),
        (b"*1\r\n$4090\r\n", LIMITS, "a command of more than 4096 bytes"),
        (b"*1\r\n$1\r\nabc", LIMITS, "a bulk is longer than its length says"),
        (b"SET a \"b\r\n", LIMITS, "unbalanced quotes in request"),
        (b"*11\r\n", stranger, "unauthenticated multibulk length"),
        (
            b"*1\r\n$16385\r\n",
            Limits { command_bytes_max: 1 << 20, stranger: true },
            "unauthenticated bulk length",
        ),
    ] {
        let (_, error) = commands(&[bytes], limits);
        let error = error.map(|error| error.to_string());
        assert_eq!(error, Some(format!("Protocol error: {text}")), "{}", bytes.escape_ascii());
    }
    let endless = vec![b'1'; 70_000];
    for (first, text) in [
        (&b"*"[..], "too big mbulk count string"),
        (b"*1\r\n$", "too big bulk count string"),
        (b"", "too big inline request"),
    ] {
        let (_, error) = commands(&[first, &endless], LIMITS);
        assert_eq!(error.unwrap().to_string(), format!("Protocol error: {text}"));
    }
}

#[test]
fn empty_commands_are_nothing() {
    let (found, error) = commands(&[b"\r\n*0\r\n*-1\r\n   \r\nPING\r\n"], LIMITS);
    assert_eq!((found, error), (vec![vec![b"PING".to_vec()]], None));
}

#[test]
fn answers_in_answers_have_a_bound() {
    let deep = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
    assert!(Reply::read(&deep(NESTING_MAX)).unwrap().is_some());
    assert!(Reply::read(&deep(NESTING_MAX + 1)).is_err());
    assert!(Reply::read(&deep(100_000)).is_err());
}
