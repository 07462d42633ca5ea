//! A certificate authority and a server certificate for one server.

use std::sync::Arc;

use anyhow::Context;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::pki::{Ca, LOOPBACK};

/// What a server shows to its clients, and what they need to trust it.
#[derive(Debug, Clone)]
pub(crate) struct ServerIdentity {
    ca_pem: String,
    config: Arc<ServerConfig>,
}

impl ServerIdentity {
    /// A new authority that has signed one certificate, for 127.0.0.1 and localhost.
    pub(crate) fn generate() -> anyhow::Result<Self> {
        let ca = Ca::new("testbed servers")?;
        let pair = ca.server("localhost", &LOOPBACK)?;
        let certificate = CertificateDer::from_pem_slice(pair.cert_pem.as_bytes())
            .context("cannot read a certificate that was just made")?;
        let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes())
            .context("cannot read a key that was just made")?;
        // The provider is named, so that it does not matter which one the test process installs, if any.
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .context("cannot set up TLS")?
                .with_no_client_auth()
                .with_single_cert(vec![certificate], key)
                .context("cannot use a certificate that was just made")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { ca_pem: ca.pem(), config: Arc::new(config) })
    }

    /// The certificate authority, in PEM.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Takes TLS connections.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }
}
