//! One run: big and little threads, their epochs, and what is recorded of them.
//!
//! Where the machine's cores are equal, a little thread takes [`Run::dilation`] times as long for
//! each section and for the time between epochs. This is wall-clock time, the cache lines included;
//! the dilation that results is measured.
//!
//! Invariants:
//! 1. Lines are only touched while their lock is held. Each section adds one to each of its lines,
//!    with plain loads and stores, so lines that do not add up show a lock that does not exclude.
//! 2. What is recorded of a thread is its own until it is joined, but for the count of its epochs.
//! 3. Epochs of the warm-up are made and counted for Invariant 1, and not recorded.

use crate::burn::{amount, nops, spend};
use crate::peer::{Measured, Peer};
use crate::workers::{self, Padded, Phases};
use contention::length::{Dice, Length};
use contention::run::{Burn, LINES_MAX, LOCKS_MAX, Measurement, NOPS_PER_US, Run, SECTIONS_MAX, Window};
use contention::timeline::{Recorder, Timeline};
use manx::cpu::{Class, set_class_of_this_thread};
use manx::slo::Percentile;
use platform::atomic::{AtomicU64, Ordering};
use platform::cell::UnsafeCell;
use platform::clock::{duration_ns, now_ns, ns_to_ticks, ticks, ticks_to_ns};
use platform::thread;
use report::Histogram;
use std::hint::black_box;

/// The one kind of epoch.
const EPOCH: u64 = 1;
/// How often the main thread checks whether there are enough epochs.
const LOOK_NS: u64 = 5_000_000;

/// What a thread does, for those that look at a trace of a simulated run.
const WAITS: [&str; LOCKS_MAX] = ["waits for lock 1", "waits for lock 2"];
/// See [`WAITS`].
const HOLDS: [&str; LOCKS_MAX] = ["holds lock 1", "holds lock 2"];

platform::os_only! {
    #[inline(always)]
    fn says(_words: &'static str) {}
}
platform::twins_only! {
    use platform::simulation::says;
}

/// A line's count.
#[derive(Default)]
#[repr(align(64))]
struct Line(UnsafeCell<u64>);

impl Line {
    /// # Safety
    /// The caller holds the line's lock.
    unsafe fn add_one(&self) {
        // SAFETY: no other thread touches the line (Invariant 1).
        self.0.with_mut(|count| unsafe { *black_box(&mut *count) += 1 });
    }
}

struct Shared<P> {
    lock: Padded<P>,
    lines: [[Line; LINES_MAX]; SECTIONS_MAX],
}

// SAFETY: only the holder of the lock touches the lines (Invariant 1).
unsafe impl<P: Sync> Sync for Shared<P> {}

/// What is recorded of a thread.
struct Record {
    little: bool,
    made: u64,
    elapsed_ns: u64,
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
        let shared: Box<[Shared<P>; LOCKS_MAX]> = Box::new(std::array::from_fn(|_| Shared {
            lock: Padded(P::new()),
            lines: std::array::from_fn(|_| std::array::from_fn(|_| Line::default())),
        }));
        let little_epochs = Padded(AtomicU64::new(0));
        let cpus: &[usize] = if self.pinned { &self.cpus } else { &[] };
        let more = || wait_for(self, &little_epochs.0);
        let records = workers::run_on(cpus, self.threads, self.time, more, |index, phases| {
            phases.begin();
            Ok(thread(self, index, &shared, phases, &little_epochs.0))
        })?
        .records;
        let made: u64 = records.iter().map(|record| record.made).sum();
        for section in 0..work.sections {
            let lines = &shared[section % work.locks].lines[section / work.locks][..work.lines];
            let mut counts = lines.iter().map(|line| {
                // SAFETY: all threads have ended.
                line.0.with(|count| unsafe { *count })
            });
            if let Some(wrong) = counts.find(|count| *count != made) {
                return Err(format!("the lock does not exclude: {wrong} of {made} sections counted"));
            }
        }
        Ok(summarise(self, records))
    }
}

/// Waits until little threads have made epochs enough.
fn wait_for(run: &Run, little_epochs: &AtomicU64) {
    let limit_ns = now_ns() + duration_ns(run.limit);
    let wanted = if (0..run.threads).any(|index| run.is_little(index)) { run.little_epochs } else { 0 };
    while little_epochs.load(Ordering::Relaxed) < wanted && now_ns() < limit_ns {
        if (run.is_interrupted)() {
            break;
        }
        thread::sleep_ns(LOOK_NS);
    }
}

