//! One run: threads lock ranges, touch them, and unlock them; the run records figures.
//!
//! A run counts, times or checks ([`Mode`]), and does only one of them, because each changes the
//! others: reading the clock twice costs more than an uncontended lock, and checking costs still
//! more. The loop is compiled for each mode.
//!
//! Each thread has a CPU of its own if there are enough CPUs; otherwise the kernel places them.
//!
//! Invariants, beside those of the threads (`worker`):
//! 1. The requests of a batch overlap neither each other nor requests of other threads. So there is
//!    no deadlock.
//! 2. Threads own their state together and borrow nothing. So a lock that forgets a waiter leaves
//!    one thread behind, and the bench goes on.

pub use super::worker::Mode;

use super::competitor::{Measured, Unlocked};
use super::request::Pattern;
use super::worker::{CHECK, COUNT, Record, Shared, TIME};
use crate::machine::stay_on;
use contend::workers::slowest_share;
use manx::range::RawRangeLock;
use platform::clock::{ticks, ticks_to_ns};
use report::Histogram;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that still waits this long after the end of the run has failed. That is an error, and
/// the results of other runs are kept.
const PATIENCE: Duration = Duration::from_secs(30);

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many threads.
    pub threads: usize,
    /// Their requests.
    pub pattern: Pattern,
    /// How many ranges a thread holds at a time.
    pub batch: usize,
    /// How many times a range is written, or read, while it is held.
    pub touches: u32,
    /// One more thread locks the whole space, with pauses of this length.
    pub whole: Option<Duration>,
    /// The time that is measured; before it a fifth of that is warm-up.
    pub time: Duration,
}

/// The figures of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// Ranges locked and unlocked per second, by all threads.
    pub pairs_per_s: f64,
    /// The same, in all.
    pub pairs: u64,
    /// The slowest thread's part of these, times the number of threads.
    pub slowest_share: f64,
    /// The pairs of each thread, in the order of threads.
    pub thread_pairs: Vec<u64>,
    /// How long acquisitions took.
    pub latencies: Histogram,
    /// The longest hold, in nanoseconds.
    pub hold_ns_max: u64,
    /// How long the whole space took.
    pub whole: Histogram,
    /// The longest delay of its thread after a sleep.
    pub late_ns_max: u64,
    /// How many times a thread found another holder in a word that it held, against the rules of
    /// the lock.
    pub violations: u64,
}

impl Run {
    /// The run in this mode, with a competitor's lock.
    ///
    /// # Errors
    /// In words: a CPU that cannot be had, or a thread that still waits for the lock long after all
    /// others have ended.
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
        // The first use of the clock decides the unit of its ticks; it must be before the run.
        platform::clock::init();
        let all = self.threads + usize::from(self.whole.is_some());
        let shared = Arc::new(Shared::new(lock, self.pattern.space(), self.touches, all));
        let cpus = Arc::new(crate::machine::cpus());
        let (sender, results) = mpsc::channel();
        let mut queues = self.pattern.queues(self.threads).into_iter();
        let threads: Vec<_> = (0..all)
            .map(|index| {
                let queue = queues.next().unwrap_or_default();
                let (run, shared, cpus, sender) =
                    (self.clone(), shared.clone(), cpus.clone(), sender.clone());
                thread::spawn(move || {
                    let placed = if all <= cpus.len() { stay_on(cpus[index]) } else { Ok(()) };
                    let record = match run.whole {
                        Some(pause) if index == run.threads => shared.whole::<MODE>(pause),
                        _ => shared.work::<MODE>(queue, run.batch),
                    };
                    // Without a receiver the run no longer waits for this thread.
                    let _ = sender.send(placed.map(|()| (index, record)));
                })
            })
            .collect();
        drop(sender);
        let elapsed = shared.phases.conduct(self.time, || {});
        let mut records = Vec::new();
        let limit = Instant::now() + patience;
        for ended in 0..all {
            match results.recv_timeout(limit.saturating_duration_since(Instant::now())) {
                Ok(recorded) => records.push(recorded?),
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
        records.sort_unstable_by_key(|(index, _)| *index);
        let mut records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();
        let whole = records.drain(self.threads..).next().unwrap_or_default();
        Ok(summarise(&records, elapsed, whole))
    }
}

fn summarise(records: &[Record], elapsed: Duration, whole: Record) -> Measurement {
    let thread_pairs: Vec<u64> = records.iter().map(|record| record.pairs).collect();
    let pairs: u64 = thread_pairs.iter().sum();
    let hold_ticks_max = records.iter().map(|record| record.hold_ticks_max).max().unwrap_or(0);
    let mut latencies = Histogram::new();
    records.iter().for_each(|record| latencies.merge(&record.latencies));
    Measurement {
        pairs_per_s: pairs as f64 / elapsed.as_secs_f64(),
        pairs,
        slowest_share: slowest_share(thread_pairs.iter().copied()),
        thread_pairs,
        latencies,
        hold_ns_max: ticks_to_ns(hold_ticks_max),
        violations: whole.violations + records.iter().map(|record| record.violations).sum::<u64>(),
        whole: whole.whole,
        late_ns_max: whole.late_ns_max,
    }
}

/// A run in a mode, with any competitor.
pub(super) struct Once<'a>(pub &'a Run, pub Mode);

