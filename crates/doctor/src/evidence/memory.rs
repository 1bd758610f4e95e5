//! Reads the memory of another process, as a debugger would, without stopping it.
//!
//! `process_vm_readv` needs the rights that `ptrace` needs. What is read may change at any moment:
//! a reader takes each word for what it was once, and trusts none.

/// Reads `N` words of eight bytes from an address on; `None` if it may not, or if they are not all
/// there.
///
/// ```
/// let words = [7u64, 8];
/// let own = std::process::id() as i32;
/// let read = doctor::evidence::memory::words::<2>(own, (&raw const words).addr() as u64);
/// assert!(read.is_none_or(|read| read == words));
/// assert!(doctor::evidence::memory::words::<2>(own, 8).is_none());
/// ```
pub fn words<const N: usize>(pid: i32, address: u64) -> Option<[u64; N]> {
    let mut words = [0u64; N];
    (read(pid, address, &mut words)? == N).then_some(words)
}

/// Reads at most `N` words, as many as there are from an address on.
pub fn words_there<const N: usize>(pid: i32, address: u64) -> Vec<u64> {
    let mut words = [0u64; N];
    let count = read(pid, address, &mut words).unwrap_or(0);
    words[..count].to_vec()
}

fn read(pid: i32, address: u64, words: &mut [u64]) -> Option<usize> {
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(words) };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(usize::try_from(address).ok()?),
        iov_len: size_of_val(words),
    };
    // SAFETY: the kernel writes at most the length of `words` to it, of which any bytes are valid;
    // the remote address is another process's and is checked by the kernel.
    let bytes = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(bytes).ok().map(|bytes| bytes / 8)
}
