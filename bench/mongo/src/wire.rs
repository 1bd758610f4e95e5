//! MongoDB's wire protocol: messages as bytes, and what is in them. No socket is opened here.
//!
//! ```text
//! header   length i32 | request id i32 | answers i32 | opcode i32          all little-endian
//! OP_MSG   flags u32 | sections
//!            0: a document, the command itself; exactly one
//!            1: length i32 | name, 0 | documents: an array of the command that stands beside it
//! OP_QUERY flags i32 | collection, 0 | skip i32 | return i32 | document | maybe another document
//! OP_REPLY flags i32 | cursor i64 | start i32 | documents i32 | document
//! ```
//!
//! Drivers send their first `hello` as an OP_QUERY, which is answered by an OP_REPLY, since they do
//! not know yet what the server speaks. All else is OP_MSG.
//!
//! Invariants:
//! 1. No bytes make a function of this file panic.
//! 2. What a [`Request`] has is valid BSON to its depths, as is all that is stored.

use crate::fault::{Code, Fault};
use bson::raw::{RawBsonRef, RawDocument};
use std::io::{self, Read};

/// The most bytes that a message may have: mongod's limit.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;
/// The bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// The depth to which documents may be nested: mongod's limit.
const DEPTH_MAX: u32 = 180;
/// The buffer of a connection keeps this number of bytes between two messages.
const KEPT_BYTES: usize = 1 << 20;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_MSG: i32 = 2013;

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 2;
/// The flags that a receiver has to know; it may ignore the others.
const REQUIRED: u32 = 0xffff;

/// The head of a message, before its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number by which the reply refers to it.
    pub id: i32,
    opcode: i32,
    /// True if the client waits for a reply.
    pub is_answered: bool,
}

/// A command as a client has sent it.
#[derive(Debug)]
pub struct Request<'a> {
    /// The command; its first field is its name.
    pub body: &'a RawDocument,
    /// Arrays of the command that were sent beside it, each with its name.
    pub sequences: Vec<(&'a str, Vec<&'a RawDocument>)>,
    /// The database that an OP_QUERY names; an OP_MSG has `$db`.
    pub database: Option<&'a str>,
}

