//! Widely used servers, as they are and under `manx run`: MariaDB, PostgreSQL and memcached.
//!
//! 1. A case is a server under a load. Each version of the server has a folder and a socket of its
//!    own. It is started once, filled, and warmed up. Then short runs of the load take turns
//!    between the versions. The server that is not loaded waits and uses no CPU time.
//! 2. The clients run by themselves in every version, never under `manx run`.
//! 3. If a server dies, reports an error, or does not stop by SIGTERM, its version has failed and
//!    gives no figure. The same holds if the load reports an error or a lost connection. `turns.rs`
//!    says what follows from a failure.
//! 4. The machine's own servers stay as they are. Data and sockets lie in a temporary folder, and
//!    no port is used. This process always stops its servers and removes their folders
//!    (`running.rs`).
//! 5. The disk does not decide: no server syncs its files, and the tables fit into memory.
//! 6. Servers and clients share two CPUs.

mod account;
mod driver;
mod mariadb;
mod memcached;
mod pgbench;
mod postgres;
mod sysbench;

pub use driver::Load;

use crate::engines::Version;
use crate::engines::conclude::Programs;
use crate::error::Error;
use crate::harness::{Bench, Sample};
use crate::running::Running;
use crate::turns::{self, Entrant, Turns};
use crate::{child, engine};
use Client::{Pgbench, Sysbench};
use account::{Account, Home};
use driver::{Driver, SLACK};
use mariadb::MariaDb;
use memcached::Memcached;
use postgres::Postgres;
use report::{Compared, Report};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// CPUs that the servers and their clients share.
const CPUS: usize = 2;
/// The time that a server needs to start, to be filled, and to warm up.
const STARTED: Duration = Duration::from_secs(2);
/// The prefix of the targets' ids.
const PREFIX: &str = "servers-";

/// The settings of the experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The cases to measure
    pub cases: Vec<&'static Case>,
    /// The versions to compare
    pub versions: Vec<Version>,
    /// The path of `manx`
    pub manx: PathBuf,
    /// The load of a run
    pub load: Load,
    /// A smoke check: small tables, and no warming up
    pub quick: bool,
}

/// Measures each case in all versions, and writes the results to `bench.report`.
///
/// # Errors
/// No case could be measured, a server of ours failed, or the user interrupted.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus = platform::cpu::restrict(CPUS);
    let Load { clients, seconds, .. } = setup.load;
    bench.note(format!(
        "{clients} clients, runs of {seconds} s; {cpus} CPUs for a server and its clients together"
    ));
    let ground = Ground::new(setup.clone())?;
    turns::each(
        &setup.cases,
        |case| case.name,
        bench,
        |case| ground.ready(case),
        |case, ready, bench, failures| {
            let programs = Programs { prefix: PREFIX, names: &[case.name] };
            let watch = |report: &Report| programs.watched(report, case.name);
            ground.compare(case.name, ready, watch, bench, failures)
        },
    )
}

/// What all cases share: the settings, the account, and a folder with a `manx` that the account can
/// run.
pub(crate) struct Ground {
    setup: Setup,
    account: Option<Account>,
    _own: Home,
}

/// A case that is ready to run: what drives it, and a folder with its files.
pub(crate) struct Ready {
    driver: Box<dyn Driver>,
    made: Home,
}

impl Ground {
    /// Makes the folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new(setup: Setup) -> Result<Ground, Error> {
        let account = Account::of_servers();
        let own = Home::new(account)?;
        Ok(Ground { setup: Setup { manx: own.bring(&setup.manx)?, ..setup }, account, _own: own })
    }

    /// Makes a case's folder.
    ///
    /// # Errors
    /// [`Error::Missing`] if a program is not installed.
    pub(crate) fn ready(&self, case: &Case) -> Result<Ready, Error> {
        let driver = case.driver(self.setup.load, self.setup.quick)?;
        let made = Home::new(self.account)?;
        driver.make(&made)?;
        Ok(Ready { driver, made })
    }

    /// Measures a case, by this name, in all versions, until the ratios of `watch` are known.
    ///
    /// # Errors
    /// The user interrupts, or a folder cannot be made.
    pub(crate) fn compare(
        &self,
        name: &str,
        Ready { driver, made }: &Ready,
        watch: impl Fn(&Report) -> Vec<Compared>,
        bench: &mut Bench,
        failures: &mut Vec<String>,
    ) -> Result<(), Error> {
        let setup = &self.setup;
        if self.account.is_some() {
            bench.note("servers run as the user nobody, because some refuse to run as root");
        }
        bench.note(format!("measured: {}", version(driver.command(made.path()).0)));
        let entrants: Vec<Entrant> = setup.versions.iter().map(Entrant::from).collect();
        let expected = STARTED + Duration::from_secs(u64::from(setup.load.seconds) * 2);
        let turns = Turns { case: name, entrants: &entrants, rounds: None, expected };
        let mut servers: Vec<Option<Server>> = setup.versions.iter().map(|_| None).collect();
        turns.take(bench, failures, watch, |at, round| {
            let mut server = match servers[at].take() {
                Some(server) => server,
                None => Server::start(setup, &**driver, &setup.versions[at], made)?,
            };
            let sample = server.load(round)?; // A server that fails is stopped here.
            servers[at] = Some(server);
            Ok(sample)
        })?;
        for (at, server) in servers.into_iter().enumerate() {
            if let Some(Err(error)) = server.map(Server::stop) {
                turns.failed_at_its_end(at, error, bench, failures)?;
            }
        }
        Ok(())
    }
}

