//! The files that pressure is read from, and what stands in them.

use super::MachineTicks;
use crate::cpu::text::{lines, number, words};
use platform::file::File;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is read of a file: the beginning of `/proc/stat`, and all of the others.
pub(super) const BYTES: usize = 4096;

/// Where the hierarchy that tells of stalls is mounted, alone or beside those of cgroup v1.
const MOUNTS: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];

/// Opens a file below `root`.
pub(super) fn in_root(root: &Path, path: impl AsRef<Path>) -> Option<File> {
    File::open(&CString::new(root.join(path).into_os_string().into_encoded_bytes()).ok()?).ok()
}

/// The beginning of the file.
pub(super) fn read_into<'a>(file: &File, text: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = file.read_once_at(text, 0).ok()?;
    Some(&text[..length])
}

/// `/proc/stat`: its first line sums up all CPUs: user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice.
pub(super) fn machine_ticks(text: &[u8]) -> Option<MachineTicks> {
    let mut words = words(lines(text).next()?);
    if words.next()? != b"cpu" {
        return None;
    }
    let mut next = || words.next().and_then(number);
    let running = [next()?, next()?, next()?];
    let idle = [next()?, next()?];
    // Kernels before 2.6.11 say less.
    let interrupts = [next().unwrap_or(0), next().unwrap_or(0)];
    let steal = next().unwrap_or(0);
    let sum = |numbers: &[u64]| numbers.iter().fold(0_u64, |sum, number| sum.saturating_add(*number));
    Some(MachineTicks { busy: sum(&running).saturating_add(sum(&interrupts)), idle: sum(&idle), steal })
}

/// `/proc/pressure/cpu` and `cpu.pressure`: for how long some thread waited, in µs.
pub(super) fn stalled_us(text: &[u8]) -> Option<u64> {
    let some = lines(text).find(|line| line.starts_with(b"some "))?;
    words(some).find_map(|word| word.strip_prefix(b"total=")).and_then(number)
}

/// `/proc/self/cgroup`: the process' group in the unified hierarchy.
pub(super) fn unified_group(text: &[u8]) -> Option<&[u8]> {
    lines(text).find_map(|line| line.strip_prefix(b"0::"))
}

/// The file of a group of the unified hierarchy, where that is mounted in a usual place. The root of a machine has none.
pub(super) fn group_stalls(root: &Path, group: &[u8]) -> Option<File> {
    let below = Path::new(OsStr::from_bytes(group.strip_prefix(b"/")?)).join("cpu.pressure");
    MOUNTS.iter().find_map(|mount| in_root(root, Path::new(mount).join(&below)))
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
        assert_eq!(machine_ticks(text), Some(ticks));
        assert_eq!(machine_ticks(b"cpu 1 2 3 4 5"), Some(MachineTicks { busy: 6, idle: 9, steal: 0 }));
        for text in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a b c d e", "intr 1 2 3 4 5"] {
            assert_eq!(machine_ticks(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_total_of_some_is_read() {
        let text = b"some avg10=10.53 avg60=3.65 avg300=4.50 total=16207326520\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(stalled_us(text), Some(16_207_326_520));
        for text in ["", "full avg10=0.00 total=7", "some avg10=1.00", "some total=x"] {
            assert_eq!(stalled_us(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_unified_group_is_the_one_without_a_controller() {
        assert_eq!(unified_group(b"2:cpuacct:/a\n1:cpu:/b\n0::/c/d e\n"), Some(&b"/c/d e"[..]));
        assert_eq!(unified_group(b"10::/a\n1:cpu:/b\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            for text in [text.clone(), [b"cpu ", &text[..]].concat(), [b"some total=", &text[..]].concat()] {
                machine_ticks(&text);
                stalled_us(&text);
                unified_group(&text);
            }
        }

        #[test]
        fn what_is_written_is_read(numbers: [u32; 10]) {
            let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let ticks = machine_ticks(format!("cpu  {}\n", words.join(" ")).as_bytes()).expect("it is one");
            let all: u64 = numbers[..8].iter().map(|&number| u64::from(number)).sum();
            prop_assert_eq!(ticks.busy + ticks.idle + ticks.steal, all);
        }
    }
}
