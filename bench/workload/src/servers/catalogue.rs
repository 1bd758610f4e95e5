//! The cases of `manx bench servers`: pairs of a server and a load.

use super::driver::{Driver, Load};
use super::mariadb::MariaDb;
use super::memcached::Memcached;
use super::postgres::Postgres;
use crate::error::Error;

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
use Client::{Pgbench, Sysbench};

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
    pub(super) fn driver(&self, load: Load, quick: bool) -> Result<Box<dyn Driver>, Error> {
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

    #[test]
    fn names_choose_in_the_catalogues_order() {
        assert_eq!(choose::<&str>(&[]).len(), CASES.len());
        let chosen: Vec<&str> =
            choose(&["memcached", "mariadb-update"]).iter().map(|case| case.name).collect();
        assert_eq!(chosen, ["mariadb-update", "memcached"]);
        assert_eq!(choose(&QUICK).len(), QUICK.len());
    }
}
