//! `/proc/stat`: what the machine's CPUs did.
//!
//! The first line sums up all CPUs, those behind it are of one each: user, nice, system, idle,
//! iowait, irq, softirq, steal, and guests, which are in user and nice already. All are in ticks
//! (`platform::usage::tick_ns`).

use crate::cpu::fields::lines;
use crate::cpu::text::{number, words};

/// What the machine's CPUs did since it was started, summed over them, in ticks
/// ([`Pressure::tick`](super::Pressure::tick)).
///
/// ```
/// let pressure = manx::cpu::Pressure::read();
/// if let Some(machine) = pressure.machine {
///     let all = machine.busy + machine.idle + machine.steal;
///     println!("{} % of the time since the start, the host ran something else", machine.steal * 100 / all.max(1));
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineTicks {
    /// They ran something, interrupts included.
    pub busy: u64,
    /// They had nothing to run, or waited for a disk.
    pub idle: u64,
    /// The host ran something else, while they had something to run.
    pub steal: u64,
}

/// All CPUs.
pub(super) fn of_all(text: &[u8]) -> Option<MachineTicks> {
    line(lines(text).next()?).filter(|(name, _)| *name == b"cpu").map(|(_, ticks)| ticks)
}

/// A line's name, and what it says.
pub(crate) fn line(line: &[u8]) -> Option<(&[u8], MachineTicks)> {
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

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            for text in [text.clone(), [b"cpu ", &text[..]].concat()] {
                of_all(&text);
            }
        }

        #[test]
        fn written_ticks_are_read(numbers: [u32; 10]) {
            let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let ticks = of_all(format!("cpu  {}\n", words.join(" ")).as_bytes()).expect("it is one");
            let all: u64 = numbers[..8].iter().map(|&number| u64::from(number)).sum();
            prop_assert_eq!(ticks.busy + ticks.idle + ticks.steal, all);
        }
    }
}
