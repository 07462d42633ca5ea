//! From stored bytes to facts that can be planned with.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use rcgen::PublicKeyData;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring::default_provider;
use rustls::server::ParsedCertificate;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use serde::{Deserialize, Serialize};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::{CertificateSpec, Material, PrivateKey, serving};

/// One part of the Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Piece<T> {
    /// Not there.
    Missing,
    /// There, but not what it should be.
    Garbage(String),
    /// There and readable, which does not mean valid.
    Found(T),
}

impl<T> Piece<T> {
    /// The facts, when there are any.
    pub fn found(&self) -> Option<&T> {
        match self {
            Self::Found(facts) => Some(facts),
            Self::Missing | Self::Garbage(_) => None,
        }
    }

    /// True when there is nothing at all.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// A private key beside its certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyFacts {
    /// There and made for the certificate.
    Usable,
    /// Missing, unreadable, or of another certificate.
    Unusable,
}

/// A certificate authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityFacts {
    /// Serial number, to tell authorities apart.
    pub serial: String,
    /// Start of validity.
    pub not_before: Timestamp,
    /// End of validity.
    pub not_after: Timestamp,
    /// Whether it can issue.
    pub key: KeyFacts,
}

/// Which stored CA signed a serving certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SignedBy {
    /// The one that issues now.
    Ca,
    /// The staged one.
    NextCa,
    /// The one being retired.
    PreviousCa,
    /// None of them: no client can trust it.
    Nobody,
}

/// A serving certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServingFacts {
    /// Start of validity.
    pub not_before: Timestamp,
    /// End of validity.
    pub not_after: Timestamp,
    /// DNS names and IP addresses it is for.
    pub names: BTreeSet<String>,
    /// Whether a listener can serve with it.
    pub key: KeyFacts,
    /// Whose it is.
    pub signed_by: SignedBy,
}

/// Everything that [`plan`](super::plan()) looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedCertificates {
    /// What is wanted.
    pub spec: CertificateSpec,
    /// The CA that issues.
    pub ca: Piece<AuthorityFacts>,
    /// The staged CA.
    pub next_ca: Piece<AuthorityFacts>,
    /// The CA being retired; its key does not matter.
    pub previous_ca: Piece<AuthorityFacts>,
    /// What is served with.
    pub serving: Piece<ServingFacts>,
    /// Since when the staged CA has been in every published bundle; `None` when it is not in all of them.
    pub next_published_since: Option<Timestamp>,
}

/// Reads the facts off the stored bytes. Never fails: what cannot be read is a fact, too.
pub fn observe(
    material: &Material,
    spec: &CertificateSpec,
    next_published_since: Option<Timestamp>,
) -> ObservedCertificates {
    ObservedCertificates {
        spec: spec.clone(),
        ca: authority(material.ca.as_deref(), material.ca_key.as_ref()),
        next_ca: authority(material.next_ca.as_deref(), material.next_ca_key.as_ref()),
        previous_ca: authority(material.previous_ca.as_deref(), None),
        serving: serving_facts(material),
        next_published_since,
    }
}

/// Every CA to trust now as one PEM text, in an order that does not change when their roles do: replicas that see different steps
/// of a rotation write the same bundle as long as they see the same CAs.
pub fn bundle(observed: &ObservedCertificates, material: &Material, now: Timestamp) -> Vec<u8> {
    let mut trusted: Vec<&[u8]> = [
        (&observed.ca, &material.ca),
        (&observed.next_ca, &material.next_ca),
        (&observed.previous_ca, &material.previous_ca),
    ]
    .into_iter()
    .filter(|(piece, _)| piece.found().is_some_and(|facts| now < facts.not_after))
    .filter_map(|(_, pem)| pem.as_deref().map(<[u8]>::trim_ascii))
    .collect();
    trusted.sort_unstable();
    trusted.dedup();
    trusted.into_iter().flat_map(|pem| pem.iter().copied().chain(*b"\n")).collect()
}

fn authority(pem: Option<&[u8]>, key: Option<&PrivateKey>) -> Piece<AuthorityFacts> {
    let Some(pem) = pem else {
        return if key.is_some() {
            Piece::Garbage("a key without its certificate".into())
        } else {
            Piece::Missing
        };
    };
    read_authority(pem, key).map_or_else(Piece::Garbage, Piece::Found)
}

