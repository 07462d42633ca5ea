//! Making certificates: the one place with keys and randomness.

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use thiserror::Error;

use super::facts::{ObservedCertificates, Piece, observe};
use super::{CertificateAction, CertificateSpec, Material, PrivateKey, after};

/// The last moment that X.509 can write.
const LAST_SECOND: i64 = 253_402_300_799;

/// A certificate that could not be made.
#[derive(Debug, Error)]
pub enum IssueError {
    /// No key, for want of randomness or memory.
    #[error("cannot make a private key")]
    Key(#[source] rcgen::Error),
    /// A name that is neither a DNS name nor an IP address.
    #[error("cannot make a certificate for the names {names:?}; use DNS names and IP addresses")]
    Names {
        /// The names of the specification.
        names: Vec<String>,
        /// What rcgen said.
        source: rcgen::Error,
    },
    /// The CA could not be signed.
    #[error("cannot make a CA")]
    Ca(#[source] rcgen::Error),
    /// The serving certificate could not be signed.
    #[error("cannot make a serving certificate")]
    Serving(#[source] rcgen::Error),
    /// A time before 1970 or after the end of time.
    #[error("cannot make a certificate that is valid until {0}")]
    Time(Timestamp),
    /// A plan for other material than this.
    #[error("cannot carry out the plan: the {0} is missing or damaged")]
    PieceMissing(&'static str),
}

/// A certificate with its key, both as PEM.
struct Pair {
    certificate: Vec<u8>,
    key: PrivateKey,
}

/// Carries one planned step out on the material that it was planned for. Nothing is written anywhere.
///
/// # Errors
/// When a key or certificate cannot be made, or the step does not fit the material.
pub fn carry_out(
    action: CertificateAction,
    material: &Material,
    spec: &CertificateSpec,
    now: Timestamp,
) -> Result<Material, IssueError> {
    let mut next = material.clone();
    match action {
        CertificateAction::Keep => {}
        CertificateAction::Create => {
            let ca = authority(spec, now)?;
            next = Material { ca: Some(ca.certificate), ca_key: Some(ca.key), ..Material::default() };
            issue_serving(&mut next, spec, now)?;
        }
        CertificateAction::IssueServing => issue_serving(&mut next, spec, now)?,
        CertificateAction::StageCa => {
            let ca = authority(spec, now)?;
            next.next_ca = Some(ca.certificate);
            next.next_ca_key = Some(ca.key);
        }
        CertificateAction::PromoteCa => {
            // A damaged CA would spoil the bundle, and an expired one is no use in it.
            let ObservedCertificates { ca, .. } = observe(material, spec, None);
            if matches!(ca, Piece::Found(ca) if ca.not_after > now) {
                next.previous_ca.clone_from(&material.ca);
            }
            next.ca = next.next_ca.take();
            next.ca_key = next.next_ca_key.take();
            issue_serving(&mut next, spec, now)?;
        }
        CertificateAction::RetireCa => next.previous_ca = None,
    }
    Ok(next)
}

fn authority(spec: &CertificateSpec, now: Timestamp) -> Result<Pair, IssueError> {
    let key = KeyPair::generate().map_err(IssueError::Key)?;
    let mut params = CertificateParams::default();
    set_validity(&mut params, spec, now, after(now, spec.ca_validity))?;
    // Clients find the issuer by its name, so every CA has one of its own.
    let digits =
        key.der_bytes().iter().rev().take(8).fold(0_u64, |digits, byte| digits << 8 | u64::from(*byte));
    params.distinguished_name = name(&format!("windlass webhook CA {digits:016x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key).map_err(IssueError::Ca)?;
    Ok(Pair { certificate: certificate.pem().into_bytes(), key: PrivateKey::new(key.serialize_pem()) })
}

fn issue_serving(material: &mut Material, spec: &CertificateSpec, now: Timestamp) -> Result<(), IssueError> {
    let ObservedCertificates { ca: Piece::Found(facts), .. } = observe(material, spec, None) else {
        return Err(IssueError::PieceMissing("CA"));
    };
    let (Some(ca), Some(ca_key)) =
        (text(material.ca.as_deref()), text(material.ca_key.as_ref().map(PrivateKey::reveal)))
    else {
        return Err(IssueError::PieceMissing("CA or its key"));
    };
    let ca_key = KeyPair::from_pem(ca_key).map_err(IssueError::Serving)?;
    let issuer = Issuer::from_ca_cert_pem(ca, ca_key).map_err(IssueError::Serving)?;

    let names: Vec<String> = spec.names.iter().cloned().collect();
    let mut params =
        CertificateParams::new(names.clone()).map_err(|source| IssueError::Names { names, source })?;
    let until = after(now, spec.serving_validity).min(facts.not_after);
    set_validity(&mut params, spec, now, until)?;
    params.distinguished_name = name("windlass webhooks");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(IssueError::Key)?;
    let certificate = params.signed_by(&key, &issuer).map_err(IssueError::Serving)?;
    material.serving = Some(certificate.pem().into_bytes());
    material.serving_key = Some(PrivateKey::new(key.serialize_pem()));
    Ok(())
}

fn text(bytes: Option<&[u8]>) -> Option<&str> {
    bytes.and_then(|bytes| std::str::from_utf8(bytes).ok())
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "windlass");
    name.push(DnType::CommonName, common);
    name
}

fn set_validity(
    params: &mut CertificateParams,
    spec: &CertificateSpec,
    now: Timestamp,
    until: Timestamp,
) -> Result<(), IssueError> {
    let seconds = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).map_err(|_| IssueError::Time(time))?;
        Ok(date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds))
    };
    if until.as_second() > LAST_SECOND {
        return Err(IssueError::Time(until));
    }
    params.not_before = seconds(after(now, -spec.backdate))?;
    params.not_after = seconds(until)?;
    Ok(())
}
