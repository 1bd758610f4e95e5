//! A folder whose files do something else at some operations.

use manx::txn::durable::{Disk, Folder, Medium};
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// What comes in place of the operations on a file; as it is, all are done.
pub trait Fault: Debug + Send + Sync + 'static {
    fn write(&self, _name: &str, file: &dyn Medium, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write(bytes, offset)
    }

    fn set_length(&self, _name: &str, file: &dyn Medium, bytes: u64) -> io::Result<()> {
        file.set_length(bytes)
    }

    fn sync(&self, _name: &str, file: &dyn Medium) -> io::Result<()> {
        file.sync()
    }
}

/// See [the file](self).
pub struct Wrapped<F>(pub Folder, pub Arc<F>);

#[derive(Debug)]
struct File<F>(Box<dyn Medium>, String, Arc<F>);

impl<F: Fault> Disk for Wrapped<F> {
    fn place(&self) -> String {
        self.0.place()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Medium>> {
        Ok(Box::new(File(Disk::open(&self.0, name)?, name.into(), Arc::clone(&self.1))))
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

impl<F: Fault> Medium for File<F> {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read(into, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.2.write(&self.1, &*self.0, bytes, offset)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.2.set_length(&self.1, &*self.0, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.2.sync(&self.1, &*self.0)
    }
}
