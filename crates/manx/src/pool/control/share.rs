//! The paper's rules (Jeffery and others, section 5.2): as many workers as the process's part of
//! all busy CPU time, times the CPUs, times a factor of overcommitment, rounded up.
//!
//! Busy time is what `/proc/stat` counts, in whole ticks of all CPUs, idle time and waiting for
//! disks left out; times of nice threads, interrupts and other guests are in it. It counts for the
//! CPUs that the process may run on only, where these are a part; and the CPUs are the process's
//! budget. Own time is the process's exact CPU clock. What differs from the first publication of
//! the crate: it is computed at each tick, and not each half second; nice time counts on both
//! sides; and where `/proc` is hidden all workers are active.

use super::{Seen, Why};
use crate::cpu::{CpuSet, TicksWatch};
use platform::clock::process_cpu_ns;
use platform::usage;

#[derive(Debug)]
pub(in crate::pool) struct Share {
    overcommit: f64,
    machine: Option<TicksWatch>,
    own_ns: u64,
    all_ns: u64,
}

impl Share {
    pub(in crate::pool) fn new(overcommit: f64) -> Share {
        let machine = TicksWatch::of(CpuSet::of_this_thread());
        let mut share = Share { overcommit, machine, own_ns: 0, all_ns: 0 };
        share.begin();
        share
    }

    /// What was before does not count.
    pub(in crate::pool) fn begin(&mut self) {
        self.own_ns = process_cpu_ns();
        self.all_ns = self.busy_ns().unwrap_or(0);
    }

    fn busy_ns(&mut self) -> Option<u64> {
        let ticks = self.machine.as_mut()?.ticks()?;
        Some(ticks.busy.saturating_add(ticks.steal).saturating_mul(usage::tick_ns()))
    }

    pub(in crate::pool) fn decide(&mut self, seen: &Seen, cpus: f64) -> Option<(u32, Why)> {
        let (own_before_ns, all_before_ns) = (self.own_ns, self.all_ns);
        let own_ns = process_cpu_ns();
        let Some(all_ns) = self.busy_ns() else { return Some((seen.limit, Why::Share { own: 1.0 })) };
        // All busy time is in whole ticks: if it has not moved on, there is nothing to divide by
        // yet.
        if all_ns <= all_before_ns {
            return None;
        }
        (self.own_ns, self.all_ns) = (own_ns, all_ns);
        let own = own_ns.saturating_sub(own_before_ns) as f64 / (all_ns - all_before_ns) as f64;
        Some((active(self.overcommit, own, cpus, seen.limit), Why::Share { own: own.min(1.0) }))
    }
}

/// The formula.
fn active(overcommit: f64, own: f64, cpus: f64, limit: u32) -> u32 {
    (overcommit * own.min(1.0) * cpus).ceil().clamp(1.0, f64::from(limit)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_is_the_papers() {
        // Alone; beside another one like it; with half as many workers, and with twice as many.
        assert_eq!(active(1.0, 1.0, 16.0, 16), 16);
        assert_eq!(active(1.0, 0.5, 16.0, 16), 8);
        assert_eq!(active(0.5, 1.0, 16.0, 16), 8);
        assert_eq!(active(2.0, 0.5, 16.0, 32), 16);
        assert_eq!(active(1.0, 0.51, 2.0, 2), 2, "rounded up");
        assert_eq!(active(1.0, 0.0, 2.0, 2), 1, "at least one");
        assert_eq!(active(4.0, 1.0, 2.0, 2), 2, "the limit");
    }

    #[test]
    fn a_process_without_proc_has_all_its_workers() {
        let mut share = Share { machine: None, ..Share::new(1.0) };
        let seen = Seen { target: 1, limit: 4, ..Seen::default() };
        assert_eq!(share.decide(&seen, 4.0).map(|(to, _)| to), Some(4));
    }
}
