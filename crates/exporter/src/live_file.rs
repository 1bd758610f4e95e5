//! The live file of a process: where it is, among the files that the process maps.
//!
//! A process under Manx that keeps counts maps its live file, and `/proc/PID/maps` says where that
//! is. It is opened through `/proc/PID/root`, as the process itself sees it, for it may live in a
//! container.

use preload_abi::LIBRARY_NAME;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// What a live file's name ends in.
pub const LIVE: &str = ".live";

/// What stands behind the path of a file that has been removed.
const DELETED: &[u8] = b" (deleted)";

/// A file that a process maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The addresses, as the names in `/proc/PID/map_files` are written.
    pub range: String,
    /// Its path, as the process sees it.
    pub path: PathBuf,
    /// Whether it has been removed since.
    pub deleted: bool,
}

/// The files among the mappings of a process whose names are those of live files.
///
/// ```
/// let maps = b"7f00-7f01 rw-s 00000000 08:01 13     /tmp/manx-stats-0/7.live\n";
/// let found: Vec<_> = exporter::live_file::mapped_live_files(maps).collect();
/// assert_eq!(found[0].path.to_str(), Some("/tmp/manx-stats-0/7.live"));
/// ```
pub fn mapped_live_files(maps: &[u8]) -> impl Iterator<Item = Mapped> {
    maps.split(|&b| b == b'\n').filter_map(|line| {
        let path = &line[line.iter().position(|&b| b == b'/')?..];
        let (path, deleted) = match path.strip_suffix(DELETED) {
            Some(path) => (path, true),
            None => (path, false),
        };
        if !path.ends_with(LIVE.as_bytes()) {
            return None;
        }
        let range = str::from_utf8(line.split(|&b| b == b' ').next()?).ok()?.to_owned();
        Some(Mapped { range, path: unescape(path).into(), deleted })
    })
}

/// Whether the mappings of a process have Manx's library among them.
pub fn is_guarded(maps: &[u8]) -> bool {
    let is_library = |line: &[u8]| {
        let path = line.strip_suffix(DELETED).unwrap_or(line);
        path.strip_suffix(LIBRARY_NAME.as_bytes()).is_some_and(|folder| folder.ends_with(b"/"))
    };
    maps.split(|&b| b == b'\n').any(is_library)
}

/// The kernel writes a line break in a path as `\012`.
fn unescape(path: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(&byte) = rest.first() {
        let (byte, length) = if rest.starts_with(b"\\012") { (b'\n', 4) } else { (byte, 1) };
        bytes.push(byte);
        rest = &rest[length..];
    }
    OsString::from_vec(bytes)
}

/// The path at which a file that the process with this folder in `/proc` maps can be opened.
pub fn within(process: &Path, mapped: &Mapped) -> PathBuf {
    if mapped.deleted {
        return process.join("map_files").join(&mapped.range);
    }
    let inside = mapped.path.strip_prefix("/").unwrap_or(&mapped.path);
    let through_root = process.join("root").join(inside);
    // Another user's root cannot be entered, but the file itself may be readable.
    if through_root.exists() { through_root } else { mapped.path.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_files_are_found_among_mappings() {
        let maps = b"7f00-7f01 r-xp 00000000 08:01 12   /lib/x.so\n\
            7f0000000000-7f0000100000 rw-s 00000000 08:01 13     /tmp/my counts.json.live\n\
            7f02-7f03 rw-s 00000000 08:01 14     /tmp/a\\012b.live (deleted)\n\
            7f04-7f05 rw-p 00000000 00:00 0      [stack]\n7f06-7f07 rw-p 00000000 00:00 0 \n";
        let found: Vec<Mapped> = mapped_live_files(maps).collect();
        let expected = [
            ("7f0000000000-7f0000100000", "/tmp/my counts.json.live", false),
            ("7f02-7f03", "/tmp/a\nb.live", true),
        ];
        let expected = expected.map(|(range, path, deleted)| Mapped {
            range: range.to_owned(),
            path: path.into(),
            deleted,
        });
        assert_eq!(found, expected);
        assert_eq!(within(Path::new("/proc/7"), &found[1]), Path::new("/proc/7/map_files/7f02-7f03"));
        assert!(!is_guarded(maps) && is_guarded(b"7f00-7f01 r-xp 0 0:0 1 /opt/libmanx_preload.so\n"));
    }
}
