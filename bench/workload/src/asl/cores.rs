//! Which CPUs are big and which are little: as the machine has them, or half of its equal ones
//! declared little.
//!
//! Cores of different speeds get the same work, and each takes the time that it needs
//! ([`Burn::Rounds`]). Where cores are equal, threads on little ones wait for a longer time
//! ([`Burn::Time`]).

use contend::burn::calculate;
use contention::run::Burn;
use manx::cpu::{Class, Classes};
use platform::clock::{ticks, ticks_to_ns};
use platform_sim::machine::Machine;
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

    /// The classes of a simulated machine's CPUs; none if they are all as fast.
    pub fn simulated(machine: &Machine) -> Option<Cores> {
        let cpus = machine.cpus();
        let most = cpus.iter().map(|cpu| cpu.speed).fold(0.0, f64::max);
        let (big, little): (Vec<usize>, Vec<usize>) =
            (0..cpus.len()).partition(|cpu| cpus[*cpu].speed == most);
        let differ = Some("as the machine's file says".into());
        (!little.is_empty()).then_some(Cores { big, little, differ })
    }

    /// All CPUs, big ones first.
    pub fn all(&self) -> Vec<usize> {
        [&self.big[..], &self.little[..]].concat()
    }
}

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
    fn a_cpu_makes_rounds_if_a_thread_may_be_there() {
        platform::clock::init();
        let Burn::Rounds { per_us } = rounds_of(crate::machine::cpus()[0]).unwrap() else {
            panic!("rounds were asked for")
        };
        assert!(per_us > 0.0 && per_us.is_finite());
        let refused = rounds_of(libc::CPU_SETSIZE as usize - 1);
        assert!(refused.is_err_and(|why| why.contains("CPU 1023")));
    }
}
