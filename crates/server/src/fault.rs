//! Why a command was not done: an answer for its client, or an error of the store.

use manx::txn::Error;
use std::borrow::Cow;

/// Why a command was not done.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It cannot be done; this is the answer. It has written nothing.
    Message(Cow<'static, str>),
    /// The store's reason, for which it may be done again.
    Store(Error),
}

/// The command is not for what the key has.
pub(crate) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Store(error)
    }
}

impl From<&'static str> for Fault {
    fn from(text: &'static str) -> Fault {
        Fault::Message(text.into())
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Message(text.into())
    }
}
