//! Changing a program's text while it runs.
//!
//! Text is mapped without the right to write. A few changes in a module in which no thread runs go
//! through `/proc/self/mem`: it ignores page rights, splits no mapping, and works under
//! `PR_SET_MDWE`. Two cases need `mprotect` to read, write and execute, and back: a change that
//! must be one store (Invariant 1), and many changes at once ([`Text::write_all`]). Where
//! `/proc/self/mem` is closed (no `/proc`, a hardened kernel), `mprotect` does all. Text is never
//! without the right to execute, since another thread may be in the same page.
//!
//! Invariants:
//! 1. Bytes that a thread may run through meanwhile change in one store to one aligned eight-byte
//!    word, so an instruction fetch sees the old instruction or the new one. A kernel's copy
//!    routine promises no such store, so these go by a store of our own under `mprotect`. The
//!    guard's latch makes us the only writer.
//! 2. When [`Text::write`] or [`Text::write_live`] returns Ok, the bytes are there (read back).
//!    What is refused is not read back: the place may be gone.

use super::mappings;
use crate::process;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::LazyCell;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use platform::file::File;
use platform::memory::{EXECUTE, READ, WRITE, page_bytes, protect};

/// The way to the process's own memory that ignores page rights.
const SELF_MEMORY: &CStr = c"/proc/self/mem";

/// Text stayed as it was: it cannot be written, or not in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A change of a few bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit {
    /// Where it begins.
    pub address: usize,
    bytes: [u8; 5],
    length: usize,
}

impl Edit {
    /// The change that puts `bytes` at `address`; five bytes at most.
    pub fn new(address: usize, bytes: &[u8]) -> Edit {
        let mut edit = Edit { address, ..Edit::default() };
        edit.length = bytes.len().min(edit.bytes.len());
        edit.bytes[..edit.length].copy_from_slice(&bytes[..edit.length]);
        edit
    }

    /// What it puts there.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn end(&self) -> usize {
        self.address.saturating_add(self.length)
    }

    fn is_in_one_word(&self) -> bool {
        self.address % 8 + self.length <= 8
    }
}

/// The threads that may run where text changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// No thread runs in the module.
    None,
    /// Threads run beside the bytes that change, and not through them.
    Beside,
    /// Threads run through the very instructions that change.
    Through,
}

/// From this number of changes on it pays to make all of a segment writable.
const DIRECT_EDITS_MIN: usize = 64;
/// Changes that lie less than this apart are written together: a page.
const GAP_BYTES_MAX: usize = 4096;
/// How many changes are written together.
const SPAN_EDITS_MAX: usize = 64;
/// How much is written at a time to make several changes.
pub const SPAN_BYTES_MAX: usize = SPAN_EDITS_MAX * (GAP_BYTES_MAX + 5);

/// A way to write text; open it once for several writes.
pub struct Text {
    memory: Option<File>,
}

impl Text {
    /// Opens what can be opened; that nothing can shows when writing.
    pub fn open() -> Text {
        Text { memory: File::open_read_write(SELF_MEMORY).map(File::to_high_descriptor).ok() }
    }

    /// Writes bytes that no thread runs through now: dead ones, or any while this is the only
    /// thread.
    ///
    /// # Safety
    /// `address` must be text of this process that stays mapped, and the change must leave the
    /// program meaning what it meant.
    ///
    /// # Errors
    /// [`Refused`]
    pub unsafe fn write(&self, address: usize, bytes: &[u8]) -> Result<(), Refused> {
        let through_file =
            self.memory.as_ref().is_some_and(|memory| memory.write_at(bytes, address as u64).is_ok());
        // SAFETY: as the caller promised.
        unsafe {
            if through_file && holds(address, bytes) {
                return Ok(());
            }
            with_right_to_write(address, bytes.len(), || store(address, bytes))?;
            if holds(address, bytes) { Ok(()) } else { Err(Refused) }
        }
    }

