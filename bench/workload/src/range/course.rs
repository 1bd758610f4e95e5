//! What the threads of a run do, from its start to its end.
//!
//! Each goes through its requests: lock, touch, unlock; or the locks of a whole batch, then its
//! touches, then its unlocks. One more thread may lock everything now and then.
//!
//! Invariants:
//! 1. What is recorded of a thread is its own until it brings it back.
//! 2. What ends before the phase is [`MEASURE`] is warm-up, and not recorded. What began before
//!    that and ended later is, and what began in the measured time is waited for: no thread starves
//!    unseen.

use super::region::Region;
use super::request::{Request, WORD};
use super::run::{Measurement, Mode, Run};
use crate::crew::{self, MEASURE, Padded, WARM_UP};
use manx::range::{Access, RawRangeLock, Span};
use platform::clock::{ticks, ticks_to_ns};
use report::Histogram;
use std::thread;
use std::time::{Duration, Instant};

/// A thread that checks yields at one of this number of its holds.
const YIELD_EVERY: u64 = 64;

pub(super) const COUNT: u8 = Mode::Count as u8;
pub(super) const TIME: u8 = Mode::Time as u8;
pub(super) const CHECK: u8 = Mode::Check as u8;

/// What threads share.
pub(super) struct Course<L> {
    lock: Padded<L>,
    region: Region,
    pub(super) phases: crew::Course,
}

impl<L> Course<L> {
    /// For `threads` threads beside the conductor.
    pub(super) fn new(lock: L, bytes: usize, threads: usize) -> Course<L> {
        Course { lock: Padded(lock), region: Region::new(bytes), phases: crew::Course::new(threads) }
    }
}

/// What a thread brings back.
pub(super) enum Recorded {
    Thread(Record),
    Whole(Measurement),
}

/// What is recorded of a thread.
#[derive(Default)]
pub(super) struct Record {
    pub(super) pairs: u64,
    pub(super) latencies: Histogram,
    pub(super) hold_ticks_max: u64,
    pub(super) violations: u64,
}

/// A thread: its requests and what it has of them.
struct Worker<'a, H> {
    run: &'a Run,
    queue: Queue,
    /// Ranges of a batch, when each was there, and how long that took, in ticks.
    held: Vec<(Request, H, u64, u64)>,
    /// How long the last acquisitions of the warm-up took, in ticks.
    last: Vec<u64>,
    /// Where readers copy to.
    copy: Vec<u64>,
    record: Record,
}

impl<'a, H> Worker<'a, H> {
    fn new(run: &'a Run, index: usize) -> Worker<'a, H> {
        let requests = run.pattern.queue(index, run.threads);
        let batch = run.batch.clamp(1, requests.len());
        let widest = requests.iter().map(|request| request.end - request.start).max().unwrap_or(0);
        let copy = vec![0; widest as usize / WORD];
        let (held, last) = (Vec::with_capacity(batch), Vec::with_capacity(batch));
        Worker { run, queue: Queue { requests, at: 0 }, held, last, copy, record: Record::default() }
    }
}

/// Requests, again and again.
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

#[inline(always)]
fn span(request: Request) -> Span<u64> {
    Span::new(u64::from(request.start), u64::from(request.end)).expect("requests have bytes")
}

impl<L: RawRangeLock> Course<L> {
    /// What a thread does from its start to its end.
    pub(super) fn thread<const MODE: u8>(&self, run: &Run, index: usize) -> Record {
        let mut worker = Worker::new(run, index);
        self.phases.begin();
        self.serve::<MODE>(&mut worker, WARM_UP);
        // The acquisitions that the end of the warm-up interrupted (Invariant 2).
        let mut latencies = Histogram::new();
        worker.last.iter().for_each(|&waited| latencies.record(ticks_to_ns(waited)));
        worker.record = Record { latencies, violations: worker.record.violations, ..Record::default() };
        self.serve::<MODE>(&mut worker, MEASURE);
        worker.record
    }

    /// Locks, touches and unlocks as long as it is this phase.
    #[inline(never)]
    fn serve<const MODE: u8>(&self, worker: &mut Worker<'_, L::Held>, phase: u8) {
        // What changes all the time is in locals, for registers.
        let mut queue = std::mem::take(&mut worker.queue);
        let Worker { run, held: batch, last, copy, record, .. } = worker;
        let (touches, count) = (run.touches, batch.capacity());
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
                self.give_back::<MODE>(request, held, since, waited, record);
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
                self.give_back::<MODE>(request, held, since, waited, record);
            }
            pairs += count as u64;
        }
        record.pairs = pairs;
        worker.queue = queue;
    }

    /// Locks, and says since when the range is held and how long that took.
    #[inline(always)]
    fn take<const MODE: u8>(&self, request: Request, record: &mut Record) -> (L::Held, u64, u64) {
        let begun = if MODE == TIME { ticks() } else { 0 };
        let held = self.lock.0.lock(&span(request), request.access);
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
            // Others run while this thread holds something, now and then.
            if pairs.is_multiple_of(YIELD_EVERY) {
                thread::yield_now();
            }
        } else if touches > 0 {
            // SAFETY: the thread holds the range, and in this mode no thread counts in the region.
            unsafe { self.region.touch(request, touches, pairs as u8, copy) };
        }
    }

    /// Unlocks, and records it.
    #[inline(always)]
    fn give_back<const MODE: u8>(
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

    /// Locks everything, now and then, until it is over.
    pub(super) fn whole<const MODE: u8>(&self, pause: Duration) -> Measurement {
        let all = Request { start: 0, end: self.region.bytes() as u32, access: Access::Exclusive };
        let mut found = Measurement::default();
        self.phases.begin();
        loop {
            let due = Instant::now() + pause;
            thread::sleep(pause);
            let late = due.elapsed();
            if self.phases.next().is_none() {
                return found;
            }
            let begun = ticks();
            let held = self.lock.0.lock(&Span::all(), Access::Exclusive);
            let waited = ticks().saturating_sub(begun);
            if MODE == CHECK {
                let alone = self.region.enter(all);
                thread::yield_now();
                found.violations += u64::from(!(self.region.leave(all) && alone));
            } else {
                // SAFETY: the thread holds everything, and in this mode no thread counts in the
                // region.
                unsafe { self.region.touch(all, 1, 0, &mut []) };
            }
            // SAFETY: this lock returned it.
            unsafe { self.lock.0.unlock(held) };
            // Also what began in the warm-up, and what ended when all others had stopped (Invariant
            // 2).
            if self.phases.phase() != WARM_UP {
                found.whole.record(ticks_to_ns(waited));
                found.late_ns_max = found.late_ns_max.max(late.as_nanos() as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::none::Unlocked;
    use super::super::request::Pattern;
    use super::*;

    #[test]
    fn two_who_hold_the_same_are_counted_when_they_come_and_when_they_go() {
        let pattern = Pattern::Own { space: 64 };
        let run = Run { threads: 1, pattern, batch: 1, touches: 1, whole: None, time: Duration::ZERO };
        let course = Course::new(Unlocked, 64, 0);
        let mut worker: Worker<()> = Worker::new(&run, 0);
        let request = worker.queue.next();
        let record = &mut worker.record;
        course.take::<CHECK>(request, record);
        assert_eq!(record.violations, 0);
        course.take::<CHECK>(request, record);
        assert_eq!(record.violations, 1);
        course.give_back::<CHECK>(request, (), 0, 0, record);
        assert_eq!(record.violations, 2);
        course.give_back::<CHECK>(request, (), 0, 0, record);
        assert_eq!(record.violations, 2);
    }
}
