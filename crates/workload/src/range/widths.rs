//! Ranges of many widths, which disturb nobody, and now and then somebody who wants everything.
//!
//! Who locks the whole space has to wait for everybody who holds something, and those who come meanwhile would keep it waiting for
//! ever if nothing held them back. What is asked is for how long it waits, against the longest hold. On a machine with fewer CPUs
//! than threads a hold is as long as its thread is kept from running, and the one who waits has to be given a CPU when its turn has
//! come; how late that is shows in how late the kernel lets it run whenever it has slept.

use super::request::Pattern;
use super::run::Run;
use super::{LONG, Plan, SPACE, Timing, Variant, conclude};
use crate::error::Error;
use crate::harness::Bench;
use std::time::Duration;

/// Threads of disjoint ranges, beside the one that wants everything.
pub(super) const THREADS: usize = 8;
/// How long that one sleeps in between.
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
