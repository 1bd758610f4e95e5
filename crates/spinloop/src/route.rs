//! The path from a pivot to room for a `jmp rel32`.
//!
//! Every pivot has room for a `jmp rel8`, two bytes, which reaches 128 bytes to either side. If
//! five dead bytes are in reach, that is the route. Otherwise two dead bytes are room for another
//! short jump, which reaches further: a breadth-first search over the dead runs finds the path with
//! the fewest such hops. In each run only two places matter for a hop, the lowest and the highest
//! that the jump before it reaches.
//!
//! 1. Reserved bytes are dead ([`crate::dead`]) and belong to one route only: neither routes nor
//!    the pieces of one overlap.

use crate::dead::Dead;
use crate::function::overlap;
use crate::jump::{MAX_HOPS, Route};
use alloc::vec::Vec;
use core::ops::Range;

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
