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
use crate::cpu::CpuSet;
use crate::cpu::fields::lines;
use crate::cpu::machine_ticks::line;
use crate::cpu::text::number;
use platform::clock::process_cpu_ns;
use platform::file::File;
use platform::usage;

/// The highest factor that makes sense: this number of threads for each CPU.
pub(in crate::pool) const OVERCOMMIT_MAX: f64 = 1024.0;
/// The longest file that is read: a line of 100 bytes for each of 640 CPUs. Lines beyond count for
/// nothing.
const BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(in crate::pool) struct Share {
    overcommit: f64,
    stat: Option<File>,
    allowed: CpuSet,
    own_ns: u64,
    all_ns: u64,
    text: Vec<u8>,
}

impl Share {
    pub(in crate::pool) fn new(overcommit: f64) -> Share {
        let mut share = Share {
            overcommit,
            stat: File::open(c"/proc/stat").ok(),
            allowed: CpuSet::of_this_thread(),
            own_ns: 0,
            all_ns: 0,
            text: vec![0; BYTES_MAX],
        };
        share.begin();
        share
    }

    /// What was before does not count.
    pub(in crate::pool) fn begin(&mut self) {
        self.own_ns = process_cpu_ns();
        self.all_ns = self.busy_ns().unwrap_or(0);
    }

    fn busy_ns(&mut self) -> Option<u64> {
        let length = self.stat.as_ref()?.read_at(&mut self.text, 0).ok()?;
        let ticks = busy_ticks(&self.text[..length], &self.allowed)?;
        Some(ticks.saturating_mul(usage::tick_ns()))
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

/// For how long these CPUs ran something, the host's programs included, by `/proc/stat`; `None` if
/// none of them is there.
fn busy_ticks(text: &[u8], cpus: &CpuSet) -> Option<u64> {
    let is_of = |name: &[u8]| {
        let cpu = name.strip_prefix(b"cpu").and_then(number);
        cpu.is_some_and(|cpu| cpus.contains(cpu as usize))
    };
    let of_each = lines(text).filter_map(line).filter(|(name, _)| is_of(name));
    of_each.map(|(_, ticks)| ticks.busy.saturating_add(ticks.steal)).reduce(u64::saturating_add)
}

/// The formula.
fn active(overcommit: f64, own: f64, cpus: f64, limit: u32) -> u32 {
    (overcommit * own.min(1.0) * cpus).ceil().clamp(1.0, f64::from(limit)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lines_of_some_cpus_are_summed_up() {
        let text = b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 1000 1000 4 5 6 1 1\ncpu1 10 20 30 1000 1000 40 50 60 1 1\nintr 7\n";
        let ticks = |cpus: &str| busy_ticks(text, &cpus.parse().unwrap());
        assert_eq!(ticks("0-1"), Some(165 + 66));
        assert_eq!(ticks("1"), Some(150 + 60));
        assert_eq!(ticks("7"), None);
        assert_eq!(busy_ticks(b"", &"0".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>, lines in "(cpu[0-9 x]{0,20}\n){0,5}") {
            for text in [text, lines.into_bytes()] {
                busy_ticks(&text, &"0-9".parse().unwrap());
            }
        }
    }

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
        let mut share = Share { stat: None, ..Share::new(1.0) };
        let seen = Seen { target: 1, limit: 4, ..Seen::default() };
        assert_eq!(share.decide(&seen, 4.0).map(|(to, _)| to), Some(4));
    }
}
