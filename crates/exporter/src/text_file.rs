//! A file with metrics for the textfile collector of node_exporter.
//!
//! The collector may read at any moment, so the file is written beside its place and renamed into
//! it: a reader sees the old one or the new one, whole.

use crate::metric::Family;
use crate::text::{self, Dialect};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What the name of such a file must end in.
pub const EXTENSION: &str = "prom";

/// Writes the file.
///
/// # Errors
/// The system's. Then the file is as it was.
///
/// ```
/// let folder = tempfile::tempdir().unwrap();
/// let file = folder.path().join("manx.prom");
/// exporter::text_file::write(&file, &[]).unwrap();
/// assert_eq!(std::fs::read(&file).unwrap(), b"");
/// ```
pub fn write(path: &Path, families: &[Family]) -> io::Result<()> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    // Another process that writes to the same place has a name of its own.
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = fill(&beside, families).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn fill(path: &Path, families: &[Family]) -> io::Result<()> {
    // What stands there is left of a process that had this number and was killed.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::File::options().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(text::write(families, Dialect::Prometheus).as_bytes())
}
