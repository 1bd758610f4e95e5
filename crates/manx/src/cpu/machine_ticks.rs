//! `/proc/stat`: what the machine's CPUs did.
//!
//! The first line sums up all CPUs, those behind it are of one each: user, nice, system, idle,
//! iowait, irq, softirq, steal, and guests, which are in user and nice already. All are in ticks
//! (`platform::usage::tick_ns`).

use crate::cpu::CpuSet;
use crate::cpu::fields::lines;
use crate::cpu::text::{number, words};
use platform::file::File;

/// The longest file that is read: a line of 100 bytes for each of 640 CPUs. Lines beyond count for
/// nothing.
const BYTES_MAX: usize = 64 * 1024;

/// What the machine's CPUs did since it was started, summed over them, in ticks
/// ([`Pressure::tick`](super::Pressure::tick)).
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

/// Reads again and again what some of the machine's CPUs did, from a file that stays open.
///
/// ```
/// use manx::cpu::{CpuSet, TicksWatch};
///
/// if let Some(mut watch) = TicksWatch::of(CpuSet::of_this_thread()) {
///     let before = watch.ticks().expect("the kernel's own file");
///     # std::thread::yield_now();
///     let now = watch.ticks().expect("the kernel's own file");
///     println!("idle since then: {} ticks of these CPUs", now.idle - before.idle);
/// }
/// ```
#[derive(Debug)]
pub struct TicksWatch {
    stat: File,
    cpus: CpuSet,
    text: Vec<u8>,
}

impl TicksWatch {
    /// Watches these CPUs; `None` where `/proc` is missing or masked.
    pub fn of(cpus: CpuSet) -> Option<TicksWatch> {
        let stat = File::open(c"/proc/stat").ok()?;
        Some(TicksWatch { stat, cpus, text: vec![0; BYTES_MAX] })
    }

    /// What they did since the machine was started; `None` if the file has another form or names
    /// none of them. Costs about 10 µs on two CPUs, and allocates nothing.
    pub fn ticks(&mut self) -> Option<MachineTicks> {
        let length = self.stat.read_once_at(&mut self.text, 0).ok()?;
        of_some(&self.text[..length], &self.cpus)
    }
}

/// What the file says of these CPUs; `None` if none of them is there.
fn of_some(text: &[u8], cpus: &CpuSet) -> Option<MachineTicks> {
    let is_of = |name: &[u8]| {
        let cpu = name.strip_prefix(b"cpu").and_then(number);
        cpu.is_some_and(|cpu| cpus.contains(cpu as usize))
    };
    let of_each = lines(text).filter_map(line).filter(|(name, _)| is_of(name));
    of_each.map(|(_, ticks)| ticks).reduce(|one, other| MachineTicks {
        busy: one.busy.saturating_add(other.busy),
        idle: one.idle.saturating_add(other.idle),
        steal: one.steal.saturating_add(other.steal),
    })
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

    #[test]
    fn the_lines_of_some_cpus_are_summed_up() {
        let text = b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 1000 1000 4 5 6 1 1\ncpu1 10 20 30 1000 1000 40 50 60 1 1\nintr 7\n";
        let ticks = |cpus: &str| of_some(text, &cpus.parse().unwrap());
        let of = |busy, idle, steal| Some(MachineTicks { busy, idle, steal });
        assert_eq!([ticks("0-1"), ticks("1")], [of(165, 4000, 66), of(150, 2000, 60)]);
        assert_eq!([ticks("7"), of_some(b"", &"0".parse().unwrap())], [None; 2]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>, some in "(cpu[0-9 x]{0,20}\n){0,5}") {
            for text in [text.clone(), [b"cpu ", &text[..]].concat(), some.into_bytes()] {
                line(&text);
                of_some(&text, &"0-9".parse().unwrap());
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
