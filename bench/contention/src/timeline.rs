//! Latencies over time: one histogram for each slice of the measured time.
//!
//! An epoch belongs to the slice in which it ended. Each thread keeps its own slices (`Recorder`)
//! and they are put together when the threads are joined (`Timeline::of`).
//!
//! Invariant: `closed` holds every slice before that of `histogram`, in order; a slice in which no
//! epoch ended is empty.

use report::{Counts, Histogram, Summary};
use serde::{Deserialize, Serialize};

use crate::length::{Phase, phase};

/// One thread's slices.
#[derive(Debug)]
pub struct Recorder {
    slice_ticks: u64,
    histogram: Histogram,
    closed: Vec<Part>,
}

/// A thread's part of a slice.
#[derive(Debug)]
struct Part {
    latencies: Counts,
    window_ns: u64,
}

impl Recorder {
    /// For slices of this length.
    pub fn new(slice_ticks: u64) -> Recorder {
        Recorder { slice_ticks: slice_ticks.max(1), histogram: Histogram::new(), closed: Vec::new() }
    }

    /// Records an epoch that ended `ticks` ticks after the measured time began. `window_ns` is
    /// called when a slice is over.
    pub fn record(&mut self, ticks: u64, latency_ns: u64, window_ns: impl FnOnce() -> u64) {
        let slice = (ticks / self.slice_ticks) as usize;
        if slice > self.closed.len() {
            self.close(slice, window_ns());
        }
        self.histogram.record(latency_ns);
    }

    /// The slices before this one are over.
    fn close(&mut self, slice: usize, window_ns: u64) {
        let latencies = Counts::from(&self.histogram);
        self.histogram = Histogram::new();
        self.closed.push(Part { latencies, window_ns });
        while self.closed.len() < slice {
            self.closed.push(Part { latencies: Counts::default(), window_ns });
        }
    }
}

/// A slice of all threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// When it ended, in seconds of the measured time
    pub end_s: f64,
    /// Epochs of all threads
    pub epochs_per_s: f64,
    /// Epochs of big threads
    pub big: Summary,
    /// Epochs of little threads
    pub little: Summary,
    /// The mean of the little threads' windows
    pub window_ns: f64,
}

/// The slices of a phase together.
#[derive(Clone, Debug)]
pub struct PhaseRecord {
    /// Its name
    pub name: &'static str,
    /// How many slices it has
    pub slices: usize,
    /// Epochs of big threads
    pub big: Histogram,
    /// Epochs of little threads
    pub little: Histogram,
    /// The little threads' windows when its last slice was over
    pub window_ns: f64,
}

/// All slices of a run.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// In order
    pub slices: Vec<Slice>,
    /// By phase
    pub phases: Vec<PhaseRecord>,
}

impl Timeline {
    /// Merges the slices of all threads: `(little, its recorder)` of each. There are `count` slices
    /// in `seconds`; later epochs are left out.
    pub fn of(
        mut threads: Vec<(bool, Recorder)>,
        phases: &'static [Phase],
        count: usize,
        seconds: f64,
    ) -> Timeline {
        for (_, recorder) in &mut threads {
            if recorder.closed.len() < count {
                let window_ns = recorder.closed.last().map_or(0, |part| part.window_ns);
                recorder.close(count, window_ns);
            }
        }
        let slice_s = seconds / count as f64;
        let mut timeline = Timeline::default();
        for at in 0..count {
            let mut classes = [Histogram::new(), Histogram::new()];
            let (mut windows, mut littles) = (0.0, 0);
            for (little, recorder) in &threads {
                let part = &recorder.closed[at];
                // Counts that were made from a histogram can be made into one.
                if let Ok(latencies) = Histogram::try_from(&part.latencies) {
                    classes[usize::from(*little)].merge(&latencies);
                }
                if *little {
                    windows += part.window_ns as f64;
                    littles += 1;
                }
            }
            let [big, little] = &classes;
            let epochs = (big.count() + little.count()) as f64;
            let window_ns = windows / f64::from(littles.max(1));
            timeline.slices.push(Slice {
                end_s: (at + 1) as f64 * slice_s,
                epochs_per_s: epochs / slice_s,
                big: big.summary(),
                little: little.summary(),
                window_ns,
            });
            if phases.is_empty() {
                continue;
            }
            // By the slice's middle: the end of a phase may not be a number that a float holds.
            let name = phases[phase(phases, (at as f64 + 0.5) / count as f64)].name;
            timeline.add(name, big, little, window_ns);
        }
        timeline
    }

    /// Adds a slice to its phase.
    fn add(&mut self, name: &'static str, big: &Histogram, little: &Histogram, window_ns: f64) {
        if self.phases.last().is_none_or(|last| last.name != name) {
            self.phases.push(PhaseRecord {
                name,
                slices: 0,
                big: Histogram::new(),
                little: Histogram::new(),
                window_ns,
            });
        }
        let Some(last) = self.phases.last_mut() else { return };
        last.big.merge(big);
        last.little.merge(little);
        last.window_ns = window_ns;
        last.slices += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: &[Phase] = &[
        Phase { name: "short", until: 0.5, times: (1, 1) },
        Phase { name: "long", until: 1.0, times: (9, 9) },
    ];

    #[test]
    fn slices_are_put_together_by_time_and_by_part_and_nothing_is_lost() {
        let (mut big, mut little) = (Recorder::new(100), Recorder::new(100));
        for tick in 0..100 {
            big.record(tick, 10, || 0);
        }
        big.record(399, 20, || 0);
        little.record(150, 30, || 5);
        little.record(310, 90, || 6);
        // After the last slice.
        little.record(400, 1_000_000, || 7);
        let timeline = Timeline::of(vec![(false, big), (true, little)], PHASES, 4, 2.0);
        let counts: Vec<_> = timeline.slices.iter().map(|s| (s.big.count, s.little.count)).collect();
        assert_eq!(counts, [(100, 0), (0, 1), (0, 0), (1, 1)]);
        let windows: Vec<f64> = timeline.slices.iter().map(|s| s.window_ns).collect();
        assert_eq!(windows, [5.0, 6.0, 6.0, 7.0]);
        assert_eq!((timeline.slices[0].end_s, timeline.slices[0].epochs_per_s), (0.5, 200.0));
        let [short, long] = &timeline.phases[..] else { panic!("two parts") };
        assert_eq!((short.name, short.slices, short.big.count(), short.little.count()), ("short", 2, 100, 1));
        assert_eq!((long.name, long.slices, long.big.count(), long.little.count()), ("long", 2, 1, 1));
        assert_eq!((long.little.summary().max_ns, long.window_ns), (90, 7.0));
    }

    #[test]
    fn a_thread_without_an_epoch_has_empty_slices() {
        let timeline = Timeline::of(vec![(true, Recorder::new(100))], &[], 3, 3.0);
        assert_eq!(timeline.slices.len(), 3);
        assert!(timeline.slices.iter().all(|slice| slice.little.count == 0 && slice.epochs_per_s == 0.0));
        assert!(timeline.phases.is_empty());
    }
}