fn read_authority(pem: &[u8], key: Option<&PrivateKey>) -> Result<AuthorityFacts, String> {
    let der = single_certificate(pem)?;
    let certificate = parse(&der)?;
    if !certificate.is_ca() {
        return Err("not the certificate of a CA".to_owned());
    }
    // What no client could load as a root must not be published either.
    RootCertStore::empty().add(der.clone()).map_err(|_| "no client takes it as a root".to_owned())?;
    let (not_before, not_after) = validity(&certificate)?;
    let usable = key
        .and_then(|key| std::str::from_utf8(key.reveal()).ok())
        .and_then(|pem| rcgen::KeyPair::from_pem(pem).ok())
        .is_some_and(|pair| pair.subject_public_key_info() == certificate.public_key().raw);
    let key = if usable { KeyFacts::Usable } else { KeyFacts::Unusable };
    Ok(AuthorityFacts { serial: certificate.raw_serial_as_string(), not_before, not_after, key })
}

fn serving_facts(material: &Material) -> Piece<ServingFacts> {
    match (&material.serving, &material.serving_key) {
        (None, None) => Piece::Missing,
        (None, Some(_)) => Piece::Garbage("a key without its certificate".into()),
        (Some(pem), _) => read_serving(pem, material).map_or_else(Piece::Garbage, Piece::Found),
    }
}

fn read_serving(pem: &[u8], material: &Material) -> Result<ServingFacts, String> {
    let ders = certificates(pem)?;
    let der = ders.first().ok_or("no certificate in it")?;
    let certificate = parse(der)?;
    let (not_before, not_after) = validity(&certificate)?;
    let usable =
        material.serving_key.as_ref().is_some_and(|key| serving::certified_key(pem, key.reveal()).is_ok());
    let signers = [
        (SignedBy::Ca, &material.ca),
        (SignedBy::NextCa, &material.next_ca),
        (SignedBy::PreviousCa, &material.previous_ca),
    ];
    let signed_by = signers
        .into_iter()
        .find(|(_, ca)| ca.as_ref().is_some_and(|ca| signed(der, ca, not_before)))
        .map_or(SignedBy::Nobody, |(by, _)| by);
    Ok(ServingFacts {
        not_before,
        not_after,
        names: names(&certificate)?,
        key: if usable { KeyFacts::Usable } else { KeyFacts::Unusable },
        signed_by,
    })
}

/// Checks the signature and the constraints as a client would, at a time when the certificate was valid: whether
/// it still is, is another question.
fn signed(der: &CertificateDer<'_>, ca: &[u8], valid_at: Timestamp) -> bool {
    let Ok(ca) = single_certificate(ca) else { return false };
    let mut roots = RootCertStore::empty();
    if roots.add(ca).is_err() {
        return false;
    }
    let Ok(certificate) = ParsedCertificate::try_from(der) else { return false };
    let seconds = u64::try_from(valid_at.as_second()).unwrap_or(0);
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let algorithms = default_provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], at, algorithms).is_ok()
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| "not PEM".to_owned())
}

pub(super) fn single_certificate(pem: &[u8]) -> Result<CertificateDer<'static>, String> {
    let mut ders = certificates(pem)?;
    match (ders.pop(), ders.is_empty()) {
        (Some(der), true) => Ok(der),
        (Some(_), false) => Err("more than one certificate in it".to_owned()),
        (None, _) => Err("no certificate in it".to_owned()),
    }
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    X509Certificate::from_der(der)
        .map(|(_, certificate)| certificate)
        .map_err(|_| "not an X.509 certificate".to_owned())
}

fn validity(certificate: &X509Certificate<'_>) -> Result<(Timestamp, Timestamp), String> {
    let read = |seconds| Timestamp::from_second(seconds).map_err(|_| "valid at impossible times".to_owned());
    let validity = certificate.validity();
    Ok((read(validity.not_before.timestamp())?, read(validity.not_after.timestamp())?))
}

fn names(certificate: &X509Certificate<'_>) -> Result<BTreeSet<String>, String> {
    let extension = certificate.subject_alternative_name().map_err(|_| "names twice".to_owned())?;
    let Some(extension) = extension else { return Ok(BTreeSet::new()) };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(dns) => Some((*dns).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|octets| IpAddr::from(octets).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|octets| IpAddr::from(octets).to_string()),
            _ => None,
        },
        _ => None,
    };
    Ok(extension.value.general_names.iter().filter_map(name).collect())
}