    /// Makes changes in code of `segment`; says of each whether it was made.
    ///
    /// A few changes are written one by one. A thousand written one by one would take most of their
    /// time in the kernel, a page at a time. From `DIRECT_EDITS_MIN` changes on, all are stored
    /// directly, while the whole segment may be written; it is one mapping before and after. This
    /// is not done in two cases: if another party has given a part of the segment other rights,
    /// which would be lost; and if memory is locked, because the kernel would copy every page.
    ///
    /// # Safety
    /// As [`Text::write`] for each of them, or, with [`Traffic::Through`], as [`Text::write_live`];
    /// and as `traffic` says.
    pub unsafe fn write_all(&self, edits: &[Edit], segment: &Range<usize>, traffic: Traffic) -> Vec<bool> {
        let mapped = LazyCell::new(mappings::all);
        let inside = |edit: &Edit| segment.start <= edit.address && edit.end() <= segment.end;
        let direct = edits.len() >= DIRECT_EDITS_MIN
            && edits.iter().all(inside)
            && mappings::is_text(&mapped, segment)
            && process::locked_kib() == Some(0);
        let change = |edit: &Edit| {
            // SAFETY: as the caller promised; the segment may be written when this is called.
            unsafe {
                match traffic {
                    Traffic::Through if edit.is_in_one_word() => store_live(edit.address, edit.bytes()),
                    Traffic::Through => {}
                    Traffic::Beside | Traffic::None => store(edit.address, edit.bytes()),
                }
            }
        };
        // SAFETY: all of the segment is readable, executable and not writable.
        let stored = direct
            && unsafe {
                with_right_to_write(segment.start, segment.len(), || edits.iter().for_each(change)).is_ok()
            };
        if stored {
            // SAFETY: as the caller promised.
            return edits.iter().map(|edit| unsafe { holds(edit.address, edit.bytes()) }).collect();
        }
        // What gives a right and takes it away again must not take it from a program that has it.
        let gives_rights = traffic == Traffic::Through || self.memory.is_none();
        let one = |edit: &Edit| {
            if gives_rights && !mappings::is_text(&mapped, &(edit.address..edit.end())) {
                return false;
            }
            // SAFETY: as the caller promised.
            unsafe {
                match traffic {
                    Traffic::Through => self.write_live(edit.address, edit.bytes()).is_ok(),
                    Traffic::Beside | Traffic::None => self.write(edit.address, edit.bytes()).is_ok(),
                }
            }
        };
        if traffic == Traffic::None && !gives_rights {
            // SAFETY: as the caller promised.
            unsafe { self.write_spans(edits) }
        } else {
            edits.iter().map(one).collect()
        }
    }

    /// Makes changes; changes that are close to each other go by one call.
    ///
    /// # Safety
    /// As [`Text::write_all`] with [`Traffic::None`].
    unsafe fn write_spans(&self, edits: &[Edit]) -> Vec<bool> {
        let mut order: Vec<usize> = (0..edits.len()).collect();
        order.sort_unstable_by_key(|&n| edits[n].address);
        let mut done = vec![false; edits.len()];
        let mut span = Vec::new();
        // Only changes less than a page apart are joined, so that no unchanged page is copied.
        let close = |a: &usize, b: &usize| edits[*b].address.saturating_sub(edits[*a].end()) < GAP_BYTES_MAX;
        for near in order.chunk_by(close) {
            for group in near.chunks(SPAN_EDITS_MAX) {
                let (Some(&first), Some(&last)) = (group.first(), group.last()) else { continue };
                let (start, end) = (edits[first].address, edits[last].end());
                span.clear();
                // SAFETY: text of one module, mapped and readable as the caller promised, that no
                // thread changes now.
                span.extend_from_slice(unsafe {
                    core::slice::from_raw_parts(start as *const u8, end.saturating_sub(start))
                });
                for &n in group {
                    let at = edits[n].address - start;
                    if let Some(place) = span.get_mut(at..at + edits[n].bytes().len()) {
                        place.copy_from_slice(edits[n].bytes());
                    }
                }
                // SAFETY: as the caller promised; what lies between the changes stays as it is.
                let written = unsafe { self.write(start, &span).is_ok() };
                group.iter().for_each(|&n| done[n] = written);
            }
        }
        done
    }

