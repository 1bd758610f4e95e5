//! Whether a process runs under Manx, and its live file.
//!
//! `/proc/PID/maps` says both: the process maps Manx's library, and if it keeps counts, its live
//! file. That is opened through `/proc/PID/root`, as the process itself sees it, for it may live in
//! a container. The path is the process's own choice, so what is opened there is looked at first: a
//! pipe is not waited for, a link that took the file's place is not followed, and only a file that
//! begins as a live file is one.

use preload_abi::LIBRARY_NAME;
use preload_abi::live::{FILE_BYTES, MAGIC};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// No list of mappings is longer.
const MAPS_BYTES_MAX: u64 = 32 << 20;

/// What a live file's name ends in.
pub const LIVE: &str = ".live";

/// What stands behind the path of a file that has been removed.
const DELETED: &[u8] = b" (deleted)";

/// What makes a file itself, whatever its name: its device and its number there.
pub type FileId = (u64, u64);

/// An open live file.
#[derive(Debug)]
pub struct LiveFile {
    /// Where it was found.
    pub path: PathBuf,
    /// The file.
    pub file: File,
    /// Processes that were forked share a file.
    pub id: FileId,
}

impl LiveFile {
    /// Opens a file, if it is a live file.
    ///
    /// ```
    /// assert!(host::live_file::LiveFile::open("/dev/null".into()).is_none());
    /// ```
    pub fn open(path: PathBuf) -> Option<LiveFile> {
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
        let through_link = path.parent().is_some_and(|folder| folder.ends_with("map_files"));
        let flags = if through_link { flags & !libc::O_NOFOLLOW } else { flags };
        let file = File::options().read(true).custom_flags(flags).open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        let mut start = [0; size_of_val(&MAGIC)];
        let is_long = metadata.is_file() && metadata.len() >= FILE_BYTES as u64;
        if !is_long || file.read_exact_at(&mut start, 0).is_err() || start != MAGIC.to_ne_bytes() {
            return None;
        }
        Some(LiveFile { path, file, id: (metadata.dev(), metadata.ino()) })
    }
}

/// What the memory map of a process says of Manx.
#[derive(Debug)]
pub struct Mapping {
    /// Whether the library is in it.
    pub has_library: bool,
    /// The live file that it maps.
    pub file: Option<LiveFile>,
}

impl Mapping {
    /// Reads the memory map of a process. That costs 1 µs for each mapping.
    ///
    /// ```
    /// let own = host::live_file::Mapping::of(std::process::id()).expect("it may be read");
    /// assert!(!own.has_library && own.file.is_none());
    /// ```
    ///
    /// # Errors
    /// If the process has ended, or is another user's.
    pub fn of(pid: u32) -> io::Result<Mapping> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mut maps = Vec::new();
        File::open(process.join("maps"))?.take(MAPS_BYTES_MAX).read_to_end(&mut maps)?;
        let file = mapped_live_files(&maps).find_map(|mapped| LiveFile::open(within(&process, &mapped)));
        Ok(Mapping { has_library: has_library(&maps), file })
    }
}

/// A file that a process maps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    /// The addresses, as the names in `/proc/PID/map_files` are written
    range: String,
    /// Its path, as the process sees it
    path: PathBuf,
    /// Whether it has been removed since
    deleted: bool,
}

/// The files among the mappings of a process whose names are those of live files.
fn mapped_live_files(maps: &[u8]) -> impl Iterator<Item = Mapped> {
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
fn has_library(maps: &[u8]) -> bool {
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
fn within(process: &Path, mapped: &Mapped) -> PathBuf {
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
        assert!(!has_library(maps) && has_library(b"7f00-7f01 r-xp 0 0:0 1 /opt/libmanx_preload.so\n"));
    }
}
