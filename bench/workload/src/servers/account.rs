//! The folder and the account of a server.
//!
//! PostgreSQL and MariaDB refuse to run as root. So if root runs this process, every server runs as
//! `nobody`, and `nobody` owns the server's folder and nothing else. Otherwise servers run as the
//! user.

use crate::error::{Error, reason};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The number of the user and of the group `nobody`: Linux shows it for users that it does not
/// know.
const NOBODY: u32 = 65534;
/// The library that `manx run` loads into a program.
const LIBRARY: &str = "libmanx_preload.so";
/// The time that a copy of a folder may take.
const COPIED: Duration = Duration::from_secs(60);
/// The longest path of a socket, without the 0 at its end, and the longest name that a server
/// appends to its folder's path.
const SOCKET_MAX: usize = 107;
const SOCKET: usize = "/.s.PGSQL.1.lock".len();

/// An account without privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account(u32);

impl Account {
    /// The account of the servers; `None`: this process's own account.
    pub(super) fn of_servers() -> Option<Account> {
        // SAFETY: geteuid cannot fail and touches no memory.
        (unsafe { libc::geteuid() } == 0).then_some(Account(NOBODY))
    }
}

/// A server's folder. The drop removes it.
#[derive(Debug)]
pub(super) struct Home {
    folder: tempfile::TempDir,
    account: Option<Account>,
}

impl Home {
    /// Makes an empty folder.
    ///
    /// # Errors
    /// The folder cannot be made, or the path of a socket in it would be too long.
    pub(super) fn new(account: Option<Account>) -> Result<Home, Error> {
        let unusable = |why: &str| {
            Error::request(
                format!("{}: {why}", std::env::temp_dir().display()),
                "servers have their files there; TMPDIR names another folder",
            )
        };
        let folder = tempfile::Builder::new().prefix("manx-servers-").tempdir();
        let folder = folder.map_err(|error| unusable(&reason(&error)))?;
        if folder.path().as_os_str().len() + SOCKET > SOCKET_MAX {
            return Err(unusable("too long a name for a folder that holds sockets"));
        }
        if let Some(Account(number)) = account {
            chown(folder.path(), Some(number), Some(number)).map_err(|error| unusable(&reason(&error)))?;
        }
        Ok(Home { folder, account })
    }

    /// Makes another folder with the same files.
    ///
    /// # Errors
    /// As [`Home::new`].
    pub(super) fn copy(&self) -> Result<Home, Error> {
        let copy = Home::new(self.account)?;
        let mut command = Command::new("cp");
        command.arg("-a").arg(self.path().join(".")).arg(copy.path());
        crate::child::run(command, COPIED)?;
        Ok(copy)
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes the command run as the account, with this folder as its home.
    pub(super) fn adopt(&self, command: &mut Command) {
        // What `manx run` finds in a program is kept below the home, where the account may write.
        command.current_dir(self.path()).env("HOME", self.path()).env_remove("XDG_CACHE_HOME");
        if let Some(Account(number)) = self.account {
            command.uid(number).gid(number);
        }
    }

    /// Returns the path of a `manx` that the account can run. The account may have no access to the
    /// folder of root's `manx`, so this is a copy in this folder, with the library beside it.
    /// Without an account it is `manx` itself; also if the library is not beside it, because then
    /// `manx` is installed.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub(super) fn bring(&self, manx: &Path) -> Result<PathBuf, Error> {
        let library = manx.with_file_name(LIBRARY);
        if self.account.is_none() || !library.exists() {
            return Ok(manx.to_owned());
        }
        for file in [manx, &library] {
            let name = file.file_name().unwrap_or_default();
            std::fs::copy(file, self.path().join(name)).map_err(|error| {
                let help = "servers run as nobody, with a copy of manx in a folder below TMPDIR";
                Error::request(format!("{}: {}", file.display(), reason(&error)), help)
            })?;
        }
        Ok(self.path().join(manx.file_name().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_files_and_all_are_gone_in_the_end() {
        let home = Home::new(Account::of_servers()).unwrap();
        std::fs::create_dir(home.path().join("data")).unwrap();
        std::fs::write(home.path().join("data/x"), "y").unwrap();
        let copy = home.copy().unwrap();
        assert_eq!(std::fs::read_to_string(copy.path().join("data/x")).unwrap(), "y");
        let paths = [home.path().to_owned(), copy.path().to_owned()];
        drop((home, copy));
        assert!(paths.iter().all(|path| !path.exists()));
    }

    #[test]
    fn no_server_runs_as_root() {
        let home = Home::new(Account::of_servers()).unwrap();
        let mut command = crate::child::shell("id -u; pwd; touch mine");
        home.adopt(&mut command);
        let said = crate::child::run(command, COPIED).unwrap().stdout;
        let (user, folder) = said.trim().split_once('\n').unwrap();
        assert_ne!(user, "0");
        assert_eq!(Path::new(folder), home.path());
        assert!(home.path().join("mine").exists());
    }

    #[test]
    fn a_manx_in_a_closed_folder_is_brought_with_its_library() {
        let (closed, home) = (tempfile::tempdir().unwrap(), Home::new(Account::of_servers()).unwrap());
        let manx = closed.path().join("manx");
        std::fs::write(&manx, "program").unwrap();
        assert_eq!(home.bring(&manx).unwrap(), manx, "its library is elsewhere, where it is installed");
        std::fs::write(closed.path().join(LIBRARY), "library").unwrap();
        let brought = home.bring(&manx).unwrap();
        assert_eq!(std::fs::read_to_string(&brought).unwrap(), "program");
        assert!(brought.with_file_name(LIBRARY).exists());
        assert_eq!(brought != manx, Account::of_servers().is_some());
    }
}
