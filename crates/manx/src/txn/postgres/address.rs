//! Where a database is, how it is reached, and the name of the table there.

use crate::address_error::AddressError;
use crate::causes::with_causes;
use std::fmt;
use std::str::FromStr;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

const PORT: u16 = 5432;
/// The table of addresses that name none.
const TABLE: &str = "manx";
/// PostgreSQL cuts a name after 63 bytes, and ours get an ending.
const NAME_MAX: usize = 50;
const EXAMPLE: &str = "write it as postgres://USER@HOST:PORT/DATABASE";

/// A database of PostgreSQL, and a table in it: `postgres://USER@HOST:PORT/DATABASE`, with
/// `?table=NAME` or `?table=SCHEMA.NAME` unless it is `manx`. Everything else is as PostgreSQL's
/// own clients read it: a password behind the user, several hosts, `?host=/FOLDER` for a socket
/// there.
///
/// ```
/// use manx::txn::postgres::Address;
///
/// let address: Address = "postgres://app@10.0.0.1,10.0.0.2/shop?table=carts".parse()?;
/// let address = address.with_password("secret");
/// assert_eq!(
///     address.to_string(),
///     "postgres://app@10.0.0.1:5432,10.0.0.2:5432/shop?table=carts",
///     "no password"
/// );
/// # Ok::<(), manx::txn::postgres::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) config: Config,
    /// With the schema, if there is one.
    pub(super) table: String,
    pub(super) ca: Option<Vec<u8>>,
}

impl Address {
    /// Whether the address asks for TLS (`sslmode=require`). It is used, too, if there are
    /// authorities to trust ([`Address::with_ca`]).
    pub fn is_secure(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }

    /// Sets the user's password.
    #[must_use]
    pub fn with_password(mut self, password: impl AsRef<[u8]>) -> Address {
        self.config.password(password);
        self
    }

    /// Sets the authorities that may sign the server's certificate: their own certificates, as PEM.
    /// From then on the server is reached by TLS, and its name is checked.
    #[must_use]
    pub fn with_ca(mut self, pem: impl Into<Vec<u8>>) -> Address {
        self.ca = Some(pem.into());
        self.config.ssl_mode(SslMode::Require);
        self
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let wrong = |what: String| AddressError(format!("{what}: {EXAMPLE}"));
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(wrong("no address of PostgreSQL".into()));
        }
        let (rest, query) = text.rsplit_once('?').unwrap_or((text, ""));
        let (mut table, mut others) = (TABLE, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.strip_prefix("table=") {
                Some(name) => table = name,
                None => others.push(parameter),
            }
        }
        if !is_table(table) {
            let what = "is no name of a table: letters, digits and _, 50 at most; or two with a point";
            return Err(AddressError(format!("`{table}` {what}")));
        }
        let rest = if others.is_empty() { rest.to_owned() } else { format!("{rest}?{}", others.join("&")) };
        let config: Config =
            rest.parse().map_err(|error| wrong(format!("it cannot be read: {}", with_causes(&error))))?;
        if config.get_hosts().is_empty() {
            return Err(wrong("no host".into()));
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(wrong("no database".into()));
        }
        Ok(Address { config, table: table.into(), ca: None })
    }
}

/// Whether it is a name, or two with a point between.
fn is_table(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_fine)
    };
    match text.split_once('.') {
        Some((schema, name)) => is_name(schema) && is_name(name),
        None => is_name(text),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(to, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            let port = ports.get(index).or(ports.first()).unwrap_or(&PORT);
            let comma = if index > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) if name.contains(':') => write!(to, "{comma}[{name}]:{port}")?,
                Host::Tcp(name) => write!(to, "{comma}{name}:{port}")?,
                Host::Unix(folder) => write!(to, "{comma}{}:{port}", folder.display())?,
            }
        }
        write!(to, "/{}", self.config.get_dbname().unwrap_or_default())?;
        if self.table == TABLE { Ok(()) } else { write!(to, "?table={}", self.table) }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the password.
        to.debug_tuple("Address").field(&self.to_string()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Address, String> {
        text.parse::<Address>().map_err(|error| error.to_string())
    }

    #[test]
    fn all_parts_are_read() {
        let address = read("postgresql://me:a%40b@a,[::1]:7/x?table=s.t&sslmode=require").unwrap();
        assert_eq!(address.config.get_password(), Some(&b"a@b"[..]));
        assert!(address.is_secure());
        assert_eq!(address.to_string(), "postgres://me@a:5432,[::1]:7/x?table=s.t");
        assert!(!format!("{address:?}").contains("a@b"));
        let socket = read("postgres:///x?host=/run/postgresql&port=7").unwrap();
        assert!(socket.to_string().ends_with("/run/postgresql:7/x"), "{socket}");
        assert!(!socket.is_secure() && socket.with_ca("").is_secure());
    }

    #[test]
    fn wrong_ones_say_what_is_wrong() {
        for (text, what) in [
            ("http://a/x", "no address"),
            ("postgres://a", "no database"),
            ("postgres://a/", "no database"),
            ("postgres:///x", "no host"),
            ("postgres://a:b/x", "it cannot be read"),
            ("postgres://a/x?colour=red", "it cannot be read"),
            ("postgres://a/x?table=", "`` is no name"),
            ("postgres://a/x?table=a.b.c", "`a.b.c` is no name"),
            ("postgres://a/x?table=a\"b", "`a\"b` is no name"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(what), "{text}: {error}");
        }
    }
}
