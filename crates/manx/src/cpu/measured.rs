//! Classes from measurements: how long the same work took on each CPU.
//!
//! What the machine tells may be missing, as in most virtual machines, or beside the point: a core
//! may be slow because of a limit on its power, or because its host gives it to others. What counts
//! for a lock is how long it is held. So the times of something that is done on every CPU alike,
//! such as a program's hold times or a fixed piece of work ([`Classes::measure`]), say which cores
//! are slow.
//!
//! *The statistic* is the lower quartile of a CPU's last [`SAMPLES_MAX`] times. Interrupts,
//! preemption and cold caches make a time longer and never shorter, so up to three quarters of them
//! may be disturbed; a time that is too short, for whatever reason, counts for no more than it
//! should, which the minimum could not say. A CPU with less than [`SAMPLES_MIN`] times is not
//! judged, and so it is big.
//!
//! *Speeds* are what the kernel calls capacities: [`FASTEST`] for the fastest CPU, half of it for a
//! CPU that takes twice as long. Two classes are made of them by the rule for all speeds
//! (`split.rs`): at the widest step, if that is wide enough.

use super::CpuSet;
use super::classes::{Classes, Source};
use platform::clock::duration_ns;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of times of a CPU that are needed to judge it.
pub(super) const SAMPLES_MIN: usize = 16;
/// The number of its times that count at most: the last ones.
pub(super) const SAMPLES_MAX: usize = 64;
/// The speed of the fastest CPU.
const FASTEST: u64 = 1024;

/// How long the same work took on each CPU.
///
/// ```
/// use manx::cpu::Samples;
/// use std::time::Duration;
///
/// let mut samples = Samples::default();
/// for _ in 0..100 {
///     samples.record(0, Duration::from_nanos(1_000));
///     samples.record(1, Duration::from_nanos(3_750));
/// }
/// samples.record(0, Duration::from_millis(4)); // It was preempted.
/// assert_eq!(samples.speeds(), [(0, 1024), (1, 273)]);
/// assert_eq!(samples.classes().to_string(), "big:0,little:1");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    of: BTreeMap<usize, Times>,
}

/// A CPU's last times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Times {
    took_ns: Vec<u64>,
    /// Once there are as many as count, which one is the oldest.
    oldest: usize,
}

impl Times {
    fn record(&mut self, took_ns: u64) {
        if self.took_ns.len() < SAMPLES_MAX {
            self.took_ns.push(took_ns);
        } else {
            self.took_ns[self.oldest] = took_ns;
            self.oldest = (self.oldest + 1) % SAMPLES_MAX;
        }
    }

    /// The lower quartile, if there are enough.
    fn typical_ns(&self) -> Option<u64> {
        if self.took_ns.len() < SAMPLES_MIN {
            return None;
        }
        let mut sorted = self.took_ns.clone();
        sorted.sort_unstable();
        Some(sorted[sorted.len() / 4].max(1))
    }
}

impl Samples {
    /// Records how long the work took on this CPU. Do not record it if the thread may have moved
    /// to another CPU meanwhile.
    pub fn record(&mut self, cpu: usize, took: Duration) {
        self.record_ns(cpu, duration_ns(took));
    }

    pub(super) fn record_ns(&mut self, cpu: usize, took_ns: u64) {
        self.of.entry(cpu).or_default().record(took_ns);
    }

    /// How many times count for this CPU: its last 64 at most.
    pub fn count(&self, cpu: usize) -> usize {
        self.of.get(&cpu).map_or(0, |times| times.took_ns.len())
    }

    /// The speed of each CPU with at least 16 times; the fastest one has 1024.
    pub fn speeds(&self) -> Vec<(usize, u64)> {
        let typical: Vec<(usize, u64)> =
            self.of.iter().filter_map(|(&cpu, times)| Some((cpu, times.typical_ns()?))).collect();
        let fastest_ns = typical.iter().map(|&(_, typical_ns)| typical_ns).min().unwrap_or(1);
        // At least 1: a speed of 0 is none.
        let speed = |ns: u64| (u128::from(FASTEST) * u128::from(fastest_ns) / u128::from(ns)) as u64;
        typical.into_iter().map(|(cpu, ns)| (cpu, speed(ns).max(1))).collect()
    }

    /// The class of each CPU by its speed; all are alike if no step is wide enough.
    pub fn classes(&self) -> Classes {
        Classes::from_speeds(self.speeds())
    }

