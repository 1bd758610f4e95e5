//! The buffer pool: large objects in extents, as a storage engine keeps them.
//!
//! An object is a sequence of extents, each twice as large as the one before it, and the last one
//! cut to what is left; so few extents make a large object, and little is wasted on a small one.
//! Extents of one size lie together in the pool, as an allocator of tiers leaves them; so an object
//! is never in one piece, unless it is a page.
//!
//! The pool is a file in memory, mapped once to write it. That makes it possible to see an extent
//! at a second place (`Pool::alias`).
//!
//! Invariants:
//! 1. Extents are whole pages, lie within the pool, and do not overlap.
//! 2. No thread writes the pool after it is made.
//! 3. Each word of a record is `word` of the record and of its place in it.

use crate::range::request::mix;
use platform::file::File;
use platform::memory;

/// A page, of the pool and of the area.
pub(in crate::range) const PAGE: usize = 4096;
/// A word that is checked.
const WORD: usize = size_of::<u64>();

/// A piece of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Where it is in the pool
    offset: usize,
    /// How long it is
    bytes: usize,
}

/// Objects of one size.
#[derive(Debug)]
pub struct Pool {
    file: File,
    base: *mut u8,
    bytes: usize,
    record_bytes: usize,
    records: usize,
    /// Where extents of each size begin, and their size.
    tiers: Vec<Extent>,
}

// SAFETY: the mapping belongs to the pool, and is only read after it was made (Invariant 2).
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// The word at a place of a record, by which it is told from every other word: SplitMix64's mixing
/// is one to one.
pub(in crate::range) fn word(record: usize, at: usize) -> u64 {
    mix((record as u64) << 32 | at as u64)
}

impl Pool {
    /// Makes a pool of `records` records of `record_bytes` bytes, written.
    ///
    /// # Errors
    /// There is no memory for it, or a record is not some whole pages.
    pub fn new(record_bytes: usize, records: usize) -> Result<Pool, String> {
        if record_bytes == 0 || !record_bytes.is_multiple_of(PAGE) || records == 0 {
            return Err(format!("{records} records of {record_bytes} bytes: records are of whole pages"));
        }
        if !PAGE.is_multiple_of(memory::page_bytes()) {
            return Err(format!("pages of {} bytes: the workload is made of {PAGE}", memory::page_bytes()));
        }
        let bytes = record_bytes * records;
        let failed = |what: &str, error: i32| {
            format!("{bytes} bytes of buffer pool: {what}: {}", std::io::Error::from_raw_os_error(error))
        };
        let file = File::in_memory(c"manx buffer pool").map_err(|error| failed("memfd_create", error))?;
        file.set_length(bytes).map_err(|error| failed("ftruncate", error))?;
        // Missing memory is an error here, not a signal later.
        file.reserve(bytes).map_err(|error| failed("fallocate", error))?;
        let base = memory::map_shared(&file, bytes).map_err(|error| failed("mmap", error))?;
        let mut pool = Pool { file, base, bytes, record_bytes, records, tiers: Vec::new() };
        let (mut offset, mut rest, mut size) = (0, record_bytes, PAGE);
        while rest > 0 {
            let extent = Extent { offset, bytes: size.min(rest) };
            offset += extent.bytes * records;
            rest -= extent.bytes;
            size *= 2;
            pool.tiers.push(extent);
        }
        (0..records).for_each(|record| pool.write(record));
        Ok(pool)
    }

    /// How large each record is.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// How many there are.
    pub fn records(&self) -> usize {
        self.records
    }

