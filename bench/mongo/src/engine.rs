//! The part of a storage engine that the server needs.
//!
//! A session serves one connection, one operation at a time. Each operation is one transaction with
//! snapshot isolation. The engine makes what was committed durable only when [`Session::flush`]
//! asks: every [`FLUSH_EVERY`], as mongod does with its journal, and for a write with `j: true`.

pub mod store;
pub mod wiredtiger;

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// The time between two flushes of the journal: mongod's default.
pub const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// The maximum number of sessions: mongod's.
pub const SESSIONS_MAX: u32 = 33_000;

/// A storage engine: keys and values as bytes, in the order of the keys.
pub trait Engine: Send + Sync {
    /// Its name and version.
    fn version(&self) -> String;

    /// A session, which outlives neither its connection nor the engine.
    ///
    /// # Errors
    /// There are too many.
    fn session(&self) -> Result<Box<dyn Session>, Failed>;
}

/// Is shown what a key has, and says what becomes of it.
pub type Decide<'a> = &'a mut dyn FnMut(Option<&[u8]>) -> Write;
/// Is shown a key and its value, and says whether it wants more.
pub type See<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// A connection's session with the engine. It may move between threads.
pub trait Session: Send {
    /// Runs one transaction on a key.
    ///
    /// # Errors
    /// [`Failed::Conflict`] if another transaction was first: nothing has happened.
    fn transact(&mut self, key: &[u8], decide: Decide<'_>) -> Result<(), Failed>;

    /// Shows the entries from `from` on, those below `to`, in order, as one snapshot has them.
    ///
    /// # Errors
    /// The engine's.
    fn scan(&mut self, from: &[u8], to: &[u8], see: See<'_>) -> Result<(), Failed>;

    /// Returns when all that was committed before is on the disk.
    ///
    /// # Errors
    /// The disk's.
    fn flush(&mut self) -> Result<(), Failed>;
}

/// The change that a transaction makes to its key.
#[derive(Debug)]
pub enum Write {
    /// It only reads.
    Nothing,
    /// The key has this value afterwards.
    Put(Vec<u8>),
    /// The key is gone afterwards.
    Delete,
}

/// Why a transaction did not happen.
#[derive(Debug)]
pub enum Failed {
    /// Another transaction has written the key: try again.
    Conflict,
    /// The engine's words.
    Engine(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Conflict => to.write_str("another transaction has written the key"),
            Failed::Engine(words) => to.write_str(words),
        }
    }
}
