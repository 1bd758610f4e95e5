//! What is wrong with the text of an address, of etcd or of PostgreSQL.

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(pub(crate) String);
