//! Finds the program's file as `execvp` would, and says in words what is wrong with it.

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, reason};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where programs are sought when there is no `PATH`, as in the C library.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Finds the file that `name` stands for: itself if it holds a slash, else the first executable
/// file of that name in the folders of `PATH`.
///
/// # Errors
/// With code 127 if there is none, 126 if there is one that cannot be executed.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.is_empty() {
        return Err(Failure::new(NOT_FOUND, "the program's name is empty", "name a program to run"));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        check(&path)?;
        return Ok(path);
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut refused = None;
    for folder in std::env::split_paths(&folders) {
        // An empty element of PATH is the current folder.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let candidate = folder.join(name);
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            // A folder of that name is passed over, as a shell does.
            Err(failure) if failure.code == NOT_EXECUTABLE && !candidate.is_dir() => {
                refused.get_or_insert(failure);
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| {
        Failure::new(
            NOT_FOUND,
            format!("{}: no such program in the folders of PATH", name.display()),
            "check the spelling, or give the program's path",
        )
    }))
}

/// Checks that `path` is a file that may be executed.
///
/// # Errors
/// With code 127 if it does not exist, 126 if it cannot be executed.
pub fn check(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            Failure::new(NOT_FOUND, format!("{shown}: no such program"), "check the path")
        }
        _ => Failure::new(
            NOT_EXECUTABLE,
            format!("{shown}: cannot be looked at: {}", reason(&error)),
            "check the rights on the folders that lead to it",
        ),
    })?;
    if metadata.is_dir() {
        return Err(Failure::new(
            NOT_EXECUTABLE,
            format!("{shown}: is a folder, not a program"),
            "name the program in it",
        ));
    }
    if !access(path, libc::X_OK) {
        let help = if metadata.permissions().mode() & 0o111 == 0 {
            format!("if it is a program, make it executable: chmod +x {shown}")
        } else {
            "it is marked executable, but not for you, or its file system is mounted noexec".to_owned()
        };
        return Err(Failure::new(NOT_EXECUTABLE, format!("{shown}: you may not execute it"), help));
    }
    Ok(())
}

/// Whether this process may do `mode` (an access(2) mode) with `path`.
pub fn access(path: &Path, mode: libc::c_int) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is NUL-terminated; the call only reads it.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) == 0 }
}
