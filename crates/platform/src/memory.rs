//! Memory of the process: mapping it, its rights, and changing code that other threads may run.

use crate::syscall::{check, syscall0, syscall1, syscall2, syscall3, syscall6};

/// May be read. As `PROT_READ`.
pub const READ: i32 = libc::PROT_READ;
/// May be written. As `PROT_WRITE`.
pub const WRITE: i32 = libc::PROT_WRITE;
/// May be executed. As `PROT_EXEC`.
pub const EXECUTE: i32 = libc::PROT_EXEC;

/// The size of a page, in bytes, as far as rights are concerned (Linux on x86-64; at least that
/// elsewhere).
pub fn page_bytes() -> usize {
    // SAFETY: sysconf only reads.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Maps `bytes` bytes of zeroes, private to the process.
///
/// # Errors
/// The error number of `mmap`.
pub fn map_zeroes(bytes: usize, rights: i32) -> Result<*mut u8, i32> {
    map(0, bytes, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, (usize::MAX, 0))
}

/// Maps `bytes` bytes of zeroes exactly at `address`, unless something is there already.
///
/// # Errors
/// The error number of `mmap`; `EEXIST` if the place is taken (also on kernels that take the
/// address for a hint only).
pub fn map_zeroes_at(address: usize, bytes: usize, rights: i32) -> Result<*mut u8, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let mapped = map(address, bytes, rights, flags, (usize::MAX, 0))?;
    if mapped.addr() == address {
        return Ok(mapped);
    }
    // SAFETY: this mapping was made a moment ago and nobody knows of it.
    let _ = unsafe { unmap(mapped, bytes) };
    Err(libc::EEXIST)
}

/// Maps the first `bytes` bytes of an open file, shared: what is written there is in the file,
/// whatever becomes of the process.
///
/// # Errors
/// The error number of `mmap`.
pub fn map_shared(file: &crate::file::File, bytes: usize) -> Result<*mut u8, i32> {
    map(0, bytes, READ | WRITE, libc::MAP_SHARED, (file.descriptor() as usize, 0))
}

/// Maps `bytes` bytes of an open file from `offset` on, which a page of the file begins at, for
/// reading. The mapping is shared: the kernel writes breakpoints (uprobes) into private ones.
///
/// # Errors
/// The error number of `mmap`.
pub fn map_to_read(file: &crate::file::File, offset: usize, bytes: usize) -> Result<*mut u8, i32> {
    map(0, bytes, READ, libc::MAP_SHARED, (file.descriptor() as usize, offset))
}

/// Maps `bytes` bytes of an open file from `offset` on, shared, in the place of what is mapped at
/// `address` now; its pages are there when this returns, as far as the kernel can.
///
/// # Safety
/// The `bytes` bytes from `address` on are a part of a mapping of the caller's, and nobody has a
/// reference to them.
///
/// # Errors
/// The error number of `mmap`.
pub unsafe fn map_shared_over(
    file: &crate::file::File,
    offset: usize,
    bytes: usize,
    address: *mut u8,
) -> Result<(), i32> {
    let (rights, descriptor) = ((READ | WRITE) as usize, file.descriptor() as usize);
    let flags = (libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE) as usize;
    // SAFETY: as the caller promised, what this replaces is the caller's.
    check(unsafe { syscall6(libc::SYS_mmap, address.addr(), bytes, rights, flags, descriptor, offset) })
        .map(drop)
}

/// The last argument is a descriptor and an offset there.
fn map(
    address: usize,
    bytes: usize,
    rights: i32,
    flags: i32,
    (descriptor, offset): (usize, usize),
) -> Result<*mut u8, i32> {
    let (rights, flags) = (rights as usize, flags as usize);
    // SAFETY: a new mapping disturbs nothing: no caller passes MAP_FIXED.
    let result = unsafe { syscall6(libc::SYS_mmap, address, bytes, rights, flags, descriptor, offset) };
    check(result).map(|address| address as *mut u8)
}

/// Makes the pages from `address` on zeroes in every child that is forked from now on, however it
/// is forked.
///
/// # Safety
/// The pages are anonymous and private, the caller's, and may be zeroes in a child.
///
/// # Errors
/// The error number of `madvise`, where the kernel cannot do it (Linux before 4.14).
pub unsafe fn wipe_on_fork(address: *const u8, bytes: usize) -> Result<(), i32> {
    // SAFETY: as the caller promised; nothing changes in this process.
    let result =
        unsafe { syscall3(libc::SYS_madvise, address.addr(), bytes, libc::MADV_WIPEONFORK as usize) };
    check(result).map(drop)
}

