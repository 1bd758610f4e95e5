//! From bytes to commands, as they come in.
//!
//! Bytes come in pieces that end anywhere. The parser looks at each byte of a command once, however
//! many pieces it comes in: it keeps where it is, counted from the command's first byte, and the
//! caller keeps the bytes. Arguments stay where they are.
//!
//! Invariants:
//! 1. `at` is at most the length of the bytes of the last call, and what is before `at` is not
//!    looked at again.
//! 2. A command takes at most [`Limits::command_bytes_max`]; what a length announces is checked
//!    before anything is waited for.
//! 3. After an error the connection is at an unknown place, and nothing more can be read from it.
//!
//! The caller may keep the bytes of one argument of a command elsewhere, while they come
//! (`leave_out`). For the parser it has no bytes then, but they count.

use super::args::Args;
use super::inline;
use std::fmt;
use std::ops::Range;

/// The most arguments of a command.
pub const ARGS_MAX: usize = 1024 * 1024;
/// The longest line: of an inline command, or of a length.
const LINE_MAX: usize = 64 * 1024;
/// The most arguments of a client that has not yet said a password …
const UNAUTHENTICATED_ARGS_MAX: usize = 10;
/// … and the longest of these.
const UNAUTHENTICATED_BULK_MAX: usize = 16 * 1024;

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a command: all arguments and their lengths together.
    pub command_bytes_max: usize,
    /// Whether the client has not yet said the password that it needs: then commands are short.
    pub stranger: bool,
}

/// What was found.
#[derive(Debug)]
pub enum Step<'a> {
    /// A command, and the number of bytes that it takes.
    Command(Args<'a>, usize),
    /// Nothing, in this number of bytes.
    Nothing(usize),
    /// The bytes end before the command does. It needs at least this number of bytes, counted from
    /// its first one.
    More(usize),
}

