//! The certificate in use, replaceable while connections come in.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

/// A certificate that cannot be served with. Says what is wrong, never what was read.
#[derive(Debug, Error)]
pub enum ServingError {
    /// Not PEM, or without a certificate.
    #[error("cannot read the serving certificate: it is not a PEM certificate")]
    Certificate,
    /// Not PEM, or without a key.
    #[error("cannot read the key of the serving certificate: it is not a PEM private key")]
    Key,
    /// Unknown kind of key, or not the key of the certificate.
    #[error("cannot serve with the certificate and its key")]
    Pair(#[source] rustls::Error),
}

/// What the listener serves with: nothing at first, then the newest that was [set](Self::set).
///
/// Without a certificate handshakes fail, and clients see that the connection was refused.
#[derive(Default)]
pub struct ServingCertificate(RwLock<Option<Arc<CertifiedKey>>>);

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").field("loaded", &self.is_loaded()).finish_non_exhaustive()
    }
}

impl ServingCertificate {
    /// None yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// True once there has been a certificate.
    pub fn is_loaded(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Serves with this chain and key (both PEM) from the next handshake on. Leaves the present ones in place
    /// when these do not fit. True when they differ from the present ones.
    ///
    /// # Errors
    /// When they cannot be read or do not belong together.
    pub fn set(&self, chain: &[u8], key: &[u8]) -> Result<bool, ServingError> {
        let next = certified_key(chain, key)?;
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let changed = current.as_ref().is_none_or(|current| current.cert != next.cert);
        if changed {
            *current = Some(Arc::new(next));
        }
        Ok(changed)
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads a chain and its key and checks that they belong together.
pub(super) fn certified_key(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, ServingError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|_| ServingError::Certificate)?;
    if chain.is_empty() {
        return Err(ServingError::Certificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| ServingError::Key)?;
    CertifiedKey::from_der(chain, key, &default_provider()).map_err(ServingError::Pair)
}
