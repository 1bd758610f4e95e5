//! The files that pressure is read from, and what stands in them.

use crate::cpu::fields::lines;
use crate::cpu::text::{number, words};
use platform::file::File;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

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

/// `/proc/pressure/cpu` and `cpu.pressure`: for how long some thread waited.
pub(super) fn stalled(text: &[u8]) -> Option<Duration> {
    let some = lines(text).find(|line| line.starts_with(b"some "))?;
    words(some).find_map(|word| word.strip_prefix(b"total=")).and_then(number).map(Duration::from_micros)
}

/// The file of a group of the unified hierarchy, where that is mounted in a usual place. The root
/// of a machine has none.
pub(super) fn group_stalls(root: &Path, group: &[u8]) -> Option<File> {
    let below = Path::new(OsStr::from_bytes(group.strip_prefix(b"/")?)).join("cpu.pressure");
    MOUNTS.iter().find_map(|mount| in_root(root, Path::new(mount).join(&below)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_total_of_some_is_read() {
        let text = b"some avg10=10.53 avg60=3.65 avg300=4.50 total=16207326520\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(stalled(text), Some(Duration::from_micros(16_207_326_520)));
        for text in ["", "full avg10=0.00 total=7", "some avg10=1.00", "some total=x"] {
            assert_eq!(stalled(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            for text in [text.clone(), [b"some total=", &text[..]].concat()] {
                stalled(&text);
            }
        }
    }
}
