//! A request: what one owner wants or holds, as it stands in etcd.
//!
//! The value of its key is text, a word and its arguments in each line, so that `etcdctl get
//! --prefix` shows what is locked:
//!
//! ```text
//! manx range lock 2
//! session 694d7587b5f0c505
//! owner 8589934594
//! joins
//! name db-3:4711
//! exclusive 0000000000000000..000000000000000a
//! shared 0000000000000014..
//! ```
//!
//! The revision of etcd at which the key was created is its *place* in the order of arrival. The
//! value may be written again; the place stays.

use crate::range::raw::Access;
use crate::range::span::Span;
use std::fmt::Write;

/// The first line: the form of the rest.
const FORM: &str = "manx range lock 2";

/// What has made a request: a session, and in it an owner or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    /// The id of the lease.
    pub session: i64,
    pub number: u64,
}

/// A span of bytes, and whether it is shared.
pub(super) type Part = (Span<Vec<u8>>, Access);

/// What stands in the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub identity: Identity,
    /// Requests of one identity that join do not conflict with each other: those of an owner.
    pub joins: bool,
    /// It does not wait: if it is not granted at once, it goes.
    pub tries: bool,
    pub tag: Option<u64>,
    /// What the session is called in messages.
    pub name: String,
    pub parts: Vec<Part>,
}

/// What stands in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub key: Vec<u8>,
    /// The revision of its creation.
    pub place: i64,
    /// The revision at which it was last written.
    pub version: i64,
    pub claim: Claim,
}

impl Claim {
    pub(super) fn conflicts_with(&self, other: &Claim) -> bool {
        let own = self.identity == other.identity && self.joins && other.joins;
        !own && self.parts.iter().any(|part| other.parts.iter().any(|its| conflict(part, its)))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut text = format!("{FORM}\nsession {:016x}\n", self.identity.session);
        let mut line = |words: std::fmt::Arguments<'_>| {
            // A string takes everything.
            let _ = writeln!(text, "{words}");
        };
        line(format_args!("owner {}", self.identity.number));
        for (word, is_set) in [("joins", self.joins), ("tries", self.tries)] {
            if is_set {
                line(format_args!("{word}"));
            }
        }
        if let Some(tag) = self.tag {
            line(format_args!("tag {tag}"));
        }
        line(format_args!("name {}", self.name));
        for (span, access) in &self.parts {
            let word = match access {
                Access::Exclusive => "exclusive",
                Access::Shared => "shared",
            };
            line(format_args!("{word} {}..{}", hex(span.start()), hex(span.end())));
        }
        text.into_bytes()
    }

    /// `None` if it is no value of a request.
    pub(super) fn decode(value: &[u8]) -> Option<Claim> {
        let mut lines = std::str::from_utf8(value).ok()?.lines();
        if lines.next() != Some(FORM) {
            return None;
        }
        let identity = Identity { session: 0, number: 0 };
        let (name, parts) = (String::new(), Vec::new());
        let mut claim = Claim { identity, joins: false, tries: false, tag: None, name, parts };
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "session" => claim.identity.session = i64::from_str_radix(rest, 16).ok()?,
                "owner" => claim.identity.number = rest.parse().ok()?,
                "joins" => claim.joins = true,
                "tries" => claim.tries = true,
                "tag" => claim.tag = Some(rest.parse().ok()?),
                "name" => claim.name = rest.to_owned(),
                "exclusive" => claim.parts.push((span(rest)?, Access::Exclusive)),
                "shared" => claim.parts.push((span(rest)?, Access::Shared)),
                _ => return None,
            }
        }
        Some(claim)
    }
}

fn conflict((span, access): &Part, (other, its): &Part) -> bool {
    access.conflicts_with(*its) && span.overlaps(other)
}

/// An end of a span: nothing where it is open, a dash for the empty key.
fn hex(key: Option<&Vec<u8>>) -> String {
    match key {
        None => String::new(),
        Some(key) if key.is_empty() => "-".to_owned(),
        Some(key) => digits(key),
    }
}

/// Bytes in hexadecimal. (Formatting each byte would be a part of a request's cost.)
pub(super) fn digits(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    nibbles.map(|nibble| char::from(DIGITS[usize::from(nibble)])).collect()
}

/// The reverse of [`hex`]; the outer `None` is an error.
fn key(text: &str) -> Option<Option<Vec<u8>>> {
    match text {
        "" => Some(None),
        "-" => Some(Some(Vec::new())),
        _ if !text.is_ascii() || text.len() % 2 == 1 => None,
        _ => {
            let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16));
            Some(Some(bytes.collect::<Result<_, _>>().ok()?))
        }
    }
}

fn span(text: &str) -> Option<Span<Vec<u8>>> {
    let (start, end) = text.split_once("..")?;
    match (key(start)?, key(end)?) {
        (Some(start), Some(end)) => Span::new(start, end).ok(),
        (start, end) => Some(Span::of_ends(start, end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans() -> impl Strategy<Value = Span<Vec<u8>>> {
        (any::<Option<Vec<u8>>>(), any::<Option<Vec<u8>>>()).prop_filter_map("a range", |ends| match ends {
            (Some(start), Some(end)) => Span::new(start, end).ok(),
            (start, end) => Some(Span::of_ends(start, end)),
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (session, number, joins, tries, tag) in any::<(i64, u64, bool, bool, Option<u64>)>(),
            parts in prop::collection::vec((spans(), prop::bool::ANY), 0..4),
        ) {
            let access = |shared| if shared { Access::Shared } else { Access::Exclusive };
            let parts = parts.into_iter().map(|(span, shared)| (span, access(shared))).collect();
            let name = "db 3:17".to_owned();
            let claim = Claim { identity: Identity { session, number }, joins, tries, tag, name, parts };
            // A lease is never negative.
            if session >= 0 {
                prop_assert_eq!(Claim::decode(&claim.encode()), Some(claim));
            }
        }

        #[test]
        fn other_values_are_refused(value: Vec<u8>, lines in "(manx range lock 2\n)?([a-z]{0,9} [0-9a-f.-]{0,9}\n){0,3}") {
            let _ = Claim::decode(&value);
            let _ = Claim::decode(lines.as_bytes());
        }
    }

    #[test]
    fn the_value_is_text() {
        let identity = Identity { session: 0x69, number: 7 };
        let parts = vec![(Span::from(vec![0, 255]), Access::Exclusive), (Span::to(vec![]), Access::Shared)];
        let claim = Claim { identity, joins: true, tries: false, tag: Some(3), name: "a:1".into(), parts };
        let text = "manx range lock 2\nsession 0000000000000069\nowner 7\njoins\ntag 3\nname a:1\n\
                    exclusive 00ff..\nshared ..-\n";
        assert_eq!(String::from_utf8(claim.encode()).unwrap(), text);
        assert_eq!(Claim::decode(b"something else"), None);
    }
}
