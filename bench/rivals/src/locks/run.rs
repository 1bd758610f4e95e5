//! One run: the threads, their epochs, and what is recorded of them.
//!
//! Invariants:
//! 1. Lines of a lock are only touched while it is held. Each section adds one to each of its
//!    lines, with plain loads and stores, so lines that do not add up show a lock that does not
//!    exclude.
//! 2. What is recorded of a thread is the thread's own until it is joined.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use manx::cpu::{Class, set_class_of_this_thread};

use super::case::Work;
use super::clock::{burn_until, now, ns_per_tick};
use super::competitor::{Lock, Measured};
use super::outcome::{Latency, Outcome};
use super::placement::round_trip_ns;
use crate::machine::stay_on;

/// Locks of a run.
const LOCKS: usize = 2;
/// Critical sections of an epoch.
const SECTIONS: usize = 4;
/// Lines that a section touches: 64 in an epoch.
const LINES: usize = 16;
/// Epochs between two looks at whether the run is over, in the uncontended case.
const BATCH: u64 = 256;

/// What a run is.
#[derive(Clone, Debug)]
pub struct Run {
    /// What a thread does.
    pub work: Work,
    /// How many threads.
    pub threads: usize,
    /// How long.
    pub time: Duration,
    /// The CPUs, dealt to the threads in turn.
    pub cpus: Vec<usize>,
    /// Whether threads stay on the CPU that they are dealt.
    pub pinned: bool,
}

#[repr(align(128))]
struct Padded<T>(T);

#[repr(align(64))]
struct Line(u64);

/// A lock and what it protects.
struct Shared<L> {
    lock: Padded<L>,
    lines: UnsafeCell<[[Line; LINES]; SECTIONS / LOCKS]>,
}

// SAFETY: the lines are only touched by the lock's holder (invariant 1).
unsafe impl<L: Sync> Sync for Shared<L> {}

/// What is recorded of a thread.
struct Record {
    epochs: u64,
    elapsed: Duration,
    ticks: Histogram<u64>,
    little: bool,
}

impl Measured for &Run {
    type Output = Result<Outcome, String>;

    fn with<L: Lock>(self) -> Self::Output {
        let shared: [Shared<L>; LOCKS] = std::array::from_fn(|_| Shared {
            lock: Padded(L::new()),
            lines: UnsafeCell::new(std::array::from_fn(|_| std::array::from_fn(|_| Line(0)))),
        });
        let ns_per_tick = ns_per_tick();
        let before = self.probe()?;
        let (ready, stop) = (Barrier::new(self.threads + 1), AtomicBool::new(false));
        let records = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|index| {
                    let (ready, stop, shared) = (&ready, &stop, &shared);
                    scope.spawn(move || {
                        let placed = match self.pinned {
                            true => stay_on(self.cpus[index % self.cpus.len()]),
                            false => Ok(()),
                        };
                        ready.wait();
                        placed.map(|()| self.thread(index, shared, stop, ns_per_tick))
                    })
                })
                .collect();
            ready.wait();
            thread::sleep(self.time);
            stop.store(true, Ordering::Relaxed);
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread panicked".to_string())?)
                .collect::<Result<Vec<Record>, String>>()
        })?;
        if !self.work.uncontended {
            check(shared, records.iter().map(|record| record.epochs).sum())?;
        }
        let after = self.probe()?;
        Ok(self.summarise(&records, before.into_iter().chain(after).collect(), ns_per_tick))
    }
}

