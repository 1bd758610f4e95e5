//! MariaDB, loaded by sysbench.
//!
//! | in the folder | what it is |
//! | --- | --- |
//! | `data` | the server's files |
//! | `s` | its socket |
//!
//! InnoDB has its default settings, except that commits do not wait for the log and that no file is
//! synced. sysbench draws rows uniformly. It counts deadlocks and begins such transactions again.
//! Any other error of the server ends it with an error.

use super::account::Home;
use super::driver::{Driver, Load, SLACK, find, option, ping, words};
use super::sysbench;
use crate::child;
use crate::error::Error;
use crate::harness::Sample;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Debian packages of the programs.
const PACKAGES: &str = "mariadb-server sysbench";
/// The number of rows in the table.
const ROWS: u32 = 20_000;
/// The number of connections beyond those of the clients.
const SPARE: usize = 8;

#[derive(Debug)]
pub(super) struct MariaDb {
    server: PathBuf,
    install: PathBuf,
    admin: PathBuf,
    sysbench: PathBuf,
    /// The script of sysbench
    script: &'static str,
    load: Load,
}

impl MariaDb {
    /// # Errors
    /// [`Error::Missing`] if one of the programs is not installed.
    pub(super) fn find(script: &'static str, load: Load) -> Result<MariaDb, Error> {
        let find = |name| find(name, PACKAGES);
        Ok(MariaDb {
            server: find("mariadbd")?,
            install: find("mariadb-install-db")?,
            admin: find("mariadb-admin")?,
            sysbench: find("sysbench")?,
            script,
            load,
        })
    }

    fn sysbench(&self, home: &Path, verb: &str, more: &[String]) -> Result<String, Error> {
        let mut command = Command::new(&self.sysbench);
        command.args([self.script, "--db-driver=mysql", "--mysql-user=root", "--mysql-db=test"]);
        command.arg(option("--mysql-socket=", &home.join("s")));
        command.args(["--tables=1", &format!("--table-size={ROWS}"), "--rand-type=uniform"]);
        command.args(more).arg(verb);
        child::run(command, self.load.limit()).map(|finished| finished.stdout)
    }
}

impl Driver for MariaDb {
    fn command(&self, home: &Path) -> (&Path, Vec<OsString>) {
        let mut arguments = words([
            "--no-defaults",
            "--skip-networking",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=256M",
            "--innodb-log-file-size=256M",
        ]);
        arguments.push(format!("--max-connections={}", self.load.clients + SPARE).into());
        for (name, file) in [("--datadir=", "data"), ("--socket=", "s"), ("--pid-file=", "pid")] {
            arguments.push(option(name, &home.join(file)));
        }
        (&self.server, arguments)
    }

    fn make(&self, home: &Home) -> Result<(), Error> {
        let mut command = Command::new(&self.install);
        command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        command.arg(option("--datadir=", &home.path().join("data")));
        home.adopt(&mut command);
        child::run(command, SLACK).map(drop)
    }

    fn ask(&self, home: &Path) -> Result<(), String> {
        let mut command = Command::new(&self.admin);
        command.arg("--no-defaults").arg(option("--socket=", &home.join("s"))).args(["--user=root", "ping"]);
        ping(&mut command)
    }

    fn fill(&self, home: &Path) -> Result<(), Error> {
        self.sysbench(home, "prepare", &[]).map(drop)
    }

    fn load(&self, home: &Path, round: usize) -> Result<Sample, Error> {
        let Load { clients, seconds, .. } = self.load;
        let more = [
            format!("--threads={clients}"),
            format!("--time={seconds}"),
            format!("--rand-seed={}", round + 1),
            "--report-interval=0".into(),
            "--percentile=99".into(),
            "--histogram".into(),
            format!("--mysql-ignore-errors={}", sysbench::DEADLOCK),
        ];
        let said = self.sysbench(home, "run", &more)?;
        sysbench::sample(&said)
            .map_err(|why| Error::Failed { what: format!("sysbench: {why}"), stderr: said })
    }

    fn is_alarm(&self, line: &str) -> bool {
        line.contains("[ERROR]")
    }
}