fn thread<P: Peer>(
    run: &Run,
    index: usize,
    shared: &[Shared<P>; LOCKS_MAX],
    phases: &Phases,
    little_epochs: &AtomicU64,
) -> Record {
    let little = run.is_little(index);
    let work = run.work;
    set_class_of_this_thread(Some(if little { Class::Little } else { Class::Big }));
    let factor = if little { run.dilation } else { 1.0 };
    let hold = amount(run.burn, work.hold_ns, factor);
    let think = amount(run.burn, run.think_ns, factor);
    // Where cores differ, long epochs among short ones are longer by NOPs, as in the paper.
    let by_nops = matches!((run.burn, &run.length), (Burn::Rounds { .. }, Length::Mixed { .. }));
    let hold_nops = if by_nops { work.hold_ns * NOPS_PER_US / 1000 } else { 0 };
    let mut record = Record {
        little,
        made: 0,
        elapsed_ns: 0,
        latencies: Histogram::new(),
        missed: 0,
        sections_ticks: 0,
        sections: 0,
        window_ns: 0,
        recorder: None,
    };
    let time_ticks = ns_to_ticks(run.time.as_nanos() as u64).max(1);
    let (mut begun, mut begun_ticks, mut dice) = (None, None, Dice::of_thread(index));
    while let Some(counts) = phases.next() {
        if counts && begun.is_none() {
            begun = Some(now_ns());
            begun_ticks = Some(phases.begun_ticks());
            record.recorder = run.slices.map(|slices| Recorder::new(time_ticks / slices as u64));
        }
        let share = || begun_ticks.map_or(0.0, |begun| since(begun, ticks()) as f64 / time_ticks as f64);
        let times = run.length.next(share, &mut dice);
        let window_ns = match run.window {
            Window::Fixed(ns) => little.then_some(ns),
            Window::ByLength { short_ns, long_ns } => {
                little.then_some(if times == 1 { short_ns } else { long_ns })
            }
            Window::Slo { .. } => None,
        };
        if let Window::Slo { .. } = run.window {
            P::start(EPOCH);
        }
        let (start, mut held_ticks) = (ticks(), 0);
        for section in 0..work.sections {
            let shared = &shared[section % work.locks];
            says(WAITS[section % work.locks]);
            shared.lock.0.with(window_ns, || {
                says(HOLDS[section % work.locks]);
                let from = if hold > 0 { ticks() } else { 0 };
                // SAFETY: this thread holds the lock.
                let add_one = |line: &Line| unsafe { line.add_one() };
                shared.lines[section / work.locks][..work.lines].iter().for_each(add_one);
                if by_nops && times > 1 {
                    nops(hold_nops * (times - 1));
                }
                if hold > 0 {
                    held_ticks += spend(run.burn, from, if by_nops { hold } else { hold * times });
                }
            });
            says("");
        }
        let end = ticks();
        let latency_ns = ticks_to_ns(end.wrapping_sub(start));
        record.made += 1;
        let mut missed = false;
        if let Window::Slo { ns, percentile } = run.window {
            P::end(EPOCH, ns, own(percentile));
            missed = little && latency_ns > ns;
        }
        if begun.is_some() {
            record.latencies.record(latency_ns);
            record.missed += u64::from(missed);
            record.sections_ticks += held_ticks / times;
            record.sections += work.sections as u64;
            if let (Some(recorder), Some(begun)) = (&mut record.recorder, begun_ticks) {
                recorder.record(since(begun, end), latency_ns, || window_ns_now::<P>(run));
            }
            if little {
                little_epochs.fetch_add(1, Ordering::Relaxed);
            }
        }
        if work.nops > 0 {
            nops(work.nops);
        }
        spend(run.burn, end, think);
    }
    record.elapsed_ns = begun.map_or(0, |begun_ns| now_ns() - begun_ns);
    record.window_ns = window_ns_now::<P>(run);
    record
}

/// The window that the calling thread's next epoch would have.
fn window_ns_now<P: Peer>(run: &Run) -> u64 {
    match run.window {
        Window::Fixed(ns) | Window::ByLength { long_ns: ns, .. } => ns,
        Window::Slo { .. } => P::next_window_ns(EPOCH),
    }
}

fn summarise(run: &Run, mut records: Vec<Record>) -> Measurement {
    let timeline = run.slices.map(|slices| {
        let of = |record: &mut Record| Some((record.little, record.recorder.take()?));
        let threads = records.iter_mut().filter_map(of).collect();
        Timeline::of(threads, run.length.phases(), slices, run.time.as_secs_f64())
    });
    let seconds = records.iter().map(|record| record.elapsed_ns).max().unwrap_or(0) as f64 / 1e9;
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

/// Ticks from one moment to the other, on whichever CPU each was read; none if counters are apart
/// by more than that.
fn since(begun: u64, now: u64) -> u64 {
    now.saturating_sub(begun)
}

/// A percentile of the run, as this machine's `manx` has it.
fn own(percentile: contention::run::Percentile) -> Percentile {
    Percentile::new(percentile.hundredths()).expect("it was one")
}
