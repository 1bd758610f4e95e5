//! One run: big and little threads, their epochs, and what is recorded of them.
//!
//! An epoch is four critical sections over two locks, 16 cache lines each (the paper's Bench-1). The machine's
//! cores are alike; a little thread takes [`Run::dilation`] times as long for each section and for the time between
//! epochs. That is a time on the clock, the lines included, and what came of it is measured.
//!
//! Invariants:
//! 1. Lines are only touched while their lock is held. Each section adds one to each of its lines, with plain loads
//!    and stores, so lines that do not add up show a lock that does not exclude.
//! 2. What is recorded of a thread is its own until it is joined, but for the count of its epochs.
//! 3. Epochs of the warm-up are made and counted for Invariant 1, and not recorded.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use manx::cpu::{Class, set_class_of_this_thread};
use manx::slo::{self, Percentile};
use platform::clock::{ns_to_ticks, ticks, ticks_to_ns};
use report::Histogram;

use super::lock::{Measured, Peer};

/// Locks of a run.
const LOCKS: usize = 2;
/// Critical sections of an epoch.
pub const SECTIONS: usize = 4;
/// Lines that a section touches: 64 in an epoch.
const LINES: usize = 16;
/// The longest window.
pub const WINDOW_NS_MAX: u64 = manx::lock::reorderable::WINDOW_NS_MAX;
/// The one kind of epoch.
const EPOCH: u64 = 1;
/// How often the main thread looks whether there are epochs enough.
const LOOK: Duration = Duration::from_millis(5);

/// How long others may overtake a little thread.
#[derive(Clone, Copy, Debug)]
pub enum Window {
    /// Always so long; no epochs are begun.
    Fixed(u64),
    /// Of an epoch, as [`manx::slo`] finds: epochs of up to `ns`, so many of a hundred as the percentile says.
    Slo {
        /// How late an epoch may end.
        ns: u64,
        /// How many of them.
        percentile: Percentile,
    },
}

/// Epochs of two lengths, mixed.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// How many of a hundred are long.
    pub long_percent: u64,
    /// How many times as long.
    pub times: u64,
}

/// What a run is.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many threads: every second one is little.
    pub threads: usize,
    /// The CPUs, dealt to the threads in turn: little threads have the second one of each two.
    pub cpus: Vec<usize>,
    /// How many times as long a little thread takes.
    pub dilation: f64,
    /// A section's time on a big core.
    pub hold_ns: u64,
    /// The time between epochs on a big core.
    pub think_ns: u64,
    /// Long epochs among short ones.
    pub mix: Option<Mix>,
    /// What little threads are told.
    pub window: Window,
    /// The time that is measured; before it a fifth of that is warm-up.
    pub time: Duration,
    /// It is gone on for up to ten times the time until little threads have made so many epochs.
    pub little_epochs: u64,
}

/// What was measured.
#[derive(Debug)]
pub struct Measurement {
    /// Epochs per second of all threads.
    pub epochs_per_s: f64,
    /// Epochs of big threads.
    pub big: Histogram,
    /// Epochs of little threads.
    pub little: Histogram,
    /// Little epochs that ended after the SLO; 0 if there is none.
    pub missed: u64,
    /// The slowest thread's part of all epochs, times the number of threads.
    pub slowest_share: f64,
    /// How many times as long a little thread's sections took, measured.
    pub dilation: f64,
    /// The mean of the little threads' windows when they ended.
    pub window_ns: f64,
}

#[repr(align(128))]
struct Padded<T>(T);

#[repr(align(64))]
struct Line(u64);

struct Shared<P> {
    lock: Padded<P>,
    lines: UnsafeCell<[[Line; LINES]; SECTIONS / LOCKS]>,
}

// SAFETY: the lines are only touched by who holds the lock (Invariant 1).
unsafe impl<P: Sync> Sync for Shared<P> {}

/// What is recorded of a thread.
struct Record {
    little: bool,
    made: u64,
    elapsed: Duration,
    latencies: Histogram,
    missed: u64,
    sections_ticks: u64,
    sections: u64,
    window_ns: u64,
}

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const OVER: u8 = 2;

/// What threads see of each other beside the locks.
struct Course {
    phase: AtomicU8,
    little_epochs: Padded<AtomicU64>,
    ready: Barrier,
}

impl Measured for &Run {
    type Output = Result<Measurement, String>;

    fn with<P: Peer>(self) -> Self::Output {
        let shared: [Shared<P>; LOCKS] = std::array::from_fn(|_| Shared {
            lock: Padded(P::new()),
            lines: UnsafeCell::new(std::array::from_fn(|_| std::array::from_fn(|_| Line(0)))),
        });
        let course = Course {
            phase: AtomicU8::new(WARM_UP),
            little_epochs: Padded(AtomicU64::new(0)),
            ready: Barrier::new(self.threads + 1),
        };
        let records = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|index| {
                    let (course, shared) = (&course, &shared);
                    scope.spawn(move || {
                        let placed = stay_on(self.cpus[index % self.cpus.len()]);
                        course.ready.wait();
                        placed.map(|()| self.thread(index, shared, course))
                    })
                })
                .collect();
            course.ready.wait();
            self.conduct(&course);
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|record| record.map_err(|_| "a thread panicked".to_string())?)
                .collect::<Result<Vec<Record>, String>>()
        })?;
        let made: u64 = records.iter().map(|record| record.made).sum();
        for shared in shared {
            let lines = shared.lines.into_inner();
            if let Some(wrong) = lines.iter().flatten().find(|line| line.0 != made) {
                return Err(format!("the lock does not exclude: {} of {made} sections counted", wrong.0));
            }
        }
        Ok(self.summarise(&records))
    }
}

