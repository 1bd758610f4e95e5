//! The server's certificate and key.

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::sync::Arc;

/// What a server needs to speak TLS, 1.2 or 1.3.
#[derive(Clone)]
pub struct Tls(pub(crate) Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Tls")
    }
}

impl Tls {
    /// With this chain of certificates, the server's first, and the key of that; both are texts
    /// (PEM).
    ///
    /// ```
    /// let error = server::Tls::new(b"no certificate", b"no key").unwrap_err();
    /// assert_eq!(error, "there is no certificate: it begins with -----BEGIN CERTIFICATE-----");
    /// ```
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Tls, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|error| format!("the certificate cannot be read: {error}"))?;
        if chain.is_empty() {
            return Err("there is no certificate: it begins with -----BEGIN CERTIFICATE-----".into());
        }
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key cannot be read: {error}"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| format!("certificate and key do not do: {error}"))?;
        Ok(Tls(Arc::new(config)))
    }
}