/// One version of a server. Rust drops fields in their order, so the server stops before its folder
/// is removed.
struct Server<'a> {
    running: Running,
    home: Home,
    driver: &'a dyn Driver,
}

impl<'a> Server<'a> {
    /// Starts it in a copy of the folder, fills it, and warms it up.
    fn start(
        setup: &Setup,
        driver: &'a dyn Driver,
        version: &Version,
        made: &Home,
    ) -> Result<Server<'a>, Error> {
        let home = made.copy()?;
        let (program, arguments) = driver.command(home.path());
        let mut command = engine::command(program, version.start(&setup.manx));
        command.args(arguments);
        home.adopt(&mut command);
        let running = Running::start(command, || driver.ask(home.path()))?;
        let mut server = Server { running, home, driver };
        let filled = driver.fill(server.home.path());
        server.judge(filled)?;
        if !setup.quick {
            server.load(0)?;
        }
        Ok(server)
    }

    fn load(&mut self, round: usize) -> Result<Sample, Error> {
        let loaded = self.driver.load(self.home.path(), round);
        self.judge(loaded)
    }

    /// Returns the client's result, or the server's failure if there is one, because that is why
    /// the client failed.
    fn judge<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if matches!(result, Err(Error::Interrupted)) {
            return result;
        }
        self.running.check()?;
        alarm(&self.running.said(), self.driver)?;
        result
    }

    fn stop(self) -> Result<(), Error> {
        alarm(&self.running.stop()?, self.driver)
    }
}

/// Looks for errors in a server's standard error. A warning of Manx is an error, too: Manx warns if
/// a program has to run unchanged.
fn alarm(said: &str, driver: &dyn Driver) -> Result<(), Error> {
    let is_alarm = |line: &&str| line.starts_with("manx: ") || driver.is_alarm(line);
    let lines: Vec<&str> = said.lines().filter(is_alarm).collect();
    match lines[..] {
        [] => Ok(()),
        _ => Err(Error::Failed { what: "the server reports an error".into(), stderr: lines.join("\n") }),
    }
}

