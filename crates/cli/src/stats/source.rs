//! Where the counts of a process or of a run are.
//!
//! | started with | while it runs, or if it was killed | after a normal exit |
//! | --- | --- | --- |
//! | `--stats=FILE` | `FILE.live` | `FILE`, JSON; `FILE.live` is gone |
//! | `--stats` | `PID.live` in the folder [`folder`] | the same |
//!
//! So of `FILE` and `FILE.live`, the latter is always the newer. A process that runs maps its live
//! file ([`Mapping`]).

use super::recorded::image_of;
use command::failure::{Failure, NO_STATISTICS, reason};
use host::image::Image;
use host::live_file::{LIVE, Mapping};
use preload_abi::live::MAGIC;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// No statistics in JSON are larger: 4096 sites and 1024 locks of less than a kilobyte each.
const JSON_BYTES_MAX: u64 = 16 << 20;

/// The folder of the live files of processes that were given no file.
pub fn folder() -> PathBuf {
    let temporary = std::env::var_os("TMPDIR").filter(|t| !t.is_empty()).unwrap_or_else(|| "/tmp".into());
    // SAFETY: a query that takes nothing and cannot fail.
    let user = unsafe { libc::getuid() };
    Path::new(&temporary).join(format!("manx-stats-{user}"))
}

/// Where counts are read from.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The file that was found: a live file, or JSON.
    path: PathBuf,
    /// The process that was asked for.
    pid: Option<u32>,
}

impl Source {
    /// Finds the counts of `target`, a process id or a file.
    ///
    /// # Errors
    /// With code 1 if there are none.
    pub fn find(target: &OsStr) -> Result<Source, Failure> {
        match target.to_str().filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())) {
            Some(digits) => match digits.parse() {
                Ok(pid) => Source::of_process(pid),
                Err(_) => Err(no_process(digits)),
            },
            None => Ok(Source::of_file(target)),
        }
    }

    fn of_process(pid: u32) -> Result<Source, Failure> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        if !process.exists() {
            let path = folder().join(format!("{pid}{LIVE}"));
            return if path.exists() {
                Ok(Source { path, pid: Some(pid) })
            } else {
                Err(no_process(&pid.to_string()))
            };
        }
        let found = Mapping::of(pid).map_err(|error| {
            Failure::new(
                NO_STATISTICS,
                format!("process {pid}: its memory map cannot be read: {}", reason(&error)),
                "run manx stats as the user who runs the process, or as root",
            )
        })?;
        let (what, help) = match found {
            Mapping { file: Some(live), .. } => return Ok(Source { path: live.path, pid: Some(pid) }),
            Mapping { has_library: true, .. } => (
                "runs under Manx, but has no statistics",
                "start it with `manx run --stats`; they begin when it creates its first thread",
            ),
            _ => ("does not run under Manx", "start the program with `manx run --stats -- PROGRAM`"),
        };
        Err(Failure::new(NO_STATISTICS, format!("process {pid} {what}"), help))
    }

    /// Whether a process of this machine was asked for, and not a file.
    pub fn is_of_process(&self) -> bool {
        self.pid.is_some()
    }

    fn of_file(target: &OsStr) -> Source {
        let mut live = target.to_owned();
        live.push(LIVE);
        let live = PathBuf::from(live);
        Source { path: if live.exists() { live } else { target.into() }, pid: None }
    }

    /// Reads the counts as they are now.
    ///
    /// # Errors
    /// With code 1 if they cannot be read, or are none.
    pub fn read(&self) -> Result<Image, Failure> {
        match read(&self.path) {
            // The program may have ended meanwhile: its live file has become JSON without the
            // suffix.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let ended = self.path.as_os_str().as_bytes().strip_suffix(LIVE.as_bytes());
                let read = ended.and_then(|path| read(Path::new(OsStr::from_bytes(path))).ok());
                read.ok_or_else(|| self.fault(&error))
            }
            other => other.map_err(|error| self.fault(&error)),
        }
    }

    /// Whether the process still runs: the one asked for, or else the one that the file names.
    pub fn is_alive(&self, pid: u32) -> bool {
        Path::new(&format!("/proc/{}", self.pid.unwrap_or(pid))).exists()
    }

    /// `error` as a failure of this source.
    pub fn fault(&self, error: &io::Error) -> Failure {
        let name_it = "name what `manx run --stats=FILE` was given";
        let (what, help) = match error.kind() {
            io::ErrorKind::NotFound => (
                "no such file".to_owned(),
                "name what `manx run --stats=FILE` was given; a program without threads leaves none",
            ),
            io::ErrorKind::PermissionDenied => {
                (reason(error), "run manx stats as the user who ran the program, or as root")
            }
            io::ErrorKind::InvalidData => (error.to_string(), name_it),
            _ => (reason(error), name_it),
        };
        Failure::new(NO_STATISTICS, format!("{}: {what}", self.path.display()), help)
    }
}

/// The error of a file that holds something else.
pub fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

fn read(path: &Path) -> io::Result<Image> {
    // Looked at before it is opened: opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(invalid("a folder, not a statistics file"));
    }
    if !metadata.is_file() {
        return Err(invalid("not a statistics file of Manx"));
    }
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    file.by_ref().take(8).read_to_end(&mut start)?;
    file.rewind()?;
    if start == MAGIC.to_ne_bytes() {
        let mut image = Image::default();
        return match file.read_exact(image.bytes()) {
            Ok(()) => Ok(image),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(invalid("a statistics file that was cut short"))
            }
            Err(error) => Err(error),
        };
    }
    let mut text = Vec::new();
    file.take(JSON_BYTES_MAX).read_to_end(&mut text)?;
    image_of(&text).map_err(invalid)
}

fn no_process(pid: &str) -> Failure {
    Failure::new(
        NO_STATISTICS,
        format!("there is no process {pid}, and {} holds no counts of one", folder().display()),
        "if it was started with --stats=FILE, name FILE",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_file_is_the_newer_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("counts.json");
        std::fs::write(&file, "{}").expect("written");
        assert_eq!(Source::of_file(file.as_os_str()).path, file);
        let live = folder.path().join("counts.json.live");
        std::fs::write(&live, "").expect("written");
        assert_eq!(Source::of_file(file.as_os_str()).path, live);
        assert_eq!(Source::of_file(live.as_os_str()).path, live);
    }

    #[test]
    fn a_live_file_that_became_json_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("counts.json");
        std::fs::write(&file, "{\"schema\": \"manx-stats\", \"version\": 9}").expect("written");
        let source = Source { path: folder.path().join("counts.json.live"), pid: None };
        // The file exists but is unreadable, so the error is about the vanished live file.
        assert!(source.read().expect_err("no counts").what.contains("no such file"));
        let json = "{\"schema\":\"manx-stats\",\"version\":1,\"program\":\"p\",\"pid\":1,\"state\":\"ended\",\
            \"started_unix_ms\":0,\"modules\":0,\"text_bytes\":0,\"scans\":0,\"scan_ns\":0,\
            \"sites_dropped\":0,\"sites\":[]}";
        std::fs::write(&file, json).expect("written");
        assert!(source.read().is_ok());
    }
}
