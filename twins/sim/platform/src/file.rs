//! Files that the simulated kernel makes up while they are read; there are no others. To open one,
//! to read it and to close it takes a system call each.

use crate::kernel::Kernel;
use crate::procfs::{self, Content};
use crate::simulation;
use std::ffi::CStr;

/// The error number of a file that is not there.
pub(crate) const NOT_THERE: i32 = libc::ENOENT;

/// An open file.
#[derive(Debug)]
pub struct File {
    content: Content,
}

/// What the kernel says of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its device and number there. No program closes files of another one's here, so all have the
    /// same.
    pub identity: (u64, u64),
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// There is no such file, or no program is run.
    pub fn open(path: &CStr) -> Result<File, i32> {
        if !simulation::is_inside() {
            return Err(NOT_THERE);
        }
        let content = simulation::make(|kernel| {
            kernel.call();
            procfs::find(kernel, path.to_bytes())
        });
        content.map(|content| File { content }).ok_or(NOT_THERE)
    }

    /// Reads at `offset` until `into` is full or the file ends; returns how many bytes were read.
    ///
    /// # Errors
    /// The thread that the file is about has ended.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, i32> {
        let length = self.read_once_at(into, offset)?;
        // The kernel is asked once more, to learn that the file ends.
        if length > 0 && length < into.len() {
            simulation::make(|kernel| kernel.call());
        }
        Ok(length)
    }

    /// The same with one call.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_once_at(&self, into: &mut [u8], offset: u64) -> Result<usize, i32> {
        let text = simulation::make(|kernel| {
            kernel.call();
            procfs::text(kernel, &self.content)
        });
        let text = text.ok_or(libc::ESRCH)?;
        let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    /// What the kernel says of the file.
    ///
    /// # Errors
    /// None.
    pub fn status(&self) -> Result<Status, i32> {
        simulation::make(|kernel| kernel.call());
        Ok(Status { identity: (0, 0) })
    }

    /// Leaves the file open. It has no number here.
    pub fn into_descriptor(self) -> i32 {
        std::mem::forget(self);
        -1
    }
}

impl Drop for File {
    fn drop(&mut self) {
        simulation::pass(Kernel::call);
    }
}
