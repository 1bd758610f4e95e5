//! Throughput of the default lock and of all peers under contention, over a grid: threads, holds,
//! overlap, and access.
//!
//! A cell is one combination. Its runs are short, and interleaved as those of every case. There are
//! many cells, and in most of them most peers are far behind, so not every peer runs in every
//! round:
//!
//! Invariants:
//! 1. In the first round of a cell every peer runs.
//! 2. After that the default lock, the best fair peer so far, and the few fastest peers that may
//!    turn out to be fair go on ([`standing`]). A peer that turns out not to be fair makes room for
//!    the next one.
//! 3. A cell goes on until its ratio to the best fair peer so far is known, as other cases do; the
//!    time that the user allows for a case is for the whole grid here.
//!
//! A holder writes, or reads, its range until the hold's time would be over on one thread that has
//! the range in its cache. The real hold is longer, because the range may come from another CPU,
//! and because the holder may be preempted.
//!
//! In the cells *edges* each thread has one range, which begins where its neighbour's range ends,
//! at no power of two. These ranges exclude no other thread.

mod show;

pub use show::heat;
pub(super) use show::tables;

use super::cell::{Cell, GRID};
use super::competitor::Competitor;
use super::plan::{Plan, Timing, expected, names};
use super::request::{Pattern, WIDTH};
use super::run::{Mode, Run};
use super::standing::{self, Field};
use super::variant::{self, Variant};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use report::figure::{duration, three_digits};
use report::{Compared, Report};
use std::time::Duration;

/// Runs of other parts are this many times as long.
const PART: u32 = 5;
/// The number of writes by which the time of one write is found, and the number of tries.
const TOUCHES: u32 = 1000;
const TRIES: usize = 5;

impl Plan {
    /// All cells, or a few.
    pub(super) fn grid(&self, bench: &mut Bench) -> Result<(), Error> {
        let cells: Vec<Cell> = Cell::all().filter(|cell| !self.setup.quick || cell.is_quick()).collect();
        let touch_ns = if self.setup.check { 1.0 } else { self.touch_ns()? };
        let time = self.setup.time / PART;
        bench.note(format!(
            "{GRID}: runs of {}; during a hold the thread writes its range, as often as fills the hold's time when the range is in the \
             cache ({} ns a write); a peer is fair if its slowest thread's share of the mean is {} of what manx's is; at edges every peer is",
            duration(time.as_nanos() as u64),
            three_digits(touch_ns),
            standing::FAIR
        ));
        bench.note(format!(
            "{GRID}: all run in the first round of a cell; then only the fastest peers do that may turn out to be fair"
        ));
        for mark in show::MARKS {
            bench.note(format!("{GRID}: {mark}"));
        }
        let whole = bench.resolution;
        // Invariant 3
        bench.resolution.limit = whole.limit / cells.len() as u32;
        let result = cells.iter().try_for_each(|cell| self.cell(bench, cell, touch_ns, time));
        bench.resolution = whole;
        result
    }

    fn cell(&self, bench: &mut Bench, cell: &Cell, touch_ns: f64, time: Duration) -> Result<(), Error> {
        let (name, variants) = (cell.case(), cell.variants());
        let touches = (cell.hold_ns as f64 / touch_ns).round() as u32;
        let run =
            Run { threads: cell.threads, pattern: cell.pattern(), batch: 1, touches, whole: None, time };
        if self.setup.check {
            return self.compare(bench, &name, &run, Timing::None, &variants);
        }
        let case = Case { name: &name, variants: &names(&variants), expected: expected(time) };
        let mut field = Field::of(cell, bench.report.machine.cpus);
        let watch =
            |report: &Report| -> Vec<Compared> { standing::of_cell(report, cell).into_iter().collect() };
        bench.compare(case, watch, |at, round| {
            let variant = &variants[at];
            if !field.goes_on(&variant.name) {
                return Ok(Sample::default());
            }
            let found = variant
                .once(&run, Mode::Count)
                .map_err(|what| Error::failed(format!("{}: {what}", variant.name)))?;
            field.add(&variant.name, round, found.pairs_per_s, found.slowest_share, &found.thread_pairs);
            Ok(variant::counted(&found))
        })
    }

    /// The time of one write of a range that is in the cache, in nanoseconds; the least of a few
    /// tries.
    fn touch_ns(&self) -> Result<f64, Error> {
        let pattern = Pattern::Own { space: WIDTH };
        let time = self.setup.time / PART;
        let run = Run { threads: 1, pattern, batch: 1, touches: TOUCHES, whole: None, time };
        let mut least = f64::INFINITY;
        for _ in 0..TRIES {
            let found = Variant::of(Competitor::None).once(&run, Mode::Count).map_err(Error::failed)?;
            least = least.min(1e9 / found.pairs_per_s / f64::from(TOUCHES));
        }
        if least.is_finite() { Ok(least) } else { Err(Error::request("no range was written", "")) }
    }
}