/// Adds the table of results, and judges the targets of `cases`.
pub fn conclude(report: &mut Report, cases: &[&'static Case]) {
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    Programs { prefix: PREFIX, names: &names }.conclude(report);
}

/// The program's name and version in its own words, without the path.
fn version(program: &Path) -> String {
    let mut command = Command::new(program);
    command.arg("--version");
    let said = child::run(command, SLACK).map(|finished| finished.stdout).unwrap_or_default();
    let line = said.lines().next().unwrap_or_default();
    let folder = program.parent().map_or_else(String::new, |folder| format!("{}/", folder.display()));
    line.replace(&folder, "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A server under a load.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// The name, on the command line and in the targets' ids
    pub name: &'static str,
    /// A short description
    pub words: &'static str,
    client: Client,
}

/// The client that loads the server.
#[derive(Debug, PartialEq, Eq)]
enum Client {
    /// sysbench with this script, on MariaDB
    Sysbench(&'static str),
    /// pgbench with this built-in script, on PostgreSQL
    Pgbench(&'static str),
    /// Our own client, on memcached
    Memcached,
}

/// All of them, in the order in which they are measured.
pub const CASES: [Case; 6] = [
    Case {
        name: "mariadb-read-write",
        words: "MariaDB, transactions of 14 reads and 4 writes (sysbench)",
        client: Sysbench("oltp_read_write"),
    },
    Case {
        name: "mariadb-point-select",
        words: "MariaDB, reads of a row (sysbench)",
        client: Sysbench("oltp_point_select"),
    },
    Case {
        name: "mariadb-update",
        words: "MariaDB, updates of a row and its index (sysbench)",
        client: Sysbench("oltp_update_index"),
    },
    Case { name: "memcached", words: "memcached, nine gets to a set", client: Client::Memcached },
    Case {
        name: "postgres-tpcb",
        words: "PostgreSQL, transactions of a read, three updates and an insert (pgbench)",
        client: Pgbench("tpcb-like"),
    },
    Case {
        name: "postgres-select",
        words: "PostgreSQL, reads of a row (pgbench)",
        client: Pgbench("select-only"),
    },
];

/// The cases of a smoke check, unless the user names some: one of each server.
pub const QUICK: [&str; 3] = ["mariadb-read-write", "memcached", "postgres-tpcb"];

/// The cases of these names, in the catalogue's order; all of them if there are no names. The names
/// are known.
pub fn choose<T: AsRef<str>>(names: &[T]) -> Vec<&'static Case> {
    let named = |case: &&Case| names.is_empty() || names.iter().any(|name| name.as_ref() == case.name);
    CASES.iter().filter(named).collect()
}

impl Case {
    /// Looks for the programs of the case's server and client, and returns what drives them.
    ///
    /// # Errors
    /// [`Error::Missing`] if a program is not installed.
    fn driver(&self, load: Load, quick: bool) -> Result<Box<dyn Driver>, Error> {
        Ok(match self.client {
            Sysbench(script) => Box::new(MariaDb::find(script, load)?),
            Pgbench(script) => Box::new(Postgres::find(script, load, quick)?),
            Client::Memcached => Box::new(Memcached::find(load)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::{AS_IS, MANX};
    use crate::interrupt;
    use report::Machine;
    use report::target::{Outcome, of_bench};

    const LOAD: Load = Load { clients: 2, seconds: 1, threads: 2 };

    /// Each case whose programs are installed, with its driver.
    fn drivers() -> impl Iterator<Item = (&'static Case, Box<dyn Driver>)> {
        let driver = |case: &'static Case| {
            let made = case.driver(LOAD, true).inspect_err(|why| testing::skip(why));
            Some((case, made.ok()?))
        };
        CASES.iter().filter_map(driver)
    }

    #[test]
    fn every_case_has_its_targets_and_every_target_its_case() {
        let mut report = Report::new("servers", Machine::default(), 0);
        for round in 0..5 {
            for (case, version) in CASES.iter().flat_map(|case| [(case, AS_IS), (case, MANX)]) {
                let values =
                    [("throughput_per_s", 100.0), ("max_ns", if version == MANX { 2e6 } else { 3e6 })];
                report.add(case.name, version, round, &values);
            }
        }
        conclude(&mut report, &choose::<&str>(&[]));
        assert_eq!(report.targets.len(), of_bench("servers").len());
        assert_eq!(report.targets.len(), 2 * CASES.len());
        assert!(report.targets.iter().all(|target| target.verdict == Outcome::Met), "{report}");
        // A version without such a figure.
        assert_eq!(report.tables[0].rows[0].last().map(String::as_str), Some("-"));
        report.targets.clear();
        conclude(&mut report, &choose(&["memcached"]));
        let ids: Vec<&str> = report.targets.iter().map(|target| target.id.as_str()).collect();
        assert_eq!(ids, ["servers-memcached-throughput", "servers-memcached-max"]);
    }

    #[test]
    fn errors_that_a_server_reports_are_found_and_notes_are_none() {
        for (case, driver) in drivers() {
            let (fine, wrong) = match case.name.split('-').next() {
                Some("mariadb") => (
                    "2026-11-23  6:24:08 0 [Warning] Could not increase number of max_open_files to more than 20000",
                    "2026-11-23  6:24:08 0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11",
                ),
                Some("postgres") => (
                    "2026-11-23 06:24:47.886 UTC [2] FATAL:  the database system is starting up",
                    "2026-11-23 06:24:47.886 UTC [2] PANIC:  could not locate a valid checkpoint record",
                ),
                _ => ("", "failed to listen on UNIX socket: /x/s: Permission denied"),
            };
            assert_eq!(alarm(fine, &*driver), Ok(()), "{}", case.name);
            let manx = "manx: mariadbd: static: it runs as it is";
            for line in [wrong, manx] {
                let found = alarm(&format!("{fine}\n{line}\n"), &*driver);
                assert!(matches!(&found, Err(Error::Failed { stderr, .. }) if stderr == line), "{found:?}");
            }
        }
    }

    /// Each server that is installed serves its client, as root and as any other user.
    #[test]
    fn every_server_that_is_installed_starts_serves_and_stops() {
        let mut seen = Vec::new();
        for (case, driver) in drivers() {
            let server = case.name.split('-').next();
            if interrupt::requested() || seen.contains(&server) {
                continue;
            }
            seen.push(server);
            let made = Home::new(Account::of_servers()).unwrap();
            driver.make(&made).unwrap();
            let setup = Setup {
                cases: vec![case],
                versions: Version::always(),
                manx: "manx".into(),
                load: LOAD,
                quick: true,
            };
            let mut started = Server::start(&setup, &*driver, &setup.versions[0], &made).unwrap();
            let sample = started.load(0).unwrap();
            assert!(sample.values["count"] > 0.0 && sample.values["max_ns"] >= sample.values["p50_ns"]);
            started.stop().unwrap();
        }
    }

    #[test]
    fn names_choose_in_the_catalogues_order() {
        assert_eq!(choose::<&str>(&[]).len(), CASES.len());
        let chosen: Vec<&str> =
            choose(&["memcached", "mariadb-update"]).iter().map(|case| case.name).collect();
        assert_eq!(chosen, ["mariadb-update", "memcached"]);
        assert_eq!(choose(&QUICK).len(), QUICK.len());
    }
}
