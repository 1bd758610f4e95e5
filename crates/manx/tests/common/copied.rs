//! A folder as a crash would leave it.

use std::path::Path;

/// The files of a folder as they are now, in another one.
pub fn copied(from: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in from.read_dir().expect("listed") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
    }
    folder
}
