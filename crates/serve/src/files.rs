//! Files that `manx serve` is given.

use command::failure::{Failure, USAGE, reason};
use manx::txn::durable::Folder;
use server::Password;
use std::fs;
use std::path::Path;

/// No password, certificate or key is longer.
const BYTES_MAX: u64 = 1 << 20;

/// Reads a small file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |why: String| {
        Failure::new(USAGE, format!("{}: {why}", path.display()), "name a file that can be read")
    };
    let about = fs::metadata(path).map_err(|error| wrong(reason(&error)))?;
    if about.len() > BYTES_MAX {
        return Err(wrong(format!("larger than {BYTES_MAX} bytes")));
    }
    fs::read(path).map_err(|error| wrong(reason(&error)))
}

/// Reads a file's first line.
pub(super) fn first_line(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = read(path)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
}

/// Reads the password: the file's first line.
pub(super) fn password(path: &Path) -> Result<Password, Failure> {
    Password::new(&first_line(path)?).map_err(|why| {
        Failure::new(USAGE, format!("{}: {why}", path.display()), "write it into the file's first line")
    })
}

/// Makes the folder if it is not there, for good.
pub(super) fn folder(path: &Path) -> Result<(), Failure> {
    Folder::make(path).map_err(|error| {
        let what = format!("{}: the folder cannot be made: {}", path.display(), reason(&error));
        Failure::new(USAGE, what, "name another with --data")
    })
}
