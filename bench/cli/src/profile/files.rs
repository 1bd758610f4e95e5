//! The files of a profile: read to be resumed, and replaced as wholes.

use command::failure::{Failure, USAGE, reason};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use workload::profile::{Profile, Sweep};

/// Reads a profile that is to be continued.
pub(super) fn resume(path: &Path, sweep: &Sweep) -> Result<Profile, Failure> {
    let refuse = |why: String, help: &str| {
        Failure::new(USAGE, format!("profile: --resume {}: {why}", path.display()), help)
    };
    let text = fs::read_to_string(path)
        .map_err(|error| refuse(reason(&error), "begin a sweep with --json, and resume it then"))?;
    Profile::resume(&text, sweep)
        .map_err(|why| refuse(why, "give the options it was begun with, or begin anew with --json"))
}

/// Refuses a file that could not be written in the end.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let beside = beside(path);
    let tried = if path.is_dir() {
        Err(io::Error::from_raw_os_error(libc::EISDIR))
    } else {
        fs::write(&beside, b"").and_then(|()| fs::remove_file(&beside))
    };
    tried.map_err(|error| unwritable(path, &error))
}

/// Replaces the file by the profile.
pub(super) fn write_json(path: &Path, profile: &Profile) -> Result<(), Failure> {
    let mut text = serde_json::to_vec(profile).map_err(|error| unwritable(path, &error.into()))?;
    text.push(b'\n');
    write(path, &text)
}

/// Replaces the file, at once.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let beside = beside(path);
    fs::write(&beside, bytes)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let what = format!("profile: {}: {}", path.display(), reason(error));
    Failure::new(USAGE, what, "name a file that can be written, in a folder that can be")
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}
