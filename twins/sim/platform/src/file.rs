//! Files that the simulated kernel makes up while they are read, and files that the program makes
//! to share memory and locks (`shared_files.rs`). Each operation takes a system call.

use crate::kernel::Kernel;
use crate::procfs::{self, Content};
use crate::shared_files::Opening;
use crate::simulation;
use std::ffi::CStr;

/// The error number of what cannot be had at this moment.
pub const NOT_NOW: i32 = libc::EAGAIN;
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
    /// Its device and number there. No program closes files of another one's here, so all that the
    /// kernel makes up have the same.
    pub identity: (u64, u64),
    /// Its permission bits.
    pub mode: u32,
    /// The number of its names.
    pub names: u64,
    /// Its length; 0 for what the kernel makes up.
    pub bytes: u64,
}

impl Status {
    /// Returns true if it is an ordinary file: each is.
    pub const fn is_ordinary(&self) -> bool {
        true
    }

    /// Returns true if this process's user owns it: there is one user.
    pub const fn is_own(&self) -> bool {
        true
    }
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

    /// Opens a file to be shared by processes, and makes it if it is not there.
    ///
    /// # Errors
    /// No program is run.
    pub fn open_or_create(path: &CStr) -> Result<File, i32> {
        if !simulation::is_inside() {
            return Err(NOT_THERE);
        }
        let opening = simulation::make(|kernel| {
            kernel.call();
            kernel.files.open(path.to_bytes())
        });
        Ok(File { content: Content::Shared(opening) })
    }

    /// What the kernel says of the file.
    ///
    /// # Errors
    /// None.
    pub fn status(&self) -> Result<Status, i32> {
        let (identity, bytes) = simulation::make(|kernel| {
            kernel.call();
            match self.content {
                Content::Shared(opening) => ((1, opening.file() as u64), kernel.files.bytes(opening)),
                _ => ((0, 0), 0),
            }
        });
        Ok(Status { identity, mode: 0o600, names: 1, bytes: bytes as u64 })
    }

    /// Makes a new file `bytes` bytes long.
    ///
    /// # Errors
    /// It is one of the kernel's.
    pub fn reserve(&self, bytes: usize) -> Result<(), i32> {
        let opening = self.opening()?;
        simulation::make(|kernel| {
            kernel.call();
            kernel.files.reserve(opening, bytes);
        });
        Ok(())
    }

    /// Locks a byte, unless another opening of the file has its lock.
    ///
    /// # Errors
    /// [`NOT_NOW`]: another one has it. Or it is a file of the kernel's.
    pub fn try_lock_range(&self, start: u64, bytes: u64) -> Result<(), i32> {
        let opening = self.byte_of(bytes)?;
        let is_locked = simulation::make(|kernel| {
            kernel.call();
            kernel.files.try_lock(opening, start)
        });
        if is_locked { Ok(()) } else { Err(NOT_NOW) }
    }

    /// Gives the lock of a byte back.
    ///
    /// # Errors
    /// It is a file of the kernel's.
    pub fn unlock_range(&self, start: u64, bytes: u64) -> Result<(), i32> {
        let opening = self.byte_of(bytes)?;
        simulation::make(|kernel| {
            kernel.call();
            kernel.files.unlock(opening, start);
        });
        Ok(())
    }

    /// Returns true if another opening of the file has the lock of a byte.
    ///
    /// # Errors
    /// It is a file of the kernel's.
    pub fn is_range_locked(&self, start: u64, bytes: u64) -> Result<bool, i32> {
        let opening = self.byte_of(bytes)?;
        Ok(simulation::make(|kernel| {
            kernel.call();
            kernel.files.is_locked_by_another(opening, start)
        }))
    }

    pub(crate) fn opening(&self) -> Result<Opening, i32> {
        if let Content::Shared(opening) = self.content { Ok(opening) } else { Err(libc::EINVAL) }
    }

    fn byte_of(&self, bytes: u64) -> Result<Opening, i32> {
        assert_eq!(bytes, 1, "a lock is of one byte here");
        self.opening()
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
        if let (Ok(opening), true) = (self.opening(), simulation::is_inside()) {
            simulation::kernel(|kernel| kernel.files.close(opening));
        }
    }
}
