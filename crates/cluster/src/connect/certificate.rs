//! Checks on certificates and keys before anything is sent with them.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use rustls::{
    Error as TlsError, InconsistentKeys, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use super::KubeconfigError;

/// Decodes a `-data` field. Line breaks are allowed, as YAML block scalars put them there.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(compact).ok()
}

/// The form in which kube expects a `-data` field.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Certificates of a PEM bundle, at least one, each of them X.509.
pub(super) fn bundle(
    field: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, KubeconfigError> {
    let bad = |what| KubeconfigError::BadCertificate { field, what };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| bad("is not a PEM certificate"))?;
    if certificates.is_empty() {
        return Err(bad("holds no PEM certificate"));
    }
    for certificate in &certificates {
        x509_parser::parse_x509_certificate(certificate).map_err(|_| bad("is not an X.509 certificate"))?;
    }
    Ok(certificates)
}

/// Certificate authorities of a `-data` field, in the form that kube takes.
pub(super) fn authorities(field: &'static str, data: &str) -> Result<Vec<Vec<u8>>, KubeconfigError> {
    let bad = |what| KubeconfigError::BadCertificate { field, what };
    let pem = decode(data).ok_or_else(|| bad("is not base64"))?;
    let certificates = bundle(field, &pem)?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|_| bad("cannot serve as a trust anchor"))?;
    }
    Ok(certificates.into_iter().map(|certificate| certificate.to_vec()).collect())
}

/// A client certificate whose key was found to fit.
pub(super) struct Identity {
    pub(super) certificate_pem: Vec<u8>,
    pub(super) key_pem: Vec<u8>,
    pub(super) expires: Option<Timestamp>,
}

/// Reads both halves of a client identity and checks that they belong together.
pub(super) fn identity(
    certificate: Option<&str>,
    key: Option<&str>,
) -> Result<Option<Identity>, KubeconfigError> {
    let field = "client-certificate-data";
    let (certificate, key) = match (certificate, key) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(KubeconfigError::BadKey { what: "is missing" }),
        (None, Some(_)) => return Err(KubeconfigError::BadCertificate { field, what: "is missing" }),
        (Some(certificate), Some(key)) => (certificate, key),
    };
    let certificate_pem =
        decode(certificate).ok_or(KubeconfigError::BadCertificate { field, what: "is not base64" })?;
    let key_pem = decode(key).ok_or(KubeconfigError::BadKey { what: "is not base64" })?;
    let chain = bundle(field, &certificate_pem)?;
    let expires = chain.first().and_then(|leaf| not_after(leaf));
    let key = PrivateKeyDer::from_pem_slice(&key_pem)
        .map_err(|_| KubeconfigError::BadKey { what: "is not an unencrypted PEM private key" })?;
    let key = rustls::crypto::ring::default_provider()
        .key_provider
        .load_private_key(key)
        .map_err(|_| KubeconfigError::BadKey { what: "is of an unsupported kind" })?;
    match CertifiedKey::new(chain, key).keys_match() {
        Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(_) => return Err(KubeconfigError::BadKey { what: "does not belong to client-certificate-data" }),
    }
    Ok(Some(Identity { certificate_pem, key_pem, expires }))
}

fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}
