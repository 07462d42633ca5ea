//! Where a repository is and how one gets in: address, credentials, proxy, certificate authority.
//!
//! ```text
//!  "https://user:pass@Host/team/app.git/" ─┐              ┌─► url()      shown to people, given to git: no secret in it
//!  Secret of Flux or Argo CD ──────────────┴──► Remote ───┼─► digest()   name of the mirror's folder
//!                                                         └─► command::Git gives the secrets to the child
//! ```
//!
//! Secrets are held in [`Hidden`], which prints as `***` whatever the format.

mod credentials;
mod hidden;
mod known_hosts;
mod proxy;
mod secret;
mod tls;
mod url;

pub use credentials::{CredentialError, Credentials, SshKey};
pub use hidden::Hidden;
pub use known_hosts::{KnownHosts, KnownHostsError};
pub use proxy::{Proxy, ProxyError};
pub use secret::{SecretDefaults, SecretError};
pub use tls::{CertificateAuthority, ClientCertificate, TlsError};
pub use url::{RemoteUrl, Scheme, UrlError, UrlPolicy};

use sha2::{Digest, Sha256};

/// A remote that cannot be used as it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The address.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The credentials.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// The Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl RemoteError {
    /// A short name for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Url(_) => "InvalidUrl",
            Self::Credentials(_) | Self::Secret(_) => "Credentials",
            Self::Proxy(_) => "Proxy",
            Self::Tls(_) => "Certificate",
        }
    }
}

/// A remote repository and the way to it.
///
/// Guarantees: the credentials fit the address (a key for ssh, a token or password for http and https), the known hosts
/// name the host, and nothing that this type prints holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    url: RemoteUrl,
    scope: String,
    credentials: Credentials,
    proxy: Option<Proxy>,
    ca: Option<CertificateAuthority>,
    client_certificate: Option<ClientCertificate>,
}

impl Remote {
    /// A remote at an address. A user and password in an `https` address are taken out of it and used.
    ///
    /// An ssh remote cannot be reached before [`Remote::with_credentials`] gave it a key.
    pub fn new(url: &str) -> Result<Self, RemoteError> {
        Self::with_policy(url, UrlPolicy::default())
    }

    /// Like [`Remote::new`], with a say in what addresses are allowed.
    pub fn with_policy(url: &str, policy: UrlPolicy) -> Result<Self, RemoteError> {
        let (url, user_info) = RemoteUrl::parse(url, policy)?;
        let credentials = match user_info {
            Some((user, password)) => Credentials::basic(&user, password)?,
            None => Credentials::Anonymous,
        };
        let scope = String::new();
        Ok(Self { url, scope, credentials, proxy: None, ca: None, client_certificate: None })
    }

    /// Uses these credentials, in place of those of the address.
    pub fn with_credentials(self, credentials: Credentials) -> Result<Self, CredentialError> {
        credentials.check_for(&self.url)?;
        Ok(Self { credentials, ..self })
    }

    /// Goes through this proxy. Only http and https remotes can.
    pub fn with_proxy(self, proxy: Proxy) -> Result<Self, ProxyError> {
        if !self.url.scheme().is_http() {
            return Err(ProxyError::NotHttp { scheme: self.url.scheme().as_str() });
        }
        Ok(Self { proxy: Some(proxy), ..self })
    }

    /// Trusts this authority, and no other.
    #[must_use]
    pub fn with_ca(self, ca: CertificateAuthority) -> Self {
        Self { ca: Some(ca), ..self }
    }

    /// Shows this certificate to the server.
    #[must_use]
    pub fn with_client_certificate(self, certificate: ClientCertificate) -> Self {
        Self { client_certificate: Some(certificate), ..self }
    }

    /// Keeps the mirror apart from mirrors of the same address in other scopes.
    ///
    /// Who may read a mirror is decided by the remote and by credentials, and a mirror that is already there asks
    /// neither. Give the tenant (the namespace of the Secret) as the scope, and no tenant reads another's mirror. Within
    /// a scope credentials may change (rotation) and the mirror stays.
    #[must_use]
    pub fn in_scope(self, scope: &str) -> Self {
        Self { scope: scope.to_owned(), ..self }
    }

    /// The address, without credentials.
    pub fn url(&self) -> &RemoteUrl {
        &self.url
    }

    /// Whose mirror it is, see [`Remote::in_scope`].
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// How one gets in.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The proxy on the way.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// The only authority that is trusted, when it is not the machine's.
    pub fn ca(&self) -> Option<&CertificateAuthority> {
        self.ca.as_ref()
    }

    /// The certificate shown to the server.
    pub fn client_certificate(&self) -> Option<&ClientCertificate> {
        self.client_certificate.as_ref()
    }

    /// A name for the folder of the mirror: 32 hexadecimal digits of the hash of scope and normal address.
    ///
    /// Credentials are no part of it: a rotated token finds the same mirror, and a folder name tells nothing about a
    /// password.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.scope.as_bytes());
        hash.update([0]);
        hash.update(self.url.normal().as_bytes());
        hash.finalize().iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
            text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
            text
        })
    }

    /// Takes every secret of this remote out of a text, in the forms in which git or a server could repeat it.
    pub fn redact(&self, text: &str) -> String {
        let mut secrets = self.credentials.secrets();
        secrets.extend(self.proxy.iter().flat_map(Proxy::secrets));
        hidden::redact(text, &secrets)
    }
}

impl std::fmt::Display for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.url)
    }
}

#[cfg(test)]
mod tests;
