//! A run: big and little threads, their epochs, CPUs and time.
//!
//! An epoch is some critical sections over one lock or two; each section touches some cache lines
//! ([`Work`]). Where the machine's cores are equal, a little thread takes [`Run::dilation`] times
//! as long for each section and for the time between epochs ([`Burn`]).

pub use manx::slo::Percentile;

use crate::length::Length;
use crate::timeline::Timeline;
use manx::slo;
use report::Histogram;
use std::time::Duration;

/// Locks of a run, critical sections of an epoch, and cache lines of a section: at most.
pub const LOCKS_MAX: usize = 2;
/// See [`LOCKS_MAX`].
pub const SECTIONS_MAX: usize = 4;
/// See [`LOCKS_MAX`].
pub const LINES_MAX: usize = 64;
/// About the NOPs of a microsecond on a big core: four in each cycle of 0.3 ns.
pub const NOPS_PER_US: u64 = 13_333;
/// The longest window.
pub const WINDOW_NS_MAX: u64 = slo::WINDOW_MAX.as_nanos() as u64;

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
    /// NOPs between epochs, in addition to the time between them.
    pub nops: u64,
}

/// How threads spend time.
#[derive(Clone, Copy, Debug)]
pub enum Burn {
    /// Until a time has passed; a longer time on a little core.
    Time,
    /// For a number of rounds of a calculation; the same number on a little core.
    Rounds {
        /// Rounds that a big core makes in a microsecond
        per_us: f64,
    },
}

/// What a run is.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many threads.
    pub threads: usize,
    /// The number of big CPUs, which are the first ones: threads that are dealt one of them are
    /// big. Without it every second thread is little.
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
    /// for this much longer at most, unless this says that it shall end.
    pub limit: Duration,
    /// Asked every few milliseconds while the run continues: true ends it.
    pub is_interrupted: fn() -> bool,
    /// The number of slices of the time that are recorded one by one.
    pub slices: Option<usize>,
}

impl Run {
    /// Whether a thread is little.
    pub fn is_little(&self, index: usize) -> bool {
        let place = if self.cpus.is_empty() { index } else { index % self.cpus.len() };
        self.first_big.map_or(index % 2 == 1, |big| place >= big)
    }
}

/// The measured quantity.
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
    /// The measured slowdown of a little thread's sections.
    pub dilation: f64,
    /// The mean of the little threads' windows when they ended.
    pub window_ns: f64,
    /// Latencies over time.
    pub timeline: Option<Timeline>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_as_big_as_the_cpu_that_it_is_dealt() {
        let run = |first_big, cpus: &[usize]| Run {
            threads: 8,
            first_big,
            cpus: cpus.into(),
            pinned: true,
            burn: Burn::Time,
            dilation: 1.0,
            work: Work { sections: 1, locks: 1, lines: 1, hold_ns: 0, nops: 0 },
            think_ns: 0,
            length: Length::Times(1),
            window: Window::Fixed(0),
            time: Duration::ZERO,
            little_epochs: 0,
            limit: Duration::ZERO,
            is_interrupted: || false,
            slices: None,
        };
        let little = |run: Run| (0..8).filter(|index| run.is_little(*index)).collect::<Vec<_>>();
        assert_eq!(little(run(Some(3), &[4, 5, 6, 0])), [3, 7], "two threads on each CPU");
        assert_eq!(little(run(Some(3), &[])), [3, 4, 5, 6, 7]);
        assert_eq!(little(run(Some(8), &[0, 1])), [0; 0], "all CPUs are big");
        assert_eq!(little(run(None, &[0, 1, 2])), [1, 3, 5, 7]);
    }
}
