//! What a server is started with.

use crate::password::Password;
use crate::tls::Tls;
use manx::slo::Slo;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What serves a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// The workers of a pool serve the connections whose clients have sent something.
    #[default]
    Pool,
    /// A thread for each.
    Threads,
}

impl fmt::Display for Model {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Model::Threads => "threads",
            Model::Pool => "pool",
        })
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Model, String> {
        match text {
            "threads" => Ok(Model::Threads),
            "pool" => Ok(Model::Pool),
            _ => Err("write pool or threads".into()),
        }
    }
}

/// What becomes of keys if the server uses more memory than it may: as Redis has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// None goes. Commands that may need more memory get an error.
    #[default]
    None,
    /// Those that were not used for longest.
    AllKeysLru,
    /// Those that are used most rarely.
    AllKeysLfu,
    /// Any.
    AllKeysRandom,
    /// As [`Eviction::AllKeysLru`], of the keys that have an expiry.
    VolatileLru,
    /// As [`Eviction::AllKeysLfu`], of the keys that have an expiry.
    VolatileLfu,
    /// Any that has an expiry.
    VolatileRandom,
    /// Those that expire soonest.
    VolatileTtl,
}

impl Eviction {
    /// All of them, and how Redis calls them.
    pub const NAMES: [(Eviction, &str); 8] = [
        (Eviction::None, "noeviction"),
        (Eviction::AllKeysLru, "allkeys-lru"),
        (Eviction::AllKeysLfu, "allkeys-lfu"),
        (Eviction::AllKeysRandom, "allkeys-random"),
        (Eviction::VolatileLru, "volatile-lru"),
        (Eviction::VolatileLfu, "volatile-lfu"),
        (Eviction::VolatileRandom, "volatile-random"),
        (Eviction::VolatileTtl, "volatile-ttl"),
    ];

    /// Whether only keys go that have an expiry.
    pub(crate) fn is_volatile(self) -> bool {
        use Eviction::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(self, VolatileLfu | VolatileLru | VolatileRandom | VolatileTtl)
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Eviction::NAMES.iter().find(|(eviction, _)| eviction == self);
        to.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Eviction {
    type Err = String;

    fn from_str(text: &str) -> Result<Eviction, String> {
        let found = Eviction::NAMES.iter().find(|(_, name)| *name == text);
        let names = || Eviction::NAMES.map(|(_, name)| name).join(", ");
        found.map(|(eviction, _)| *eviction).ok_or_else(|| format!("write one of {}", names()))
    }
}

/// What a server is started with.
///
/// ```
/// use server::{Model, Options};
///
/// let options = Options { model: Model::Threads, connections_max: 100, ..Options::default() };
/// assert!(options.listen.ip().is_loopback() && options.password.is_none());
/// ```
#[derive(Debug)]
pub struct Options {
    /// Where clients find it; port 0 is any that is free.
    pub listen: SocketAddr,
    /// A file in which clients on this machine find it too, without TLS.
    pub unix_socket: Option<PathBuf>,
    /// The permissions of that file; those that the process gives to each file, if none.
    pub unix_socket_permissions: Option<u32>,
    /// What serves a connection.
    pub model: Model,
    /// The maximum number of clients; further connections are refused with an error. The process's
    /// limit of descriptors is raised for them. If it cannot be raised enough, the maximum is lower
    /// ([`Server::connections_max`](crate::Server::connections_max)). The store needs a session for
    /// each, and [`SESSIONS_BESIDE`](crate::SESSIONS_BESIDE).
    pub connections_max: usize,
    /// The longest command; what MULTI may queue, and what WATCH may remember; and the longest
    /// value.
    pub input_bytes_max: usize,
    /// A client that leaves more answers than this unread, or asks for a longer one, is
    /// disconnected.
    pub output_bytes_max: usize,
    /// A client that sends nothing for this time is disconnected.
    pub idle_timeout: Option<Duration>,
    /// A client that has not identified itself after this time is disconnected: TLS is not agreed
    /// on, or the password that it needs was not said.
    pub handshake_timeout: Duration,
    /// What clients have to say first: the password of the user `default`, unless the file of users
    /// has that user.
    pub password: Option<Password>,
    /// A file of users, as Redis has it, which ACL SAVE replaces.
    pub acl_file: Option<PathBuf>,
    /// Clients speak TLS.
    pub tls: Option<Tls>,
    /// Whether others than this machine's own may connect without a password.
    pub exposed: bool,
    /// A folder for copies of the store that clients ask for (BGSAVE); none can be made if none.
    pub backup_folder: Option<PathBuf>,
    /// Whether the store's commits wait for a disk, so that others work meanwhile.
    pub durable: bool,
    /// How much memory it may use; unlimited if none.
    pub memory_bytes_max: Option<u64>,
    /// What becomes of keys if it uses more.
    pub eviction: Eviction,
    /// The memory that the buffers of all clients may have together; unlimited if none.
    pub buffers_bytes_max: Option<u64>,
    /// Returns how many bytes the process has allocated. Without it the server counts what it
    /// stores.
    pub allocated_bytes: Option<fn() -> u64>,
    /// How late an answer may be: the locks on a request's way take it into account.
    pub slo: Option<Slo>,
    /// A command that takes this time or more is noted for SLOWLOG.
    pub slowlog_above: Duration,
    /// The number of commands that are kept for it; with 0 none is noted, or timed.
    pub slowlog_entries_max: usize,
    /// How long a shutdown waits for clients that do not read their answers.
    pub shutdown_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 6379)),
            unix_socket: None,
            unix_socket_permissions: None,
            model: Model::default(),
            connections_max: 10_000,
            input_bytes_max: 64 << 20,
            output_bytes_max: 128 << 20,
            idle_timeout: None,
            handshake_timeout: Duration::from_secs(10),
            password: None,
            acl_file: None,
            tls: None,
            exposed: false,
            backup_folder: None,
            durable: false,
            memory_bytes_max: None,
            eviction: Eviction::None,
            buffers_bytes_max: None,
            allocated_bytes: None,
            slo: None,
            slowlog_above: Duration::from_millis(10),
            slowlog_entries_max: 128,
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}
