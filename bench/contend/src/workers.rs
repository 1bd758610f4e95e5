//! Worker threads that repeat one operation for a time: warm-up, measured time, end.
//!
//! Invariants:
//! 1. An operation counts if it began in the measured time. Each thread keeps its own counts until
//!    it is joined.
//! 2. Only the conductor, the thread that started the run, changes the phase.

use platform::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use platform::clock::{duration_ns, now_ns, ticks};
use platform::{futex, thread};
use std::time::Duration;

/// The phase before the measured time.
pub const WARM_UP: u8 = 0;
/// The phase that is measured.
pub const MEASURE: u8 = 1;
const OVER: u8 = 2;
/// The warm-up takes the measured time, divided by this.
const WARM_UP_PART: u32 = 5;

/// A value that shares its cache line with nothing else.
#[derive(Debug)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// The phases of a run, as its threads see them.
#[derive(Debug)]
pub struct Phases {
    phase: Padded<AtomicU8>,
    /// When the measured time began; written before the phase says so.
    begun_ticks: AtomicU64,
    /// How many have not begun yet.
    missing: AtomicU32,
}

impl Phases {
    /// For `threads` threads beside the conductor.
    pub fn new(threads: usize) -> Phases {
        Phases {
            phase: Padded(AtomicU8::new(WARM_UP)),
            begun_ticks: AtomicU64::new(0),
            missing: AtomicU32::new(threads as u32 + 1),
        }
    }

    /// Waits until all threads have called it. Each thread calls it once, after its preparations.
    pub fn begin(&self) {
        let before = self.missing.fetch_sub(1, Ordering::AcqRel);
        if before == 1 {
            futex::wake_all(&raw const self.missing);
        }
        let mut missing = before - 1;
        while missing != 0 {
            futex::wait(&self.missing, missing);
            missing = self.missing.load(Ordering::Acquire);
        }
    }

    /// The current phase.
    #[inline(always)]
    pub fn phase(&self) -> u8 {
        // Relaxed: the only value that is read because of it is read after a fence.
        self.phase.0.load(Ordering::Relaxed)
    }

    /// Whether the next operation counts; `None` when the run is over.
    #[inline(always)]
    pub fn next(&self) -> Option<bool> {
        match self.phase() {
            OVER => None,
            phase => Some(phase == MEASURE),
        }
    }

    /// When the measured time began. The caller has seen the phase [`MEASURE`].
    pub fn begun_ticks(&self) -> u64 {
        // Acquire: the load of the phase and this fence pair with the conductor's release.
        fence(Ordering::Acquire);
        self.begun_ticks.load(Ordering::Relaxed)
    }

    /// Changes the phases: the threads are measured for `time`, and as long as `more` takes.
    /// Returns the measured time.
    pub fn conduct(&self, time: Duration, more: impl FnOnce()) -> Duration {
        self.begin();
        thread::sleep_ns(duration_ns(time / WARM_UP_PART));
        self.begun_ticks.store(ticks(), Ordering::Relaxed);
        self.phase.0.store(MEASURE, Ordering::Release);
        let begun_ns = now_ns();
        thread::sleep_ns(duration_ns(time));
        more();
        self.phase.0.store(OVER, Ordering::Relaxed);
        Duration::from_nanos(now_ns() - begun_ns)
    }
}

/// What the threads of a run have brought back.
#[derive(Debug)]
pub struct Outcome<R> {
    /// What each thread returned.
    pub records: Vec<R>,
    /// The measured time.
    pub elapsed: Duration,
}

/// Lets `threads` threads work for `time`, and as long as `more` takes, after a warm-up. Thread `i`
/// runs on the CPU `i` modulo their number; if there are none, the kernel places the threads.
///
/// # Errors
/// The first error of a thread, or that one panicked. A thread that fails must have called
/// [`Phases::begin`] before.
pub fn run_on<R: Send>(
    cpus: &[usize],
    threads: usize,
    time: Duration,
    more: impl FnOnce(),
    work: impl Fn(usize, &Phases) -> Result<R, String> + Sync,
) -> Result<Outcome<R>, String> {
    // The first use of the clock decides the unit of its ticks; it must be before the run.
    platform::clock::init();
    let phases = Phases::new(threads);
    thread::scope(|scope| {
        let (phases, work) = (&phases, &work);
        let threads: Vec<_> = (0..threads)
            .map(|index| {
                let cpu = cpus.get(index % cpus.len().max(1)).copied();
                scope.spawn(move || {
                    let placed = cpu.map_or(Ok(()), stay_on);
                    let record = work(index, phases);
                    placed.and(record)
                })
            })
            .collect();
        let elapsed = phases.conduct(time, more);
        let panicked = |_| "a thread panicked".to_owned();
        let records = threads.into_iter().map(|thread| thread.join().map_err(panicked)?);
        Ok(Outcome { records: records.collect::<Result<_, String>>()?, elapsed })
    })
}

/// Keeps the calling thread on one CPU.
fn stay_on(cpu: usize) -> Result<(), String> {
    let mut mask = [0; platform::cpu::COUNT_MAX / 64];
    if let Some(word) = mask.get_mut(cpu / 64) {
        *word = 1 << (cpu % 64);
    }
    let is_bound = platform::cpu::bind(&mask);
    if is_bound { Ok(()) } else { Err(format!("no thread of this process may run on CPU {cpu}")) }
}

/// The smallest count as a share of the mean: 1 if all counts are equal, 0 if all are 0.
pub fn slowest_share(counts: impl Iterator<Item = u64> + Clone) -> f64 {
    let (threads, sum) = (counts.clone().count() as f64, counts.clone().sum::<u64>() as f64);
    if sum == 0.0 { 0.0 } else { counts.min().unwrap_or(0) as f64 * threads / sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_works_and_errors_come_back() {
        let time = Duration::from_millis(20);
        let counts = run_on(
            &[],
            3,
            time,
            || {},
            |index, phases| {
                phases.begin();
                let mut counted = 0u64;
                while let Some(counts) = phases.next() {
                    counted += u64::from(counts);
                    thread::yield_now();
                }
                Ok((index, counted))
            },
        );
        let counts = counts.unwrap();
        assert!(counts.elapsed >= time);
        assert!(counts.records.iter().map(|(index, _)| *index).eq(0..3));
        let failed = run_on(
            &[],
            2,
            time,
            || {},
            |index, phases| {
                phases.begin();
                if index == 1 { Err("broken".to_owned()) } else { Ok(()) }
            },
        );
        assert_eq!(failed.err().as_deref(), Some("broken"));
    }

    #[test]
    fn the_slowest_of_equals_has_its_share_and_of_none_nothing() {
        assert_eq!(slowest_share([5, 5, 5].into_iter()), 1.0);
        assert_eq!(slowest_share([0, 6].into_iter()), 0.0);
        assert_eq!(slowest_share([1, 3].into_iter()), 0.5);
        assert_eq!(slowest_share([0, 0].into_iter()), 0.0);
    }
}
