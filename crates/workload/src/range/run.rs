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
//! 3. Batches are of requests that do not overlap each other, nor any of another thread; so nobody waits for somebody who
//!    waits for it.
//! 4. Threads share what they need and borrow nothing. So a lock that forgets a waiter leaves a thread behind, and no more.

use super::competitor::Measured;
use super::crew::slowest_share;
use super::none::Unlocked;
use super::region::Region;
use super::request::{Pattern, Request, WORD};
use crate::asl::run::stay_on;
use manx::range::{Access, RawRangeLock, Span};
use platform::clock::{ticks, ticks_to_ns};
use report::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

/// Warm-up is so much of the measured time.
const WARM_UP_PART: u32 = 5;
/// Who still waits so long after the end waits for ever: that is an error, not the end of all that was measured.
const PATIENCE: Duration = Duration::from_secs(30);
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

/// What a thread brings back.
enum Recorded {
    Thread(Record),
    Whole(Measurement),
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
    queue: Queue,
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
    fn thread<const MODE: u8>(&self, run: &Run, index: usize) -> Record {
        let mut worker = Worker::new(run, index);
        self.ready.wait();
        self.serve::<MODE>(&mut worker, WARM_UP);
        // Those that the end of the warm-up came in the midst of (Invariant 2).
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
        // Relaxed: nothing else is read by it, and what threads bring back comes by a channel.
        while self.phase.0.load(Ordering::Relaxed) == phase {
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
            // SAFETY: the thread holds the range, and in this mode nobody counts in the region.
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
    fn whole<const MODE: u8>(&self, pause: Duration) -> Measurement {
        let all = Request { start: 0, end: self.region.bytes() as u32, access: Access::Exclusive };
        let mut found = Measurement::default();
        self.ready.wait();
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
    ///
    /// # Errors
    /// In words: a CPU that cannot be had, or a thread that still waits for the lock long after all others have ended.
    pub fn with<L: RawRangeLock + 'static>(&self, mode: Mode, lock: L) -> Result<Measurement, String> {
        assert!(self.pattern.disjoint() || L::NAME != Unlocked::NAME, "no lock where ranges overlap");
        assert!(self.pattern.disjoint() || self.batch == 1, "batches that overlap wait for each other");
        match mode {
            Mode::Count => self.in_mode::<L, COUNT>(lock, PATIENCE),
            Mode::Time => self.in_mode::<L, TIME>(lock, PATIENCE),
            Mode::Check => self.in_mode::<L, CHECK>(lock, PATIENCE),
        }
    }

    fn in_mode<L: RawRangeLock + 'static, const MODE: u8>(
        &self,
        lock: L,
        patience: Duration,
    ) -> Result<Measurement, String> {
        // Before any ticks are counted: their unit would change otherwise.
        platform::clock::init();
        let all = self.threads + usize::from(self.whole.is_some());
        let course = Arc::new(Course {
            lock: Padded(lock),
            phase: Padded(AtomicU8::new(WARM_UP)),
            region: Region::new(self.pattern.space()),
            ready: Barrier::new(all + 1),
        });
        let cpus = Arc::new(crate::machine::cpus());
        let (sender, results) = mpsc::channel();
        let threads: Vec<_> = (0..all)
            .map(|index| {
                let (run, course, cpus, sender) =
                    (self.clone(), course.clone(), cpus.clone(), sender.clone());
                thread::spawn(move || {
                    let placed = if all <= cpus.len() { stay_on(cpus[index]) } else { Ok(()) };
                    let record = match run.whole {
                        Some(pause) if index == run.threads => Recorded::Whole(course.whole::<MODE>(pause)),
                        _ => Recorded::Thread(course.thread::<MODE>(&run, index)),
                    };
                    // Who does not wait for it any more has given it up.
                    let _ = sender.send(placed.map(|()| record));
                })
            })
            .collect();
        drop(sender);
        course.ready.wait();
        thread::sleep(self.time / WARM_UP_PART);
        // Relaxed: threads read nothing else by it.
        course.phase.0.store(MEASURE, Ordering::Relaxed);
        let begun = Instant::now();
        thread::sleep(self.time);
        course.phase.0.store(OVER, Ordering::Relaxed);
        let elapsed = begun.elapsed();
        let (mut records, mut whole) = (Vec::new(), Measurement::default());
        let limit = Instant::now() + patience;
        for ended in 0..all {
            match results.recv_timeout(limit.saturating_duration_since(Instant::now())) {
                Ok(Ok(Recorded::Thread(record))) => records.push(record),
                Ok(Ok(Recorded::Whole(found))) => whole = found,
                Ok(Err(what)) => return Err(what),
                Err(RecvTimeoutError::Disconnected) => return Err("a thread panicked".into()),
                Err(RecvTimeoutError::Timeout) => {
                    let (waiting, seconds) = (all - ended, patience.as_secs_f64());
                    return Err(format!(
                        "{waiting} of {all} threads still wait for a range {seconds} s after the end, and nobody else locks any"
                    ));
                }
            }
        }
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked".to_owned())?;
        }
        Ok(summarise(&records, elapsed, whole))
    }
}

