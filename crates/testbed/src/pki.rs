//! Certificate authorities, certificates and keys for the parts of the testbed.
//!
//! Everything speaks TLS and checks its peer, also on the loopback interface, so that what is tested is what is shipped.

use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// Host names and addresses under which servers of the testbed are reached.
pub const LOOPBACK: [&str; 2] = ["localhost", "127.0.0.1"];

/// A certificate authority.
#[derive(Debug)]
pub struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Ca {
    /// Creates a self-signed authority with a new key.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = params(name, None)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("cannot generate a key")?;
        let issuer =
            CertifiedIssuer::self_signed(params, key).with_context(|| format!("cannot sign CA {name}"))?;
        Ok(Self { issuer })
    }

    /// The authority's certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's certificate in DER form.
    pub fn der(&self) -> &[u8] {
        self.issuer.der()
    }

    /// The authority's private key, for the controller manager, which signs certificate requests.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate for a server that is reached under `hosts` (names or addresses).
    pub fn server(&self, name: &str, hosts: &[&str]) -> anyhow::Result<KeyCert> {
        let mut params = params(name, None)?;
        params.subject_alt_names =
            CertificateParams::new(hosts.iter().map(ToString::to_string).collect::<Vec<_>>())
                .with_context(|| format!("{hosts:?} are not host names"))?
                .subject_alt_names;
        self.issue(params, &[ExtendedKeyUsagePurpose::ServerAuth])
    }

    /// A certificate for a client: Kubernetes takes the common name as user and the organisation as group.
    pub fn client(&self, user: &str, group: Option<&str>) -> anyhow::Result<KeyCert> {
        self.issue(params(user, group)?, &[ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// A certificate for a member that is both, as etcd peers are.
    pub fn peer(&self, name: &str, hosts: &[&str]) -> anyhow::Result<KeyCert> {
        let mut params = params(name, None)?;
        params.subject_alt_names =
            CertificateParams::new(hosts.iter().map(ToString::to_string).collect::<Vec<_>>())?
                .subject_alt_names;
        self.issue(params, &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth])
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usages: &[ExtendedKeyUsagePurpose],
    ) -> anyhow::Result<KeyCert> {
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("cannot generate a key")?;
        let cert = params.signed_by(&key, &self.issuer).context("cannot sign a certificate")?;
        Ok(KeyCert { cert_pem: cert.pem(), key_pem: key.serialize_pem() })
    }
}

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct KeyCert {
    /// The certificate.
    pub cert_pem: String,
    /// The private key (PKCS #8).
    pub key_pem: String,
}

impl std::fmt::Debug for KeyCert {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyCert").field("cert_pem", &self.cert_pem).finish_non_exhaustive()
    }
}

impl KeyCert {
    /// Writes `<name>.crt` and `<name>.key` and returns their paths.
    pub fn write(&self, folder: &Path, name: &str) -> anyhow::Result<KeyCertFiles> {
        Ok(KeyCertFiles {
            cert: write_private(folder, &format!("{name}.crt"), &self.cert_pem)?,
            key: write_private(folder, &format!("{name}.key"), &self.key_pem)?,
        })
    }
}

/// Paths of a certificate and its key.
#[derive(Debug, Clone)]
pub struct KeyCertFiles {
    /// The certificate.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The key pair that signs service account tokens, both PEM.
pub(crate) struct SigningKey {
    pub(crate) private_pem: String,
    pub(crate) public_pem: String,
}

impl SigningKey {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let key = KeyPair::generate().context("cannot generate a key")?;
        Ok(Self { private_pem: key.serialize_pem(), public_pem: key.public_key_pem() })
    }
}

/// Writes a file that only this user can read.
pub fn write_private(folder: &Path, name: &str, content: &str) -> anyhow::Result<PathBuf> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let path = folder.join(name);
    // Renamed into place: whoever reads an earlier one never sees half of it.
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let new = folder.join(format!(".{name}.{}.{count}", std::process::id()));
    std::fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .and_then(|()| std::fs::rename(&new, &path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn params(name: &str, group: Option<&str>) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    // UTF-8 strings: the names of the system users contain colons, which PrintableString allows only in part.
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, DnValue::Utf8String(group.to_owned()));
    }
    params.distinguished_name.push(DnType::CommonName, DnValue::Utf8String(name.to_owned()));
    let today = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).date();
    let (from, until) = (today.yesterday()?, today.checked_add(jiff::Span::new().days(3650))?);
    params.not_before =
        rcgen::date_time_ymd(from.year().into(), from.month().try_into()?, from.day().try_into()?);
    params.not_after =
        rcgen::date_time_ymd(until.year().into(), until.month().try_into()?, until.day().try_into()?);
    Ok(params)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_printed() {
        let ca = Ca::new("test").unwrap();
        let cert = ca.client("dev-a", Some("developers")).unwrap();
        assert!(!format!("{cert:?}").contains("PRIVATE KEY"));
        assert!(cert.key_pem.contains("PRIVATE KEY"));
    }

    #[test]
    fn private_files_are_readable_by_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let files = Ca::new("test")
            .unwrap()
            .server("localhost", &LOOPBACK)
            .unwrap()
            .write(folder.path(), "s")
            .unwrap();
        assert_eq!(std::fs::metadata(files.key).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
