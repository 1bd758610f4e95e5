//! Where a busy-wait loop may be: byte patterns that are cheap to find in text.
//!
//! | seed | bytes | where it is used |
//! | --- | --- | --- |
//! | PAUSE | `F3 90` | in nearly all programs |
//! | TPAUSE, UMWAIT | `66` or `F2`, `0F AE`, a register form with 6 in the middle | for pauses with a time limit |
//! | a row of NOPs | five times `90` and more | OpenBLAS, BLIS: a delay without a hint to the processor |
//! | RDTSC | `0F 31` | in loops that are bounded by a clock |
//! | a short loop | a jump back by at most [`SHORT_BYTES_MAX`] bytes to an instruction that reads memory, or to a counter and a jump before it | in loops with an empty body |
//! | a jump back over a call | at most [`CALLS_BYTES_MAX`] bytes, to before a call | in loops that poll by calls |
//! | a nested loop | a jump back by at most [`NESTED_BYTES_MAX`] bytes, right behind a shorter one that it encloses | in loops that check each of the other threads |
//!
//! Functions have no pattern and are found by their names: [`is_polling`](crate::is_polling).
//!
//! A pattern may be inside another instruction, and a row of NOPs is mostly padding. The
//! [`Finder`](crate::Finder) decides. This search only has to find few candidates.
//!
//! A text may be searched in parts that overlap by [`OVERLAP`] bytes. Together they find the same
//! seeds as a search of the whole text.

use alloc::vec::Vec;
use memchr::memmem;

/// The longest loop without any hint in it, in bytes.
pub const SHORT_BYTES_MAX: usize = 32;
/// The longest loop around a loop without any hint in either, in bytes.
pub const NESTED_BYTES_MAX: usize = 80;
/// The longest loop around a call, in bytes: as far as a short jump leads.
pub const CALLS_BYTES_MAX: usize = 126;
/// The number of bytes by which parts of a text overlap that are searched one by one. No seed
/// reaches further.
pub const OVERLAP: usize = CALLS_BYTES_MAX + 8;
/// How far behind the end of an inner loop the outer one ends: a comparison and a jump.
const TAIL_BYTES_MAX: usize = 16;

/// A kind of seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seed {
    /// PAUSE, or on aarch64 YIELD and ISB.
    Pause,
    /// TPAUSE or UMWAIT.
    TimedPause,
    /// The first of a row of NOPs.
    Nops,
    /// RDTSC.
    Clock,
    /// The target of a short jump back.
    Short,
    /// The target of a jump back around a short jump back.
    Nested,
    /// A short jump back over a call.
    Calls,
    /// The start of a function of [`is_polling`](crate::is_polling). No pattern finds it: the
    /// caller looks its name up.
    Poll,
}

/// The seeds in `chunk`, as offsets.
///
/// ```
/// use spinloop::{Seed, seeds};
/// // mov eax, [rdi]; test eax, eax; je back; pause
/// let found = seeds(b"\x8b\x07\x85\xc0\x74\xfa\xf3\x90");
/// assert_eq!(found, [(6, Seed::Pause), (0, Seed::Short)]);
/// ```
pub fn seeds(chunk: &[u8]) -> Vec<(usize, Seed)> {
    let mut found: Vec<(usize, Seed)> =
        memmem::find_iter(chunk, &[0xf3, 0x90]).map(|at| (at, Seed::Pause)).collect();
    nops(chunk, &mut found);
    found.extend(memmem::find_iter(chunk, &[0x0f, 0x31]).map(|at| (at, Seed::Clock)));
    for at in memmem::find_iter(chunk, &[0x0f, 0xae]) {
        let Some(&[form, ..]) = chunk.get(at + 2..) else { continue };
        let prefix = at.checked_sub(1).map(|before| chunk[before]);
        if form & 0xf8 == 0xf0 && matches!(prefix, Some(0x66 | 0xf2)) {
            found.push((at - 1, Seed::TimedPause));
        }
    }
    jumps_back(chunk, &mut found);
    found
}

fn nops(chunk: &[u8], found: &mut Vec<(usize, Seed)>) {
    let mut end = 0;
    for at in memmem::find_iter(chunk, &[0x90; 5]) {
        if at < end {
            continue;
        }
        // The second byte of PAUSE is a NOP's, and so is that of the NOP of two bytes.
        let start = at + usize::from(at > 0 && matches!(chunk[at - 1], 0xf3 | 0x66));
        end = chunk[at..].iter().position(|&byte| byte != 0x90).map_or(chunk.len(), |length| at + length);
        // Where the chunk begins, a row may have begun before.
        if end - start >= 5 && start > 0 {
            found.push((start, Seed::Nops));
        }
    }
}

