//! What is wrong with the text of an address, of etcd or of PostgreSQL.

use std::fmt;

/// What is wrong with the text of an address.
///
/// ```
/// # #[cfg(feature = "etcd")] {
/// let error = "etcd://localhost".parse::<manx::etcd::Address>().unwrap_err();
/// assert!(error.to_string().starts_with("no prefix"));
/// # }
/// # #[cfg(feature = "postgres")] {
/// let error = "postgres://localhost".parse::<manx::txn::postgres::Address>().unwrap_err();
/// assert!(error.to_string().starts_with("no database"));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(pub(crate) String);

impl fmt::Display for AddressError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for AddressError {}
