//! The path from a pivot to room for a `jmp rel32`.
//!
//! Every pivot has room for a `jmp rel8`, two bytes, which reaches 128 bytes to either side. If
//! five dead bytes are in reach, that is the route. Otherwise two dead bytes are room for another
//! short jump, which reaches further: a breadth-first search over the dead runs finds the path with
//! the fewest such hops. In each run only two places matter for a hop, the lowest and the highest
//! that the jump before it reaches.
//!
//! 1. Reserved bytes are dead (`dead.rs`) and belong to one route only: neither routes nor
//!    the pieces of one overlap.

use crate::dead::Dead;
use crate::function::overlap;
use crate::x86::decoder;
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::{Instruction, Mnemonic};

const SHORT_BYTES: u64 = 2;
const NEAR_BYTES: u64 = 5;

/// How far from a pivot a route can lead: all jumps at their longest, and the landing.
const REACH: u64 = (MAX_HOPS as u64 + 1) * (127 + SHORT_BYTES) + NEAR_BYTES;

/// Where the short jump at `from` can lead.
fn reach(from: u64) -> Range<u64> {
    let behind = from.saturating_add(SHORT_BYTES);
    behind.saturating_sub(128)..behind.saturating_add(128)
}

/// A route for a jump in the place of the instruction at `pivot`. Avoids the ranges of `taken`, and
/// adds its own.
pub(crate) fn through(dead: &mut Dead<'_>, pivot: u64, taken: &mut Vec<Range<u64>>) -> Option<Route> {
    let window = pivot.saturating_sub(REACH)..pivot.saturating_add(REACH);
    let near = taken.iter().filter(|taken| overlap(taken, &window));
    let free = subtract(dead.runs(pivot, &window), near);
    let mut open = Vec::from([Route { hops: [0; MAX_HOPS], hop_count: 0, landing: pivot }]);
    let mut next = Vec::new();
    for _ in 0..=MAX_HOPS {
        // `landing` is where each unfinished route has got to.
        for route in &open {
            if let Some(landing) =
                places(&free, route.landing, NEAR_BYTES).find(|&at| clear(route, pivot, at, NEAR_BYTES))
            {
                let found = Route { landing, ..step(route, pivot) };
                taken.extend(found.hops().iter().map(|&hop| hop..hop + SHORT_BYTES));
                taken.push(landing..landing + NEAR_BYTES);
                return Some(found);
            }
        }
        for route in &open {
            for at in places(&free, route.landing, SHORT_BYTES) {
                let met = next.iter().chain(&open).any(|other: &Route| other.landing == at);
                if !met && clear(route, pivot, at, SHORT_BYTES) {
                    next.push(Route { landing: at, ..step(route, pivot) });
                }
            }
        }
        core::mem::swap(&mut open, &mut next);
        next.clear();
        open.retain(|route| route.hop_count < MAX_HOPS);
    }
    None
}

/// The route with the place that it has got to as one more hop, unless that is the pivot.
fn step(route: &Route, pivot: u64) -> Route {
    let mut next = *route;
    if route.landing != pivot && next.hop_count < MAX_HOPS {
        next.hops[next.hop_count] = route.landing;
        next.hop_count += 1;
    }
    next
}

/// Whether `bytes` bytes at `at` are apart from what the route takes already.
fn clear(route: &Route, pivot: u64, at: u64, bytes: u64) -> bool {
    let pieces = route.hops().iter().chain([&route.landing, &pivot]);
    pieces.into_iter().all(|&piece| at + bytes <= piece || piece + SHORT_BYTES <= at)
}

/// Where `bytes` free bytes can be jumped to from `from`: the nearest and the farthest place in
/// each run.
fn places(free: &[Range<u64>], from: u64, bytes: u64) -> impl Iterator<Item = u64> + '_ {
    let reach = reach(from);
    free.iter().flat_map(move |run| {
        let low = run.start.max(reach.start);
        let high = run.end.saturating_sub(bytes).min(reach.end - 1);
        let first = (low <= high).then_some(low);
        first.into_iter().chain((low < high).then_some(high))
    })
}

