//! The ring in which the kernel leaves records of an event for this process.
//!
//! The kernel writes each record behind a page of its own, and this reads them. What does not fit
//! is lost, and counted: the kernel leaves a record of that, too.
//!
//! 1. The ring is mapped for as long as this lives, so every address in it is valid.
//! 2. The kernel writes only between `data_tail` and `data_head` plus what is free. It does not
//!    overwrite what lies from `data_tail` to `data_head`, which only this reads.
//!
//! Memory orderings: the kernel writes records before `data_head`, so a reader that acquires
//! `data_head` sees them. The reader releases `data_tail`, so the kernel overwrites a record only
//! after it was read.

use super::event::Descriptor;
use crate::memory;
use crate::syscall::{check, syscall};
use core::sync::atomic::{AtomicU64, Ordering};

/// Where the kernel's page holds how much it has written, and how much was read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// A record of how many were lost: the event, and their number.
const LOST_RECORD: u32 = 2;

/// A record, as far as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'r> {
    /// `PERF_RECORD_…`
    pub(super) kind: u32,
    /// `PERF_RECORD_MISC_…`
    pub(super) flags: u16,
    /// What lies behind the header
    pub(super) words: &'r [u64],
}

/// The kernel's page and the ring; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Ring {
    start: *mut u8,
    page_bytes: usize,
    /// The size of the ring, a power of two.
    bytes: usize,
    lost: u64,
}

// SAFETY: the mapping is the value's own, and no thread has a claim on it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `pages` pages, a power of two, of the memory that a user may lock.
    ///
    /// # Errors
    /// The error number of `mmap`: `EPERM` if the user may not lock so much.
    pub(super) fn map(descriptor: &Descriptor, pages: usize) -> Result<Ring, i32> {
        debug_assert!(pages.is_power_of_two(), "{pages} pages");
        let page_bytes = memory::page_bytes();
        let bytes = pages * page_bytes;
        let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let arguments = [0, page_bytes + bytes, rights, libc::MAP_SHARED as usize, descriptor.number(), 0];
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let address = check(unsafe { syscall(libc::SYS_mmap, arguments) })?;
        let start = core::ptr::with_exposed_provenance_mut(address);
        Ok(Ring { start, page_bytes, bytes, lost: 0 })
    }

    /// Calls `each` with the records since the last call, the oldest first. Of a record that is
    /// longer than `WORDS` words behind its header, it has the first ones.
    pub(super) fn drain<const WORDS: usize>(&mut self, mut each: impl FnMut(Record<'_>)) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        while tail < head {
            // Records are made of words of eight bytes, and the ring has a whole number of them:
            // only whole words wrap.
            let read = |at: usize| {
                let offset = (tail as usize + 8 * at) % self.bytes;
                // SAFETY: the word lies in the ring, which is mapped, by rule 1; the kernel does
                // not write what lies below `head`, by rule 2.
                unsafe { self.start.add(self.page_bytes + offset).cast::<u64>().read() }
            };
            let header = read(0);
            let (kind, flags, bytes) = (header as u32, (header >> 32) as u16, header >> 48);
            let mut words = [0u64; WORDS];
            let all = WORDS.min((bytes as usize / 8).saturating_sub(1));
            words[..all].iter_mut().enumerate().for_each(|(at, word)| *word = read(1 + at));
            match (kind, &words[..all]) {
                (LOST_RECORD, [_, lost, ..]) => self.lost += lost,
                (kind, words) => each(Record { kind, flags, words }),
            }
            // A record of no length would never end.
            tail += bytes.max(8);
        }
        self.word(TAIL).store(head, Ordering::Release);
    }

    /// How many records were lost because nobody read them in time.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the kernel's page is mapped, by rule 1, and has an aligned word there.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        let _ = unsafe { memory::unmap(self.start, self.page_bytes + self.bytes) };
    }
}

/// The stack in a record, from the word on that has its size. Behind the stack is how much of it
/// was there.
pub(super) fn stack(words: &[u64]) -> &[u64] {
    let Some((&bytes, rest)) = words.split_first() else { return &[] };
    let Some((stack, &[there, ..])) = rest.split_at_checked(bytes as usize / 8) else { return &[] };
    &stack[..stack.len().min(there as usize / 8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_where_it_ends() {
        assert!(stack(&[]).is_empty(), "without a stack");
        assert!(stack(&[0]).is_empty(), "of a thread without memory");
        assert!(stack(&[16, 8]).is_empty(), "torn");
        assert_eq!(stack(&[16, 8, 9, 16]), [8, 9]);
        assert_eq!(stack(&[16, 8, 9, 8]), [8]);
    }
}
