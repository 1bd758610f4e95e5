//! From bytes to answers, as a client reads them.

use super::parser::number;
use std::fmt;

/// The maximum depth of arrays in arrays.
pub const NESTING_MAX: usize = 32;
/// The longest answer, or part of one, and the most parts.
const LENGTH_MAX: i64 = 1 << 32;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A short text.
    Simple(String),
    /// An error.
    Error(String),
    /// A whole number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Text for people.
    Verbatim(String),
    /// No value, or no array.
    Null,
    /// Yes or no.
    Boolean(bool),
    /// A number with a fraction, as it was written.
    Double(String),
    /// Several answers: of an array, a set or a push.
    Array(Vec<Reply>),
    /// Pairs of answers.
    Map(Vec<(Reply, Reply)>),
}

/// Bytes that are no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseReplyError(String);

impl fmt::Display for ParseReplyError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "this is no answer of a server: {}", self.0)
    }
}

impl std::error::Error for ParseReplyError {}

impl Reply {
    /// Reads an answer at the beginning of `bytes`; with it comes how many of them it took. None if
    /// it does not end there.
    ///
    /// ```
    /// use server::resp::Reply;
    ///
    /// assert_eq!(Reply::read(b":42\r\n+OK\r\n")?, Some((Reply::Integer(42), 5)));
    /// assert_eq!(Reply::read(b"$5\r\nhel")?, None);
    /// # Ok::<(), server::resp::ParseReplyError>(())
    /// ```
    ///
    /// # Errors
    /// This is no answer.
    pub fn read(bytes: &[u8]) -> Result<Option<(Reply, usize)>, ParseReplyError> {
        let mut at = 0;
        Ok(read(bytes, &mut at, 0)?.map(|reply| (reply, at)))
    }

    /// The bytes of a bulk or the text of a line.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Bulk(bytes) => Some(bytes),
            Reply::Simple(text) | Reply::Error(text) | Reply::Verbatim(text) | Reply::Double(text) => {
                Some(text.as_bytes())
            }
            _ => None,
        }
    }
}

fn read(bytes: &[u8], at: &mut usize, depth: usize) -> Result<Option<Reply>, ParseReplyError> {
    if depth > NESTING_MAX {
        return Err(ParseReplyError(format!("more than {NESTING_MAX} arrays in each other")));
    }
    let Some(end) = memchr::memchr(b'\n', &bytes[*at..]) else { return Ok(None) };
    let line = &bytes[*at..*at + end];
    let [kind, text @ .., b'\r'] = line else {
        return Err(ParseReplyError(format!("the line {:?}", String::from_utf8_lossy(line))));
    };
    *at += end + 1;
    let words = || String::from_utf8_lossy(text).into_owned();
    let length = || {
        let length = number(text).filter(|length| (-1..=LENGTH_MAX).contains(length));
        length.ok_or_else(|| ParseReplyError(format!("the length {:?}", String::from_utf8_lossy(text))))
    };
    Ok(Some(match kind {
        b'+' => Reply::Simple(words()),
        b'-' => Reply::Error(words()),
        b',' => Reply::Double(words()),
        b':' => {
            let value = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            Reply::Integer(value.ok_or_else(|| ParseReplyError(format!("the number {:?}", words())))?)
        }
        b'_' => Reply::Null,
        b'#' => Reply::Boolean(text == b"t"),
        b'$' | b'=' => {
            let length = length()?;
            if length < 0 {
                return Ok(Some(Reply::Null));
            }
            let length = length as usize;
            let Some(with_end) = bytes.get(*at..*at + length + 2) else { return Ok(None) };
            let (content, end) = with_end.split_at(length);
            if end != b"\r\n" {
                return Err(ParseReplyError("a bulk that is longer than its length".into()));
            }
            *at += length + 2;
            match (kind, content) {
                (b'=', [_, _, _, b':', text @ ..]) => {
                    Reply::Verbatim(String::from_utf8_lossy(text).into_owned())
                }
                _ => Reply::Bulk(content.to_vec()),
            }
        }
        b'*' | b'~' | b'>' => {
            let length = length()?;
            if length < 0 {
                return Ok(Some(Reply::Null));
            }
            let mut parts = Vec::new();
            for _ in 0..length {
                let Some(part) = read(bytes, at, depth + 1)? else { return Ok(None) };
                parts.push(part);
            }
            Reply::Array(parts)
        }
        b'%' => {
            let mut pairs = Vec::new();
            for _ in 0..length()? {
                let Some(key) = read(bytes, at, depth + 1)? else { return Ok(None) };
                let Some(value) = read(bytes, at, depth + 1)? else { return Ok(None) };
                pairs.push((key, value));
            }
            Reply::Map(pairs)
        }
        other => return Err(ParseReplyError(format!("the type {:?}", char::from(*other)))),
    }))
}
