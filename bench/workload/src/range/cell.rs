//! The cells of the grid: threads, holds, overlap and access, and their names.

use super::interfaces::{Owners, Tasks};
use super::request::{Pattern, SPACE, THREADS_MAX};
use super::variant::{Form, Variant};
use manx::range::RawRangeLock;
use std::fmt;

/// The prefix of the names of its cases.
pub(super) const GRID: &str = "grid";
pub(super) const THREADS: [usize; 5] = [2, 4, 8, 16, 32];
pub(super) const HOLDS_NS: [u64; 4] = [0, 500, 5_000, 50_000];
/// How many of a hundred pairs of requests overlap; `None`: they meet at edges.
pub(super) const OVERLAPS: [Option<u32>; 5] = [None, Some(1), Some(10), Some(31), Some(100)];
/// The percentages of requests that read.
pub(super) const READERS: [u32; 2] = [0, 90];
/// The threads of a smoke check.
const THREADS_QUICK: usize = 8;
const HOLD_QUICK_NS: u64 = 500;
/// The cell in which owners and tasks take part: that of `contended`.
const CONTENDED: (usize, u64, Option<u32>) = (8, 500, Some(31));

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) threads: usize,
    pub(super) hold_ns: u64,
    pub(super) overlap: Option<u32>,
    pub(super) readers_percent: u32,
}

impl Cell {
    /// All of them; ranges that meet at edges only are exclusive.
    pub(super) fn all() -> impl Iterator<Item = Cell> {
        READERS.into_iter().flat_map(|readers_percent| {
            let overlaps =
                OVERLAPS.into_iter().filter(move |overlap| overlap.is_some() || readers_percent == 0);
            overlaps.flat_map(move |overlap| {
                HOLDS_NS.into_iter().flat_map(move |hold_ns| {
                    THREADS.into_iter().map(move |threads| Cell {
                        threads,
                        hold_ns,
                        overlap,
                        readers_percent,
                    })
                })
            })
        })
    }

    /// Whether a smoke check has it.
    pub(super) fn is_quick(&self) -> bool {
        let overlaps = self.overlap.is_none_or(|percent| percent == 31);
        self.threads == THREADS_QUICK && self.hold_ns == HOLD_QUICK_NS && overlaps
    }

    /// The name of its case.
    pub(super) fn case(&self) -> String {
        format!("{GRID}, {} threads, {}, {self}", self.threads, hold(self.hold_ns))
    }

    pub(super) fn pattern(&self) -> Pattern {
        let Some(percent) = self.overlap else { return Pattern::Edges { space: THREADS_MAX * 1024 } };
        match Pattern::overlapping(percent, SPACE) {
            Pattern::Window { window, .. } => {
                Pattern::Window { window, readers_percent: self.readers_percent }
            }
            other => other,
        }
    }

    pub(super) fn variants(&self) -> Vec<Variant> {
        let mut variants = Variant::locks();
        if (self.threads, self.hold_ns, self.overlap) == CONTENDED {
            variants
                .extend([Variant::manx(Owners::NAME, Form::Owners), Variant::manx(Tasks::NAME, Form::Tasks)]);
        }
        variants.retain(|variant| self.readers_percent == 0 || variant.competitor.shares());
        variants
    }
}

/// Whether a case is a cell of the grid.
pub(super) fn is_cell(case: &str) -> bool {
    case.split(',').next() == Some(GRID)
}

/// A hold in words.
pub(super) fn hold(ns: u64) -> String {
    match ns {
        0 => "no hold".into(),
        1..1_000 => format!("{ns} ns"),
        _ => format!("{} µs", ns / 1_000),
    }
}

/// An overlap in words.
pub(super) fn overlap(percent: Option<u32>) -> String {
    percent.map_or("edges".into(), |percent| format!("{percent} %"))
}

/// A share of readers in words.
pub(super) fn access(readers_percent: u32) -> String {
    if readers_percent == 0 { "exclusive".into() } else { format!("{readers_percent} % shared") }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", overlap(self.overlap), access(self.readers_percent))
    }
}
