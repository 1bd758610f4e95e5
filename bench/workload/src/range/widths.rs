//! Ranges of many widths, which disturb no other thread, and now and then a thread that wants
//! everything.
//!
//! A thread that locks the whole space has to wait for every holder. Threads that come meanwhile
//! would keep it waiting for ever if nothing held them back. The question is how long it waits,
//! against the longest hold. On a machine with fewer CPUs than threads a hold is as long as its
//! thread is kept from running, and the waiter has to be given a CPU when its turn has come; how
//! late that is shows in how late the kernel lets it run whenever it has slept.

use super::request::Pattern;
use super::run::Run;
use super::{LONG, Plan, SPACE, Timing, Variant, conclude};
use crate::error::Error;
use crate::harness::Bench;
use std::time::Duration;

/// Threads of disjoint ranges, beside the thread that wants everything.
pub(super) const THREADS: usize = 8;
/// How long that thread sleeps in between.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_QUICK: Duration = Duration::from_millis(1);

impl Plan {
    /// Ranges of many widths and the whole space.
    pub(super) fn widths(&self, bench: &mut Bench) -> Result<(), Error> {
        let pause = if self.setup.quick { PAUSE_QUICK } else { PAUSE };
        let pattern = Pattern::Widths { space: SPACE };
        let time = self.setup.time * LONG;
        let run = Run { threads: THREADS, pattern, batch: 1, touches: 1, whole: Some(pause), time };
        self.compare(bench, conclude::WIDTHS, &run, Timing::Within, &Variant::locks())
    }
}
