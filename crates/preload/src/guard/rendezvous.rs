//! The loader calls us when libraries have come, before any of their code runs, and when they have
//! gone.
//!
//! A library that is opened while threads run is searched best before its constructors run: they
//! may give work to threads, which then spin in loops that are not repaired yet, and where a thread
//! may stand, a jump cannot take the place of several instructions. The loader has a place for
//! that. For debuggers it calls an empty function, whose address it publishes (`r_brk` in `struct
//! r_debug`, `link.h`), whenever its list of modules has changed:
//!
//! ```text
//! dlopen:  map the library and what it needs │ r_brk │ relocate │ constructors      the GNU C library up to 2.40
//! dlopen:  map the library and what it needs │ relocate │ r_brk │ constructors      from 2.41 on
//! dlclose: destructors │ r_brk │ unmap │ r_brk
//! ```
//!
//! So, when the guard wakes, a jump to `arrived` takes the place of that function's `ret` and of
//! four dead bytes behind it. The jump is the only change that Manx makes to the loader. Nothing
//! else has to be known of `dlopen`, of its callers, and of its names.
//!
//! | what is in the way | what happens |
//! | --- | --- |
//! | the function is not empty, or has no dead bytes behind it; a debugger's breakpoint stands there; no call of it is found (it was inlined); text cannot be written; we are out of reach | no jump |
//! | a tracer (a uprobe) writes the original instruction back | the jump is gone, for good |
//! | the search cannot have its latch or its memory | this rendezvous is missed |
//!
//! In each case [`serves`] says no, and the guard does without: each new thread and each look-up of
//! a symbol asks the loader whether its list has changed. What a missed rendezvous has left is
//! searched then.
//!
//! The loader calls the function as C calls functions, from another file of its source, so
//! registers are kept as that convention asks. The thread may have a small stack, so the search has
//! a stack of its own.
//!
//! Modules of other namespaces (`dlmopen`) are not seen: the loader shows us those of our own.
//!
//! Invariants:
//! 1. The loader holds its lock (`dl_load_lock`) from before it adds a module until the module's
//!    constructors have run, and calls us in between. So a module that is new at a rendezvous has
//!    never run, but for resolvers of indirect functions, which have returned; unless an earlier
//!    rendezvous was missed.
//! 2. `BEHIND` becomes true when a rendezvous is missed, and false when a search begins to walk the
//!    loader's list ([`catch_up`]). So if it is false when a search begins, what is new came with
//!    this rendezvous.
//! 3. The lock order is that of [`super`]. A search never takes the loader's lock. A thread that
//!    holds the lock of `dl_iterate_phdr`, in a callback of its own, and opens a library is against
//!    this order, and so is a handler of `pthread_atfork` that runs while the latch is held. So the
//!    latch is waited for with a limit, by every thread.
//! 4. If a tracer restores the first of the five bytes, the function is what it was: the others
//!    stand behind its `ret`.

use super::text::{Text, holds};
use crate::elf::link_map;
use crate::elf::modules;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use spinloop::ENDBR64;

/// `push rbp; mov rbp, rsp; pop rbp`
const EMPTY_FRAME: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x5d];
/// `ret`
const RET: u8 = 0xc3;
/// Of a `jmp rel32`.
const JUMP_BYTES: usize = 5;
/// Functions of the C library begin at multiples of this, at least.
const ALIGN: usize = 16;

/// Where the jump stands; 0: nowhere. Written once, by the holder of the guard's latch.
static PLACE: AtomicUsize = AtomicUsize::new(0);
/// By Invariant 2.
static BEHIND: AtomicBool = AtomicBool::new(false);

/// Whether all modules are searched as they come, so that no thread has to look.
pub fn serves() -> bool {
    // Acquire: the jump was written before.
    let place = PLACE.load(Ordering::Acquire);
    // Relaxed: the thread that missed its rendezvous sees it, and so does each thread that learns
    // of the library from it.
    place != 0 && !BEHIND.load(Ordering::Relaxed) && stands(place)
}

/// Notes that modules may have come that are not searched.
pub fn fall_behind() {
    BEHIND.store(true, Ordering::Relaxed);
}

/// Before a search walks the loader's list: whether modules may have come, and run, that are not
/// searched.
pub fn catch_up() -> bool {
    BEHIND.swap(false, Ordering::Relaxed)
}

/// The jump at `place`.
fn jump(place: usize) -> Option<[u8; JUMP_BYTES]> {
    spinloop::near_jump(place as u64, arrived as *const () as u64)
}

fn stands(place: usize) -> bool {
    // SAFETY: the loader's text is readable and stays mapped.
    jump(place).is_some_and(|jump| unsafe { holds(place, &jump) })
}

