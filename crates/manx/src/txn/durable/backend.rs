//! A medium as the engine's storage.
//!
//! The engine locks nothing: the disk below is one store's alone.
//!
//! It can be *shut*: then nothing is written or synced any more, whatever the engine tries.

use super::disk::Medium;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A medium that the engine uses.
#[derive(Debug)]
pub(super) struct Backend {
    file: Box<dyn Medium>,
    shut: Arc<AtomicBool>,
}

/// What shuts it.
#[derive(Debug)]
pub(super) struct CloseHandle(Arc<AtomicBool>);

impl Backend {
    pub(super) fn new(file: Box<dyn Medium>) -> (Backend, CloseHandle) {
        let shut = Arc::<AtomicBool>::default();
        (Backend { file, shut: Arc::clone(&shut) }, CloseHandle(shut))
    }

    fn open(&self) -> io::Result<&dyn Medium> {
        // Relaxed: the thread that shuts it is the thread that ends the engine.
        if self.shut.load(Ordering::Relaxed) {
            return Err(io::Error::other("nothing is written any more"));
        }
        Ok(&*self.file)
    }
}

impl CloseHandle {
    pub(super) fn shut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(out, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.open()?.set_length(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.open()?.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.open()?.write(data, offset)
    }
}