/// A jump of two bytes without a condition.
const JUMP: u8 = 0xeb;

/// Where the jump of two bytes at `at` leads, if that is in the chunk.
fn target(chunk: &[u8], at: usize) -> Option<usize> {
    (at + 2).checked_add_signed(isize::from(chunk[at + 1] as i8))
}

/// Short jumps back: to where memory is read, as nearly every loop with an empty body begins, or
/// with the step of its counter; and over a call.
fn jumps_back(chunk: &[u8], found: &mut Vec<(usize, Seed)>) {
    /// Bytes compared at once: the compiler makes vector instructions of it.
    const STRIDE: usize = 32;
    // A jump of two bytes that leads back far enough, and not too far.
    let is_back = |code: u8, distance: u8| {
        ((code.wrapping_sub(0x70) < 16) | (code == JUMP))
            & (distance.wrapping_sub(0u8.wrapping_sub(CALLS_BYTES_MAX as u8)) <= CALLS_BYTES_MAX as u8 - 4)
    };
    // From the one for "below" on, if it is conditional.
    let ends_short = |code: u8| (code.wrapping_sub(0x72) < 14) | (code == JUMP);
    let mut calls = calls_in(chunk).peekable();
    let mut call = None;
    let mut look = |at: usize| {
        let Some(head) = target(chunk, at) else { return };
        let code = &chunk[head..at];
        while let Some(next) = calls.next_if(|next| next + CALL_BYTES <= at) {
            call = Some(next);
        }
        if call.is_some_and(|call| call >= head) {
            found.push((at, Seed::Calls));
        }
        if !ends_short(chunk[at]) || at - head > SHORT_BYTES_MAX - 2 {
            return;
        }
        if chunk[at] != JUMP && reads_memory(code) || behind_counter(code).is_some_and(reads_memory) {
            found.push((head, Seed::Short));
        }
        let outer = |at: usize| {
            let outer = target(chunk, at).filter(|&outer| outer <= head && at - outer <= NESTED_BYTES_MAX);
            outer.filter(|_| ends_short(chunk[at]))
        };
        let tail = at + 2..(at + 2 + TAIL_BYTES_MAX).min(chunk.len().saturating_sub(1));
        found.extend(tail.filter_map(outer).map(|outer| (outer, Seed::Nested)));
    };
    let last = chunk.len().saturating_sub(1);
    let mut from = 0;
    while from < last {
        let end = (from + STRIDE).min(last);
        let (codes, distances) = (&chunk[from..end], &chunk[from + 1..end + 1]);
        let any =
            codes.iter().zip(distances).fold(false, |any, (&code, &distance)| any | is_back(code, distance));
        if any {
            (from..end).filter(|&at| is_back(chunk[at], chunk[at + 1])).for_each(&mut look);
        }
        from = end;
    }
}

/// The length of a `call rel32`.
const CALL_BYTES: usize = 5;

/// Where a call of a function near by may stand.
fn calls_in(chunk: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let near = |&call: &usize| chunk.get(call + 4).is_some_and(|&byte| byte.wrapping_add(4) < 8);
    memchr::memchr_iter(0xe8, chunk).filter(near)
}

/// What stands behind the step of a counter in a register, its comparison with a bound, and a jump
/// out of the loop, if a loop begins with some of these, and with the jump in any case.
fn behind_counter(code: &[u8]) -> Option<&[u8]> {
    let (mut rest, mut jumps) = (code, false);
    for _ in 0..4 {
        let plain = match rest {
            [0x40..=0x4f, plain @ ..] => plain,
            _ => rest,
        };
        (rest, jumps) = match plain {
            // ADD, SUB and CMP with a small constant, INC and DEC; a comparison with a register; a
            // jump forward.
            [0x83, 0xc0..=0xc7 | 0xe8..=0xef | 0xf8..=0xff, _, rest @ ..] => (rest, jumps),
            [0xff, 0xc0..=0xcf, rest @ ..] | [0x39 | 0x3b, 0xc0..=0xff, rest @ ..] => (rest, jumps),
            [0x72..=0x7f, 0..=0x7f, rest @ ..] => (rest, true),
            _ => break,
        };
    }
    jumps.then_some(rest)
}

