//! Which CPUs are big and which are little: as the machine has them, or half of its equal ones
//! declared little.
//!
//! Cores of different speeds get the same work, and each takes the time that it needs
//! ([`Burn::Rounds`]). Where cores are equal, threads on little ones wait for a longer time
//! ([`Burn::Time`]).

use manx::cpu::{Class, Classes};
use platform::clock::{ns_to_ticks, ticks, ticks_to_ns};
use std::hint::black_box;
use std::thread;

/// The number of rounds of a speed measurement, and the number of measurements.
const ROUNDS: u64 = 200_000;
const PROBES: usize = 9;

/// CPUs by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Of the faster threads
    pub big: Vec<usize>,
    /// Of the slower ones
    pub little: Vec<usize>,
    /// How the machine says that they differ; none if they are equal
    pub differ: Option<String>,
}

impl Cores {
    /// The classes of these CPUs as the machine reports them; none if they are all of one class.
    pub fn real(cpus: &[usize], classes: &Classes) -> Option<Cores> {
        let of = |class| cpus.iter().copied().filter(|&cpu| classes.of(cpu) == class).collect::<Vec<_>>();
        let (big, little) = (of(Class::Big), of(Class::Little));
        let both = !big.is_empty() && !little.is_empty();
        both.then(|| Cores { big, little, differ: Some(classes.why()) })
    }

    /// The first half of these CPUs is big.
    pub fn emulated(cpus: &[usize]) -> Cores {
        let (big, little) = cpus.split_at(cpus.len().div_ceil(2));
        Cores { big: big.into(), little: little.into(), differ: None }
    }

    /// All CPUs, big ones first.
    pub fn all(&self) -> Vec<usize> {
        [&self.big[..], &self.little[..]].concat()
    }
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

impl Burn {
    /// Measures the rounds that this CPU makes in a microsecond.
    ///
    /// # Errors
    /// If a thread must not run there.
    pub fn rounds_of(cpu: usize) -> Result<Burn, String> {
        let measure = move || -> Result<u64, String> {
            crate::machine::stay_on(cpu)?;
            let best = (0..PROBES).map(|_| {
                let from = ticks();
                calculate(ROUNDS);
                ticks_to_ns(ticks().saturating_sub(from)).max(1)
            });
            Ok(best.min().unwrap_or(1))
        };
        let ns = thread::spawn(measure).join().map_err(|_| "a thread panicked".to_string())??;
        Ok(Burn::Rounds { per_us: ROUNDS as f64 * 1000.0 / ns as f64 })
    }

    /// The amount that takes `ns` on a big core; on this core it shall take `factor` times as long.
    pub(super) fn amount(self, ns: u64, factor: f64) -> u64 {
        match self {
            Burn::Time => ns_to_ticks((ns as f64 * factor) as u64),
            Burn::Rounds { per_us } => (ns as f64 * per_us / 1000.0) as u64,
        }
    }

    /// Spends `amount`; returns the ticks since `from`.
    #[inline]
    pub(super) fn burn(self, from: u64, amount: u64) -> u64 {
        if let Burn::Rounds { .. } = self {
            calculate(amount);
            return ticks().wrapping_sub(from);
        }
        loop {
            let passed = ticks().wrapping_sub(from);
            if passed >= amount {
                return passed;
            }
        }
    }
}

/// Makes rounds of a calculation; each round needs the round before (Knuth's linear congruential
/// generator).
#[inline]
fn calculate(rounds: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manx::cpu::CpuSet;

    #[test]
    fn cores_are_as_the_machine_has_them_or_halves() {
        let classes = Classes::from_speeds([(0, 100), (1, 100), (2, 400), (3, 400)]);
        let real = Cores::real(&[0, 1, 3], &classes).unwrap();
        assert_eq!((real.big.as_slice(), real.little.as_slice()), (&[3][..], &[0, 1][..]));
        assert_eq!(real.all(), [3, 0, 1]);
        assert!(real.differ.unwrap().contains("measured"));
        // None of the little ones may be used.
        assert_eq!(Cores::real(&[2, 3], &classes), None);
        let alike: CpuSet = (0..4).collect();
        assert_eq!(Cores::real(&[0, 1, 2], &Classes::uniform(alike)), None);
        let halves = Cores::emulated(&[4, 5, 6]);
        assert_eq!((halves.big, halves.little), (vec![4, 5], vec![6]));
    }

    #[test]
    fn equal_cores_burn_longer_and_unequal_ones_as_many_rounds() {
        platform::clock::init();
        assert!(Burn::Time.amount(1000, 3.75) > 3 * Burn::Time.amount(1000, 1.0));
        let rounds = Burn::Rounds { per_us: 250.0 };
        assert_eq!((rounds.amount(2000, 1.0), rounds.amount(2000, 3.75)), (500, 500));
        let from = ticks();
        assert!(Burn::Time.burn(from, 1000) >= 1000);
        let Burn::Rounds { per_us } = Burn::rounds_of(crate::machine::cpus()[0]).unwrap() else {
            panic!("rounds were asked for")
        };
        assert!(per_us > 0.0 && per_us.is_finite());
        let refused = Burn::rounds_of(libc::CPU_SETSIZE as usize - 1);
        assert!(refused.is_err_and(|why| why.contains("CPU 1023")));
    }
}
