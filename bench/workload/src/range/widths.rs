//! Disjoint ranges of many widths, and a thread that locks the whole space at intervals.
//!
//! A thread that locks the whole space has to wait for every holder. It would starve if the lock
//! did not hold back the threads that come later. The question is how long it waits, compared with
//! the longest hold. With more threads than CPUs a hold includes the time for which its thread is
//! preempted, and the waiter needs a CPU when its turn comes. How late the kernel gives it one is
//! measured by how late the thread runs after a sleep.

use super::case;
use super::plan::{LONG, Plan, Timing};
use super::request::{Pattern, SPACE};
use super::run::Run;
use super::variant::Variant;
use crate::error::Error;
use crate::harness::Bench;
use std::time::Duration;

/// Threads of disjoint ranges, beside the thread that locks the whole space.
pub(super) const THREADS: usize = 8;
/// The sleep of that thread between two locks.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_QUICK: Duration = Duration::from_millis(1);

impl Plan {
    /// Ranges of many widths and the whole space.
    pub(super) fn widths(&self, bench: &mut Bench) -> Result<(), Error> {
        let pause = if self.setup.quick { PAUSE_QUICK } else { PAUSE };
        let pattern = Pattern::Widths { space: SPACE };
        let time = self.setup.time * LONG;
        let run = Run { threads: THREADS, pattern, batch: 1, touches: 1, whole: Some(pause), time };
        self.compare(bench, case::WIDTHS, &run, Timing::Within, &Variant::locks())
    }
}
