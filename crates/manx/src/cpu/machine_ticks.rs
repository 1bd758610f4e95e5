//! `/proc/stat`: what the machine's CPUs did.
//!
//! The first line sums up all CPUs, those behind it are of one each: user, nice, system, idle,
//! iowait, irq, softirq, steal, and guests, which are in user and nice already. All are in ticks
//! (`platform::usage::tick_ns`).

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
    fn a_line_has_a_name_and_ticks() {
        let text = b"cpu  4850447 1195328 817336 4768649 46174 1 7834 115344 5 6";
        let busy = 4_850_447 + 1_195_328 + 817_336 + 1 + 7_834;
        let ticks = MachineTicks { busy, idle: 4_768_649 + 46_174, steal: 115_344 };
        assert_eq!(line(text), Some((&b"cpu"[..], ticks)));
        assert_eq!(
            line(b"cpu7 1 2 3 4 5"),
            Some((&b"cpu7"[..], MachineTicks { busy: 6, idle: 9, steal: 0 }))
        );
        for text in ["", "cpu 1 2 3", "cpu a b c d e"] {
            assert_eq!(line(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            for text in [text.clone(), [b"cpu ", &text[..]].concat()] {
                line(&text);
            }
        }

        #[test]
        fn written_ticks_are_read(numbers: [u32; 10]) {
            let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let text = format!("cpu  {}", words.join(" "));
            let (_, ticks) = line(text.as_bytes()).expect("it is one");
            let all: u64 = numbers[..8].iter().map(|&number| u64::from(number)).sum();
            prop_assert_eq!(ticks.busy + ticks.idle + ticks.steal, all);
        }
    }
}
