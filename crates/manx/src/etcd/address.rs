//! Which members an etcd cluster has, how they are reached, and the prefix of the keys there.

use crate::address_error::AddressError;
use std::fmt;
use std::str::FromStr;

/// The port of members that name none.
const PORT: u16 = 2379;
const EXAMPLE: &str = "write it as etcd://HOST:PORT,HOST:PORT/PREFIX";

/// Members of an etcd cluster, and a prefix of its keys: `etcd://HOST:PORT,HOST:PORT/PREFIX`, or
/// `etcds://` for TLS, with `USER@` or `USER:PASSWORD@` before the first host.
///
/// ```
/// use manx::etcd::Address;
///
/// let address: Address = "etcd://app@10.0.0.1,10.0.0.2:2379/shop".parse()?;
/// let address = address.with_password("secret");
/// assert_eq!(address.prefix(), "shop");
/// assert_eq!(address.to_string(), "etcd://app@10.0.0.1:2379,10.0.0.2:2379/shop", "no password");
/// # Ok::<(), manx::etcd::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) is_secure: bool,
    /// Hosts with ports.
    pub(super) members: Vec<String>,
    prefix: String,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) ca: Option<Vec<u8>>,
    /// A certificate and its key.
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the members' certificates, if it is not their host.
    pub(super) domain: Option<String>,
}

impl Address {
    /// These members, each as `HOST:PORT` or as a URL, and no prefix.
    #[cfg(feature = "cluster")]
    pub(crate) fn of(endpoints: &[String], is_secure: bool) -> Result<Address, AddressError> {
        let strip = |endpoint: &String| {
            let (scheme, host) = endpoint.split_once("://").unwrap_or(("", endpoint));
            match scheme {
                "" => {}
                "http" if !is_secure => {}
                "https" if is_secure => {}
                "http" | "https" => {
                    let what = "a URL begins with https:// if TLS is set, and with http:// if not";
                    return Err(AddressError(format!("`{endpoint}`: {what}")));
                }
                _ => return Err(AddressError(format!("`{endpoint}`: write it as HOST:PORT"))),
            }
            member(host.trim_end_matches('/'))
        };
        let members = endpoints.iter().map(strip).collect::<Result<Vec<String>, AddressError>>()?;
        let prefix = String::new();
        Ok(Address {
            is_secure,
            members,
            prefix,
            user: None,
            password: None,
            ca: None,
            identity: None,
            domain: None,
        })
    }

    /// Sets the user.
    #[cfg(feature = "cluster")]
    pub(crate) fn with_user(self, name: &str) -> Address {
        Address { user: Some(name.into()), ..self }
    }

    /// Sets the name in the certificates of members, if it is not their host.
    #[must_use]
    pub fn with_domain(self, name: impl Into<String>) -> Address {
        Address { domain: Some(name.into()), ..self }
    }

    /// What all keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether the members are reached by TLS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Sets the user's password.
    #[must_use]
    pub fn with_password(self, password: impl Into<String>) -> Address {
        Address { password: Some(password.into()), ..self }
    }

    /// Sets the authorities that may sign a member's certificate: their own certificates, as PEM.
    #[must_use]
    pub fn with_ca(self, pem: impl Into<Vec<u8>>) -> Address {
        Address { ca: Some(pem.into()), ..self }
    }

    /// Sets the certificate and the key, as PEM, that this client shows to the members.
    #[must_use]
    pub fn with_identity(self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Address {
        Address { identity: Some((certificate.into(), key.into())), ..self }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let wrong = |what: String| AddressError(what);
        let (is_secure, rest) = match text.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return Err(wrong(format!("no address of etcd: {EXAMPLE}"))),
        };
        let (hosts, prefix) =
            rest.split_once('/').ok_or_else(|| wrong(format!("no prefix of the keys: {EXAMPLE}")))?;
        let (user, hosts) = match hosts.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, hosts),
        };
        let (user, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            Some(("", _)) => return Err(wrong("no user's name stands before the @".into())),
            Some((user, "")) => (Some(user.to_owned()), None),
            Some((user, password)) => (Some(user.to_owned()), Some(password.to_owned())),
            None => (None, None),
        };
        let prefix = prefix.trim_matches('/');
        // `txn::etcd` sets two slashes behind a prefix; so no store's keys are among another's.
        if prefix.is_empty() || prefix.contains("//") {
            return Err(wrong(format!("a prefix has names with single slashes between: {EXAMPLE}")));
        }
        let members = hosts.split(',').map(member).collect::<Result<Vec<String>, AddressError>>();
        let members = members.map_err(|AddressError(what)| wrong(format!("{what}: {EXAMPLE}")))?;
        let prefix = prefix.into();
        Ok(Address { is_secure, members, prefix, user, password, ca: None, identity: None, domain: None })
    }
}

/// A host with its port.
fn member(text: &str) -> Result<String, AddressError> {
    let is_host = |host: &str| {
        let plain = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match plain {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                !host.is_empty() && host.bytes().all(is_fine)
            }
        }
    };
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().ok()),
        _ => (text, Some(PORT)),
    };
    match port.filter(|port| *port > 0 && is_host(host)) {
        Some(port) => Ok(format!("{host}:{port}")),
        None => Err(AddressError(format!("`{text}` is no host with a port"))),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(if self.is_secure { "etcds://" } else { "etcd://" })?;
        if let Some(user) = &self.user {
            write!(to, "{user}@")?;
        }
        write!(to, "{}/{}", self.members.join(","), self.prefix)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the password nor the key.
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
        let address = read("etcds://me:a:b@c@a,b.c:1,[::1],[::2]:3/x/y/").unwrap();
        assert_eq!(address.members, ["a:2379", "b.c:1", "[::1]:2379", "[::2]:3"]);
        assert_eq!((address.user.as_deref(), address.password.as_deref()), (Some("me"), Some("a:b@c")));
        assert_eq!((address.prefix(), address.is_secure()), ("x/y", true));
        assert!(!format!("{address:?} {address}").contains("a:b"));
        assert_eq!(read("etcd://me:@a/x").unwrap().password, None);
    }

    #[test]
    fn wrong_ones_say_what_is_wrong() {
        for (text, what) in [
            ("http://a/x", "no address"),
            ("etcd:a/x", "no address"),
            ("etcd://a", "no prefix"),
            ("etcd://a/", "a prefix has"),
            ("etcd://a/x//y", "a prefix has"),
            ("etcd:///x", "`` is no host"),
            ("etcd://a,,b/x", "`` is no host"),
            ("etcd://a:0/x", "`a:0` is no host"),
            ("etcd://a:99999/x", "`a:99999` is no host"),
            ("etcd://::1/x", "`::1` is no host"),
            ("etcd://[::g]:1/x", "`[::g]:1` is no host"),
            ("etcd://a b/x", "`a b` is no host"),
            ("etcd://:pw@a/x", "no user's name"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(what), "{text}: {error}");
        }
    }
}
