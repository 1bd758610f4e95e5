//! What the durable store stands on: a few files that can be read, written and made durable.
//!
//! Everything that the store keeps goes through [`Disk`] and [`Medium`], the engine's file
//! included. So a test can put something else below the whole store: files that die at a given
//! write, or that forget or tear whatever was not synced. The store itself has no hooks for that,
//! and pays for one indirect call beside each system call.
//!
//! What a disk promises, and all that the store relies on:
//! 1. What was written before [`Medium::sync`] began, and the length of the file, are there after a
//!    loss of power once it has returned. Of what was written later nothing is certain: neither
//!    order, nor that a write is there whole.
//! 2. A file's name is there after a loss of power once [`Disk::sync`] has returned.
//! 3. What was written can be read at once, synced or not.
//! 4. No other process, and no other store of this process, writes the same files.

use std::fmt;
use std::io;

/// A place for a few files by name. [`Folder`](super::Folder) is one.
pub trait Disk: Send + Sync {
    /// Where it is, for messages.
    fn place(&self) -> String;

    /// The names of all files that are there.
    ///
    /// # Errors
    /// They cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens a file, and makes it, empty, if it is not there.
    ///
    /// # Errors
    /// It cannot be opened, or another store has it.
    fn open(&self, name: &str) -> io::Result<Box<dyn Medium>>;

    /// Makes the names of all files durable, and that of the folder. What is in a file is the
    /// business of [`Medium::sync`].
    ///
    /// # Errors
    /// Some names may not be durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file.
pub trait Medium: fmt::Debug + Send + Sync {
    /// How many bytes it has.
    ///
    /// # Errors
    /// The length is not known.
    fn length(&self) -> io::Result<u64>;

    /// Reads bytes that are all in the file.
    ///
    /// # Errors
    /// They cannot be read, or there are fewer.
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes, and makes the file longer where they reach beyond its end.
    ///
    /// # Errors
    /// Some of them may not be written.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the file so long; what is new reads as zeroes.
    ///
    /// # Errors
    /// It is as long as before.
    fn set_length(&self, bytes: u64) -> io::Result<()>;

    /// Makes what was written, and the length, durable.
    ///
    /// # Errors
    /// It is not known what of it is.
    fn sync(&self) -> io::Result<()>;
}