    /// A record's extents, in the order of its bytes.
    fn extents(&self, record: usize) -> impl Iterator<Item = Extent> + '_ {
        assert!(record < self.records);
        self.tiers.iter().map(move |tier| Extent { offset: tier.offset + record * tier.bytes, ..*tier })
    }

    fn write(&mut self, record: usize) {
        let mut at = 0;
        for extent in self.extents(record) {
            for within in (0..extent.bytes).step_by(WORD) {
                // SAFETY: the word is in an extent of the mapping (Invariant 1), which is ours
                // alone now.
                unsafe { self.base.add(extent.offset + within).cast::<u64>().write(word(record, at)) };
                at += 1;
            }
        }
    }

    /// Reads a byte of each page. A process of its own has the pool's pages anew, and its first
    /// reads of them would be what is measured.
    pub(in crate::range) fn touch(&self) {
        for at in (0..self.bytes).step_by(PAGE) {
            // SAFETY: within the mapping, which is not written (Invariant 2).
            unsafe { self.base.add(at).read_volatile() };
        }
    }

    /// Copies the record, extent by extent.
    ///
    /// # Safety
    /// There are [`Pool::record_bytes`] bytes at `to` that are the caller's alone.
    pub(in crate::range) unsafe fn copy(&self, record: usize, to: *mut u8) {
        let mut done = 0;
        for extent in self.extents(record) {
            // SAFETY: the extent is within the mapping (Invariant 1) and not written (Invariant 2);
            // extents of a record are as long together as the caller's place.
            unsafe { self.base.add(extent.offset).copy_to_nonoverlapping(to.add(done), extent.bytes) };
            done += extent.bytes;
        }
    }

    /// Makes the record's extents visible one behind the other at `to`, without a copy.
    ///
    /// # Safety
    /// There are [`Pool::record_bytes`] bytes of mapped memory at `to`, which begins a page, that
    /// are the caller's alone, and no thread writes there as long as they show the pool.
    ///
    /// # Errors
    /// The error number of `mmap`.
    pub(in crate::range) unsafe fn alias(&self, record: usize, to: *mut u8) -> Result<(), i32> {
        let mut done = 0;
        for extent in self.extents(record) {
            // SAFETY: as the caller promises for the whole, so for the part; extents are whole
            // pages (Invariant 1).
            unsafe { memory::map_shared_over(&self.file, extent.offset, extent.bytes, to.add(done)) }?;
            done += extent.bytes;
        }
        Ok(())
    }

    /// Whether the bytes are the record's: every word of them, or two words of each page.
    pub(in crate::range) fn is(&self, record: usize, bytes: &[u64], every_word: bool) -> bool {
        const WORDS: usize = PAGE / WORD;
        let right = |at: usize| bytes[at] == word(record, at);
        let whole = bytes.len() * WORD == self.record_bytes;
        whole
            && if every_word {
                (0..bytes.len()).all(right)
            } else {
                (0..bytes.len()).step_by(WORDS).all(|page| right(page) && right(page + WORDS - 1))
            }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping is the pool's; what aliases show belongs to the file.
        let _ = unsafe { memory::unmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_disjoint_whole_pages_that_fill_the_pool() {
        for pages in [1, 2, 3, 4, 7, 8, 100, 1024] {
            let pool = Pool::new(pages * PAGE, 5).unwrap();
            let mut all: Vec<Extent> = (0..5).flat_map(|record| pool.extents(record)).collect();
            all.sort_by_key(|extent| extent.offset);
            let mut end = 0;
            for extent in all {
                assert_eq!(extent.offset, end, "{pages} pages");
                assert!(extent.bytes > 0 && extent.bytes.is_multiple_of(PAGE));
                end += extent.bytes;
            }
            assert_eq!(end, pool.bytes);
        }
    }

    #[test]
    fn a_copy_and_an_alias_are_the_record_and_no_other() {
        let pages = 11;
        let pool = Pool::new(pages * PAGE, 3).unwrap();
        let mut copy = vec![0u64; pages * PAGE / WORD];
        let area = memory::map_zeroes(pages * PAGE, memory::READ | memory::WRITE).unwrap();
        for record in 0..3 {
            // SAFETY: the copy is as long as a record, and so is the area, which is mapped and this
            // test's alone.
            let seen = unsafe {
                pool.copy(record, copy.as_mut_ptr().cast());
                pool.alias(record, area).unwrap();
                std::slice::from_raw_parts(area.cast::<u64>(), copy.len())
            };
            assert!(seen == copy, "the same by both ways");
            for other in 0..3 {
                assert_eq!(pool.is(other, &copy, true), other == record);
                assert_eq!(pool.is(other, &copy, false), other == record);
            }
        }
        copy[512 * 5 + 17] ^= 1;
        assert!(!pool.is(2, &copy, true), "one bit is wrong");
        copy[512 * 5] ^= 1;
        assert!(!pool.is(2, &copy, false), "a page begins wrong");
        assert!(!pool.is(2, &copy[..512], true), "a page is no record");
        // SAFETY: the mapping is this test's.
        unsafe { memory::unmap(area, pages * PAGE) }.unwrap();
    }

    #[test]
    fn sizes_that_are_no_pages_are_refused() {
        for (bytes, records) in [(0, 1), (PAGE + 1, 1), (PAGE, 0)] {
            assert!(Pool::new(bytes, records).unwrap_err().contains("whole pages"));
        }
    }
}