    /// The class of each CPU of a machine: those without enough times are big.
    pub fn classes_on(&self, machine: &CpuSet) -> Classes {
        let speeds = self.speeds();
        let cpus = machine.union(&speeds.iter().map(|&(cpu, _)| cpu).collect());
        Classes::by_speed(&cpus, &speeds, Source::Measured).unwrap_or_else(|| Classes::uniform(cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A CPU's times: of each, how much longer it took than it should have, in thousandths.
    fn disturbed(typical_ns: u64, more: &[u64]) -> impl Iterator<Item = u64> {
        more.iter().map(move |more| typical_ns + typical_ns * more / 1000)
    }

    fn samples(machine: &[(u64, Vec<u64>)]) -> Samples {
        let mut samples = Samples::default();
        for (cpu, (typical_ns, more)) in machine.iter().enumerate() {
            disturbed(*typical_ns, more).for_each(|took_ns| samples.record_ns(cpu, took_ns));
        }
        samples
    }

    /// In an order that chance shuffles, two of five times are longer, by up to a thousand times;
    /// the others by 2 % at most.
    fn noise() -> impl Strategy<Value = Vec<u64>> {
        let one = (0..20_u64, 0..1_000_000_u64);
        let all = prop::collection::vec(one, SAMPLES_MIN..SAMPLES_MAX).prop_map(|times| {
            let pick = |(at, (little, much)): (usize, (u64, u64))| if at % 5 < 2 { much } else { little };
            times.into_iter().enumerate().map(pick).collect::<Vec<_>>()
        });
        all.prop_shuffle()
    }

    proptest! {
        #[test]
        fn slow_cores_are_found_whatever_disturbs_a_part_of_the_times(
            work_ns in 200..1_000_000_u64,
            percent in 125..1_000_u64,
            cores in prop::collection::vec((any::<bool>(), noise()), 2..8),
        ) {
            let times = |slow: bool| if slow { work_ns * percent / 100 } else { work_ns };
            let machine: Vec<_> = cores.iter().map(|(slow, more)| (times(*slow), more.clone())).collect();
            let classes = samples(&machine).classes();
            let differ = cores.iter().any(|(slow, _)| *slow) && cores.iter().any(|(slow, _)| !*slow);
            let little: CpuSet = cores.iter().enumerate().filter(|(_, (slow, _))| *slow && differ).map(|(cpu, _)| cpu).collect();
            prop_assert_eq!(classes.little(), &little, "{:?}", classes);
            prop_assert_eq!(classes.big().len(), cores.len() - little.len());
        }

        #[test]
        fn equal_cores_are_alike(
            work_ns in 200..1_000_000_u64,
            cores in prop::collection::vec((0..8_u64, noise()), 1..8),
        ) {
            let machine: Vec<_> =
                cores.iter().map(|(percent, more)| (work_ns + work_ns * percent / 100, more.clone())).collect();
            prop_assert_eq!(samples(&machine).classes().source(), Source::Alike);
        }

        #[test]
        fn no_time_breaks_it(times in prop::collection::vec((0..9000_usize, any::<u64>()), 0..400)) {
            let mut samples = Samples::default();
            times.into_iter().for_each(|(cpu, took_ns)| samples.record_ns(cpu % 4, took_ns));
            let speeds = samples.speeds();
            prop_assert!(speeds.iter().all(|&(_, speed)| (1..=FASTEST).contains(&speed)));
            prop_assert!(speeds.is_empty() || speeds.iter().any(|&(_, speed)| speed == FASTEST));
            let all = samples.classes_on(&(0..4).collect());
            prop_assert_eq!(all.big().len() + all.little().len(), 4);
        }
    }

    #[test]
    fn a_cpu_with_few_times_is_not_judged() {
        let mut samples = samples(&[(1_000, vec![0; 20]), (9_000, vec![0; SAMPLES_MIN - 1])]);
        assert_eq!((samples.speeds(), samples.count(1)), (vec![(0, FASTEST)], SAMPLES_MIN - 1));
        assert_eq!(samples.classes_on(&(0..3).collect()).to_string(), "big:0-2");
        samples.record_ns(1, 9_000);
        assert_eq!(samples.classes_on(&(0..3).collect()).to_string(), "big:0,2,little:1");
    }

    #[test]
    fn the_last_times_count() {
        let mut samples = samples(&[(1_000, vec![0; 20]), (1_000, vec![0; 1_000])]);
        assert_eq!(samples.count(1), SAMPLES_MAX);
        (0..SAMPLES_MAX).for_each(|_| samples.record(1, Duration::from_micros(2)));
        assert_eq!(samples.classes().to_string(), "big:0,little:1");
    }
}
