//! One run: big and little threads, their epochs, and what is recorded of them.
//!
//! An epoch is some critical sections over one lock or two; each section touches some cache lines
//! ([`Work`]). Where the machine's cores are equal, a little thread takes [`Run::dilation`] times
//! as long for each section and for the time between epochs ([`Burn`]). This is wall-clock time,
//! the cache lines included; the dilation that results is measured.
//!
//! Invariants:
//! 1. Lines are only touched while their lock is held. Each section adds one to each of its lines,
//!    with plain loads and stores, so lines that do not add up show a lock that does not exclude.
//! 2. What is recorded of a thread is its own until it is joined, but for the count of its epochs.
//! 3. Epochs of the warm-up are made and counted for Invariant 1, and not recorded.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use manx::cpu::{Class, set_class_of_this_thread};
use manx::slo::{self, Percentile};
use platform::clock::{duration_ns, ns_to_ticks, ticks, ticks_to_ns};
use report::Histogram;

use super::cores::Burn;
use super::length::{Dice, Length};
use super::lock::{Measured, Peer};
use super::timeline::{Recorder, Timeline};
use crate::workers::{self, Padded, Phases};

/// Locks of a run, critical sections of an epoch, and cache lines of a section: at most.
const LOCKS_MAX: usize = 2;
const SECTIONS_MAX: usize = 4;
const LINES_MAX: usize = 64;
/// The longest window.
pub const WINDOW_NS_MAX: u64 = duration_ns(slo::WINDOW_MAX);
/// The one kind of epoch.
const EPOCH: u64 = 1;
/// How often the main thread checks whether there are enough epochs.
const LOOK: Duration = Duration::from_millis(5);

/// How long others may overtake a little thread.
#[derive(Clone, Copy, Debug)]
pub enum Window {
    /// Always this long, in nanoseconds; no epochs are begun.
    Fixed(u64),
    /// Always the same: one window for epochs of the usual length and one for longer epochs; no
    /// epochs are begun.
    ByLength {
        /// Of the usual ones.
        short_ns: u64,
        /// Of longer ones.
        long_ns: u64,
    },
    /// Of an epoch, as [`manx::slo`] finds it: the part of the epochs that the percentile names
    /// ends within `ns`.
    Slo {
        /// How late an epoch may end.
        ns: u64,
        /// How many of them.
        percentile: Percentile,
    },
}

/// What an epoch is.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Critical sections, up to 4.
    pub sections: usize,
    /// Locks, which the sections take in turn: 1 or 2.
    pub locks: usize,
    /// Cache lines that a section touches, up to 64.
    pub lines: usize,
    /// A section's time on a big core; 0: that of its lines.
    pub hold_ns: u64,
    /// 600 NOPs between epochs, in addition to the time between them.
    pub nops: bool,
}

/// What a run is.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many threads.
    pub threads: usize,
    /// The number of big threads, which are the first ones; without it every second thread is
    /// little.
    pub first_big: Option<usize>,
    /// The CPUs, dealt to the threads in turn.
    pub cpus: Vec<usize>,
    /// Threads stay on the CPU that they are dealt; otherwise they go where the kernel lets them,
    /// and are little or big wherever they are.
    pub pinned: bool,
    /// How threads spend time.
    pub burn: Burn,
    /// How many times as long a little thread takes.
    pub dilation: f64,
    /// What an epoch is.
    pub work: Work,
    /// The time between epochs on a big core.
    pub think_ns: u64,
    /// How long epochs are.
    pub length: Length,
    /// The window of little threads.
    pub window: Window,
    /// The time that is measured; before it a fifth of that is warm-up.
    pub time: Duration,
    /// The run continues until little threads have made this number of epochs,
    pub little_epochs: u64,
    /// for this much longer at most.
    pub limit: Duration,
    /// The number of slices of the time that are recorded one by one.
    pub slices: Option<usize>,
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
    /// The slowest thread's epochs over the fastest one's.
    pub slowest_of_fastest: f64,
    /// How many times as long a little thread's sections took, measured.
    pub dilation: f64,
    /// The mean of the little threads' windows when they ended.
    pub window_ns: f64,
    /// Latencies over time.
    pub timeline: Option<Timeline>,
}

