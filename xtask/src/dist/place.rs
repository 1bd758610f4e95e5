//! Where what is made lies, and how files are written there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::Result;

/// The version of everything.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is made, and where.
pub struct Dist {
    /// What users get.
    pub out: PathBuf,
    /// What lies between: the built files, the folders that are packed, Debian.
    pub parts: PathBuf,
    /// The Debian package.
    pub package: PathBuf,
}

impl Dist {
    /// The places below cargo's target folder.
    pub fn new(target: &Path) -> Dist {
        let out = target.join("dist");
        let package = out.join(format!("manx_{VERSION}_amd64.deb"));
        Dist { parts: target.join("dist-parts"), package, out }
    }
}

/// A folder without anything in it.
///
/// # Errors
/// If it cannot be made.
pub fn emptied(folder: &Path) -> Result<PathBuf> {
    // What cannot be removed is found when the folder is used.
    let _ = fs::remove_dir_all(folder);
    make_folder(folder)?;
    Ok(folder.into())
}

/// Makes a folder, if it is not there.
///
/// # Errors
/// If it cannot be made.
pub fn make_folder(folder: &Path) -> Result {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Writes a text, and the folder for it.
///
/// # Errors
/// If it cannot be written.
pub fn write(file: &Path, text: &str) -> Result {
    make_folder(file.parent().unwrap_or(file))?;
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
