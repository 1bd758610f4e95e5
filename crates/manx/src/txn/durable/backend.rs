//! A medium as the engine's storage.
//!
//! The engine locks nothing: the disk below is one store's alone.

use super::disk::Medium;
use std::io;

/// A medium that the engine uses.
#[derive(Debug)]
pub(super) struct Backend(pub(super) Box<dyn Medium>);

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(out, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_length(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(data, offset)
    }
}