/// Reads a message, its header included, in place of what the buffer has. False: the client has
/// closed the connection, between two messages.
///
/// # Errors
/// The socket's; and [`io::ErrorKind::InvalidData`] for a length that cannot be, behind which the
/// next message cannot be found.
pub fn read(from: &mut impl Read, message: &mut Vec<u8>) -> io::Result<bool> {
    message.clear();
    message.shrink_to(KEPT_BYTES);
    let mut header = [0; HEADER_BYTES];
    match from.read(&mut header)? {
        0 => return Ok(false),
        bytes => from.read_exact(&mut header[bytes..])?,
    }
    let length = i32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let bytes = usize::try_from(length).unwrap_or(0);
    if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&bytes) {
        let what = format!("a message of {length} bytes: {HEADER_BYTES} to {MESSAGE_BYTES_MAX} may be");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    message.extend(header);
    // Memory is taken as the bytes come, not as the client says.
    let rest = bytes - HEADER_BYTES;
    if from.take(rest as u64).read_to_end(message)? < rest {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}

impl Header {
    /// The header of a message, if it is of a kind that can be answered.
    pub fn of(message: &[u8]) -> Option<Header> {
        let mut bytes = Bytes(message);
        let (_length, id, _answers, opcode) =
            (bytes.i32().ok()?, bytes.i32().ok()?, bytes.i32().ok()?, bytes.i32().ok()?);
        match opcode {
            OP_QUERY => Some(Header { id, opcode, is_answered: true }),
            OP_MSG => {
                let flags = bytes.i32().map_or(0, i32::cast_unsigned);
                Some(Header { id, opcode, is_answered: flags & MORE_TO_COME == 0 })
            }
            _ => None,
        }
    }

    /// Appends the message that answers it.
    pub fn reply(self, id: i32, body: &RawDocument, to: &mut Vec<u8>) {
        let start = to.len();
        let opcode = if self.opcode == OP_QUERY { OP_REPLY } else { OP_MSG };
        for word in [0, id, self.id, opcode] {
            to.extend(word.to_le_bytes());
        }
        match opcode {
            // Flags, cursor in two words, start; one document.
            OP_REPLY => [0, 0, 0, 0, 1].iter().for_each(|word: &i32| to.extend(word.to_le_bytes())),
            // Flags, and a section of kind 0.
            _ => to.extend([0; 5]),
        }
        to.extend(body.as_bytes());
        let length = i32::try_from(to.len() - start).expect("replies have limits");
        to[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

impl<'a> Request<'a> {
    /// Reads the contents of a message that has a [`Header`].
    ///
    /// # Errors
    /// It is not what the protocol says, or not BSON.
    pub fn of(message: &'a [u8]) -> Result<Request<'a>, Fault> {
        let head = Header::of(message).ok_or_else(|| malformed("an unknown kind of message"))?;
        let contents = Bytes(&message[HEADER_BYTES..]);
        if head.opcode == OP_QUERY { Request::of_query(contents) } else { Request::of_msg(contents) }
    }

    fn of_query(mut bytes: Bytes<'a>) -> Result<Request<'a>, Fault> {
        bytes.i32()?;
        let collection = bytes.text()?;
        let database = collection.strip_suffix(".$cmd").ok_or_else(|| {
            Fault::new(
                Code::UnsupportedOpQueryCommand,
                format!("OP_QUERY of {collection}: only commands are served"),
            )
        })?;
        bytes.i32()?;
        bytes.i32()?;
        let body = bytes.document()?;
        if !bytes.0.is_empty() {
            bytes.document()?;
        }
        bytes.end()?;
        Ok(Request { body, sequences: Vec::new(), database: Some(database) })
    }

    fn of_msg(mut bytes: Bytes<'a>) -> Result<Request<'a>, Fault> {
        let flags = bytes.i32()?.cast_unsigned();
        if flags & REQUIRED & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
            return Err(malformed(format!("OP_MSG has unknown flags: {flags:#x}")));
        }
        if flags & CHECKSUM_PRESENT != 0 {
            return Err(malformed("OP_MSG has a checksum, which is not supported: send none"));
        }
        let (mut body, mut sequences) = (None, Vec::new());
        while let Some(kind) = bytes.byte() {
            match kind {
                0 if body.is_some() => return Err(malformed("OP_MSG has two sections of kind 0")),
                0 => body = Some(bytes.document()?),
                1 => {
                    let length = usize::try_from(bytes.i32()?).unwrap_or(0);
                    // The length counts itself.
                    let mut section = Bytes(bytes.take(length.saturating_sub(4))?);
                    let name = section.text()?;
                    let mut documents = Vec::new();
                    while !section.0.is_empty() {
                        documents.push(section.document()?);
                    }
                    sequences.push((name, documents));
                }
                kind => return Err(malformed(format!("OP_MSG has a section of kind {kind}"))),
            }
        }
        let body = body.ok_or_else(|| malformed("OP_MSG has no section of kind 0"))?;
        Ok(Request { body, sequences, database: None })
    }
}

fn malformed(what: impl Into<String>) -> Fault {
    Fault::new(Code::InvalidBSON, what)
}

/// The rest of a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) =
            self.0.split_at_checked(bytes).ok_or_else(|| malformed("a length reaches beyond the message"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn i32(&mut self) -> Result<i32, Fault> {
        Ok(i32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    /// Text up to a zero byte.
    fn text(&mut self) -> Result<&'a str, Fault> {
        let end = self.0.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| malformed("a name has no end"))?;
        let text = self.take(end)?;
        self.byte();
        str::from_utf8(text).map_err(|_| malformed("a name is not UTF-8"))
    }

    fn document(&mut self) -> Result<&'a RawDocument, Fault> {
        let length = self.0.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
        let bytes = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        let invalid = |error: bson::error::Error| malformed(format!("a document is not BSON: {error}"));
        let document = RawDocument::from_bytes(bytes).map_err(invalid)?;
        validate(document, DEPTH_MAX)?;
        Ok(document)
    }

    fn end(&self) -> Result<(), Fault> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed("bytes behind the last document")) }
    }
}

/// Invariant 2.
fn validate(document: &RawDocument, depth: u32) -> Result<(), Fault> {
    let deeper = |inner: &RawDocument| match depth {
        0 => Err(malformed(format!("documents are nested more than {DEPTH_MAX} deep"))),
        _ => validate(inner, depth - 1),
    };
    for element in document {
        let (_, value) = element.map_err(|error| malformed(format!("a document is not BSON: {error}")))?;
        match value {
            RawBsonRef::Document(inner) => deeper(inner)?,
            RawBsonRef::Array(inner) => deeper(
                RawDocument::from_bytes(inner.as_bytes())
                    .map_err(|error| malformed(format!("an array is not BSON: {error}")))?,
            )?,
            RawBsonRef::JavaScriptCodeWithScope(code) => deeper(code.scope)?,
            _ => (),
        }
    }
    Ok(())
}