/// The parts of `runs` that are not `taken`.
fn subtract<'a>(mut runs: Vec<Range<u64>>, taken: impl Iterator<Item = &'a Range<u64>>) -> Vec<Range<u64>> {
    for taken in taken {
        runs = runs
            .into_iter()
            .flat_map(|run| [run.start..run.end.min(taken.start), run.start.max(taken.end)..run.end])
            .filter(|run| run.start < run.end)
            .collect();
    }
    runs
}

// Encodings of jumps, and the route from a short jump to a landing.
//
// A `jmp rel8` (`EB`) is two bytes and reaches 128 bytes to either side. A landing is the five
// bytes of a `jmp rel32` (`E9`), which reaches anything within 2 GiB.

/// `endbr64`, at which indirect calls and jumps have to arrive where the CPU checks that.
pub const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The most short jumps between the one at the pivot and the landing.
pub const MAX_HOPS: usize = 4;

/// The bytes of a `jmp rel8` at `from` to `to`, if it reaches.
///
/// ```
/// assert_eq!(spinloop::short_jump(0x1000, 0x1000), Some([0xeb, 0xfe]));
/// assert_eq!(spinloop::short_jump(0x1000, 0x1082), None);
/// ```
pub fn short_jump(from: u64, to: u64) -> Option<[u8; 2]> {
    let relative = to.wrapping_sub(from.wrapping_add(2)) as i64;
    Some([0xeb, i8::try_from(relative).ok()? as u8])
}

/// The bytes of a `jmp rel32` at `from` to `to`, if it reaches.
///
/// ```
/// assert_eq!(spinloop::near_jump(0x1000, 0x1005), Some([0xe9, 0, 0, 0, 0]));
/// assert_eq!(spinloop::near_jump(0x1000, 0x1_0000_0000), None);
/// ```
pub fn near_jump(from: u64, to: u64) -> Option<[u8; 5]> {
    let relative = to.wrapping_sub(from.wrapping_add(5)) as i64;
    let [a, b, c, d] = i32::try_from(relative).ok()?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

/// How many bytes of `code`, from its start, are whole NOPs and INT3, as assemblers fill what never
/// runs.
///
/// ```
/// // ret; nopw cs:0(rax, rax); mov eax, 1
/// let code = b"\xc3\x66\x2e\x0f\x1f\x84\0\0\0\0\0\xb8\x01\0\0\0";
/// assert_eq!(spinloop::padding(&code[1..]), 10);
/// assert_eq!(spinloop::padding(&code[1..6]), 0);
/// assert_eq!(spinloop::padding(&code[11..]), 0);
/// ```
pub fn padding(code: &[u8]) -> usize {
    let fills = |one: &Instruction| matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
    decoder(code, 0).into_iter().take_while(fills).map(|one| one.len()).sum()
}

/// A chain of short jumps from the pivot to room for a `jmp rel32`.
///
/// Write all of it before the short jump at the pivot, which leads into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub(crate) hops: [u64; MAX_HOPS],
    pub(crate) hop_count: usize,
    /// The address of the five bytes.
    pub landing: u64,
}

impl Route {
    /// The addresses of the short jumps between the pivot and the landing, in the order of
    /// execution; each has two bytes.
    pub fn hops(&self) -> &[u64] {
        self.hops.get(..self.hop_count).unwrap_or(&[])
    }

    /// Every short jump as `(from, to)`, in the order of execution: from `pivot` over the hops to
    /// the landing.
    pub fn short_jumps(
        &self,
        pivot: u64,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator + '_ {
        (0..self.hop_count + 1).map(move |n| {
            let from = if n == 0 { pivot } else { self.hops[n - 1] };
            let to = self.hops().get(n).copied().unwrap_or(self.landing);
            (from, to)
        })
    }
}
