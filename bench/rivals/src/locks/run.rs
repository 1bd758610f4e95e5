//! One run: the threads' epochs, as in `manx bench asl`, or uncontended pairs of a lock and an
//! unlock.

use super::placement::round_trip_ns;
use super::round::Outcome;
use contend::peer::{Measured, Peer};
use contend::workers::{Padded, run_on};
use contention::length::Length;
use contention::run as epochs;
use contention::run::{Burn, Window};
use manx::cpu::{Class, set_class_of_this_thread};
use report::Histogram;
use std::time::{Duration, Instant};

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
            all: all.summary(),
            big: found.big.summary(),
            little: found.little.summary(),
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

/// A case, and the thread counts at which it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// A description for readers of the table.
    pub about: &'static str,
    /// The default thread counts.
    pub threads: &'static [usize],
    /// The work of a thread.
    pub work: Work,
    /// The number of processes that run beside it and never sleep.
    pub hogs: usize,
}

/// The work of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Only the first thread locks and unlocks, without other work, while the main
    /// thread sleeps.
    pub uncontended: bool,
    /// Busy time between epochs, the 600 NOPs included. It is wall time, not CPU time.
    pub think_ns: u64,
    /// Busy time in each critical section, its cache lines included.
    pub hold_ns: u64,
    /// The factor by which a little thread's sections and busy time take longer. Every second
    /// thread is little, unless the factor is 1.
    pub dilation: f64,
}

const PLAIN: Work = Work { uncontended: false, think_ns: 0, hold_ns: 0, dilation: 1.0 };

/// All cases, in the order in which they run.
pub const CASES: &[Case] = &[
    Case {
        name: "uncontended",
        about: "one lock and unlock while a second thread sleeps",
        threads: &[2],
        work: Work { uncontended: true, ..PLAIN },
        hogs: 0,
    },
    Case {
        name: "scaling",
        about: "4 critical sections over 2 locks, 64 cache lines, 600 NOPs between epochs",
        threads: &[1, 2, 4, 8, 16, 32, 64],
        work: PLAIN,
        hogs: 0,
    },
    Case { name: "hogs", about: "scaling beside 2 CPU hogs", threads: &[8, 16], work: PLAIN, hogs: 2 },
    Case {
        name: "parallel",
        about: "20 µs of private work between epochs",
        threads: &[16],
        work: Work { think_ns: 20_000, ..PLAIN },
        hogs: 0,
    },
    Case {
        name: "long",
        about: "128 µs in each critical section",
        threads: &[32],
        work: Work { hold_ns: 128_000, ..PLAIN },
        hogs: 0,
    },
    Case {
        name: "dilated-1.8",
        about: "4 µs of critical sections an epoch; every second thread takes 1.8 times as long",
        threads: &[2, 8],
        work: Work { think_ns: 150, hold_ns: 930, dilation: 1.8, ..PLAIN },
        hogs: 0,
    },
    Case {
        name: "dilated-3.75",
        about: "4 µs of critical sections an epoch; every second thread takes 3.75 times as long",
        threads: &[2, 8],
        work: Work { think_ns: 150, hold_ns: 930, dilation: 3.75, ..PLAIN },
        hogs: 0,
    },
];