/// What is wrong with what a client sent. Its words are Redis's own, where that has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The line with the number of arguments does not end.
    LongCount,
    /// The number of arguments is no number, or too large.
    BadCount,
    /// A client that has not said the password sends more than the allowed number of arguments.
    StrangerCount,
    /// Something else stands where an argument's length should.
    NoBulk(u8),
    /// The line with an argument's length does not end.
    LongLength,
    /// An argument's length is no number, or too large.
    BadLength,
    /// A client that has not said the password sends an argument of more than the allowed length.
    StrangerLength,
    /// An argument does not end where its length says.
    Overlong,
    /// A command takes more bytes than it may.
    TooLarge(usize),
    /// A typed line does not end.
    LongInline,
    /// A typed line has quotes that do not end.
    Unbalanced,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Protocol error: ")?;
        match self {
            ProtocolError::LongCount => to.write_str("too big mbulk count string"),
            ProtocolError::BadCount => to.write_str("invalid multibulk length"),
            ProtocolError::StrangerCount => to.write_str("unauthenticated multibulk length"),
            ProtocolError::NoBulk(got) => {
                write!(to, "expected '$', got '{}'", char::from(*got).escape_default())
            }
            ProtocolError::LongLength => to.write_str("too big bulk count string"),
            ProtocolError::BadLength => to.write_str("invalid bulk length"),
            ProtocolError::StrangerLength => to.write_str("unauthenticated bulk length"),
            ProtocolError::Overlong => to.write_str("a bulk is longer than its length says"),
            ProtocolError::TooLarge(most) => write!(to, "a command of more than {most} bytes"),
            ProtocolError::LongInline => to.write_str("too big inline request"),
            ProtocolError::Unbalanced => to.write_str("unbalanced quotes in request"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Reads commands. One for each connection.
///
/// ```
/// use server::resp::{Limits, Parser, Step};
///
/// let limits = Limits { command_bytes_max: 1 << 20, stranger: false };
/// let mut parser = Parser::new();
/// assert!(matches!(parser.step(b"*2\r\n$3\r\nGET\r\n$1\r\n", limits)?, Step::More(20)));
/// let Step::Command(args, 20) = parser.step(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", limits)? else { panic!() };
/// assert_eq!(args.from(0).collect::<Vec<_>>(), [&b"GET"[..], b"k"]);
/// # Ok::<(), server::resp::ProtocolError>(())
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    /// Where the next unread part begins (Invariant 1).
    at: usize,
    /// Up to where a line's end has been looked for.
    looked: usize,
    /// Arguments that are still to come; none while the count is not known.
    missing: Option<usize>,
    /// The length of the argument that begins at `at`.
    bulk: Option<usize>,
    /// Whether the last step returned a command, whose places are still here.
    is_done: bool,
    ranges: Vec<Range<usize>>,
    /// The argument that was left out: which one, and its length.
    left_out: Option<(usize, usize)>,
    /// The words of an inline command.
    words: Vec<u8>,
}

impl Parser {
    /// At the beginning of a command.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Looks for a command at the beginning of `bytes`: those of the last call, if it asked for
    /// more, and others behind them.
    ///
    /// # Errors
    /// This is no command, and there will be none in this stream any more.
    pub fn step<'a>(&'a mut self, bytes: &'a [u8], limits: Limits) -> Result<Step<'a>, ProtocolError> {
        if self.is_done || self.at > bytes.len() {
            self.clear();
        }
        if bytes.is_empty() {
            return Ok(Step::More(1));
        }
        if bytes[0] != b'*' {
            return self.inline(bytes);
        }
        if self.missing.is_none() {
            let Some(line) = self.line(bytes, ProtocolError::LongCount)? else {
                return Ok(Step::More(bytes.len() + 1));
            };
            let count = number(&bytes[1..line.end]).ok_or(ProtocolError::BadCount)?;
            if count <= 0 {
                let length = self.at;
                self.clear();
                return Ok(Step::Nothing(length));
            }
            let count = usize::try_from(count).ok().filter(|count| *count <= ARGS_MAX);
            let count = count.ok_or(ProtocolError::BadCount)?;
            if limits.stranger && count > UNAUTHENTICATED_ARGS_MAX {
                return Err(ProtocolError::StrangerCount);
            }
            self.missing = Some(count);
        }
        while self.missing != Some(0) {
            if let Some(more) = self.argument(bytes, limits)? {
                return Ok(Step::More(more));
            }
        }
        self.is_done = true;
        Ok(Step::Command(Args::new(bytes, &self.ranges), self.at))
    }

    /// The argument that is waited for, if it has more than `least` bytes and no other one is left
    /// out: where it begins, and its length.
    pub(crate) fn awaits_large(&self, least: usize) -> Option<(usize, usize)> {
        let length = self.bulk.filter(|length| *length > least && self.left_out.is_none())?;
        Some((self.at, length))
    }

    /// The bytes of the argument that is waited for will not be in what [`Parser::step`] is given,
    /// until the command is whole. What the command has behind them follows what it has before.
    pub(crate) fn leave_out(&mut self) {
        if let Some(length) = self.bulk.replace(0) {
            self.left_out = Some((self.ranges.len(), length));
        }
    }

    /// Which argument of the command was left out.
    pub(crate) fn left_out(&self) -> Option<usize> {
        self.left_out.map(|(index, _)| index)
    }

    /// Reads an argument; or returns how many bytes that takes.
    fn argument(&mut self, bytes: &[u8], limits: Limits) -> Result<Option<usize>, ProtocolError> {
        let length = match self.bulk {
            Some(length) => length,
            None => {
                let Some(first) = bytes.get(self.at) else { return Ok(Some(bytes.len() + 1)) };
                if *first != b'$' {
                    return Err(ProtocolError::NoBulk(*first));
                }
                let start = self.at + 1;
                let Some(line) = self.line(bytes, ProtocolError::LongLength)? else {
                    return Ok(Some(bytes.len() + 1));
                };
                let length = number(&bytes[start..line.end]).and_then(|length| usize::try_from(length).ok());
                let length = length.ok_or(ProtocolError::BadLength)?;
                if limits.stranger && length > UNAUTHENTICATED_BULK_MAX {
                    return Err(ProtocolError::StrangerLength);
                }
                // Invariant 2. Before the sum, which cannot overflow then.
                if length > limits.command_bytes_max {
                    return Err(ProtocolError::BadLength);
                }
                let left_out = self.left_out.map_or(0, |(_, length)| length);
                if left_out + self.at + length + 2 > limits.command_bytes_max {
                    return Err(ProtocolError::TooLarge(limits.command_bytes_max));
                }
                self.bulk = Some(length);
                length
            }
        };
        let end = self.at + length;
        match bytes.get(end..end + 2) {
            None => Ok(Some(end + 2)),
            Some(b"\r\n") => {
                self.ranges.push(self.at..end);
                self.at = end + 2;
                self.looked = self.at;
                self.bulk = None;
                self.missing = self.missing.map(|missing| missing - 1);
                Ok(None)
            }
            Some(_) => Err(ProtocolError::Overlong),
        }
    }

    /// The line at `at`, without its end, if it is complete; `at` is behind it then.
    fn line(&mut self, bytes: &[u8], too_long: ProtocolError) -> Result<Option<Range<usize>>, ProtocolError> {
        let from = self.looked.max(self.at);
        let Some(found) = memchr::memchr(b'\n', &bytes[from..]) else {
            self.looked = bytes.len();
            return if bytes.len() - self.at > LINE_MAX { Err(too_long) } else { Ok(None) };
        };
        let (start, newline) = (self.at, from + found);
        if newline - start > LINE_MAX {
            return Err(too_long);
        }
        let end = if newline > start && bytes[newline - 1] == b'\r' { newline - 1 } else { newline };
        self.at = newline + 1;
        self.looked = self.at;
        Ok(Some(start..end))
    }

    fn inline<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Step<'a>, ProtocolError> {
        let Some(line) = self.line(bytes, ProtocolError::LongInline)? else {
            return Ok(Step::More(bytes.len() + 1));
        };
        let length = self.at;
        inline::split(&bytes[line], &mut self.words, &mut self.ranges)
            .map_err(|inline::Unbalanced| ProtocolError::Unbalanced)?;
        if self.ranges.is_empty() {
            self.clear();
            return Ok(Step::Nothing(length));
        }
        self.is_done = true;
        Ok(Step::Command(Args::new(&self.words, &self.ranges), length))
    }

    fn clear(&mut self) {
        (self.at, self.looked, self.missing, self.bulk, self.is_done) = (0, 0, None, None, false);
        self.left_out = None;
        self.ranges.clear();
        self.words.clear();
        // A command of a million arguments shall not keep its memory for ever.
        self.ranges.shrink_to(64);
        self.words.shrink_to(1024);
    }
}

/// A number as the protocol writes it.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -value } else { value })
}