#[repr(align(64))]
struct Line(u64);

struct Shared<P> {
    lock: Padded<P>,
    lines: UnsafeCell<[[Line; LINES_MAX]; SECTIONS_MAX]>,
}

// SAFETY: only the holder of the lock touches the lines (Invariant 1).
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
    recorder: Option<Recorder>,
}

impl Measured for &Run {
    type Output = Result<Measurement, String>;

    fn with<P: Peer>(self) -> Self::Output {
        let work = self.work;
        assert!((1..=LOCKS_MAX).contains(&work.locks) && (1..=SECTIONS_MAX).contains(&work.sections));
        assert!(work.lines <= LINES_MAX);
        let shared: [Shared<P>; LOCKS_MAX] = std::array::from_fn(|_| Shared {
            lock: Padded(P::new()),
            lines: UnsafeCell::new(std::array::from_fn(|_| std::array::from_fn(|_| Line(0)))),
        });
        let little_epochs = Padded(AtomicU64::new(0));
        let cpus: &[usize] = if self.pinned { &self.cpus } else { &[] };
        let more = || self.wait_for(&little_epochs.0);
        let records = workers::run_on(cpus, self.threads, self.time, more, |index, phases| {
            phases.begin();
            Ok(self.thread(index, &shared, phases, &little_epochs.0))
        })?
        .records;
        let made: u64 = records.iter().map(|record| record.made).sum();
        let lines = shared.map(|shared| shared.lines.into_inner());
        for section in 0..work.sections {
            let lines = &lines[section % work.locks][section / work.locks][..work.lines];
            if let Some(wrong) = lines.iter().find(|line| line.0 != made) {
                return Err(format!("the lock does not exclude: {} of {made} sections counted", wrong.0));
            }
        }
        Ok(self.summarise(records))
    }
}

impl Run {
    /// Waits until little threads have made epochs enough.
    fn wait_for(&self, little_epochs: &AtomicU64) {
        let limit = Instant::now() + self.limit;
        let wanted = if (0..self.threads).any(|index| self.little(index)) { self.little_epochs } else { 0 };
        while little_epochs.load(Ordering::Relaxed) < wanted && Instant::now() < limit {
            if crate::interrupt::requested() {
                break;
            }
            thread::sleep(LOOK);
        }
    }

    /// Whether a thread is little.
    fn little(&self, index: usize) -> bool {
        self.first_big.map_or(index % 2 == 1, |big| index >= big)
    }