    /// Replaces the start of an instruction while any thread may be running it. Every thread sees
    /// it after [`platform::memory::synchronise_cores`].
    ///
    /// # Safety
    /// As [`Text::write`]; the bytes must be the start of one instruction before, and a whole one
    /// after, and no jump may lead between them.
    ///
    /// # Errors
    /// [`Refused`], also if the bytes do not lie in one aligned word.
    pub unsafe fn write_live(&self, address: usize, bytes: &[u8]) -> Result<(), Refused> {
        if address % 8 + bytes.len() > 8 {
            return Err(Refused);
        }
        // SAFETY: as the caller promised.
        unsafe {
            with_right_to_write(address & !7, 8, || store_live(address, bytes))?;
            if holds(address, bytes) { Ok(()) } else { Err(Refused) }
        }
    }
}

/// Whether `bytes` stand at `address`.
///
/// # Safety
/// The place must be readable.
pub unsafe fn holds(address: usize, bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let first = address as *const [u8; 8];
    let behind = first.wrapping_add(words.len()).cast::<u8>();
    // SAFETY: as the caller promised.
    unsafe {
        words.iter().enumerate().all(|(n, word)| first.wrapping_add(n).read_volatile() == *word)
            && rest.iter().enumerate().all(|(n, byte)| behind.wrapping_add(n).read_volatile() == *byte)
    }
}

/// Puts `bytes` at `address`.
///
/// # Safety
/// The place must be writable, and no other thread may use it.
unsafe fn store(address: usize, bytes: &[u8]) {
    for (at, byte) in bytes.iter().enumerate() {
        // SAFETY: as the caller promised.
        unsafe { ((address + at) as *mut u8).write_volatile(*byte) };
    }
}

/// Puts `bytes` at `address` in one store to their aligned word (Invariant 1).
///
/// # Safety
/// The word must be writable, hold all of the bytes, and no other thread may change it.
unsafe fn store_live(address: usize, bytes: &[u8]) {
    // SAFETY: as the caller promised; the word is aligned.
    let word = unsafe { &*((address & !7) as *const AtomicU64) };
    // Relaxed: no other thread writes it.
    let mut whole = word.load(Ordering::Relaxed).to_ne_bytes();
    for (to, from) in whole.iter_mut().skip(address % 8).zip(bytes) {
        *to = *from;
    }
    // Release: what a thread finds behind the new instruction was written before.
    word.store(u64::from_ne_bytes(whole), Ordering::Release);
}