impl Run {
    fn probe(&self) -> Result<Option<f64>, String> {
        match self.cpus[..] {
            [first, second, ..] if self.threads > 1 && !self.work.uncontended => {
                round_trip_ns(first, second).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether a thread is slowed down: every second one, so with two CPUs all of the second.
    fn is_little(&self, index: usize) -> bool {
        self.work.dilation > 1.0 && index % 2 == 1
    }

    fn thread<L: Lock>(
        &self,
        index: usize,
        shared: &[Shared<L>; LOCKS],
        stop: &AtomicBool,
        ns_per_tick: f64,
    ) -> Record {
        let little = self.is_little(index);
        // Locks that know classes are told which threads are slow; the machine's cores are all
        // alike.
        set_class_of_this_thread(Some(if little { Class::Little } else { Class::Big }));
        let factor = if little { self.work.dilation } else { 1.0 };
        let hold = (self.work.hold_ns as f64 * factor / ns_per_tick) as u64;
        let think = (self.work.think_ns as f64 * factor / ns_per_tick) as u64;
        let longest = (100e9 / ns_per_tick) as u64;
        let mut ticks = Histogram::new_with_bounds(1, longest, 2).expect("the bounds are in order");
        let (begin, mut epochs) = (Instant::now(), 0);
        if self.work.uncontended {
            while index == 0 && !stop.load(Ordering::Relaxed) {
                for _ in 0..BATCH {
                    shared[0].lock.0.with(|| ());
                }
                epochs += BATCH;
            }
            return Record { epochs, elapsed: begin.elapsed(), ticks, little };
        }
        while !stop.load(Ordering::Relaxed) {
            let start = now();
            for section in 0..SECTIONS {
                let shared = &shared[section % LOCKS];
                shared.lock.0.with(|| {
                    let begin = if hold > 0 { now() } else { 0 };
                    // SAFETY: this thread holds the lock (invariant 1).
                    let lines = unsafe { &mut (*shared.lines.get())[section / LOCKS] };
                    lines.iter_mut().for_each(|line| *black_box(&mut line.0) += 1);
                    if hold > 0 {
                        burn_until(begin, hold);
                    }
                });
            }
            let end = now();
            ticks.saturating_record(end.saturating_sub(start));
            epochs += 1;
            pause();
            if think > 0 {
                burn_until(end, think);
            }
        }
        Record { epochs, elapsed: begin.elapsed(), ticks, little }
    }

    fn summarise(&self, records: &[Record], round_trips_ns: Vec<f64>, ns_per_tick: f64) -> Outcome {
        let seconds = records.iter().map(|record| record.elapsed.as_secs_f64()).fold(0.0, f64::max);
        let working = if self.work.uncontended { &records[..1] } else { records };
        let counts = || working.iter().map(|record| record.epochs as f64);
        let (total, slowest) = (counts().sum::<f64>(), counts().fold(f64::INFINITY, f64::min));
        let of = |wanted: &dyn Fn(&Record) -> bool| {
            latency(working.iter().filter(|record| wanted(record)), ns_per_tick)
        };
        let little: u64 = working.iter().filter(|record| record.little).map(|record| record.epochs).sum();
        Outcome {
            epochs_per_s: total / seconds,
            pair_ns: if self.work.uncontended { records[0].elapsed.as_nanos() as f64 / total } else { 0.0 },
            all: of(&|_| true),
            big: of(&|record| !record.little),
            little: of(&|record| record.little),
            little_part: little as f64 / total,
            slowest_over_mean: slowest * working.len() as f64 / total,
            slowest_over_fastest: slowest / counts().fold(0.0, f64::max),
            round_trips_ns,
        }
    }
}

/// What a thread does between epochs: 600 NOPs.
#[inline(never)]
fn pause() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: the instructions do nothing.
    unsafe {
        std::arch::asm!(".rept 600", "nop", ".endr", options(nomem, nostack, preserves_flags));
    }
}

fn latency<'a>(records: impl Iterator<Item = &'a Record>, ns_per_tick: f64) -> Latency {
    let mut all = Histogram::<u64>::new(2).expect("two digits are allowed");
    for record in records {
        all.add(&record.ticks).expect("a histogram that grows takes every value");
    }
    let ns = |ticks: u64| ticks as f64 * ns_per_tick;
    Latency {
        p50_ns: ns(all.value_at_quantile(0.5)),
        p99_ns: ns(all.value_at_quantile(0.99)),
        p999_ns: ns(all.value_at_quantile(0.999)),
        max_ns: ns(all.max()),
    }
}

fn check<L>(shared: [Shared<L>; LOCKS], epochs: u64) -> Result<(), String> {
    for shared in shared {
        let lines = shared.lines.into_inner();
        if let Some(wrong) = lines.iter().flatten().find(|line| line.0 != epochs) {
            return Err(format!("the lock does not exclude: {} of {epochs} sections counted", wrong.0));
        }
    }
    Ok(())
}