    fn thread<P: Peer>(
        &self,
        index: usize,
        shared: &[Shared<P>; LOCKS_MAX],
        phases: &Phases,
        little_epochs: &AtomicU64,
    ) -> Record {
        let little = self.little(index);
        let work = self.work;
        set_class_of_this_thread(Some(if little { Class::Little } else { Class::Big }));
        let factor = if little { self.dilation } else { 1.0 };
        let hold = self.burn.amount(work.hold_ns, factor);
        let think = self.burn.amount(self.think_ns, factor);
        let mut record = Record {
            little,
            made: 0,
            elapsed: Duration::ZERO,
            latencies: Histogram::new(),
            missed: 0,
            sections_ticks: 0,
            sections: 0,
            window_ns: 0,
            recorder: None,
        };
        let time_ticks = ns_to_ticks(self.time.as_nanos() as u64).max(1);
        let (mut begun, mut begun_ticks, mut dice) = (None, None, Dice::of_thread(index));
        while let Some(counts) = phases.next() {
            if counts && begun.is_none() {
                begun = Some(Instant::now());
                begun_ticks = Some(phases.begun_ticks());
                record.recorder = self.slices.map(|slices| Recorder::new(time_ticks / slices as u64));
            }
            let share = || begun_ticks.map_or(0.0, |begun| since(begun, ticks()) as f64 / time_ticks as f64);
            let times = self.length.next(share, &mut dice);
            let window_ns = match self.window {
                Window::Fixed(ns) => little.then_some(ns),
                Window::ByLength { short_ns, long_ns } => {
                    little.then_some(if times == 1 { short_ns } else { long_ns })
                }
                Window::Slo { .. } => None,
            };
            if let Window::Slo { .. } = self.window {
                slo::start(EPOCH);
            }
            let (start, mut held_ticks) = (ticks(), 0);
            for section in 0..work.sections {
                let shared = &shared[section % work.locks];
                shared.lock.0.with(window_ns, || {
                    let from = if hold > 0 { ticks() } else { 0 };
                    // SAFETY: this thread holds the lock (Invariant 1).
                    let lines = unsafe { &mut (&mut *shared.lines.get())[section / work.locks] };
                    lines[..work.lines].iter_mut().for_each(|line| *black_box(&mut line.0) += 1);
                    if hold > 0 {
                        held_ticks += self.burn.burn(from, hold * times);
                    }
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
                record.sections += work.sections as u64;
                if let (Some(recorder), Some(begun)) = (&mut record.recorder, begun_ticks) {
                    recorder.record(since(begun, end), latency_ns, || self.window_ns_now());
                }
                if little {
                    little_epochs.fetch_add(1, Ordering::Relaxed);
                }
            }
            if work.nops {
                nops();
            }
            self.burn.burn(end, think);
        }
        record.elapsed = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        record.window_ns = self.window_ns_now();
        record
    }

    /// The window that the calling thread's next epoch would have.
    fn window_ns_now(&self) -> u64 {
        match self.window {
            Window::Fixed(ns) | Window::ByLength { long_ns: ns, .. } => ns,
            Window::Slo { .. } => {
                slo::start(EPOCH);
                let window_ns = slo::window_ns().unwrap_or(0);
                slo::abandon(EPOCH);
                window_ns
            }
        }
    }

    fn summarise(&self, mut records: Vec<Record>) -> Measurement {
        let timeline = self.slices.map(|slices| {
            let of = |record: &mut Record| Some((record.little, record.recorder.take()?));
            let threads = records.iter_mut().filter_map(of).collect();
            Timeline::of(threads, self.length.phases(), slices, self.time.as_secs_f64())
        });
        let seconds = records.iter().map(|record| record.elapsed.as_secs_f64()).fold(0.0, f64::max);
        let counts = || records.iter().map(|record| record.latencies.count());
        let total: u64 = counts().sum();
        let (mut big, mut little) = (Histogram::new(), Histogram::new());
        for record in &records {
            if record.little { little.merge(&record.latencies) } else { big.merge(&record.latencies) }
        }
        let of = |wanted: bool| records.iter().filter(move |record| record.little == wanted);
        let section = |wanted: bool| {
            let ticks: u64 = of(wanted).map(|record| record.sections_ticks).sum();
            ticks as f64 / of(wanted).map(|record| record.sections).sum::<u64>() as f64
        };
        let littles = of(true).count().max(1) as f64;
        Measurement {
            epochs_per_s: if total == 0 { 0.0 } else { total as f64 / seconds },
            missed: records.iter().map(|record| record.missed).sum(),
            slowest_share: counts().min().unwrap_or(0) as f64 * records.len() as f64 / total as f64,
            slowest_of_fastest: counts().min().unwrap_or(0) as f64 / counts().max().unwrap_or(0) as f64,
            dilation: section(true) / section(false),
            window_ns: of(true).map(|record| record.window_ns as f64).sum::<f64>() / littles,
            big,
            little,
            timeline,
        }
    }
}

/// Ticks from one moment to the other, on whichever CPU each was read; none if counters are apart
/// by more than that.
fn since(begun: u64, now: u64) -> u64 {
    now.saturating_sub(begun)
}

/// What a thread does between epochs.
#[inline(never)]
fn nops() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: the instructions do nothing.
    unsafe {
        std::arch::asm!(".rept 600", "nop", ".endr", options(nomem, nostack, preserves_flags));
    }
}
