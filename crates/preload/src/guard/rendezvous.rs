//! The place in the loader at which it calls us: when libraries have come, before any of their code
//! runs, and when they have gone.
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
//! So, when the guard wakes, a jump to a function of ours takes the place of that function's `ret`
//! and of four dead bytes behind it (`wake.rs`). The jump is the only change that Manx makes
//! to the loader. Nothing else has to be known of `dlopen`, of its callers, and of its names.
//!
//! There is no such place if the function is not empty, or has no dead bytes behind it; if a
//! debugger's breakpoint stands there; or if no call of it is found (it was inlined).
//!
//! The loader calls the function as C calls functions, from another file of its source, so
//! registers are kept as that convention asks.
//!
//! Modules of other namespaces (`dlmopen`) are not seen: the loader shows us those of our own.
//!
//! Invariants:
//! 1. The loader holds its lock (`dl_load_lock`) from before it adds a module until the module's
//!    constructors have run, and calls us in between. So a module that is new at a rendezvous has
//!    never run, but for resolvers of indirect functions, which have returned; unless an earlier
//!    rendezvous was missed.
//! 2. If a tracer restores the first of the five bytes, the function is what it was: the others
//!    stand behind its `ret`.

use crate::elf::{link_map, modules};
use core::ops::Range;
use spinloop::ENDBR64;

/// `push rbp; mov rbp, rsp; pop rbp`
const EMPTY_FRAME: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x5d];
/// `ret`
const RET: u8 = 0xc3;
/// Of a `jmp rel32`.
pub const JUMP_BYTES: usize = 5;
/// Functions of the C library begin at multiples of this, at least.
const ALIGN: usize = 16;

/// Where in the loader's function a jump may take the place of the `ret`, if it may. A jump to a
/// function that returns means what the `ret` meant, as far as the loader sees.
pub fn place() -> Option<usize> {
    let function = link_map::rendezvous();
    let mut found = None;
    modules::each(&mut |module| {
        let part = module.text().map(|(range, _)| range).find(|range| range.contains(&function));
        if let Some(part) = &part {
            found = place_in(function, part);
        }
        part.is_none()
    });
    found
}

/// Where in the empty `function` a jump may stand; `text` is the segment that holds it.
fn place_in(function: usize, text: &Range<usize>) -> Option<usize> {
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
    let fits = code[at] == RET && address.is_multiple_of(ALIGN) && padding(behind) + 1 >= JUMP_BYTES;
    fits.then_some(at)
}

/// As [`spinloop::padding`], which needs the decoder of all instructions. That one unpacks its
/// tables when it is first used, and most programs that start from the cache do not use it.
fn padding(code: &[u8]) -> usize {
    let mut at = 0;
    while let Some(bytes) = code.get(at..).and_then(nop) {
        at += bytes;
    }
    at
}

/// The size of the NOP, or the INT3, that `code` begins with.
fn nop(code: &[u8]) -> Option<usize> {
    let prefixes = code.iter().take_while(|byte| matches!(byte, 0x66 | 0x2e)).count();
    let bytes = match code.get(prefixes..)? {
        [0xcc | 0x90, ..] => 1,
        // The operand of a long NOP: a register, or an address with its index and its distance.
        [0x0f, 0x1f, operand, rest @ ..] if operand & 0x38 == 0 => {
            let (kind, base) = (operand >> 6, operand & 7);
            let index = rest.first().copied().filter(|_| kind != 3 && base == 4);
            let distance = match kind {
                0 if base == 5 || index.is_some_and(|index| index & 7 == 5) => 4,
                1 => 1,
                2 => 4,
                _ => 0,
            };
            3 + usize::from(kind != 3 && base == 4) + distance
        }
        _ => return None,
    };
    Some(prefixes + bytes).filter(|bytes| *bytes <= code.len())
}

/// Whether a call, or a jump, in `code` leads to `function`.
fn is_called(code: &[u8], start: usize, function: usize) -> bool {
    code.windows(JUMP_BYTES).enumerate().any(|(at, bytes)| {
        let [0xe8 | 0xe9, distance @ ..] = bytes else { return false };
        let distance = <[u8; 4]>::try_from(distance).map_or(0, i32::from_le_bytes);
        (start + at + JUMP_BYTES).wrapping_add_signed(distance as isize) == function
    })
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
    fn padding_is_what_the_decoder_says() {
        let mut codes: Vec<Vec<u8>> =
            (0..=u8::MAX).map(|byte| vec![0x0f, 0x1f, byte, 5, 0, 0, 0, 0, 0x31]).collect();
        codes.extend([PADDING.to_vec(), vec![0xcc; 3], vec![0x66, 0xcc], vec![0xf3, 0x90], vec![0x66, 0x90]]);
        codes.extend((1..9).map(|bytes| PADDING[..bytes].to_vec()));
        codes.extend([vec![0x0f, 0x1f, 4, 0, 0x90], vec![0x2e, 0x66, 0x90, 0x90], vec![0xc3], vec![]]);
        for code in codes {
            assert_eq!(padding(&code), spinloop::padding(&code), "{code:02x?}");
        }
    }

    #[test]
    fn the_loader_calls_its_function() {
        let function = link_map::rendezvous();
        let mut found = 0;
        modules::each(&mut |module| {
            for (range, _) in module.text().filter(|(range, _)| range.contains(&function)) {
                assert_eq!(place_in(function, &range).is_some(), cfg!(target_arch = "x86_64"));
                // SAFETY: as in `place_in`.
                let code = unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
                assert!(!is_called(code, range.start, function + 1));
                found += 1;
            }
            true
        });
        assert_eq!(found, 1);
    }
}
