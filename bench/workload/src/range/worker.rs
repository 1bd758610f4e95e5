//! The work of a run's threads, from its start to its end.
//!
//! A worker repeats its requests: it locks a range, touches it, and unlocks it. With batches it
//! locks all ranges of a batch, touches all of them, and unlocks all of them. One more thread may
//! lock the whole space at intervals.
//!
//! Invariants:
//! 1. A thread's record is its own until the thread returns it.
//! 2. An operation that ends before the phase is [`MEASURE`] is warm-up and is not recorded. An
//!    operation that began before and ended later is recorded, and the run waits for all that began
//!    in the measured time. So the figures show each thread that starves.

use super::region::Region;
use super::request::{Request, WORD};
use contend::workers::{MEASURE, Padded, Phases, WARM_UP};
use manx::range::{Access, RawRangeLock, Span};
use platform::clock::{ticks, ticks_to_ns};
use report::Histogram;
use std::thread;
use std::time::{Duration, Instant};

/// In a run that checks, a thread yields during one of this number of its holds.
const YIELD_EVERY: u64 = 64;

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// How many ranges are locked and unlocked.
    Count,
    /// How long each acquisition takes, and each hold.
    Time,
    /// Whether two threads hold the same bytes.
    Check,
}

pub(super) const COUNT: u8 = Mode::Count as u8;
pub(super) const TIME: u8 = Mode::Time as u8;
pub(super) const CHECK: u8 = Mode::Check as u8;

/// The state that the threads of a run share.
pub(super) struct Shared<L> {
    lock: Padded<L>,
    region: Region,
    /// How many times a held range is touched.
    touches: u32,
    pub(super) phases: Phases,
}

impl<L> Shared<L> {
    /// For `threads` threads beside the conductor.
    pub(super) fn new(lock: L, bytes: usize, touches: u32, threads: usize) -> Shared<L> {
        Shared { lock: Padded(lock), region: Region::new(bytes), touches, phases: Phases::new(threads) }
    }
}

/// The record of a thread.
#[derive(Default)]
pub(super) struct Record {
    pub(super) pairs: u64,
    pub(super) latencies: Histogram,
    pub(super) hold_ticks_max: u64,
    pub(super) violations: u64,
    /// How long the whole space took, and the longest delay of its thread after a sleep.
    pub(super) whole: Histogram,
    pub(super) late_ns_max: u64,
}

/// A worker thread: its requests and the ranges that it holds.
struct Worker<H> {
    queue: Queue,
    /// The ranges of a batch, when each was granted, and how long that took, in ticks.
    held: Vec<(Request, H, u64, u64)>,
    /// How long the last acquisitions of the warm-up took, in ticks.
    last: Vec<u64>,
    /// Where readers copy to.
    copy: Vec<u64>,
    record: Record,
}

impl<H> Worker<H> {
    fn new(requests: Vec<Request>, batch: usize) -> Worker<H> {
        let batch = batch.clamp(1, requests.len());
        let widest = requests.iter().map(|request| request.end - request.start).max().unwrap_or(0);
        let copy = vec![0; widest as usize / WORD];
        let (held, last) = (Vec::with_capacity(batch), Vec::with_capacity(batch));
        Worker { queue: Queue { requests, at: 0 }, held, last, copy, record: Record::default() }
    }
}

/// Requests in a circle.
#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    at: usize,
}

impl Queue {
    #[inline(always)]
    fn next(&mut self) -> Request {
        let request = self.requests[self.at];
        self.at += 1;
        if self.at == self.requests.len() {
            self.at = 0;
        }
        request
    }
}

impl<L: RawRangeLock> Shared<L> {
    /// The work of a thread, from its start to its end: `batch` requests at a time.
    pub(super) fn work<const MODE: u8>(&self, requests: Vec<Request>, batch: usize) -> Record {
        let mut worker = Worker::new(requests, batch);
        self.phases.begin();
        self.serve::<MODE>(&mut worker, WARM_UP);
        // The acquisitions that the end of the warm-up interrupted (Invariant 2).
        let mut latencies = Histogram::new();
        worker.last.iter().for_each(|&waited| latencies.record(ticks_to_ns(waited)));
        worker.record = Record { latencies, violations: worker.record.violations, ..Record::default() };
        self.serve::<MODE>(&mut worker, MEASURE);
        worker.record
    }