impl Measured for Once<'_> {
    type Output = Result<Measurement, String>;

    fn with<L: RawRangeLock + 'static>(self, make: impl Fn() -> L) -> Self::Output {
        self.0.with(self.1, make())
    }
}

/// What reading the clock costs, in nanoseconds; the least of a few tries, because anything else is
/// a disturbance.
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

// A run in a process of its own, for a lock that keeps what it has allocated for ever.
//
// The thesis' skip list as it is published frees nothing, also not when it is dropped. A second of
// it takes half a gigabyte, and an experiment has a hundred such seconds. A process gives
// everything back when it ends, so each of its runs has one: forked, which costs the run nothing,
// since its threads and all that they allocate come later.
//
// The child has no thread but the caller's. That is no loss where the caller is the only one, as
// in the command; in a test beside other tests the C library sees to its own locks, and the child
// takes no others before it is on its own.

/// Calls `run`, in a process of its own if it is to be `apart`, and returns its result.
///
/// # Errors
/// Those of `run`; and, in words, that there can be no further process, or that it ended without a
/// result.
pub(crate) fn run_apart<T: Serialize + DeserializeOwned>(
    apart: bool,
    run: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    if !apart {
        return run();
    }
    let failed = |what: &str, error: std::io::Error| format!("a process of its own: {what}: {error}");
    let (mut reader, mut writer) = std::io::pipe().map_err(|error| failed("pipe", error))?;
    // SAFETY: the child goes on with what it has been given and ends in `_exit`, so nothing of the
    // parent's is done twice.
    match unsafe { libc::fork() } {
        -1 => Err(failed("fork", std::io::Error::last_os_error())),
        0 => {
            drop(reader);
            let panicked = |_| Err("it panicked".to_owned());
            let result: Result<T, String> = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked);
            let sent = serde_json::to_vec(&result).is_ok_and(|text| writer.write_all(&text).is_ok());
            // SAFETY: it has no preconditions; unlike `exit` it runs none of the parent's handlers.
            unsafe { libc::_exit(i32::from(!sent)) }
        }
        child => {
            drop(writer);
            let mut text = Vec::new();
            let read = reader.read_to_end(&mut text);
            let mut status = 0;
            // SAFETY: the child is this process' and no other thread waits for it; the status is
            // written to a local.
            while unsafe { libc::waitpid(child, &mut status, 0) } == -1
                && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
            {}
            read.map_err(|error| failed("its result", error))?;
            serde_json::from_slice(&text)
                .map_err(|_| format!("a process of its own ended with status {status:#x}"))?
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baselines::range::Map;
    use manx::range::{Access, Span};
    use std::sync::atomic::{AtomicU8, Ordering};

    fn run(pattern: Pattern, batch: usize) -> Run {
        Run { threads: 3, pattern, batch, touches: 1, whole: None, time: Duration::from_millis(20) }
    }

    #[test]
    fn every_acquisition_is_timed_and_nobody_is_met() {
        let window = Pattern::Window { window: 7 * 1024, readers_percent: 50 };
        for run in [run(Pattern::Own { space: 64 * 1024 }, 16), run(window, 1)] {
            let timed = run.with(Mode::Time, Map::new()).unwrap();
            // Acquisitions that the end of the warm-up interrupted are timed and not counted.
            let (count, most) = (timed.latencies.count(), (run.threads * run.batch) as u64);
            assert!((timed.pairs..=timed.pairs + most).contains(&count), "{count} of {}", timed.pairs);
            assert!(timed.slowest_share <= 1.0);
            let checked = run.with(Mode::Check, Map::new()).unwrap();
            assert_eq!(checked.violations, 0);
            assert_eq!(checked.latencies.count(), 0);
        }
    }

    #[test]
    fn a_thread_that_wants_everything_gets_it_in_the_end() {
        let all =
            Run { whole: Some(Duration::from_micros(100)), ..run(Pattern::Widths { space: 1 << 16 }, 1) };
        // On a busy machine a run may be over before its threads were on a CPU.
        let granted = |_| all.with(Mode::Time, Map::new()).unwrap().whole.count() > 0;
        assert!((0..100).any(granted), "never in a hundred runs");
        assert_eq!(all.with(Mode::Check, Map::new()).unwrap().violations, 0);
    }

    /// A lock that gives each thread one range and never another.
    struct Miser(AtomicU8);

    // SAFETY: a thread that has locked once gets nothing else, and here each thread has bytes of
    // its own.
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
    fn a_thread_that_waits_for_ever_is_an_error() {
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

    #[test]
    fn results_and_errors_come_back_and_nothing_else_does() {
        for apart in [false, true] {
            let mut seen = 0;
            assert_eq!(
                run_apart(apart, || Ok(vec![std::process::id()])).unwrap()[0] == std::process::id(),
                !apart
            );
            let error = run_apart::<u32>(apart, || {
                seen += 1;
                Err("broken".into())
            });
            assert_eq!(error, Err("broken".into()));
            assert_eq!(seen, i32::from(!apart), "what the other process did is its own");
        }
    }

    #[test]
    fn a_panic_or_an_early_exit_is_an_error() {
        assert!(run_apart::<u32>(true, || panic!("on purpose")).unwrap_err().contains("panicked"));
        // SAFETY: the child ends itself, which has no preconditions.
        let died = run_apart::<u32>(true, || unsafe { libc::_exit(3) });
        assert!(died.unwrap_err().contains("0x300"));
    }
}
