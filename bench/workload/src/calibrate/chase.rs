//! How long a load takes: a walk along pointers.
//!
//! The lines of a block of memory are linked to one ring, in an order drawn at random. The address
//! of each load comes from the load before it, so loads cannot overlap, and no prefetcher can guess
//! it. The time for each is that of one load: from the first cache if the block fits there, from
//! memory if the block is much larger than all caches.
//!
//! The large block asks for huge pages: with pages of 4 KiB most of these loads would also walk the
//! page tables, which an access to a lock's own memory rarely does.

use super::samples::{Samples, batches, elapsed_ns, pair};
use crate::error::Error;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// The size of a line here: two lines of most CPUs, because a prefetcher may load them in pairs.
const LINE: usize = 128;
/// A block that fits into the first cache.
const SMALL: usize = 8 << 10;
/// A block that misses the caches of most machines.
const LARGE: usize = 256 << 20;
/// The block is larger than the last-level cache by this factor at least.
const OVER: usize = 8;
/// The largest block.
const LARGE_MAX: usize = 2 << 30;

#[repr(align(128))]
#[derive(Clone, Copy)]
struct Line {
    next: *const Line,
}

/// Lines that point to each other, as one ring. They are not moved after that.
struct Ring(Vec<Line>);

impl Ring {
    fn of(bytes: usize, seed: u64) -> Ring {
        let mut lines = reserve(bytes / LINE);
        let base = lines.as_ptr();
        lines.extend(next(bytes / LINE, seed).into_iter().map(|at| Line { next: base.wrapping_add(at) }));
        debug_assert!(ptr::eq(base, lines.as_ptr()), "the room was reserved");
        Ring(lines)
    }

    /// Goes on by some loads.
    fn walk(&self, mut at: *const Line, loads: u32) -> *const Line {
        for _ in 0..loads {
            // SAFETY: every pointer is to a line of this ring, which lives as long as `self`.
            at = unsafe { ptr::read_volatile(&raw const (*at).next) };
        }
        at
    }

    fn samples(&self, count: usize, loads: u32) -> Samples {
        let mut at = self.0.as_ptr();
        let samples = batches(count, 1, || at = self.walk(at, loads));
        black_box(at);
        samples.over(f64::from(loads))
    }
}

/// Room for some lines, on huge pages if the kernel has them.
fn reserve(lines: usize) -> Vec<Line> {
    const HUGE: usize = 2 << 20;
    let room: Vec<Line> = Vec::with_capacity(lines);
    let start = room.as_ptr().addr().next_multiple_of(HUGE);
    let end = room.as_ptr().addr() + lines * LINE;
    if start < end {
        let place = room.as_ptr().wrapping_byte_add(start - room.as_ptr().addr());
        // SAFETY: the range is within the room, and the advice changes no contents. A refusal
        // leaves small pages.
        unsafe { libc::madvise(place.cast_mut().cast(), end - start, libc::MADV_HUGEPAGE) };
    }
    room
}

/// For each of `count` lines the next one: one ring through all of them (Sattolo 1986).
fn next(count: usize, seed: u64) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut next: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        next.swap(at, random.usize(..at));
    }
    next
}

/// A load from the first cache.
pub fn hit() -> Samples {
    Ring::of(SMALL, 1).samples(400, 10_000)
}

/// A load from memory, where the last-level cache has `cache_bytes` bytes.
pub fn miss(cache_bytes: usize) -> Samples {
    let bytes = cache_bytes.saturating_mul(OVER).clamp(LARGE, LARGE_MAX);
    Ring::of(bytes, 2).samples(400, 400)
}

// How long a cache line takes from one CPU to another.
//
// Two threads on two CPUs play ping-pong with one word. Each changes it by a compare-and-exchange
// as soon as the other one has done so. Between two changes the line goes once from cache to
// cache, so a round trip is two ways, and half of it is one way with one change in it. A thread
// that waits repeats its exchange without a pause: it sees the change as early as it can.
//
// That is also how the simulator reads the figure: it subtracts a change from it and has the way
// of the line alone (`lines.rs` of `platform-sim`).

/// Samples of a run.
const BATCHES: usize = 100;
/// Round trips of a sample.
const TRIPS: u32 = 500;

/// No other data is on its line, nor on the one that a prefetcher loads with it.
#[repr(align(256))]
struct Ball(AtomicU32);

impl Ball {
    /// Changes it from `from` to `to` as soon as the other thread has made it `from`.
    fn strike(&self, from: u32, to: u32) {
        // Relaxed: it is the only word.
        while self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_err() {}
    }
}

/// Half of the time of a round trip between two CPUs.
///
/// # Errors
/// If a thread may not run on one of them.
pub fn between(cpus: [usize; 2]) -> Result<Samples, Error> {
    let ball = Ball(AtomicU32::new(0));
    let batch = || {
        let began = platform::clock::ticks();
        for _ in 0..TRIPS {
            ball.strike(0, 1);
        }
        elapsed_ns(began) / f64::from(2 * TRIPS)
    };
    let returned = || (0..=BATCHES as u32 * TRIPS + TRIPS - 1).for_each(|_| ball.strike(1, 0));
    // The first batch waits for the other thread.
    let served = || Samples::of((0..=BATCHES).map(|_| batch()).skip(1));
    pair(cpus, served, returned).map(|(samples, ())| black_box(samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_goes_through_every_line_once() {
        for count in [1, 2, 3, 1000] {
            let next = next(count, 7);
            let (mut at, mut seen) = (0, vec![false; count]);
            for _ in 0..count {
                assert!(!std::mem::replace(&mut seen[at], true));
                at = next[at];
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn a_walk_comes_back_after_as_many_loads_as_there_are_lines() {
        let ring = Ring::of(3 << 20, 1);
        let first = ring.0.as_ptr();
        let lines = ring.0.len() as u32;
        assert!(ptr::eq(ring.walk(first, lines), first));
        assert!(!ptr::eq(ring.walk(first, lines / 2), first));
    }

    #[test]
    fn both_threads_play_to_the_end() {
        let cpus = crate::machine::cpus();
        if cpus.len() < 2 {
            return testing::skip("it takes two CPUs");
        }
        let samples = between([cpus[0], cpus[1]]).unwrap();
        assert_eq!(samples.summary().values["count"], BATCHES as f64);
    }
}
