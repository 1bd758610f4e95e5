//! One run: threads that lock ranges, touch what they hold, and unlock them; and what is recorded of that.
//!
//! A run counts, times or checks ([`Mode`]), because none of these can be had without changing the other: reading the clock
//! twice costs more than an uncontended lock, and checking costs more than that. The loop is compiled for each mode.
//!
//! Threads have a CPU each if there are as many CPUs; otherwise the kernel places them.
//!
//! Invariants:
//! 1. What is recorded of a thread is its own until it is joined.
//! 2. What ends before the phase is [`MEASURE`] is warm-up, and not recorded. What began before that and ended later is, and
//!    what began in the measured time is waited for: nobody starves unseen.
//! 3. Batches are of requests that do not overlap each other, in ascending order in each thread, and no other thread's overlap
//!    them; so nobody waits for somebody who waits for it.

use super::competitor::Measured;
use super::none::Unlocked;
use super::region::Region;
use super::request::{Pattern, Request, WORD};
use crate::asl::run::stay_on;
use manx::range::{Access, RawRangeLock, Span};
use platform::clock::{ticks, ticks_to_ns};
use report::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Warm-up is so much of the measured time.
const WARM_UP_PART: u32 = 5;
/// A thread that checks yields at so many of its holds.
const YIELD_EVERY: u64 = 64;

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// How many ranges are locked and unlocked.
    Count,
    /// How long each acquisition takes, and each hold.
    Time,
    /// Whether anybody holds what somebody else holds.
    Check,
}

/// What a run is.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many threads.
    pub threads: usize,
    /// What they ask for.
    pub pattern: Pattern,
    /// How many ranges a thread holds at a time.
    pub batch: usize,
    /// How many times a range is written, or read, while it is held.
    pub touches: u32,
    /// One more thread locks the whole space, so long after its last time.
    pub whole: Option<Duration>,
    /// The time that is measured; before it a fifth of that is warm-up.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// Ranges locked and unlocked per second, by all threads.
    pub pairs_per_s: f64,
    /// The same, in all.
    pub pairs: u64,
    /// The slowest thread's part of these, times the number of threads.
    pub slowest_share: f64,
    /// How long acquisitions took.
    pub latencies: Histogram,
    /// The longest hold, in nanoseconds.
    pub hold_ns_max: u64,
    /// How long the whole space took.
    pub whole: Histogram,
    /// How late the kernel let its thread run, when it had slept.
    pub late_ns_max: u64,
    /// How many times somebody was met who should not have been there.
    pub violations: u64,
}

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const OVER: u8 = 2;

const COUNT: u8 = Mode::Count as u8;
const TIME: u8 = Mode::Time as u8;
const CHECK: u8 = Mode::Check as u8;

#[repr(align(128))]
struct Padded<T>(T);

/// What threads share.
struct Course<L> {
    lock: Padded<L>,
    phase: Padded<AtomicU8>,
    region: Region,
    ready: Barrier,
}

/// What is recorded of a thread.
#[derive(Default)]
struct Record {
    pairs: u64,
    latencies: Histogram,
    hold_ticks_max: u64,
    violations: u64,
}

/// A thread: its requests and what it has of them.
struct Worker<'a, H> {
    run: &'a Run,
    queue: Vec<Request>,
    at: usize,
    /// Ranges of a batch, when each was there, and how long that took, in ticks.
    held: Vec<(Request, H, u64, u64)>,
    /// How long the last acquisitions of the warm-up took, in ticks.
    last: Vec<u64>,
    /// Where those who read copy to.
    copy: Vec<u64>,
    record: Record,
}

