//! Certificates: whom to trust, and who we are.

use super::hidden::Hidden;
use super::known_hosts::is_base64;

/// Certificates that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate in it.
    #[error("the {what} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)")]
    NoCertificate {
        /// What was looked at.
        what: &'static str,
    },
    /// There is no private key in it.
    #[error("the key of the client certificate is no private key in PEM")]
    NoKey,
    /// The key needs a passphrase.
    #[error("the key of the client certificate is encrypted: give one without a passphrase")]
    EncryptedKey,
    /// One half is missing.
    #[error("a client certificate needs both certificate and key: the {missing} is missing")]
    Half {
        /// What is missing.
        missing: &'static str,
    },
}

/// Certificates of the authorities that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateAuthority {
    pem: String,
}

impl CertificateAuthority {
    /// One or more certificates in PEM.
    pub fn from_pem(pem: &str) -> Result<Self, TlsError> {
        check_certificates("certificate authority", pem)?;
        Ok(Self { pem: pem.to_owned() })
    }

    /// The certificates.
    pub fn pem(&self) -> &str {
        &self.pem
    }
}

/// A certificate that we show to the server, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    certificate: String,
    key: Hidden,
}

impl ClientCertificate {
    /// Both in PEM.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, TlsError> {
        check_certificates("client certificate", certificate)?;
        if key.contains("ENCRYPTED") {
            return Err(TlsError::EncryptedKey);
        }
        if !(key.contains("-----BEGIN ") && key.contains("PRIVATE KEY-----")) {
            return Err(TlsError::NoKey);
        }
        Ok(Self { certificate: certificate.to_owned(), key: Hidden::new(key) })
    }

    /// The certificate.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its key.
    pub fn key(&self) -> &Hidden {
        &self.key
    }
}

fn check_certificates(what: &'static str, pem: &str) -> Result<(), TlsError> {
    let mut found = false;
    for part in pem.split("-----BEGIN CERTIFICATE-----").skip(1) {
        let Some((body, _)) = part.split_once("-----END CERTIFICATE-----") else {
            return Err(TlsError::NoCertificate { what });
        };
        if !is_base64(&body.split_whitespace().collect::<String>()) {
            return Err(TlsError::NoCertificate { what });
        }
        found = true;
    }
    if found { Ok(()) } else { Err(TlsError::NoCertificate { what }) }
}
