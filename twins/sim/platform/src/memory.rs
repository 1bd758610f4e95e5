//! Memory of the program that is run: its allocator, and mappings, which take no time.

pub use crate::arena::Allocator;
use crate::file::File;
use crate::simulation;

/// May be read. As `PROT_READ`.
pub const READ: i32 = libc::PROT_READ;
/// May be written. As `PROT_WRITE`.
pub const WRITE: i32 = libc::PROT_WRITE;

/// Maps `bytes` bytes of zeroes.
///
/// # Errors
/// The error number of `mmap`.
pub fn map_zeroes(bytes: usize, rights: i32) -> Result<*mut u8, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
    if start == libc::MAP_FAILED { Err(error()) } else { Ok(start.cast()) }
}

/// Maps the first `bytes` bytes of a file that the program has made: its memory, which stays where
/// it is until the run ends.
///
/// # Errors
/// The file is shorter, or one of the kernel's.
pub fn map_shared(file: &File, bytes: usize) -> Result<*mut u8, i32> {
    let opening = file.opening()?;
    simulation::kernel(|kernel| {
        let files = &kernel.files;
        if bytes > files.bytes(opening) { Err(libc::EINVAL) } else { Ok(files.memory(opening)) }
    })
}

/// Unmaps it.
///
/// # Errors
/// The error number of `munmap`.
///
/// # Safety
/// The memory came from [`map_zeroes`] or [`map_shared`] with this size, and nothing refers to it
/// any more.
pub unsafe fn unmap(start: *mut u8, bytes: usize) -> Result<(), i32> {
    // The memory of a file is the kernel's.
    if simulation::is_inside() && simulation::kernel(|kernel| kernel.files.is_at(start.addr())) {
        return Ok(());
    }
    // SAFETY: by the caller's promise.
    let result = unsafe { libc::munmap(start.cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(error()) }
}

fn error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
