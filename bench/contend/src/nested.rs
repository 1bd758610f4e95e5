//! Epochs within epochs, each kind with a target of its own.
//!
//! A thread goes around in rounds. A round is one outer epoch, and inside of it a short epoch of
//! one critical section and a long epoch of the other sections, one after the other. All sections
//! are of one lock, so what one kind of epoch lets pass makes the epoch around it late: the targets
//! compete. The innermost epoch rules (Liu and others, "Asymmetry-aware scalable locking", 2022,
//! section 3.4).
//!
//! Invariant 1: the count is touched by the holder of the lock only. If it is not the number of
//! sections, the lock does not exclude.

use crate::burn::{amount, spend};
use crate::peer::{self, Measured, Peer};
use crate::workers::{self, Padded, Phases};
use contention::lock::Lock;
use contention::run::Run;
use manx::cpu::{Class, set_class_of_this_thread};
use manx::slo::Percentile;
use platform::cell::UnsafeCell;
use platform::clock::{ticks, ticks_to_ns};
use report::Histogram;

/// The kinds of epochs: the round, the short one and the long one. An epoch's id is its place here
/// plus 1.
pub const KINDS: [&str; 3] = ["outer", "short", "long"];
const OUTER: usize = 0;
const SHORT: usize = 1;
const LONG: usize = 2;

/// The epochs of little threads.
#[derive(Debug)]
pub struct Nested {
    /// Rounds per second of all threads.
    pub rounds_per_s: f64,
    /// The latencies of each kind of epoch on little threads.
    pub little: [Histogram; KINDS.len()],
    /// How many of these were late.
    pub missed: [u64; KINDS.len()],
}

/// Makes rounds as `run` has threads, sections and time, with these targets at p99 in nanoseconds;
/// without targets no epochs are begun.
///
/// # Errors
/// As [`crate::run`]'s.
pub fn nested(lock: Lock, run: &Run, slos_ns: Option<[u64; KINDS.len()]>) -> Result<Nested, String> {
    peer::with(lock, Rounds { run, slos_ns })
}

struct Rounds<'a> {
    run: &'a Run,
    slos_ns: Option<[u64; KINDS.len()]>,
}

struct Shared<P> {
    lock: Padded<P>,
    count: UnsafeCell<u64>,
}

// SAFETY: only the holder of the lock touches the count (Invariant 1).
unsafe impl<P: Sync> Sync for Shared<P> {}

/// What is recorded of a thread, by kind.
struct Record {
    little: bool,
    rounds: u64,
    latencies: [Histogram; KINDS.len()],
    missed: [u64; KINDS.len()],
}

impl Measured for Rounds<'_> {
    type Output = Result<Nested, String>;

    fn with<P: Peer>(self) -> Self::Output {
        let run = self.run;
        let shared = Shared { lock: Padded(P::new()), count: UnsafeCell::new(0) };
        let done = workers::run_on(
            &run.cpus,
            run.threads,
            run.time,
            || (),
            |index, phases| {
                phases.begin();
                Ok(self.thread(index, &shared, phases))
            },
        )?;
        let made: u64 = done.records.iter().map(|(made, _)| *made).sum();
        // SAFETY: all threads have ended.
        let count = shared.count.with(|count| unsafe { *count });
        if count != made * run.work.sections as u64 {
            return Err(format!("the lock does not exclude: {count} sections counted in {made} rounds"));
        }
        let rounds: u64 = done.records.iter().map(|(_, record)| record.rounds).sum();
        let mut little = KINDS.map(|_| Histogram::new());
        let mut missed = [0; KINDS.len()];
        for (_, record) in done.records.iter().filter(|(_, record)| record.little) {
            little.iter_mut().zip(&record.latencies).for_each(|(all, one)| all.merge(one));
            missed.iter_mut().zip(record.missed).for_each(|(all, one)| *all += one);
        }
        Ok(Nested { rounds_per_s: rounds as f64 / done.elapsed.as_secs_f64(), little, missed })
    }
}

impl Rounds<'_> {
    /// Makes rounds until the end; returns how many in all, and what was recorded.
    fn thread<P: Peer>(&self, index: usize, shared: &Shared<P>, phases: &Phases) -> (u64, Record) {
        let run = self.run;
        let little = run.is_little(index);
        set_class_of_this_thread(Some(if little { Class::Little } else { Class::Big }));
        let factor = if little { run.dilation } else { 1.0 };
        let hold = amount(run.burn, run.work.hold_ns, factor);
        let think = amount(run.burn, run.think_ns, factor);
        let section = || {
            shared.lock.0.with(None, || {
                // SAFETY: this thread holds the lock.
                shared.count.with_mut(|count| unsafe { *count += 1 });
                spend(run.burn, ticks(), hold);
            });
        };
        let mut record = Record {
            little,
            rounds: 0,
            latencies: KINDS.map(|_| Histogram::new()),
            missed: [0; KINDS.len()],
        };
        let mut made = 0;
        while let Some(counts) = phases.next() {
            made += 1;
            record.rounds += u64::from(counts);
            self.epoch::<P>(OUTER, counts, &mut record, |record| {
                self.epoch::<P>(SHORT, counts, record, |_| section());
                self.epoch::<P>(LONG, counts, record, |_| (1..run.work.sections).for_each(|_| section()));
            });
            spend(run.burn, ticks(), think);
        }
        (made, record)
    }

    /// Makes an epoch of this kind.
    fn epoch<P: Peer>(&self, kind: usize, counts: bool, record: &mut Record, work: impl FnOnce(&mut Record)) {
        let id = kind as u64 + 1;
        if self.slos_ns.is_some() {
            P::start(id);
        }
        let start = ticks();
        work(record);
        let latency_ns = ticks_to_ns(ticks().wrapping_sub(start));
        if let Some(slos_ns) = self.slos_ns {
            P::end(id, slos_ns[kind], Percentile::P99);
            record.missed[kind] += u64::from(counts && latency_ns > slos_ns[kind]);
        }
        if counts {
            record.latencies[kind].record(latency_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contention::length::Length;
    use contention::run::{Burn, Window, Work};
    use std::time::Duration;

    #[test]
    fn rounds_have_an_epoch_of_each_kind_whatever_the_lock_and_its_targets() {
        let run = Run {
            threads: 3,
            first_big: None,
            cpus: vec![],
            pinned: false,
            burn: Burn::Time,
            dilation: 2.0,
            work: Work { sections: 4, locks: 1, lines: 1, hold_ns: 300, nops: 0 },
            think_ns: 300,
            length: Length::Times(1),
            window: Window::Fixed(0),
            time: Duration::from_millis(20),
            little_epochs: 0,
            limit: Duration::ZERO,
            is_interrupted: || false,
            slices: None,
        };
        for slos_ns in [None, Some([0; 3]), Some([u64::MAX; 3])] {
            for lock in [Lock::Mcs, Lock::AslMcs, Lock::Libasl] {
                let found = nested(lock, &run, slos_ns).unwrap();
                let counts = found.little.each_ref().map(Histogram::count);
                assert!(counts.iter().all(|count| *count == counts[OUTER]), "{counts:?}");
                let late = if slos_ns == Some([0; 3]) { counts } else { [0; 3] };
                assert_eq!(found.missed, late, "{}", lock.name());
            }
        }
    }
}