/// Puts the jump in its place, if there is one. `alone`: there is no other thread. The caller holds
/// the guard's latch.
pub fn install(text: &Text, alone: bool) {
    let function = link_map::rendezvous();
    let mut found = None;
    modules::each(&mut |module| {
        let part = module.text().map(|(range, _)| range).find(|range| range.contains(&function));
        if let Some(part) = &part {
            found = place(function, part);
        }
        part.is_none()
    });
    let Some(place) = found else { return };
    let Some(jump) = jump(place) else { return };
    // SAFETY: `place` found a `ret` with dead bytes behind it. A jump to `arrived`, which returns
    // in its place, means what the function meant, as far as the loader sees.
    let written = unsafe { if alone { text.write(place, &jump) } else { text.write_live(place, &jump) } };
    if written.is_ok() {
        PLACE.store(place, Ordering::Release);
    }
}

/// Where in the empty `function` a jump may stand; `text` is the segment that holds it.
fn place(function: usize, text: &Range<usize>) -> Option<usize> {
    // SAFETY: the segment is mapped and readable, and belongs to the loader, which is never closed.
    let code = unsafe { core::slice::from_raw_parts(text.start as *const u8, text.len()) };
    let place = function + returns_at(code.get(function - text.start..)?, function)?;
    is_called(code, text.start, function).then_some(place)
}

/// At which byte of `code`, which stands at `address`, an empty function returns, if a jump fits
/// there.
fn returns_at(code: &[u8], address: usize) -> Option<usize> {
    let mut at = 0;
    for part in [ENDBR64.as_slice(), EMPTY_FRAME] {
        if code.get(at..)?.starts_with(part) {
            at += part.len();
        }
    }
    // What belongs to the function ends where another may begin.
    let end = (address + at + 1).next_multiple_of(ALIGN) - address;
    let behind = code.get(at + 1..end)?;
    let fits =
        code[at] == RET && address.is_multiple_of(ALIGN) && spinloop::padding(behind) + 1 >= JUMP_BYTES;
    fits.then_some(at)
}

/// Whether a call, or a jump, in `code` leads to `function`.
fn is_called(code: &[u8], start: usize, function: usize) -> bool {
    code.windows(JUMP_BYTES).enumerate().any(|(at, bytes)| {
        let [0xe8 | 0xe9, distance @ ..] = bytes else { return false };
        let distance = <[u8; 4]>::try_from(distance).map_or(0, i32::from_le_bytes);
        (start + at + JUMP_BYTES).wrapping_add_signed(distance as isize) == function
    })
}

/// In the place of the loader's empty function.
extern "C" fn arrived() {
    // Otherwise the change has only begun; the loader calls again at its end.
    if link_map::is_consistent() {
        super::arrived();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands behind the `ret` in Debian 12.
    const PADDING: &[u8] = &[0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x40, 0];

    fn returns(parts: &[&[u8]]) -> Option<usize> {
        returns_at(&parts.concat(), 0x1000)
    }

    #[test]
    fn a_jump_stands_only_in_an_empty_function_with_dead_bytes_behind_it() {
        let next = &[0x48, 0x8d, 0x05, 0, 0, 0, 0];
        let nops = |count: usize| vec![0x90; count];
        assert_eq!(returns(&[&[RET], PADDING, next]), Some(0));
        assert_eq!(returns(&[&ENDBR64, &[RET], &PADDING[..11], next]), Some(4));
        assert_eq!(returns(&[&ENDBR64, EMPTY_FRAME, &[RET], &nops(6), next]), Some(9));
        assert_eq!(returns(&[EMPTY_FRAME, &[RET, 0xcc], &nops(9), next]), Some(5));
        assert_eq!(returns(&[&[0xcc], PADDING, next]), None, "a breakpoint");
        assert_eq!(returns(&[&[0x31, 0xc0, RET], &nops(13)]), None, "it does something");
        assert_eq!(returns(&[&[RET], next, PADDING]), None, "the next function");
        assert_eq!(returns(&[&[RET], &nops(3), next, PADDING]), None, "too few dead bytes");
        assert_eq!(returns(&[&ENDBR64, EMPTY_FRAME, &[0x90, 0x90, RET], &nops(20)]), None);
        assert_eq!(returns_at(&[&[RET], PADDING, next].concat(), 0x1008), None, "not aligned");
        assert_eq!(returns(&[&[RET], &PADDING[..3]]), None, "the end of the text");
    }

    #[test]
    fn the_loader_calls_its_function() {
        let function = link_map::rendezvous();
        let mut found = 0;
        modules::each(&mut |module| {
            for (range, _) in module.text().filter(|(range, _)| range.contains(&function)) {
                assert_eq!(place(function, &range).is_some(), cfg!(target_arch = "x86_64"));
                // SAFETY: as in `place`.
                let code = unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
                assert!(!is_called(code, range.start, function + 1));
                found += 1;
            }
            true
        });
        assert_eq!(found, 1);
    }
}