/// Whether the first instruction, if there is one, reads memory and does nothing else that lasts: a
/// move to a register, a comparison or a test.
fn reads_memory(code: &[u8]) -> bool {
    let mut code = code;
    // NOP: unoptimised code has one in an empty body.
    if let [0x90, rest @ ..] = code {
        code = rest;
    }
    while let [0x66 | 0x40..=0x4f, rest @ ..] = code {
        code = rest;
    }
    match code {
        [0x0f, 0xb6 | 0xb7 | 0xbe | 0xbf, form, ..] => *form < 0xc0,
        [0x8a | 0x8b | 0x38..=0x3b | 0x84 | 0x85, form, ..] => *form < 0xc0,
        [0x80 | 0x81 | 0x83, form, ..] => {
            *form & 0xf8 == 0x38 || *form & 0xf8 == 0x78 || *form & 0xf8 == 0xb8
        }
        [0xf6 | 0xf7, form, ..] => *form < 0xc0 && *form & 0x38 == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    /// Bytes that make up seeds, or nearly.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            3 => Just(vec![0xf3, 0x90]),
            3 => (1usize..90).prop_map(|n| vec![0x90; n]),
            1 => Just(vec![0x66, 0x90]),
            1 => Just(vec![0x0f, 0x31]),
            2 => (any::<u8>(), any::<u8>()).prop_map(|(prefix, form)| vec![prefix, 0x0f, 0xae, form]),
            1 => Just(vec![0x66, 0x0f, 0xae, 0xf1]),
            3 => any::<i8>().prop_map(|back| vec![0x83, 0x3d, 8, 0, 0, 0, 0, 0x74, back as u8]),
            3 => (-40i8..0).prop_map(|back| vec![0x8b, 0x07, 0x85, 0xc0, 0x75, back as u8]),
            3 => (-40i8..0, -90i8..0)
                .prop_map(|(back, outer)| vec![0x8b, 0x07, 0x75, back as u8, 0x85, 0xc0, 0x75, outer as u8]),
            3 => proptest::collection::vec(any::<u8>(), 0..40),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn parts_that_overlap_find_what_the_whole_does(text in text(), mut cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5)) {
            let whole: BTreeSet<(usize, Seed)> = seeds(&text).into_iter().collect();
            cuts.sort_unstable_by_key(|cut| cut.index(text.len() + 1));
            let mut found = BTreeSet::new();
            let mut from = 0;
            for end in cuts.iter().map(|cut| cut.index(text.len() + 1)).chain([text.len()]) {
                if end > from + OVERLAP || end == text.len() {
                    found.extend(seeds(&text[from..end]).into_iter().map(|(at, seed)| (from + at, seed)));
                    from = end.saturating_sub(OVERLAP);
                }
            }
            prop_assert_eq!(whole, found);
        }
    }

    #[test]
    fn each_kind_is_found_where_it_stands() {
        assert_eq!(seeds(b"\x90\xf3\x90\xf3\x90"), [(1, Seed::Pause), (3, Seed::Pause)]);
        assert_eq!(seeds(b"\xc3\x90\x90\x90\x90\x90\x90\x0f\x31"), [(1, Seed::Nops), (7, Seed::Clock)]);
        assert_eq!(seeds(b"\xf3\x90\x90\x90\x90\x90\x90"), [(0, Seed::Pause), (2, Seed::Nops)]);
        assert_eq!(seeds(b"\x66\x90\x90\x90\x90\x90\x90"), [(2, Seed::Nops)]);
        assert_eq!(seeds(b"\x90\x90\x90\x90"), []);
        assert_eq!(seeds(b"\x66\x0f\xae\xf1"), [(0, Seed::TimedPause)]);
        assert_eq!(seeds(b"\xf2\x0f\xae\xf1"), [(0, Seed::TimedPause)]);
        assert_eq!(seeds(b"\xf3\x0f\xae\xf1"), [], "UMONITOR waits for nothing");
        // cmp dword [rip + 8], 0; je back
        assert_eq!(seeds(b"\x83\x3d\x08\0\0\0\0\x74\xf7"), [(0, Seed::Short)]);
        // inc rdi; cmp byte [rdi], 0; jne back
        assert_eq!(seeds(b"\x48\xff\xc7\x80\x3f\x00\x75\xf8"), []);
        // sub eax, 1; je out; mov rdx, [rbp]; test rdx, rdx; je back
        let counted = b"\x83\xe8\x01\x74\x09\x48\x8b\x55\x00\x48\x85\xd2\x74\xf2";
        assert_eq!(seeds(counted), [(0, Seed::Short)]);
        // xor ecx, ecx; add eax, 1; add rcx, [rdx]; cmp esi, eax; jg back; test rcx, rcx; jne back
        let sum = b"\x31\xc9\x83\xc0\x01\x48\x03\x0a\x39\xc6\x7f\xf6\x48\x85\xc9\x75\xef";
        assert_eq!(seeds(sum), [(0, Seed::Nested)]);
        assert_eq!(seeds(b"\x74"), []);
        assert_eq!(seeds(b"\x74\xf0"), [], "it would begin before the chunk");
    }
}
