//! PostgreSQL, loaded by pgbench.
//!
//! | in the folder | what it is |
//! | --- | --- |
//! | `data` | the server's files |
//! | `.s.PGSQL.1` | its socket |
//! | `log.*` | a line for each transaction, from pgbench |
//!
//! PostgreSQL has its default settings, except that its tables are not logged, no file is synced,
//! commits do not wait, and `autovacuum` is off. Before a run that writes, pgbench vacuums its
//! small tables and empties the history.

use super::account::Home;
use super::driver::{Driver, Load, SLACK, find, option, ping, words};
use super::pgbench;
use crate::child;
use crate::error::{Error, reason};
use crate::harness::Sample;
use crate::machine::POSTGRES;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Debian package of the programs.
const PACKAGES: &str = "postgresql";
/// The number of branches; each branch has 100,000 accounts.
const SCALE: u32 = 10;
const QUICK_SCALE: u32 = 1;
/// The number of connections beyond those of the clients.
const SPARE: usize = 8;
/// The number of pgbench's threads.
const THREADS: usize = 2;
/// The script that only reads.
const SELECT: &str = "select-only";
/// The prefix of the names of pgbench's logs.
const LOG: &str = "log";

#[derive(Debug)]
pub(super) struct Postgres {
    server: PathBuf,
    initdb: PathBuf,
    isready: PathBuf,
    pgbench: PathBuf,
    /// The script of pgbench
    script: &'static str,
    scale: u32,
    load: Load,
}

impl Postgres {
    /// # Errors
    /// [`Error::Missing`] if one of the programs is not installed.
    pub(super) fn find(script: &'static str, load: Load, quick: bool) -> Result<Postgres, Error> {
        let folder = newest(Path::new(POSTGRES)).map(|version| version.join("bin"));
        let find = |name: &str| match folder.as_ref().map(|folder| folder.join(name)) {
            Some(file) if file.is_file() => Ok(file),
            _ => find(name, PACKAGES),
        };
        Ok(Postgres {
            server: find("postgres")?,
            initdb: find("initdb")?,
            isready: find("pg_isready")?,
            pgbench: find("pgbench")?,
            script,
            scale: if quick { QUICK_SCALE } else { SCALE },
            load,
        })
    }

    fn pgbench(&self, home: &Path, more: &[OsString]) -> Result<String, Error> {
        let mut command = Command::new(&self.pgbench);
        address(&mut command, home).args(more).arg("postgres");
        child::run(command, self.load.limit()).map(|finished| finished.stdout)
    }

    /// Reads the log of a run, and removes its files.
    fn log(home: &Path) -> Result<String, Error> {
        let refused =
            |error: std::io::Error| Error::failed(format!("the log of pgbench: {}", reason(&error)));
        let mut log = String::new();
        for entry in fs::read_dir(home).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            if entry.file_name().to_string_lossy().starts_with(LOG) {
                log += &fs::read_to_string(entry.path()).map_err(refused)?;
                fs::remove_file(entry.path()).map_err(refused)?;
            }
        }
        Ok(log)
    }
}

/// The folder with the largest number in its name.
fn newest(versions: &Path) -> Option<PathBuf> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let folders = fs::read_dir(versions).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    folders.filter(|path| path.join("bin/postgres").is_file()).max_by_key(number)
}

/// Adds the options for the server's socket and for the clients' account.
fn address<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    command.arg("-h").arg(home).args(["-p", "1", "-U", "postgres"])
}

impl Driver for Postgres {
    fn command(&self, home: &Path) -> (&Path, Vec<OsString>) {
        let mut arguments = words(["-p", "1", "-D"]);
        arguments.extend([home.join("data").into(), "-k".into(), home.into()]);
        for setting in [
            "listen_addresses=",
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
            "autovacuum=off",
            "shared_buffers=256MB",
            "max_wal_size=4GB",
        ] {
            arguments.extend(words(["-c", setting]));
        }
        arguments.extend(words(["-c", &format!("max_connections={}", self.load.clients + SPARE)]));
        (&self.server, arguments)
    }

    fn make(&self, home: &Home) -> Result<(), Error> {
        let mut command = Command::new(&self.initdb);
        command.args(["-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"]);
        command.arg(home.path().join("data"));
        home.adopt(&mut command);
        child::run(command, SLACK).map(drop)
    }

    fn ask(&self, home: &Path) -> Result<(), String> {
        ping(address(&mut Command::new(&self.isready), home))
    }

    fn fill(&self, home: &Path) -> Result<(), Error> {
        let more = ["-i", "-q", "--unlogged-tables", "-s", &self.scale.to_string()].map(OsString::from);
        self.pgbench(home, &more).map(drop)
    }

    fn load(&self, home: &Path, round: usize) -> Result<Sample, Error> {
        let Load { clients, seconds, .. } = self.load;
        let mut more = words(["-b", self.script, "-M", "prepared", "--log"]);
        more.push(option("--log-prefix=", &home.join(LOG)));
        more.extend(
            [("-c", clients), ("-j", THREADS.min(clients)), ("-T", seconds as usize)]
                .into_iter()
                .flat_map(|(name, number)| words([name, &number.to_string()])),
        );
        more.push(format!("--random-seed={}", round + 1).into());
        if self.script == SELECT {
            more.push("--no-vacuum".into());
        }
        let said = self.pgbench(home, &more)?;
        pgbench::sample(&said, &Self::log(home)?)
            .map_err(|why| Error::Failed { what: format!("pgbench: {why}"), stderr: said })
    }

    fn is_alarm(&self, line: &str) -> bool {
        // A client that connects while the server starts is refused with an error. That is none
        // here.
        let early = line.contains("the database system is starting up");
        !early && ["ERROR: ", "FATAL: ", "PANIC: "].iter().any(|word| line.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_has_a_server_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(&folder.path().join("none")), None);
        for (version, server) in [("9", true), ("15", true), ("16", false), ("common", false)] {
            let bin = folder.path().join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            if server {
                fs::write(bin.join("postgres"), "").unwrap();
            }
        }
        assert_eq!(newest(folder.path()), Some(folder.path().join("15")));
    }
}
