//! One file that is installed: it appears whole, in the place of the one before.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::outcome::Result;

/// Copies a file into a folder.
///
/// # Errors
/// If it cannot be written.
pub fn put(file: &Path, folder: &Path, mode: u32) -> Result {
    let name = file.file_name().unwrap_or_default();
    let place = folder.join(name);
    let fresh = folder.join(format!(".{}.new", name.to_string_lossy()));
    fs::create_dir_all(folder)
        .and_then(|()| fs::copy(file, &fresh))
        .and_then(|_| fs::set_permissions(&fresh, Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&fresh, &place))
        .map_err(|error| format!("{} could not be written: {error}", place.display()))?;
    println!("installed {}", place.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_gets_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        let place = folder.path().join("prefix/bin");
        for text in ["old", "new"] {
            fs::write(&file, text).unwrap();
            put(&file, &place, 0o755).unwrap();
        }
        assert_eq!(fs::read_to_string(place.join("tool")).unwrap(), "new");
        assert_eq!(fs::metadata(place.join("tool")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(place).unwrap().count(), 1, "the file that is renamed is gone");
    }
}
