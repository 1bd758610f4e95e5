//! `/proc/stat`: what the machine's CPUs did.
//!
//! The first line sums up all CPUs, those behind it are of one each: user, nice, system, idle,
//! iowait, irq, softirq, steal, and guests, which are in user and nice already. All are in ticks
//! (`platform::usage::tick_ns`).

use crate::cpu::CpuSet;
use crate::cpu::text::{lines, number, words};

/// What the machine's CPUs did since it was started, summed over them, in ticks
/// ([`Pressure::tick_ns`](super::Pressure::tick_ns)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTicks {
    /// They ran something, interrupts included.
    pub busy: u64,
    /// They had nothing to run, or waited for a disk.
    pub idle: u64,
    /// The host ran something else, while they had something to run.
    pub steal: u64,
}

impl MachineTicks {
    fn and(self, other: MachineTicks) -> MachineTicks {
        MachineTicks {
            busy: self.busy.saturating_add(other.busy),
            idle: self.idle.saturating_add(other.idle),
            steal: self.steal.saturating_add(other.steal),
        }
    }
}

/// All CPUs.
pub(super) fn of_all(text: &[u8]) -> Option<MachineTicks> {
    line(lines(text).next()?).filter(|(name, _)| *name == b"cpu").map(|(_, ticks)| ticks)
}

/// These CPUs; `None` if none of them is there.
pub(crate) fn of_cpus(text: &[u8], cpus: &CpuSet) -> Option<MachineTicks> {
    let is_of = |name: &[u8]| {
        let cpu = name.strip_prefix(b"cpu").and_then(number);
        cpu.is_some_and(|cpu| cpus.contains(cpu as usize))
    };
    lines(text).filter_map(line).filter(|(name, _)| is_of(name)).map(|(_, ticks)| ticks).reduce(MachineTicks::and)
}

/// A line's name, and what it says.
fn line(line: &[u8]) -> Option<(&[u8], MachineTicks)> {
    let mut words = words(line);
    let name = words.next()?;
    let mut next = || words.next().and_then(number);
    let running = [next()?, next()?, next()?];
    let idle = [next()?, next()?];
    // Kernels before 2.6.11 say less.
    let interrupts = [next().unwrap_or(0), next().unwrap_or(0)];
    let steal = next().unwrap_or(0);
    let sum = |numbers: &[u64]| numbers.iter().fold(0_u64, |sum, number| sum.saturating_add(*number));
    let busy = sum(&running).saturating_add(sum(&interrupts));
    Some((name, MachineTicks { busy, idle: sum(&idle), steal }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_machines_first_line_is_read() {
        let text = b"cpu  4850447 1195328 817336 4768649 46174 1 7834 115344 5 6\ncpu0 1 2 3 4 5\n";
        let busy = 4_850_447 + 1_195_328 + 817_336 + 1 + 7_834;
        let ticks = MachineTicks { busy, idle: 4_768_649 + 46_174, steal: 115_344 };
        assert_eq!(of_all(text), Some(ticks));
        assert_eq!(of_all(b"cpu 1 2 3 4 5"), Some(MachineTicks { busy: 6, idle: 9, steal: 0 }));
        for text in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a b c d e", "intr 1 2 3 4 5"] {
            assert_eq!(of_all(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_lines_of_some_cpus_are_summed_up() {
        let text = b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 1000 1000 4 5 6 1 1\ncpu1 10 20 30 1000 1000 40 50 60 1 1\nintr 7\n";
        let ticks = |cpus: &str| of_cpus(text, &cpus.parse().unwrap());
        assert_eq!(ticks("0-1"), Some(MachineTicks { busy: 165, idle: 4000, steal: 66 }));
        assert_eq!(ticks("1"), Some(MachineTicks { busy: 150, idle: 2000, steal: 60 }));
        assert_eq!(ticks("7"), None);
        assert_eq!(of_cpus(b"", &"0".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>, lines in "(cpu[0-9 x]{0,20}\n){0,5}") {
            for text in [text.clone(), [b"cpu ", &text[..]].concat(), lines.into_bytes()] {
                of_all(&text);
                of_cpus(&text, &"0-9".parse().unwrap());
            }
        }

        #[test]
        fn what_is_written_is_read(numbers: [u32; 10]) {
            let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let ticks = of_all(format!("cpu  {}\n", words.join(" ")).as_bytes()).expect("it is one");
            let all: u64 = numbers[..8].iter().map(|&number| u64::from(number)).sum();
            prop_assert_eq!(ticks.busy + ticks.idle + ticks.steal, all);
        }
    }
}
