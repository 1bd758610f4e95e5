//! How etcd is reached, and for how long a session outlives its process.

use super::error::Error;
use crate::etcd::{Address, AddressError};
use std::time::Duration;

/// The default time after which the ranges of a dead process are free.
pub const TTL: Duration = Duration::from_secs(10);
/// The default time for which [`Session::connect`](super::Session::connect) tries.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a [`Session`](super::Session) reaches etcd.
///
/// ```
/// use manx::range::cluster::Options;
/// use std::time::Duration;
///
/// let options = Options::new(["10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"])
///     .ttl(Duration::from_secs(5))
///     .user("locks", "secret")
///     .name("db-3");
/// ```
#[derive(Clone)]
#[must_use]
pub struct Options {
    pub(super) endpoints: Vec<String>,
    pub(super) ttl: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) name: String,
    user: Option<(String, String)>,
    tls: Option<Tls>,
}

/// The certificates of a connection, each in PEM.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The authority that certificates of members must come from.
    pub authority: Vec<u8>,
    /// The certificate and the key that the client shows, where members ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the certificates of members, if it is not the host of the endpoint.
    pub domain: Option<String>,
}

impl Options {
    /// The members of etcd, as `HOST:PORT` or as a URL. One is used at a time; if it does not
    /// answer, the next one is.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Options {
        Options {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            ttl: TTL,
            connect_timeout: CONNECT_TIMEOUT,
            name: default_name(),
            user: None,
            tls: None,
        }
    }

    /// Sets the time after which the ranges of a process are free if it dies or cannot reach etcd
    /// any more. It is rounded up to a second; etcd may make it longer, to one and a half times its
    /// election timeout. The default is [`TTL`].
    pub fn ttl(mut self, ttl: Duration) -> Options {
        self.ttl = ttl;
        self
    }

    /// Sets the time for which [`Session::connect`](super::Session::connect) tries to reach etcd.
    /// The default is [`CONNECT_TIMEOUT`]. Later calls try for as long as the session lasts.
    pub fn connect_timeout(mut self, timeout: Duration) -> Options {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the user of etcd and its password.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Options {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Connects by TLS.
    pub fn tls(mut self, tls: Tls) -> Options {
        self.tls = Some(tls);
        self
    }

    /// Sets the name by which messages call the session. The default is the host and the process.
    pub fn name(mut self, name: impl Into<String>) -> Options {
        self.name = name.into();
        self
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.endpoints.is_empty() {
            return Err(Error::Unusable("there is no endpoint of etcd to connect to".into()));
        }
        if self.name.contains(char::is_control) {
            return Err(Error::Unusable(format!(
                "the name of the session has control characters: {:?}",
                self.name
            )));
        }
        Ok(())
    }

    /// The members, and what they are shown.
    pub(super) fn address(&self) -> Result<Address, Error> {
        let unusable = |error: AddressError| Error::Unusable(format!("an endpoint of etcd: {error}"));
        let mut address = Address::of(&self.endpoints, self.tls.is_some()).map_err(unusable)?;
        if let Some((name, password)) = &self.user {
            address = address.with_user(name).with_password(password);
        }
        if let Some(tls) = &self.tls {
            address = address.with_ca(&*tls.authority);
            if let Some((certificate, key)) = &tls.identity {
                address = address.with_identity(&**certificate, &**key);
            }
            if let Some(domain) = &tls.domain {
                address = address.with_domain(domain);
            }
        }
        Ok(address)
    }
}

impl std::fmt::Debug for Options {
    /// Without the password.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = to.debug_struct("Options");
        shown.field("endpoints", &self.endpoints).field("ttl", &self.ttl).field("name", &self.name);
        shown.finish_non_exhaustive()
    }
}

fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}
