//! Another of Manx's commands: found, and started in the place of this one.
//!
//! `manx` becomes `manx-bench`, as git and cargo start what is not built into
//! them, and `manx-bench` runs `manx run`. The file beside the own executable comes first, because
//! the two were built or installed together; then the folders of PATH are searched. Nothing is
//! forked: signals, exit status, terminal and standard streams are those of the command that is
//! started.

use crate::exec;
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use crate::search;
use crate::sigpipe::Inherited;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// One of Manx's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Companion {
    /// The name of its file
    pub name: &'static str,
    /// What installs it
    pub install: &'static str,
}

/// The command that starts programs.
pub const MANX: Companion = Companion { name: "manx", install: "cargo xtask install" };
/// The server.
/// What measures.
pub const BENCH: Companion = Companion { name: "manx-bench", install: "cargo xtask install --bench" };

impl Companion {
    /// Its file: beside this executable, or else in a folder of PATH.
    ///
    /// # Errors
    /// With code 127 if there is none, 126 if there is one that cannot be executed.
    pub fn find(self) -> Result<PathBuf, Failure> {
        let own = std::env::current_exe().ok();
        self.find_from(own.as_deref().and_then(Path::parent))
    }

    /// The same if this executable lies in `folder`; without /proc its
    /// folder is unknown, and PATH decides.
    fn find_from(self, folder: Option<&Path>) -> Result<PathBuf, Failure> {
        let mut refused = None;
        if let Some(file) = folder.map(|folder| folder.join(self.name)) {
            match search::check(&file) {
                Ok(()) => return Ok(file),
                // As in PATH: a folder of that name is passed over, and a file that may not be
                // executed is reported at the end.
                Err(failure) if failure.code == NOT_EXECUTABLE && !file.is_dir() => refused = Some(failure),
                Err(_) => {}
            }
        }
        search::find(OsStr::new(self.name)).map_err(|failure| match failure.code {
            NOT_EXECUTABLE => refused.unwrap_or(failure),
            _ => refused.unwrap_or_else(|| self.missing(folder)),
        })
    }

    /// Becomes it, with these arguments. Returns only if it cannot.
    pub fn start(self, arguments: &[OsString], inherited: Inherited) -> Failure {
        let file = match self.find() {
            Ok(file) => file,
            Err(failure) => return failure,
        };
        let mut command = vec![file.clone().into_os_string()];
        command.extend_from_slice(arguments);
        inherited.restore();
        exec::exec(&file, &command, &[])
    }

    fn missing(self, folder: Option<&Path>) -> Failure {
        let beside = folder.map(|folder| format!("neither in {} nor ", folder.display()));
        let beside = beside.unwrap_or_else(|| "not ".into());
        Failure::new(
            NOT_FOUND,
            format!("{} is {beside}in the folders of PATH", self.name),
            format!("it is a program of its own: install it with `{}`", self.install),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    /// Not in anybody's PATH.
    const NOBODY: Companion = Companion { name: "manx-nobody-installs-this", install: "cargo install it" };
    /// In everybody's.
    const SHELL: Companion = Companion { name: "sh", install: "" };

    fn put(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let file = folder.join(name);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn the_file_beside_comes_before_path() {
        let folder = tempfile::tempdir().unwrap();
        let in_path = SHELL.find_from(Some(folder.path())).unwrap();
        assert_ne!(in_path.parent(), Some(folder.path()));
        assert_eq!(SHELL.find_from(None), Ok(in_path));
        let beside = put(folder.path(), "sh", 0o755);
        assert_eq!(SHELL.find_from(Some(folder.path())), Ok(beside));
    }

    #[test]
    fn a_file_that_may_not_be_executed_is_passed_over_and_told_of_only_if_there_is_no_other() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "sh", 0o644);
        assert_eq!(SHELL.find_from(Some(folder.path())), SHELL.find_from(None));
        let file = put(folder.path(), NOBODY.name, 0o644);
        let failure = NOBODY.find_from(Some(folder.path())).unwrap_err();
        assert_eq!(failure.code, NOT_EXECUTABLE);
        assert!(failure.what.contains(file.to_str().unwrap()), "{failure}");
    }

    #[test]
    fn a_folder_of_that_name_is_no_command() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(NOBODY.name)).unwrap();
        assert_eq!(NOBODY.find_from(Some(folder.path())).unwrap_err().code, NOT_FOUND);
    }

    #[test]
    fn what_is_missing_is_told_with_where_it_was_sought_and_what_installs_it() {
        let folder = tempfile::tempdir().unwrap();
        let failure = NOBODY.find_from(Some(folder.path())).unwrap_err();
        assert_eq!(failure.code, NOT_FOUND);
        assert!(failure.what.contains(folder.path().to_str().unwrap()), "{failure}");
        assert!(failure.what.contains("PATH") && failure.help.contains(NOBODY.install), "{failure}");
        let failure = NOBODY.find_from(None).unwrap_err();
        assert!(failure.what.ends_with("is not in the folders of PATH"), "{failure}");
    }
}
