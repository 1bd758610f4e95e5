//! One run: the threads' epochs, as in `manx bench asl`, or uncontended pairs of a lock and an
//! unlock.

use std::time::{Duration, Instant};

use contend::peer::{Measured, Peer};
use contend::workers::{Padded, run_on};
use contention::length::Length;
use contention::run::{self as epochs, Burn, Window};
use manx::cpu::{Class, set_class_of_this_thread};
use report::Histogram;

use super::case::Work;
use super::outcome::{Latency, Outcome};
use super::placement::round_trip_ns;

/// An epoch: 4 sections over 2 locks, each of 16 lines: 64 in all.
const SECTIONS: usize = 4;
const LOCKS: usize = 2;
const LINES: usize = 16;
/// Pairs between two checks of the phase, in the uncontended case.
const BATCH: u64 = 256;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The work of a thread.
    pub work: Work,
    /// The number of threads.
    pub threads: usize,
    /// The measured time; a warm-up of a fifth of it comes before.
    pub time: Duration,
    /// The CPUs, assigned to the threads in turn.
    pub cpus: Vec<usize>,
    /// Whether threads stay on their CPUs.
    pub pinned: bool,
}

impl Measured for &Run {
    type Output = Result<Outcome, String>;

    fn with<P: Peer>(self) -> Self::Output {
        if self.work.uncontended { self.pairs::<P>() } else { self.epochs::<P>() }
    }
}

impl Run {
    fn epochs<P: Peer>(&self) -> Result<Outcome, String> {
        let Work { hold_ns, think_ns, dilation, .. } = self.work;
        let run = epochs::Run {
            threads: self.threads,
            // Every second thread is little: with two CPUs all threads of the second; or none is.
            first_big: (dilation <= 1.0).then_some(self.threads),
            cpus: self.cpus.clone(),
            pinned: self.pinned,
            burn: Burn::Time,
            dilation,
            work: epochs::Work { sections: SECTIONS, locks: LOCKS, lines: LINES, hold_ns, nops: 600 },
            think_ns,
            length: Length::Times(1),
            // A lock that has windows finds its own.
            window: Window::Fixed(0),
            time: self.time,
            little_epochs: 0,
            limit: Duration::ZERO,
            is_interrupted: || false,
            slices: None,
        };
        let before = self.probe()?;
        let found = Measured::with::<P>(&run)?;
        let round_trips_ns = before.into_iter().chain(self.probe()?).collect();
        let mut all = Histogram::new();
        [&found.big, &found.little].into_iter().for_each(|part| all.merge(part));
        if all.count() == 0 {
            return Err("no epoch ended in its time".into());
        }
        Ok(Outcome {
            epochs_per_s: found.epochs_per_s,
            pair_ns: 0.0,
            all: latency(&all),
            big: latency(&found.big),
            little: latency(&found.little),
            little_part: found.little.count() as f64 / all.count() as f64,
            slowest_over_mean: found.slowest_share,
            slowest_over_fastest: found.slowest_of_fastest,
            round_trips_ns,
        })
    }

    /// Only the first thread works.
    fn pairs<P: Peer>(&self) -> Result<Outcome, String> {
        let lock = Padded(P::new());
        let cpus: &[usize] = if self.pinned { &self.cpus } else { &[] };
        let outcome = run_on(
            cpus,
            self.threads,
            self.time,
            || {},
            |index, phases| {
                set_class_of_this_thread(Some(Class::Big));
                phases.begin();
                let (mut made, mut begun) = (0, None);
                while index == 0
                    && let Some(counts) = phases.next()
                {
                    if counts && begun.is_none() {
                        (made, begun) = (0, Some(Instant::now()));
                    }
                    for _ in 0..BATCH {
                        lock.0.with(None, || ());
                    }
                    made += BATCH;
                }
                Ok((made as f64, begun.map_or(Duration::ZERO, |begun| begun.elapsed())))
            },
        )?;
        let (made, elapsed) = outcome.records[0];
        if elapsed.is_zero() {
            return Err("no pair ended in its time".into());
        }
        Ok(Outcome {
            epochs_per_s: made / elapsed.as_secs_f64(),
            pair_ns: elapsed.as_nanos() as f64 / made,
            slowest_over_mean: 1.0,
            slowest_over_fastest: 1.0,
            ..Outcome::default()
        })
    }

    fn probe(&self) -> Result<Option<f64>, String> {
        match self.cpus[..] {
            [first, second, ..] if self.threads > 1 => round_trip_ns(first, second).map(Some),
            _ => Ok(None),
        }
    }
}

fn latency(epochs: &Histogram) -> Latency {
    let found = epochs.summary();
    let [p50_ns, p99_ns, p999_ns, max_ns] =
        [found.p50_ns, found.p99_ns, found.p999_ns, found.max_ns].map(|ns| ns as f64);
    Latency { p50_ns, p99_ns, p999_ns, max_ns }
}
