//! Where the long jumps of a module lead, all of them.
//!
//! A cold part of a function may be reached by an exception, by a table, or through another part,
//! and come back into the middle of the function. Nothing else says that the two belong together.
//! So this file asks the bytes: a jump of five or six bytes, or a call, ends in the distance to its
//! target, whatever surrounds it. Each byte of the text is taken for the beginning of one. Too many
//! targets are found then, never too few: a target too many costs one place for a jump.
//!
//! Jumps of two bytes reach 128 bytes, and are looked for in the parts around
//! ([`Dead`](crate::dead::Dead)).

use crate::source::Source;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use memchr::{memchr_iter, memchr2_iter};

/// The bytes of a distance.
const DISTANCE: usize = 4;

/// The targets, one bit for each byte of the text.
pub(crate) struct FarJumps(Vec<(Range<u64>, Vec<u64>)>);

impl FarJumps {
    pub(crate) fn new(source: &Source<'_>) -> FarJumps {
        let bits = |text: &Range<u64>| {
            let words = (text.end.saturating_sub(text.start) / 64) as usize + 1;
            (text.clone(), vec![0; words])
        };
        let mut found = FarJumps(source.text.0.iter().map(bits).collect());
        for text in source.text.0 {
            let bytes = source.bytes(text).unwrap_or_else(|| source.image.at(text.start));
            let mut take = |at: usize| {
                let Some(distance) = bytes.get(at..).and_then(|rest| rest.first_chunk::<DISTANCE>()) else {
                    return;
                };
                let end = text.start + (at + DISTANCE) as u64;
                found.note(end.wrapping_add_signed(i64::from(i32::from_le_bytes(*distance))));
            };
            // CALL and JMP.
            memchr2_iter(0xe8, 0xe9, bytes).for_each(|at| take(at + 1));
            // Jcc.
            let conditional = |&at: &usize| bytes.get(at + 1).is_some_and(|code| code & 0xf0 == 0x80);
            memchr_iter(0x0f, bytes).filter(conditional).for_each(|at| take(at + 2));
        }
        found
    }

    fn note(&mut self, target: u64) {
        if let Some((text, bits)) = self.0.iter_mut().find(|(text, _)| text.contains(&target)) {
            let at = target - text.start;
            bits[(at / 64) as usize] |= 1 << (at % 64);
        }
    }

    /// Whether one of them leads to an address in `range`.
    pub(crate) fn lead_to(&self, range: &Range<u64>) -> bool {
        range.clone().any(|address| {
            let known = self.0.iter().find(|(text, _)| text.contains(&address));
            known.is_some_and(|(text, bits)| {
                let at = address - text.start;
                bits[(at / 64) as usize] >> (at % 64) & 1 != 0
            })
        })
    }
}
