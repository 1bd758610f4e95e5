//! Threads whose requests conflict: rarely, a third of the time, or always; to write, or to read.
//!
//! Ranges of 1 KiB begin anywhere in a window, and the size of the window decides how many overlap
//! ([`super::request`]). In the cases about the order of waiters, a holder writes its range 64
//! times, for about half a microsecond.

use super::case;
use super::competitor::Competitor;
use super::plan::{LONG, Plan, Timing};
use super::request::{Pattern, SPACE, WIDTH};
use super::run::Run;
use super::variant::Variant;
use crate::error::Error;
use crate::harness::Bench;
use std::time::Duration;

/// The percentages of pairs of requests that overlap.
pub(super) const OVERLAPS: [u32; 7] = [0, 1, 10, 25, 50, 75, 100];
/// The percentages of requests that read.
pub(super) const READERS: [u32; 5] = [0, 50, 90, 99, 100];
/// The same for a smoke check.
const OVERLAPS_QUICK: [u32; 3] = [0, 50, 100];
const READERS_QUICK: [u32; 2] = [50, 100];
/// The window in which 31 % overlap.
const WINDOW: usize = 7 * WIDTH;
/// The number of threads, and the number of times that a holder writes its range.
pub(super) const THREADS: usize = 8;
const WRITES: u32 = 64;

impl Plan {
    /// More and more requests overlap.
    pub(super) fn overlap(&self, bench: &mut Bench) -> Result<(), Error> {
        let overlaps = if self.setup.quick { &OVERLAPS_QUICK[..] } else { &OVERLAPS };
        let threads = self.many();
        bench.note(format!("{}: {threads} threads, one write for each range", case::OVERLAP));
        for &percent in overlaps {
            let pattern = Pattern::overlapping(percent, SPACE);
            let run = Run { threads, pattern, batch: 1, touches: 1, whole: None, time: self.setup.time };
            self.compare(bench, &case::overlap(percent), &run, Timing::Apart, &Variant::locks())?;
        }
        Ok(())
    }

    /// The run in which `readers_percent` % of the requests read.
    fn window(&self, readers_percent: u32) -> Run {
        let pattern = Pattern::Window { window: WINDOW, readers_percent };
        Run { threads: THREADS, pattern, batch: 1, touches: WRITES, whole: None, time: self.setup.time }
    }

    /// A third overlaps.
    pub(super) fn contended(&self, bench: &mut Bench) -> Result<(), Error> {
        let variants = Variant::locks();
        let run = self.window(0);
        let run = Run { time: run.time * LONG, ..run };
        self.compare(bench, case::CONTENDED, &run, Timing::Within, &variants)
    }

    /// Some threads, or all, only read.
    pub(super) fn shared(&self, bench: &mut Bench) -> Result<(), Error> {
        let names = |shares: bool| {
            let names = Competitor::locks().filter(|competitor| competitor.shares() == shares);
            names.map(Competitor::name).collect::<Vec<_>>().join(", ")
        };
        bench.note(format!("{}: without {}, which have no shared ranges", case::SHARED, names(false)));
        let mut variants = Variant::locks();
        variants.retain(|variant| variant.competitor.shares());
        let readers = if self.setup.quick { &READERS_QUICK[..] } else { &READERS };
        for &percent in readers {
            self.compare(bench, &case::shared(percent), &self.window(percent), Timing::Within, &variants)?;
        }
        Ok(())
    }
}

// Disjoint ranges of many widths, and a thread that locks the whole space at intervals.
//
// A thread that locks the whole space has to wait for every holder. It would starve if the lock
// did not hold back the threads that come later. The question is how long it waits, compared with
// the longest hold. With more threads than CPUs a hold includes the time for which its thread is
// preempted, and the waiter needs a CPU when its turn comes. How late the kernel gives it one is
// measured by how late the thread runs after a sleep.

/// Threads of disjoint ranges, beside the thread that locks the whole space.
pub(super) const DISJOINT_THREADS: usize = 8;
/// The sleep of that thread between two locks.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_QUICK: Duration = Duration::from_millis(1);

impl Plan {
    /// Ranges of many widths and the whole space.
    pub(super) fn widths(&self, bench: &mut Bench) -> Result<(), Error> {
        let pause = if self.setup.quick { PAUSE_QUICK } else { PAUSE };
        let pattern = Pattern::Widths { space: SPACE };
        let time = self.setup.time * LONG;
        let run = Run { threads: DISJOINT_THREADS, pattern, batch: 1, touches: 1, whole: Some(pause), time };
        self.compare(bench, case::WIDTHS, &run, Timing::Within, &Variant::locks())
    }
}