fn summarise(records: &[Record], elapsed: Duration, whole: Measurement) -> Measurement {
    let pairs: u64 = records.iter().map(|record| record.pairs).sum();
    let hold_ticks_max = records.iter().map(|record| record.hold_ticks_max).max().unwrap_or(0);
    let mut latencies = Histogram::new();
    records.iter().for_each(|record| latencies.merge(&record.latencies));
    Measurement {
        pairs_per_s: pairs as f64 / elapsed.as_secs_f64(),
        pairs,
        slowest_share: slowest_share(records.iter().map(|record| record.pairs)),
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

    fn with<L: RawRangeLock + 'static>(self, make: impl Fn() -> L) -> Self::Output {
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

#[cfg(test)]
mod tests {
    use super::*;
    use manx::range::baseline::Map;

    fn run(pattern: Pattern, batch: usize) -> Run {
        Run { threads: 3, pattern, batch, touches: 1, whole: None, time: Duration::from_millis(20) }
    }

    #[test]
    fn two_who_hold_the_same_are_counted_when_they_come_and_when_they_go() {
        let run = run(Pattern::Own { space: 64 }, 1);
        let course = Course {
            lock: Padded(Unlocked),
            phase: Padded(AtomicU8::new(WARM_UP)),
            region: Region::new(64),
            ready: Barrier::new(1),
        };
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

    #[test]
    fn every_acquisition_is_timed_and_nobody_is_met() {
        let window = Pattern::Window { window: 7 * 1024, readers_percent: 50 };
        for run in [run(Pattern::Own { space: 64 * 1024 }, 16), run(window, 1)] {
            let timed = run.with(Mode::Time, Map::new()).unwrap();
            // Those that the end of the warm-up came in the midst of are timed and not counted.
            let (count, most) = (timed.latencies.count(), (run.threads * run.batch) as u64);
            assert!((timed.pairs..=timed.pairs + most).contains(&count), "{count} of {}", timed.pairs);
            assert!(timed.slowest_share <= 1.0);
            let checked = run.with(Mode::Check, Map::new()).unwrap();
            assert_eq!(checked.violations, 0);
            assert_eq!(checked.latencies.count(), 0);
        }
    }

    #[test]
    fn who_wants_everything_gets_it_in_the_end() {
        let all =
            Run { whole: Some(Duration::from_micros(100)), ..run(Pattern::Widths { space: 1 << 16 }, 1) };
        // On a busy machine a run may be over before its threads were on a CPU.
        let granted = |_| all.with(Mode::Time, Map::new()).unwrap().whole.count() > 0;
        assert!((0..100).any(granted), "never in a hundred runs");
        assert_eq!(all.with(Mode::Check, Map::new()).unwrap().violations, 0);
    }

    /// A lock that gives everybody one range and never another.
    struct Miser(AtomicU8);

    // SAFETY: who has locked once gets nothing else, and here each thread has bytes of its own.
    unsafe impl RawRangeLock for Miser {
        type Held = ();
        const NAME: &'static str = "miser";
        const SHARES: bool = false;

        fn with_space(_space: u64) -> Miser {
            Miser(AtomicU8::new(0))
        }

        fn try_lock(&self, _span: &Span<u64>, _access: Access) -> Option<()> {
            (self.0.fetch_add(1, Ordering::Relaxed) < 3).then_some(())
        }

        fn lock(&self, span: &Span<u64>, access: Access) {
            while self.try_lock(span, access).is_none() {
                self.0.store(3, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(100));
            }
        }

        unsafe fn unlock(&self, _held: ()) {}
    }

    #[test]
    fn who_waits_for_ever_is_an_error() {
        let patience = Duration::from_millis(200);
        let run = run(Pattern::Own { space: 4096 }, 1);
        let once = |_| run.in_mode::<Miser, COUNT>(Miser::with_space(0), patience).err();
        // On a busy machine a run may be over before its threads were on a CPU.
        let error = (0..100).find_map(once).expect("a hundred runs in which nobody waits");
        assert!(error.contains("of 3 threads still wait for a range 0.2 s after the end"), "{error}");
    }

    #[test]
    #[should_panic(expected = "no lock where ranges overlap")]
    fn without_a_lock_nobody_may_overlap() {
        let window = Pattern::Window { window: 7 * 1024, readers_percent: 0 };
        let _ = run(window, 1).with(Mode::Count, Unlocked);
    }
}
