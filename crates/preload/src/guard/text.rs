//! Changing a program's text while it runs.
//!
//! Two ways lead to bytes that are mapped without the right to write. `/proc/self/mem` writes through
//! page rights, splits no mapping, and works under `PR_SET_MDWE`; where it is closed (no `/proc`, a
//! hardened kernel) one `mprotect` to read, write and execute, and one back, does it. Text is never
//! without the right to execute, since another thread may be in the same page.
//!
//! Invariants:
//! 1. Bytes that a thread may run through meanwhile change in one store to one aligned eight-byte word,
//!    so an instruction fetch sees the old instruction or the new one. A kernel's copy routine promises no such
//!    store, so these go by a store of our own under `mprotect`. The guard's latch makes us the only writer.
//! 2. When [`Text::write`] or [`Text::write_live`] returns Ok, the bytes are there (read back), and with
//!    `write_live` every thread has serialised since. What is refused is not read back: the place may be
//!    gone.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};
use platform::file::File;
use platform::memory::{EXECUTE, READ, WRITE, page_bytes, protect, synchronise_cores};

/// The way to the process's own memory that ignores page rights.
const SELF_MEMORY: &CStr = c"/proc/self/mem";

/// Text stayed as it was: it cannot be written, or not in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A way to write text; open it once for several writes.
pub struct Text {
    memory: Option<File>,
}

impl Text {
    /// Opens what can be opened; that nothing can shows when writing.
    pub fn open() -> Text {
        Text { memory: File::open_to_change(SELF_MEMORY).ok() }
    }

    /// Writes bytes that no thread runs through now: dead ones, or any while this is the only thread.
    ///
    /// # Safety
    /// `address` must be text of this process that stays mapped, and the change must leave the program
    /// meaning what it meant.
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
            with_right_to_write(address, bytes.len(), || {
                for (at, byte) in bytes.iter().enumerate() {
                    ((address + at) as *mut u8).write_volatile(*byte);
                }
            })?;
            if holds(address, bytes) { Ok(()) } else { Err(Refused) }
        }
    }

    /// Replaces the start of an instruction while any thread may be running it.
    ///
    /// # Safety
    /// As [`Text::write`]; the bytes must be the start of one instruction before, and a whole one after, and no jump may lead
    /// between them.
    ///
    /// # Errors
    /// [`Refused`], also if the bytes do not lie in one aligned word.
    pub unsafe fn write_live(&self, address: usize, bytes: &[u8]) -> Result<(), Refused> {
        let (word, offset) = (address & !7, address % 8);
        if offset + bytes.len() > 8 {
            return Err(Refused);
        }
        // SAFETY: as the caller promised; by Invariant 1 the store is one.
        unsafe {
            with_right_to_write(word, 8, || {
                let place = &*(word as *const AtomicU64);
                let mut whole = place.load(Ordering::Relaxed).to_ne_bytes();
                for (to, from) in whole.iter_mut().skip(offset).zip(bytes) {
                    *to = *from;
                }
                place.store(u64::from_ne_bytes(whole), Ordering::Release);
            })?;
            if !holds(address, bytes) {
                return Err(Refused);
            }
        }
        // Where the kernel has no such barrier, the next interrupt on each CPU serialises as well.
        let _ = synchronise_cores();
        Ok(())
    }
}

/// Whether `bytes` stand at `address`.
///
/// # Safety
/// The place must be readable.
pub unsafe fn holds(address: usize, bytes: &[u8]) -> bool {
    // SAFETY: as the caller promised.
    bytes
        .iter()
        .enumerate()
        .all(|(at, byte)| unsafe { ((address + at) as *const u8).read_volatile() } == *byte)
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
    fn what_is_not_mapped_is_refused() {
        let memory = None;
        // The second page of all: the kernel gives nobody a page as low as that. (One that was just given back may be another
        // test's a moment later.)
        // SAFETY: nothing is mapped there; the write must be refused before anything is stored. Reading back would
        // fault, so only `with_right_to_write` is tried.
        unsafe {
            assert_eq!(with_right_to_write(page_bytes(), 1, || panic!("stored")), Err(Refused));
        }
        drop(Text { memory });
    }
}