/// Runs `change` while the pages of these bytes may be written as well.
///
/// # Safety
/// They must be text: readable, executable and not writable before.
unsafe fn with_right_to_write(address: usize, bytes: usize, change: impl FnOnce()) -> Result<(), Refused> {
    let page = page_bytes();
    let start = address & !(page - 1);
    let length = (address + bytes).next_multiple_of(page) - start;
    // SAFETY: the pages keep the rights that they have, and lose only what they are given here.
    unsafe {
        protect(start, length, READ | WRITE | EXECUTE).map_err(|_| Refused)?;
        change();
        // If the kernel refuses this, the text stays writable: nothing else can be done.
        let _ = protect(start, length, READ | EXECUTE);
    }
    Ok(())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use platform::memory::map_zeroes;

    /// `mov eax, 1; ret` in a page of its own.
    fn function() -> usize {
        let code = map_zeroes(page_bytes(), READ | EXECUTE).expect("a page").addr();
        // SAFETY: the page is ours and nothing runs there yet.
        unsafe { Text::open().write(code, &[0xb8, 1, 0, 0, 0, 0xc3]).expect("written") };
        code
    }

    fn call(code: usize) -> i32 {
        // SAFETY: `function` wrote a whole function of this type there.
        unsafe { core::mem::transmute::<usize, extern "C" fn() -> i32>(code)() }
    }

    #[test]
    fn text_changes_by_every_way_and_keeps_its_rights() {
        for text in [Text::open(), Text { memory: None }] {
            let code = function();
            assert_eq!(call(code), 1);
            // SAFETY: only the constant in the instruction changes.
            unsafe {
                text.write(code + 1, &[2]).expect("written");
                assert_eq!(call(code), 2);
                text.write_live(code + 1, &[3, 1]).expect("written");
                assert_eq!(call(code), 0x103);
                text.write_live(code + 2, &[0]).expect("written");
                assert_eq!(call(code), 3);
                assert_eq!(text.write_live(code + 7, &[0, 0]), Err(Refused), "it crosses a word");
            }
            let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
            let line = maps.lines().find(|l| l.starts_with(&format!("{code:x}-"))).expect("our page");
            assert!(line.contains(" r-xp "), "{line}");
        }
    }

    #[test]
    fn many_changes_are_made_at_once_and_nothing_else() {
        let bytes = 40 * page_bytes();
        let all = [Traffic::None, Traffic::Beside, Traffic::Through];
        let cases = [(3, false), (200, false), (200, true)];
        for ((count, locked), runs) in cases.into_iter().flat_map(|case| all.map(|runs| (case, runs))) {
            for text in [Text::open(), Text { memory: None }] {
                let code = map_zeroes(bytes, READ | EXECUTE).expect("pages").addr();
                if locked {
                    // SAFETY: locks memory of the test's own.
                    let refused = unsafe { libc::mlock(code as *const libc::c_void, bytes) } != 0;
                    if refused {
                        testing::skip("in part: no right to lock memory");
                    }
                }
                let edit =
                    |n: usize| Edit::new(code + 7 + n * 701, &[0xe9, n as u8, 0, 1, 0xff][..5 - n % 2 * 3]);
                // In another order than that of their addresses.
                let edits: Vec<Edit> = (0..count).rev().map(edit).collect();
                // SAFETY: nothing runs there.
                let done = unsafe { text.write_all(&edits, &(code..code + bytes), runs) };
                let fits = |edit: &Edit| runs != Traffic::Through || edit.is_in_one_word();
                assert_eq!(done, edits.iter().map(fits).collect::<Vec<_>>());
                let mut expected = vec![0; bytes];
                for edit in edits.iter().filter(|edit| fits(edit)) {
                    expected[edit.address - code..][..edit.bytes().len()].copy_from_slice(edit.bytes());
                }
                // SAFETY: readable, and no thread writes it now.
                assert!(unsafe { core::slice::from_raw_parts(code as *const u8, bytes) } == expected);
                assert!(
                    mappings::is_text(&mappings::all(), &(code..code + bytes)),
                    "the rights are as before"
                );
                // SAFETY: no thread uses the pages any more.
                unsafe { platform::memory::unmap(code as *mut u8, bytes).expect("unmapped") };
            }
        }
    }

    #[test]
    fn a_right_that_the_program_has_is_not_taken_away() {
        let page = map_zeroes(page_bytes(), READ | WRITE | EXECUTE).expect("a page").addr();
        let segment = page..page + page_bytes();
        let edit = [Edit::new(page, &[0x90])];
        for (text, traffic) in [(Text::open(), Traffic::Through), (Text { memory: None }, Traffic::None)] {
            // SAFETY: the page is ours and nothing runs there.
            unsafe { assert_eq!(text.write_all(&edit, &segment, traffic), [false]) };
        }
        // SAFETY: as above; it may still be written.
        unsafe {
            (page as *mut u8).write_volatile(1);
            platform::memory::unmap(page as *mut u8, page_bytes()).expect("unmapped");
        }
    }

    #[test]
    fn text_that_is_not_mapped_is_refused() {
        // The second page of all: the kernel maps no page this low. (A page that was just given
        // back may be another test's a moment later.) SAFETY: nothing is mapped there; the write
        // must be refused before anything is stored. Reading back would fault, so only
        // `with_right_to_write` is tried.
        unsafe {
            assert_eq!(with_right_to_write(page_bytes(), 1, || panic!("stored")), Err(Refused));
        }
    }
}
