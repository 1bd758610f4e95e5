//! Errors as MongoDB's clients see them.

use crate::engine::Failed;
use bson::raw::{RawBsonRef, RawDocumentBuf};
use bson::{Bson, rawdoc};

/// The most bytes of an error's words.
const MESSAGE_BYTES_MAX: usize = 1000;

/// MongoDB's error codes, by MongoDB's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are MongoDB's")]
pub enum Code {
    InternalError = 1,
    BadValue = 2,
    FailedToParse = 9,
    Unauthorized = 13,
    TypeMismatch = 14,
    IllegalOperation = 20,
    InvalidBSON = 22,
    CursorNotFound = 43,
    CommandNotFound = 59,
    ImmutableField = 66,
    InvalidNamespace = 73,
    InvalidLength = 16,
    UnsupportedOpQueryCommand = 352,
    BSONObjectTooLarge = 10334,
    DuplicateKey = 11000,
    Location40414 = 40414,
    Location40415 = 40415,
    Location40571 = 40571,
}

/// Why a command, or one of its writes, was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of error, by which drivers decide.
    pub code: Code,
    /// The fault, and its remedy.
    pub message: String,
}

impl Fault {
    /// An error of this kind, with its words. What they quote of a client may be long, and is cut.
    pub fn new(code: Code, message: impl Into<String>) -> Fault {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Fault { code, message }
    }

    /// The reply to the command.
    pub fn reply(&self) -> RawDocumentBuf {
        rawdoc! {
            "ok": 0.0,
            "errmsg": self.message.as_str(),
            "code": self.code as i32,
            "codeName": format!("{:?}", self.code),
        }
    }
}

/// A value in an error's words.
pub fn shown(value: RawBsonRef<'_>) -> String {
    Bson::try_from(value).map_or_else(|error| error.to_string(), |value| value.to_string())
}

impl From<bson::error::Error> for Fault {
    fn from(error: bson::error::Error) -> Fault {
        Fault::new(Code::InvalidBSON, format!("a document is not BSON: {error}"))
    }
}

impl From<Failed> for Fault {
    fn from(failed: Failed) -> Fault {
        Fault::new(Code::InternalError, failed.to_string())
    }
}
