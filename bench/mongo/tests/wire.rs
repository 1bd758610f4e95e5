//! Messages: any bytes do no harm, and what is well formed arrives.

mod common;

use bson::raw::RawDocumentBuf;
use bson::rawdoc;
use common::{OP_MSG, OP_QUERY, contents, message, plain};
use mongo::wire::{self, Header, MESSAGE_BYTES_MAX, Request};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::ErrorKind;

/// Documents of several types, some inside others.
fn documents() -> impl Strategy<Value = RawDocumentBuf> {
    let leaf = (any::<i64>(), ".{0,8}", vec(any::<u8>(), 0..9)).prop_map(|(number, words, bytes)| {
        let binary = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes };
        rawdoc! { "number": number, "words": words, "bytes": binary, "flag": number > 0 }
    });
    leaf.prop_recursive(4, 16, 3, |inner| {
        (inner.clone(), vec(inner, 0..3))
            .prop_map(|(one, more)| rawdoc! { "one": one, "more": common::array(more) })
    })
}

fn request(bytes: &[u8]) -> Result<Request<'_>, String> {
    Request::of(bytes).map_err(|fault| fault.message)
}

proptest! {
    #[test]
    fn no_bytes_do_harm(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Header::of(&bytes);
        let _ = wire::read(&mut &bytes[..], &mut Vec::new());
        for opcode in [OP_MSG, OP_QUERY] {
            let _ = request(&message(opcode, &bytes));
        }
    }

    #[test]
    fn no_change_of_a_message_does_harm(
        body in documents(), more in vec(documents(), 0..3), at in any::<prop::sample::Index>(), byte: u8, cut: bool,
    ) {
        let mut bytes = message(OP_MSG, &contents(0, &body, &[("documents", &more)]));
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        if bytes.len() >= wire::HEADER_BYTES {
            let _ = request(&bytes);
        }
        let _ = wire::read(&mut &bytes[..], &mut Vec::new());
    }

    #[test]
    fn a_message_arrives(body in documents(), more in vec(documents(), 0..4), flags in 0..2_u32) {
        let sent = message(OP_MSG, &contents(flags * 2, &body, &[("documents", &more), ("none", &[])]));
        let twice = [&sent[..], &sent].concat();
        let (mut from, mut read) = (&twice[..], Vec::new());
        for _ in 0..2 {
            prop_assert!(wire::read(&mut from, &mut read).unwrap());
            prop_assert_eq!(&read, &sent);
            prop_assert_eq!(Header::of(&read).map(|header| (header.id, header.is_answered)), Some((7, flags == 0)));
            let request = request(&read).unwrap();
            prop_assert_eq!(request.body, &*body);
            prop_assert_eq!(request.sequences.len(), 2);
            let (name, documents) = &request.sequences[0];
            prop_assert_eq!(*name, "documents");
            prop_assert!(documents.iter().copied().eq(more.iter().map(|document| &**document)));
        }
        prop_assert!(!wire::read(&mut from, &mut read).unwrap(), "the end");
    }
}

#[test]
fn a_query_arrives_and_its_reply_has_the_old_form() {
    let body = rawdoc! { "isMaster": 1, "helloOk": true };
    let head = [&[0; 4], &b"admin.$cmd\0"[..], &[0; 4], &[0xff; 4]].concat();
    let bytes = message(OP_QUERY, &[&head, body.as_bytes()].concat());
    let request = request(&bytes).unwrap();
    assert_eq!((request.body, request.database), (&*body, Some("admin")));

    let mut reply = Vec::new();
    Header::of(&bytes).unwrap().reply(9, &body, &mut reply);
    let words: Vec<i32> =
        reply[..36].chunks(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [36 + i32::try_from(body.as_bytes().len()).unwrap(), 9, 7, 1, 0, 0, 0, 0, 1]);
    assert_eq!(plain(bson::raw::RawDocument::from_bytes(&reply[36..]).unwrap()), plain(&body));
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let read = |length: i32| {
        let bytes = [&length.to_le_bytes()[..], &[0; 40]].concat();
        wire::read(&mut &bytes[..], &mut Vec::new()).map_err(|error| error.kind())
    };
    let max = i32::try_from(MESSAGE_BYTES_MAX).unwrap();
    for length in [i32::MIN, -1, 0, 15, max + 1, i32::MAX] {
        assert_eq!(read(length), Err(ErrorKind::InvalidData), "{length}");
    }
    assert_eq!(read(max), Err(ErrorKind::UnexpectedEof));
    assert_eq!(read(45), Err(ErrorKind::UnexpectedEof));
    assert_eq!(read(16), Ok(true));
    assert_eq!(wire::read(&mut &[1_u8][..], &mut Vec::new()).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn what_the_protocol_does_not_know_is_named() {
    let body = rawdoc! { "ping": 1 };
    let whole = contents(0, &body, &[]);
    let refused = |contents: &[u8]| request(&message(OP_MSG, contents)).unwrap_err();
    assert!(refused(&contents(1, &body, &[])).contains("checksum"));
    assert!(refused(&contents(4, &body, &[])).contains("unknown flags"));
    assert!(request(&message(OP_MSG, &contents(1 << 16, &body, &[]))).is_ok(), "it may be ignored");
    assert!(refused(&[&whole[..], &whole[4..]].concat()).contains("two sections"));
    assert!(refused(&[&whole[..], &[2]].concat()).contains("of kind 2"));
    assert!(refused(&whole[..4]).contains("no section of kind 0"));
    assert!(refused(&whole[..whole.len() - 1]).contains("beyond the message"));
    assert!(refused(&[&whole[..], &[1, 3, 0, 0, 0]].concat()).contains("no end"));
    assert!(request(&message(2012, &whole)).unwrap_err().contains("unknown kind"));

    let deep = (0..300).fold(rawdoc! {}, |inner, _| rawdoc! { "inner": inner });
    assert!(refused(&contents(0, &deep, &[])).contains("nested"));
    // A string whose end is missing, inside another document.
    let mut broken = rawdoc! { "ping": { "a": "word" } }.into_bytes();
    let end = broken.len() - 3;
    broken[end] = b'!';
    assert!(refused(&[&[0; 5][..], &broken].concat()).contains("not BSON"));
}