/// Reads a word that may not be there any more.
pub fn peek(address: usize) -> Option<usize> {
    let mut word = 0usize;
    let own = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<usize>() };
    let there = libc::iovec { iov_base: address as *mut _, iov_len: size_of::<usize>() };
    let (own, there) = ((&raw const own).addr(), (&raw const there).addr());
    // SAFETY: the kernel writes at most one word to `word`; what it reads it may find unmapped.
    let read = unsafe {
        let pid = check(syscall0(libc::SYS_getpid)).ok()?;
        check(syscall6(libc::SYS_process_vm_readv, pid, own, 1, there, 1, 0))
    };
    (read == Ok(size_of::<usize>())).then_some(word)
}

/// Takes a mapping away.
///
/// # Safety
/// Nobody may use the `bytes` bytes at `address` any more.
///
/// # Errors
/// The error number of `munmap`.
pub unsafe fn unmap(address: *mut u8, bytes: usize) -> Result<(), i32> {
    // SAFETY: as the caller promised.
    check(unsafe { syscall2(libc::SYS_munmap, address.addr(), bytes) }).map(drop)
}

/// Sets the rights of the pages from `address` on.
///
/// # Safety
/// The pages must keep every right that somebody relies on.
///
/// # Errors
/// The error number of `mprotect`.
pub unsafe fn protect(address: usize, bytes: usize, rights: i32) -> Result<(), i32> {
    // SAFETY: as the caller promised.
    check(unsafe { syscall3(libc::SYS_mprotect, address, bytes, rights as usize) }).map(drop)
}

/// Makes every thread of the process serialise its instruction stream before this returns, so that
/// none runs code as it was before a change made earlier.
///
/// # Errors
/// The error number of `membarrier`, where the kernel lacks it.
pub fn synchronise_cores() -> Result<(), i32> {
    const REGISTER: i32 = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE;
    const SYNCHRONISE: i32 = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE;
    // SAFETY: membarrier changes nothing that a program can see.
    unsafe {
        check(syscall3(libc::SYS_membarrier, REGISTER as usize, 0, 0))?;
        check(syscall3(libc::SYS_membarrier, SYNCHRONISE as usize, 0, 0)).map(drop)
    }
}

/// Whether the calling thread runs with a shadow stack, where a return must match its call.
pub fn shadow_stack() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const ARCH_SHSTK_STATUS: usize = 0x5005;
        let mut features = 0u64;
        let place = (&raw mut features).addr();
        // SAFETY: the kernel writes one u64 to `features`, or fails.
        let known = check(unsafe { syscall2(libc::SYS_arch_prctl, ARCH_SHSTK_STATUS, place) });
        known.is_ok() && features & 1 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Ends the process at once, without running any exit handler.
pub fn exit_now(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { syscall1(libc::SYS_exit_group, status as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_place_is_refused_and_a_free_one_given() {
        let bytes = page_bytes();
        let first = map_zeroes(2 * bytes, READ | WRITE).expect("memory");
        assert_eq!(map_zeroes_at(first.addr(), bytes, READ), Err(libc::EEXIST));
        // SAFETY: nothing lies in these pages.
        unsafe {
            unmap(first, 2 * bytes).expect("unmapped");
            let again = map_zeroes_at(first.addr(), bytes, READ | WRITE).expect("the same place");
            again.write(7);
            protect(again.addr(), bytes, READ).expect("rights");
            assert_eq!(again.read(), 7);
            assert_eq!(peek(again.addr()), Some(7));
            unmap(again, bytes).expect("unmapped");
            assert_eq!(peek(again.addr()), None);
        }
    }

    #[test]
    fn one_page_of_a_file_can_be_seen_at_two_places() {
        let bytes = page_bytes();
        let file = crate::file::File::in_memory(c"two places").expect("a file");
        file.set_length(2 * bytes).expect("longer");
        let pool = map_shared(&file, 2 * bytes).expect("mapped");
        let area = map_zeroes(3 * bytes, READ | WRITE).expect("memory");
        // SAFETY: both mappings are this test's, and it makes no references.
        unsafe {
            pool.add(bytes).write(7);
            map_shared_over(&file, bytes, bytes, area.add(2 * bytes)).expect("mapped");
            assert_eq!((area.read(), area.add(2 * bytes).read()), (0, 7));
            area.add(2 * bytes).write(8);
            assert_eq!(pool.add(bytes).read(), 8);
            let second = map_to_read(&file, bytes, bytes).expect("mapped");
            assert_eq!(second.read(), 8);
            unmap(second, bytes).expect("unmapped");
            unmap(pool, 2 * bytes).expect("unmapped");
            unmap(area, 3 * bytes).expect("unmapped");
        }
    }

    #[test]
    fn cores_can_be_synchronised_or_say_why_not() {
        if let Err(error) = synchronise_cores() {
            assert!([libc::ENOSYS, libc::EINVAL, libc::EPERM].contains(&error), "error {error}");
        }
    }
}
