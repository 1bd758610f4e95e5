//! Threads that want what others have: now and then, a third of the time, or always; to write, or
//! to read.
//!
//! Ranges of 1 KiB begin anywhere in a window, and the window's size says how many overlap
//! ([`super::request`]). Where the order of the waiters is the question, ranges are written 64
//! times, for about half a microsecond.

use super::competitor::Competitor;
use super::request::{Pattern, WIDTH};
use super::run::Run;
use super::{LONG, Plan, SPACE, Timing, Variant, conclude};
use crate::error::Error;
use crate::harness::Bench;

/// How many of a hundred pairs of requests overlap.
pub(super) const OVERLAPS: [u32; 7] = [0, 1, 10, 25, 50, 75, 100];
/// How many of a hundred requests read.
pub(super) const READERS: [u32; 5] = [0, 50, 90, 99, 100];
/// Of a smoke check.
const OVERLAPS_QUICK: [u32; 3] = [0, 50, 100];
const READERS_QUICK: [u32; 2] = [50, 100];
/// The window in which 31 % overlap.
const WINDOW: usize = 7 * WIDTH;
/// Threads that compete for it, and how many times they write what they hold.
pub(super) const THREADS: usize = 8;
const WRITES: u32 = 64;

impl Plan {
    /// More and more that overlap.
    pub(super) fn overlap(&self, bench: &mut Bench) -> Result<(), Error> {
        let overlaps = if self.setup.quick { &OVERLAPS_QUICK[..] } else { &OVERLAPS };
        let threads = self.many();
        bench.note(format!("{}: {threads} threads, one write for each range", conclude::OVERLAP));
        for &percent in overlaps {
            let pattern = Pattern::overlapping(percent, SPACE);
            let run = Run { threads, pattern, batch: 1, touches: 1, whole: None, time: self.setup.time };
            self.compare(bench, &conclude::overlap(percent), &run, Timing::Apart, &Variant::locks())?;
        }
        Ok(())
    }

    /// The run in which `readers_percent` of a hundred requests read.
    fn window(&self, readers_percent: u32) -> Run {
        let pattern = Pattern::Window { window: WINDOW, readers_percent };
        Run { threads: THREADS, pattern, batch: 1, touches: WRITES, whole: None, time: self.setup.time }
    }

    /// A third overlaps.
    pub(super) fn contended(&self, bench: &mut Bench) -> Result<(), Error> {
        let variants = Variant::locks();
        let run = self.window(0);
        let run = Run { time: run.time * LONG, ..run };
        self.compare(bench, conclude::CONTENDED, &run, Timing::Within, &variants)
    }

    /// Some, or all, only read.
    pub(super) fn shared(&self, bench: &mut Bench) -> Result<(), Error> {
        let names = |shares: bool| {
            let names = Competitor::locks().filter(|competitor| competitor.shares() == shares);
            names.map(Competitor::name).collect::<Vec<_>>().join(", ")
        };
        bench.note(format!("{}: without {}, which have no shared ranges", conclude::SHARED, names(false)));
        let mut variants = Variant::locks();
        variants.retain(|variant| variant.competitor.shares());
        let readers = if self.setup.quick { &READERS_QUICK[..] } else { &READERS };
        for &percent in readers {
            self.compare(
                bench,
                &conclude::shared(percent),
                &self.window(percent),
                Timing::Within,
                &variants,
            )?;
        }
        Ok(())
    }
}