    /// Locks, touches and unlocks while the phase is `phase`.
    #[inline(never)]
    fn serve<const MODE: u8>(&self, worker: &mut Worker<L::Held>, phase: u8) {
        // Values that change with each operation are in locals, so that they can be in registers.
        let mut queue = std::mem::take(&mut worker.queue);
        let Worker { held: batch, last, copy, record, .. } = worker;
        let (touches, count) = (self.touches, batch.capacity());
        let mut pairs = record.pairs;
        while self.phases.phase() == phase {
            if count == 1 {
                let request = queue.next();
                let (held, since, waited) = self.take::<MODE>(request, record);
                if MODE == TIME && phase == WARM_UP {
                    last.clear();
                    last.push(waited);
                }
                self.touch::<MODE>(request, touches, pairs, copy);
                self.release::<MODE>(request, held, since, waited, record);
                pairs += 1;
                continue;
            }
            for _ in 0..count {
                let request = queue.next();
                let (held, since, waited) = self.take::<MODE>(request, record);
                batch.push((request, held, since, waited));
            }
            if MODE == TIME && phase == WARM_UP {
                last.clear();
                last.extend(batch.iter().map(|(.., waited)| waited));
            }
            for (request, ..) in &*batch {
                self.touch::<MODE>(*request, touches, pairs, copy);
            }
            for (request, held, since, waited) in batch.drain(..) {
                self.release::<MODE>(request, held, since, waited, record);
            }
            pairs += count as u64;
        }
        record.pairs = pairs;
        worker.queue = queue;
    }

    /// Locks. Returns since when the range is held, and how long that took, in ticks.
    #[inline(always)]
    fn take<const MODE: u8>(&self, request: Request, record: &mut Record) -> (L::Held, u64, u64) {
        let begun = if MODE == TIME { ticks() } else { 0 };
        let held = self.lock.0.lock(&request.span(), request.access);
        let since = if MODE == TIME { ticks() } else { 0 };
        if MODE == CHECK {
            record.violations += u64::from(!self.region.enter(request));
        }
        (held, since, since.saturating_sub(begun))
    }

    /// Uses the range.
    #[inline(always)]
    fn touch<const MODE: u8>(&self, request: Request, touches: u32, pairs: u64, copy: &mut [u64]) {
        if MODE == CHECK {
            // Sometimes other threads run while this one holds a range.
            if pairs.is_multiple_of(YIELD_EVERY) {
                thread::yield_now();
            }
        } else if touches > 0 {
            // SAFETY: the thread holds the range, and in this mode no thread counts in the region.
            unsafe { self.region.touch(request, touches, pairs as u8, copy) };
        }
    }

    /// Unlocks, and records the acquisition.
    #[inline(always)]
    fn release<const MODE: u8>(
        &self,
        request: Request,
        held: L::Held,
        since: u64,
        waited: u64,
        record: &mut Record,
    ) {
        if MODE == CHECK {
            record.violations += u64::from(!self.region.leave(request));
        }
        let until = if MODE == TIME { ticks() } else { 0 };
        // SAFETY: this lock returned it.
        unsafe { self.lock.0.unlock(held) };
        if MODE == TIME {
            record.latencies.record(ticks_to_ns(waited));
            record.hold_ticks_max = record.hold_ticks_max.max(until.saturating_sub(since));
        }
    }

    /// Locks the whole space after each `pause`, until the run is over.
    pub(super) fn whole<const MODE: u8>(&self, pause: Duration) -> Record {
        let all = Request { start: 0, end: self.region.bytes() as u32, access: Access::Exclusive };
        let mut record = Record::default();
        self.phases.begin();
        loop {
            let due = Instant::now() + pause;
            thread::sleep(pause);
            let late = due.elapsed();
            if self.phases.next().is_none() {
                return record;
            }
            let begun = ticks();
            let held = self.lock.0.lock(&Span::all(), Access::Exclusive);
            let waited = ticks().saturating_sub(begun);
            if MODE == CHECK {
                let alone = self.region.enter(all);
                thread::yield_now();
                record.violations += u64::from(!(self.region.leave(all) && alone));
            } else {
                // SAFETY: the thread holds everything, and in this mode no thread counts in the
                // region.
                unsafe { self.region.touch(all, 1, 0, &mut []) };
            }
            // SAFETY: this lock returned it.
            unsafe { self.lock.0.unlock(held) };
            // It may have begun in the warm-up, or ended after all others (Invariant 2).
            if self.phases.phase() != WARM_UP {
                record.whole.record(ticks_to_ns(waited));
                record.late_ns_max = record.late_ns_max.max(late.as_nanos() as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::competitor::Unlocked;
    use super::super::request::Pattern;
    use super::*;

    #[test]
    fn two_holders_of_a_range_are_counted_when_they_enter_and_when_they_leave() {
        let shared = Shared::new(Unlocked, 64, 1, 0);
        let mut worker: Worker<()> = Worker::new(Pattern::Own { space: 64 }.queue(0, 1), 1);
        let request = worker.queue.next();
        let record = &mut worker.record;
        shared.take::<CHECK>(request, record);
        assert_eq!(record.violations, 0);
        shared.take::<CHECK>(request, record);
        assert_eq!(record.violations, 1);
        shared.release::<CHECK>(request, (), 0, 0, record);
        assert_eq!(record.violations, 2);
        shared.release::<CHECK>(request, (), 0, 0, record);
        assert_eq!(record.violations, 2);
    }
}
