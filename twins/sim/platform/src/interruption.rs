//! What takes a CPU from all threads for a while: the host of a virtual machine (steal), and
//! interrupts.
//!
//! Each CPU has its own ones. The time between two of a kind, and how long one takes, are drawn
//! from exponential distributions with the means of the machine's file. So they come at any time,
//! and independently of each other (a Poisson process).
//!
//! | Linux | here |
//! | --- | --- |
//! | stolen time is no run time of the thread (`update_rq_clock_task`) | the same |
//! | the time of an interrupt is run time of the thread that it has stopped, unless the kernel was built with `IRQ_TIME_ACCOUNTING` | it is |
//! | a host steals from a CPU that wants to run | an idle CPU is stopped, too: its next thread begins later |
//!
//! 1. The draws are from the run's seed, and from no other draws. So a run with other threads has
//!    the same interruptions.

use crate::chance::Chance;
use crate::machine::Noise;
use crate::timers::NEVER;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// How long it takes
    pub ns: u64,
    /// Whether this is run time of the thread that is stopped
    pub is_counted: bool,
}

#[derive(Clone, Debug)]
struct Source {
    next: [u64; 2],
    chance: Chance,
}

/// Those of all CPUs.
#[derive(Debug)]
pub struct Interruptions {
    /// Steal and interrupts: the mean time between two, and the mean of how long one takes.
    means_ns: [(u64, u64); 2],
    sources: Vec<Source>,
}

impl Interruptions {
    /// Those of a machine with `cpus` CPUs.
    pub fn new(noise: &Noise, cpus: usize, seed: u64) -> Interruptions {
        let means_ns =
            [(noise.steal_period_ns, noise.steal_ns), (noise.interrupt_period_ns, noise.interrupt_ns)];
        let mut seeds = Chance::new(!seed);
        let source = || {
            let mut chance = Chance::new(seeds.number());
            Source { next: means_ns.map(|(period_ns, _)| after(&mut chance, 0, period_ns)), chance }
        };
        Interruptions { means_ns, sources: std::iter::repeat_with(source).take(cpus).collect() }
    }

    /// When the next one of a CPU comes; [`NEVER`] if none does.
    pub fn next_ns(&self, cpu: usize) -> u64 {
        let [steal_at, interrupt_at] = self.sources[cpu].next;
        steal_at.min(interrupt_at)
    }

    /// The next one of a CPU comes.
    pub fn take(&mut self, cpu: usize) -> Interruption {
        let Source { next, chance } = &mut self.sources[cpu];
        let kind = usize::from(next[1] < next[0]);
        let (period_ns, mean_ns) = self.means_ns[kind];
        let ns = exponential(chance, mean_ns);
        next[kind] = after(chance, next[kind], period_ns);
        Interruption { ns, is_counted: kind == 1 }
    }
}

/// When the next one comes after `now`.
fn after(chance: &mut Chance, now: u64, period_ns: u64) -> u64 {
    if period_ns == 0 { NEVER } else { now + 1 + exponential(chance, period_ns) }
}

fn exponential(chance: &mut Chance, mean_ns: u64) -> u64 {
    (-(1.0 - chance.unit()).ln() * mean_ns as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_means_are_those_of_the_file() {
        let noise =
            Noise { steal_period_ns: 1_000_000, steal_ns: 100_000, interrupt_period_ns: 0, interrupt_ns: 0 };
        let mut all = Interruptions::new(&noise, 2, 1);
        let (mut sum_ns, mut last) = (0, 0);
        for _ in 0..10_000 {
            let at = all.next_ns(1);
            assert!(at > last);
            last = at;
            let one = all.take(1);
            assert!(!one.is_counted);
            sum_ns += one.ns;
        }
        assert!((9_700_000_000..10_300_000_000).contains(&last), "{last}");
        assert!((970_000_000..1_030_000_000).contains(&sum_ns), "{sum_ns}");
        assert_ne!(all.next_ns(0), Interruptions::new(&noise, 2, 2).next_ns(0));
        assert_eq!(Interruptions::new(&Noise::default(), 1, 1).next_ns(0), NEVER);
    }
}
