//! The range lock of strings under randomized schedules: holders are alone with their keys while
//! the scale of the lock changes.
//!
//! A scale is learnt from two ranges there (`learn.rs`), and keys come from three tables in turn,
//! so that it changes in the midst of a run: between a taker's look at the scale and its look under
//! the word. Each key has a cell that reports two that use it at once.

mod common;

use common::together;
use manx_shuttle::range::{Access, Options, RangeLock, Span, SpanSet};
use platform::cell::UnsafeCell;
use platform::clock;
use platform::explore::check;
use platform::futex::{Clock, Deadline};
use platform::site;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const THREADS: u32 = 3;
const ROUNDS: usize = 6;
const ROWS: usize = 4;
const TABLES: [&str; 3] = ["d-common-prefix/one/", "d-common-prefix/two/", "e"];

struct Guarded<const SHARDS: usize, const SLOTS: usize> {
    lock: RangeLock<Vec<u8>, SHARDS, SLOTS>,
    cells: [UnsafeCell<u32>; ROWS * TABLES.len()],
}

// SAFETY: cells are used by the holders of their keys; a cell reports it if that is not enough.
unsafe impl<const SHARDS: usize, const SLOTS: usize> Sync for Guarded<SHARDS, SLOTS> {}
// SAFETY: as above.
unsafe impl<const SHARDS: usize, const SLOTS: usize> Send for Guarded<SHARDS, SLOTS> {}

fn draw(below: usize) -> usize {
    thread_rng().gen_range(0..below)
}

/// The row's key; one behind the last row is behind all.
fn key(row: usize) -> Vec<u8> {
    match TABLES.get(row / ROWS) {
        Some(table) => format!("{table}{:02}", row % ROWS * 7).into_bytes(),
        None => b"f".to_vec(),
    }
}

impl<const SHARDS: usize, const SLOTS: usize> Guarded<SHARDS, SLOTS> {
    fn new() -> Arc<Self> {
        let window_ns = [0, 20_000, u64::MAX][draw(3)];
        let cells = std::array::from_fn(|_| UnsafeCell::new(0));
        let lock = RangeLock::with(Options::new().window(Duration::from_nanos(window_ns)));
        Arc::new(Guarded { lock, cells })
    }

    fn work(&self, rows: std::ops::Range<usize>) {
        for cell in &self.cells[rows] {
            // SAFETY: held alone.
            cell.with_mut(|number| unsafe { *number += 1 });
        }
    }

    /// A few rows, or all.
    fn span(first: usize) -> (Span<Vec<u8>>, std::ops::Range<usize>) {
        let all = ROWS * TABLES.len();
        if draw(12) == 0 {
            return (Span::all(), 0..all);
        }
        let end = (first + 1 + draw(3)).min(all);
        (Span::new(key(first), key(end)).expect("a row is in it"), first..end)
    }

    fn turn(&self, turn: usize) {
        // Of one table in this turn, and of another in the next.
        let (span, rows) = Self::span(turn % TABLES.len() * ROWS + draw(ROWS));
        match draw(5) {
            0 => {
                if let Ok(held) = self.lock.try_lock_as(span, Access::Exclusive) {
                    self.work(rows);
                    drop(held);
                }
            }
            1 => {
                let soon = Deadline { clock: Clock::Monotonic, ns: clock::now_ns() + draw(100_000) as u64 };
                if let Ok(held) = self.lock.lock_by_deadline(span, Access::Exclusive, Some(soon)) {
                    self.work(rows);
                    drop(held);
                }
            }
            2 => {
                let (other, more) = Self::span(draw(ROWS * TABLES.len()));
                if let Ok(set) = SpanSet::disjoint([span, other]) {
                    let held = self.lock.lock_many(set).expect("all of them, in the end");
                    self.work(rows);
                    self.work(more);
                    drop(held);
                }
            }
            _ => {
                let held =
                    self.lock.lock_as(span, Access::Exclusive).expect("nothing is in the way for ever");
                self.work(rows);
                drop(held);
            }
        }
    }
}

/// Returns how many times the scale was replaced.
fn holders_are_alone<const SHARDS: usize, const SLOTS: usize>() -> u64 {
    let guarded = Guarded::<SHARDS, SLOTS>::new();
    together(THREADS, &guarded, |guarded, _| (0..ROUNDS).for_each(|turn| guarded.turn(turn)));
    let dump = guarded.lock.dump();
    assert!(dump.held.is_empty() && dump.waiting.is_empty(), "{dump}");
    assert!(guarded.lock.try_lock_as(Span::all(), Access::Exclusive).is_ok(), "nothing is closed");
    guarded.lock.statistics().rescaled
}

#[test]
fn holders_are_alone_while_scales_change() {
    static RESCALED: AtomicU64 = AtomicU64::new(0);
    check(site!(), || {
        RESCALED.fetch_add(holders_are_alone::<4, 1>(), Ordering::Relaxed);
    });
    assert!(RESCALED.load(Ordering::Relaxed) > 0, "no scale was replaced, so that nothing was shown");
}

#[test]
fn holders_in_many_shards_are_alone_while_scales_change() {
    check(site!(), || {
        holders_are_alone::<8, 2>();
    });
}