impl<'a, H> Worker<'a, H> {
    fn new(run: &'a Run, index: usize) -> Worker<'a, H> {
        let queue = run.pattern.queue(index, run.threads);
        let batch = run.batch.clamp(1, queue.len());
        let widest = queue.iter().map(|request| request.end - request.start).max().unwrap_or(0);
        let copy = vec![0; widest as usize / WORD];
        let (held, last) = (Vec::with_capacity(batch), Vec::with_capacity(batch));
        Worker { run, queue, at: 0, held, last, copy, record: Record::default() }
    }

    #[inline(always)]
    fn next(&mut self) -> Request {
        let request = self.queue[self.at];
        self.at += 1;
        if self.at == self.queue.len() {
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
    /// Locks, touches and unlocks as long as it is this phase.
    #[inline(never)]
    fn serve<const MODE: u8>(&self, worker: &mut Worker<'_, L::Held>, phase: u8) {
        let batch = worker.held.capacity();
        // Relaxed: nothing else is read by it, and threads are joined in the end.
        if worker.run.batch == 1 {
            while self.phase.0.load(Ordering::Relaxed) == phase {
                let request = worker.next();
                let (held, since, waited) = self.take::<MODE>(request, &mut worker.record);
                if MODE == TIME && phase == WARM_UP {
                    worker.last.clear();
                    worker.last.push(waited);
                }
                self.touch::<MODE>(request, worker);
                self.give_back::<MODE>(request, held, since, waited, &mut worker.record);
            }
        } else {
            while self.phase.0.load(Ordering::Relaxed) == phase {
                for _ in 0..batch {
                    let request = worker.next();
                    let (held, since, waited) = self.take::<MODE>(request, &mut worker.record);
                    worker.held.push((request, held, since, waited));
                }
                if MODE == TIME && phase == WARM_UP {
                    worker.last.clear();
                    worker.last.extend(worker.held.iter().map(|(.., waited)| waited));
                }
                for at in 0..batch {
                    self.touch::<MODE>(worker.held[at].0, worker);
                }
                for (request, held, since, waited) in worker.held.drain(..) {
                    self.give_back::<MODE>(request, held, since, waited, &mut worker.record);
                }
            }
        }
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
    fn touch<const MODE: u8>(&self, request: Request, worker: &mut Worker<'_, L::Held>) {
        if MODE == CHECK {
            // Others run while this thread holds something, now and then.
            if worker.record.pairs.is_multiple_of(YIELD_EVERY) {
                thread::yield_now();
            }
        } else {
            let value = worker.record.pairs as u8;
            // SAFETY: the thread holds the range, and in this mode nobody counts in the region.
            unsafe { self.region.touch(request, worker.run.touches, value, &mut worker.copy) };
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
        record.pairs += 1;
        if MODE == TIME {
            record.latencies.record(ticks_to_ns(waited));
            record.hold_ticks_max = record.hold_ticks_max.max(until.saturating_sub(since));
        }
    }

    /// Locks everything, now and then, until it is over.
    fn whole<const MODE: u8>(&self, pause: Duration) -> Measurement {
        let all = Request { start: 0, end: self.region.bytes() as u32, access: Access::Exclusive };
        let mut found = Measurement::default();
        loop {
            let due = Instant::now() + pause;
            thread::sleep(pause);
            let late = due.elapsed();
            // Relaxed: as in `serve`.
            if self.phase.0.load(Ordering::Relaxed) == OVER {
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
                // SAFETY: the thread holds everything, and in this mode nobody counts in the region.
                unsafe { self.region.touch(all, 1, 0, &mut []) };
            }
            // SAFETY: this lock returned it.
            unsafe { self.lock.0.unlock(held) };
            // Also what began in the warm-up, and what ended when all others had stopped (Invariant 2).
            if self.phase.0.load(Ordering::Relaxed) != WARM_UP {
                found.whole.record(ticks_to_ns(waited));
                found.late_ns_max = found.late_ns_max.max(late.as_nanos() as u64);
            }
        }
    }
}

impl Run {
    /// The run in this mode, with a competitor's lock.
    pub fn with<L: RawRangeLock>(&self, mode: Mode, lock: L) -> Result<Measurement, String> {
        assert!(self.pattern.disjoint() || L::NAME != Unlocked::NAME, "no lock where ranges overlap");
        assert!(self.pattern.disjoint() || self.batch == 1, "batches that overlap wait for each other");
        match mode {
            Mode::Count => self.in_mode::<L, COUNT>(lock),
            Mode::Time => self.in_mode::<L, TIME>(lock),
            Mode::Check => self.in_mode::<L, CHECK>(lock),
        }
    }

    fn in_mode<L: RawRangeLock, const MODE: u8>(&self, lock: L) -> Result<Measurement, String> {
        // Before any ticks are counted: their unit would change otherwise.
        platform::clock::init();
        let all = self.threads + usize::from(self.whole.is_some());
        let course = Course {
            lock: Padded(lock),
            phase: Padded(AtomicU8::new(WARM_UP)),
            region: Region::new(self.pattern.space()),
            ready: Barrier::new(all + 1),
        };
        let cpus = crate::machine::cpus();
        let place = |index: usize| if all <= cpus.len() { stay_on(cpus[index]) } else { Ok(()) };
        thread::scope(|scope| {
            let (course, place) = (&course, &place);
            let threads: Vec<_> = (0..self.threads)
                .map(|index| {
                    scope.spawn(move || {
                        let placed = place(index);
                        let mut worker = Worker::new(self, index);
                        course.ready.wait();
                        course.serve::<MODE>(&mut worker, WARM_UP);
                        // Those that the end of the warm-up came in the midst of (Invariant 2).
                        let mut latencies = Histogram::new();
                        worker.last.iter().for_each(|&waited| latencies.record(ticks_to_ns(waited)));
                        let violations = worker.record.violations;
                        worker.record = Record { latencies, violations, ..Record::default() };
                        course.serve::<MODE>(&mut worker, MEASURE);
                        placed.map(|()| worker.record)
                    })
                })
                .collect();
            let whole = self.whole.map(|pause| {
                scope.spawn(move || {
                    let placed = place(self.threads);
                    course.ready.wait();
                    let found = course.whole::<MODE>(pause);
                    placed.map(|()| found)
                })
            });
            course.ready.wait();
            thread::sleep(self.time / WARM_UP_PART);
            // Relaxed: threads read nothing else by it.
            course.phase.0.store(MEASURE, Ordering::Relaxed);
            let begun = Instant::now();
            thread::sleep(self.time);
            course.phase.0.store(OVER, Ordering::Relaxed);
            let elapsed = begun.elapsed();
            let panicked = |_| "a thread panicked".to_owned();
            let records = threads.into_iter().map(|thread| thread.join().map_err(panicked)?);
            let records = records.collect::<Result<Vec<Record>, String>>()?;
            let found = match whole {
                Some(thread) => thread.join().map_err(panicked)??,
                None => Measurement::default(),
            };
            Ok(summarise(&records, elapsed, found))
        })
    }
}

fn summarise(records: &[Record], elapsed: Duration, whole: Measurement) -> Measurement {
    let pairs: u64 = records.iter().map(|record| record.pairs).sum();
    let least = records.iter().map(|record| record.pairs).min().unwrap_or(0);
    let hold_ticks_max = records.iter().map(|record| record.hold_ticks_max).max().unwrap_or(0);
    let mut latencies = Histogram::new();
    records.iter().for_each(|record| latencies.merge(&record.latencies));
    Measurement {
        pairs_per_s: pairs as f64 / elapsed.as_secs_f64(),
        pairs,
        slowest_share: (least * records.len() as u64) as f64 / pairs as f64,
        latencies,
        hold_ns_max: ticks_to_ns(hold_ticks_max),
        violations: whole.violations + records.iter().map(|record| record.violations).sum::<u64>(),
        ..whole
    }
}

/// A run in a mode, with whichever competitor.
pub(super) struct Once<'a>(pub &'a Run, pub Mode);

impl Measured for Once<'_> {
    type Output = Result<Measurement, String>;

    fn with<L: RawRangeLock>(self, make: impl Fn() -> L) -> Self::Output {
        self.0.with(self.1, make())
    }
}

/// What reading the clock costs, in nanoseconds; the least of a few tries, because anything else is a disturbance.
pub(super) fn clock_ns() -> f64 {
    const READINGS: u32 = 1000;
    const TRIES: usize = 20;
    let once = || {
        let begun = Instant::now();
        (0..READINGS).for_each(|_| {
            std::hint::black_box(ticks());
        });
        begun.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    (0..TRIES).map(|_| once()).fold(f64::INFINITY, f64::min)
}
