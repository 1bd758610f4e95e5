//! Where the data is kept: in a folder, in etcd, or in PostgreSQL.
//!
//! In etcd or PostgreSQL another server may take the store over, or it may not answer any more.
//! Then this server has nothing to say: it stops, and fails, so that what has started it starts it
//! again.

use crate::files;
use crate::sizes::{parse_bytes, parse_log_bytes};
use command::failure::{BROKEN, Failure, USAGE};
use manx::etcd;
use manx::txn::durable::{Durable, DurableOptions};
use manx::txn::{self, Data, DataError, RemoteOptions, Store, postgres};
use server::Stopper;
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Stops the server that has lost its store, until it has stopped.
static STOPPER: Mutex<Option<Stopper>> = Mutex::new(None);
/// Why it was lost.
static LOST: OnceLock<String> = OnceLock::new();

// The options about it; a comment of the documentation would take the place of the command's.
#[derive(Debug, clap::Args)]
pub(super) struct PlaceArgs {
    /// Keep the data in this folder, which is made if need be, or in an etcd cluster, as
    /// etcd://HOST:PORT,HOST:PORT/PREFIX, or in a table of PostgreSQL, as
    /// postgres://USER@HOST:PORT/DATABASE; a write is on disk, or there, before it is answered
    /// [default: in memory]
    #[arg(long, value_name = "PLACE", value_parser = Place::parse)]
    pub(super) data: Option<Place>,

    /// The length of each of the two files of a folder's log, 4 KiB to 1 GiB: when one is full,
    /// what it has is put into the tree, beside the clients; until then it is in memory, too
    /// [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_log_bytes, requires = "data")]
    log_bytes: Option<usize>,

    /// How much of a folder's tree is kept in memory [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "data")]
    cache_bytes: Option<usize>,

    /// The password of the user in etcd://USER@HOST/PREFIX is this file's first line
    #[arg(long, value_name = "FILE", requires = "data")]
    etcd_password_file: Option<PathBuf>,

    /// For etcds://HOST/PREFIX, by TLS: the certificates of the authorities that may sign those of
    /// etcd's members, as PEM
    #[arg(long, value_name = "FILE", requires = "data")]
    etcd_ca: Option<PathBuf>,

    /// The certificate that the server shows to etcd, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["data", "etcd_key"])]
    etcd_cert: Option<PathBuf>,

    /// That certificate's key, as PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,

    /// The password of the user in postgres://USER@HOST/DATABASE is this file's first line
    /// [default: the variable PGPASSWORD]
    #[arg(long, value_name = "FILE", requires = "data")]
    postgres_password_file: Option<PathBuf>,

    /// Reach PostgreSQL by TLS: the certificates of the authorities that may sign the server's, as
    /// PEM
    #[arg(long, value_name = "FILE", requires = "data")]
    postgres_ca: Option<PathBuf>,
}

/// The value of `--data`.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Folder(PathBuf),
    Etcd(etcd::Address),
    Postgres(postgres::Address),
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Place, String> {
        if text.starts_with("etcd://") || text.starts_with("etcds://") {
            return text.parse().map(Place::Etcd).map_err(|error| format!("{error}"));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return text.parse().map(Place::Postgres).map_err(|error| format!("{error}"));
        }
        Ok(Place::Folder(text.into()))
    }
}

impl PlaceArgs {
    /// Opens the store there. In etcd or PostgreSQL that waits while another server has it.
    pub(super) fn open(&self, options: txn::Options) -> Result<Store, Failure> {
        let remote = || RemoteOptions::new().when_waiting(say_that_it_waits).when_lost(lose);
        self.check()?;
        let (data, help): (Result<Box<dyn Data>, DataError>, _) = match &self.data {
            None => return Ok(Store::in_memory(options)),
            Some(Place::Folder(folder)) => {
                files::folder(folder)?;
                let mut options = DurableOptions::new();
                if let Some(bytes) = self.log_bytes {
                    options = options.log_bytes(bytes);
                }
                if let Some(bytes) = self.cache_bytes {
                    options = options.cache_bytes(bytes);
                }
                let data = Durable::open(folder, options);
                (data.map(|data| Box::new(data) as _), "name a folder of manx serve, or a new one")
            }
            Some(Place::Etcd(address)) => {
                let data = txn::etcd::open(&self.for_etcd(address)?, remote());
                (data.map(|data| Box::new(data) as _), "see to etcd, or name another place with --data")
            }
            Some(Place::Postgres(address)) => {
                let data = postgres::open(&self.for_postgres(address)?, remote());
                (data.map(|data| Box::new(data) as _), "see to PostgreSQL, or name another place with --data")
            }
        };
        data.and_then(|data| Store::open(options, data))
            .map_err(|error| Failure::new(USAGE, format!("the data cannot be opened: {error}"), help))
    }