impl Run {
    /// Lets the threads warm up, measures, and ends it.
    fn conduct(&self, course: &Course) {
        thread::sleep(self.time / 5);
        // Relaxed: threads read nothing else by it, and are joined in the end.
        course.phase.store(MEASURE, Ordering::Relaxed);
        thread::sleep(self.time);
        let limit = Instant::now() + self.time * 9;
        let wanted = if self.threads > 1 { self.little_epochs } else { 0 };
        while course.little_epochs.0.load(Ordering::Relaxed) < wanted && Instant::now() < limit {
            if crate::interrupt::requested() {
                break;
            }
            thread::sleep(LOOK);
        }
        course.phase.store(OVER, Ordering::Relaxed);
    }

    fn thread<P: Peer>(&self, index: usize, shared: &[Shared<P>; LOCKS], course: &Course) -> Record {
        let little = index % 2 == 1;
        set_class_of_this_thread(Some(if little { Class::Little } else { Class::Big }));
        let factor = if little { self.dilation } else { 1.0 };
        let hold_ticks = ns_to_ticks((self.hold_ns as f64 * factor) as u64);
        let think_ticks = ns_to_ticks((self.think_ns as f64 * factor) as u64);
        let mut record = Record {
            little,
            made: 0,
            elapsed: Duration::ZERO,
            latencies: Histogram::new(),
            missed: 0,
            sections_ticks: 0,
            sections: 0,
            window_ns: 0,
        };
        let (mut begun, mut dice) = (None, index as u64 + 1);
        loop {
            match (course.phase.load(Ordering::Relaxed), begun) {
                (OVER, _) => break,
                (MEASURE, None) => begun = Some(Instant::now()),
                _ => {}
            }
            let times =
                self.mix.map_or(1, |mix| if throw(&mut dice) < mix.long_percent { mix.times } else { 1 });
            let window_ns = match self.window {
                Window::Fixed(ns) => little.then_some(ns),
                Window::Slo { .. } => None,
            };
            if let Window::Slo { .. } = self.window {
                slo::start(EPOCH);
            }
            let (start, mut held_ticks) = (ticks(), 0);
            for section in 0..SECTIONS {
                let shared = &shared[section % LOCKS];
                shared.lock.0.with(window_ns, || {
                    let from = ticks();
                    // SAFETY: this thread holds the lock (Invariant 1).
                    let lines = unsafe { &mut (&mut *shared.lines.get())[section / LOCKS] };
                    lines.iter_mut().for_each(|line| *black_box(&mut line.0) += 1);
                    held_ticks += burn_until(from, hold_ticks * times);
                });
            }
            let end = ticks();
            let latency_ns = ticks_to_ns(end.wrapping_sub(start));
            record.made += 1;
            let mut missed = false;
            if let Window::Slo { ns, percentile } = self.window {
                slo::end_at(EPOCH, ns, percentile);
                missed = little && latency_ns > ns;
            }
            if begun.is_some() {
                record.latencies.record(latency_ns);
                record.missed += u64::from(missed);
                record.sections_ticks += held_ticks / times;
                record.sections += SECTIONS as u64;
                if little {
                    course.little_epochs.0.fetch_add(1, Ordering::Relaxed);
                }
            }
            burn_until(end, think_ticks);
        }
        record.elapsed = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        if let Window::Slo { .. } = self.window {
            // The window that the next epoch would have.
            slo::start(EPOCH);
            record.window_ns = slo::window_ns().unwrap_or(0);
            slo::abandon(EPOCH);
        }
        record
    }

    fn summarise(&self, records: &[Record]) -> Measurement {
        let seconds = records.iter().map(|record| record.elapsed.as_secs_f64()).fold(0.0, f64::max);
        let counts = || records.iter().map(|record| record.latencies.count());
        let total: u64 = counts().sum();
        let (mut big, mut little) = (Histogram::new(), Histogram::new());
        for record in records {
            if record.little { little.merge(&record.latencies) } else { big.merge(&record.latencies) }
        }
        let of = |wanted: bool| records.iter().filter(move |record| record.little == wanted);
        let section = |wanted: bool| {
            let ticks: u64 = of(wanted).map(|record| record.sections_ticks).sum();
            ticks as f64 / of(wanted).map(|record| record.sections).sum::<u64>() as f64
        };
        let littles = of(true).count().max(1) as f64;
        Measurement {
            epochs_per_s: total as f64 / seconds,
            missed: records.iter().map(|record| record.missed).sum(),
            slowest_share: counts().min().unwrap_or(0) as f64 * records.len() as f64 / total as f64,
            dilation: section(true) / section(false),
            window_ns: of(true).map(|record| record.window_ns as f64).sum::<f64>() / littles,
            big,
            little,
        }
    }
}

/// A number below 100, from a sequence that is the same in every run (Marsaglia's xorshift).
fn throw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 33) % 100
}

/// Burns CPU until `length` ticks have passed since `from`; returns how many have.
#[inline]
fn burn_until(from: u64, length: u64) -> u64 {
    loop {
        let passed = ticks().wrapping_sub(from);
        if passed >= length {
            return passed;
        }
    }
}

/// Keeps the calling thread on one CPU.
fn stay_on(cpu: usize) -> Result<(), String> {
    // SAFETY: a CPU set is an array of integers, for which zero is a value; `CPU_SET` checks its bounds, and the
    // call only reads the set.
    let refused = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) != 0
    };
    if refused { Err(format!("CPU {cpu}: {}", std::io::Error::last_os_error())) } else { Ok(()) }
}
