//! The server's certificate and key, and which clients are known by certificates of theirs.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
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
    /// With this chain of certificates, the server's first, and the key of that; all are texts
    /// (PEM). With `client_ca` each client needs a certificate that one of these certificates has
    /// signed.
    ///
    /// ```
    /// let error = server::Tls::new(b"no certificate", b"no key", None).unwrap_err();
    /// assert_eq!(error, "there is no certificate: it begins with -----BEGIN CERTIFICATE-----");
    /// ```
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(certificates: &[u8], key: &[u8], client_ca: Option<&[u8]>) -> Result<Tls, String> {
        let chain = read(certificates)?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key cannot be read: {error}"))?;
        let unfit = |error: rustls::Error| format!("certificate and key do not do: {error}");
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unfit)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(client_ca) => {
                let wrong = |error: &dyn fmt::Display| format!("no client can be known by it: {error}");
                let mut roots = RootCertStore::empty();
                for certificate in read(client_ca)? {
                    roots.add(certificate).map_err(|error| wrong(&error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(&error))?)
            }
        };
        Ok(Tls(Arc::new(builder.with_single_cert(chain, key).map_err(unfit)?)))
    }
}

/// Certificates, at least one.
fn read(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(|error| format!("the certificate cannot be read: {error}"))?;
    if all.is_empty() {
        return Err("there is no certificate: it begins with -----BEGIN CERTIFICATE-----".into());
    }
    Ok(all)
}