    /// Refuses options that are of another kind of place.
    fn check(&self) -> Result<(), Failure> {
        let kind = match &self.data {
            None => return Ok(()),
            Some(Place::Folder(_)) => "in a folder",
            Some(Place::Etcd(_)) => "in etcd",
            Some(Place::Postgres(_)) => "in PostgreSQL",
        };
        let options = [
            ("--log-bytes", self.log_bytes.is_some(), "in a folder"),
            ("--cache-bytes", self.cache_bytes.is_some(), "in a folder"),
            ("--etcd-password-file", self.etcd_password_file.is_some(), "in etcd"),
            ("--etcd-ca", self.etcd_ca.is_some(), "in etcd"),
            ("--etcd-cert", self.etcd_cert.is_some(), "in etcd"),
            ("--postgres-password-file", self.postgres_password_file.is_some(), "in PostgreSQL"),
            ("--postgres-ca", self.postgres_ca.is_some(), "in PostgreSQL"),
        ];
        match options.iter().find(|(_, is_there, of)| *is_there && *of != kind) {
            None => Ok(()),
            Some((option, _, of)) => {
                let what = format!("{option} is for data {of}, and the data is {kind}");
                Err(Failure::new(USAGE, what, "leave it out, or name another place with --data"))
            }
        }
    }

    /// The address with what the files say.
    fn for_etcd(&self, address: &etcd::Address) -> Result<etcd::Address, Failure> {
        let wrong = |what: &str, help: &str| Failure::new(USAGE, format!("{address}: {what}"), help);
        let mut full = address.clone();
        if let Some(path) = &self.etcd_password_file {
            full = full.with_password(password(path, "etcd")?);
        }
        if full.lacks_password() {
            return Err(wrong("the user has no password", "say it with --etcd-password-file"));
        }
        match (&self.etcd_ca, full.is_secure()) {
            (Some(ca), true) => full = full.with_ca(files::read(ca)?),
            (None, true) => {
                return Err(wrong("it is not known which members to trust", "add --etcd-ca FILE"));
            }
            (ca, false) if ca.is_some() || self.etcd_cert.is_some() => {
                return Err(wrong("certificates are for TLS", "write etcds://"));
            }
            (_, false) => {}
        }
        if let (Some(certificate), Some(key)) = (&self.etcd_cert, &self.etcd_key) {
            full = full.with_identity(files::read(certificate)?, files::read(key)?);
        }
        Ok(full)
    }

    /// The same. PostgreSQL itself knows whether a password is needed.
    fn for_postgres(&self, address: &postgres::Address) -> Result<postgres::Address, Failure> {
        let mut full = address.clone();
        if let Some(path) = &self.postgres_password_file {
            full = full.with_password(password(path, "PostgreSQL")?);
        } else if let (Some(password), false) = (std::env::var_os("PGPASSWORD"), full.has_password()) {
            full = full.with_password(password.as_bytes());
        }
        if let Some(ca) = &self.postgres_ca {
            full = full.with_ca(files::read(ca)?);
        } else if full.is_secure() {
            let what = format!("{address}: it is not known which servers to trust");
            return Err(Failure::new(USAGE, what, "add --postgres-ca FILE"));
        }
        Ok(full)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(folder) => folder.display().fmt(to),
            Place::Etcd(address) => address.fmt(to),
            Place::Postgres(address) => address.fmt(to),
        }
    }
}

fn password(path: &Path, of: &str) -> Result<String, Failure> {
    let line = String::from_utf8(files::first_line(path)?).ok().filter(|line| !line.is_empty());
    line.ok_or_else(|| {
        let what = format!("{}: its first line is no password", path.display());
        Failure::new(USAGE, what, format!("write the password of {of}'s user there"))
    })
}

/// A closed standard error is no error.
fn say_that_it_waits(place: &str) {
    let _ = writeln!(io::stderr(), "manx: another server has {place}: waiting for its end");
}

fn lose(error: &DataError) {
    // The first error counts.
    let _ = LOST.set(error.to_string());
    stop_if_lost();
}

/// From now on a server that loses its store stops.
pub(super) fn when_lost_stop(stopper: Stopper) {
    *STOPPER.lock().unwrap_or_else(PoisonError::into_inner) = Some(stopper);
    stop_if_lost();
}

fn stop_if_lost() {
    let stopper = STOPPER.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Some(_), Some(stopper)) = (LOST.get(), &*stopper) {
        stopper.stop();
    }
}

/// The server has stopped; why its store was lost, if it was.
pub(super) fn why_lost() -> Option<Failure> {
    // It has the store, which is to be closed.
    *STOPPER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let why = LOST.get()?;
    Some(Failure::new(BROKEN, format!("the store is lost: {why}"), "start it again"))
}
