//! Kubernetes Secrets as Flux and Argo CD have them.
//!
//! | | Flux | Argo CD |
//! |---|---|---|
//! | password | `username`, `password` | `username`, `password` |
//! | token | `bearerToken` | `bearerToken` |
//! | ssh | `identity`, `known_hosts` | `sshPrivateKey` (hosts in a `ConfigMap`: [`SecretDefaults`]) |
//! | authority | `ca.crt`, `caFile` | (in a `ConfigMap`: [`SecretDefaults`]) |
//! | client certificate | `tls.crt`/`certFile`, `tls.key`/`keyFile` | `tlsClientCertData`, `tlsClientCertKey` |
//! | proxy | own Secret: [`Proxy::from_secret`] | `proxy`, `noProxy` |

use std::collections::BTreeMap;

use super::{
    CertificateAuthority, ClientCertificate, CredentialError, Credentials, Hidden, KnownHosts,
    KnownHostsError, Proxy, Remote, RemoteError, SshKey, TlsError,
};

/// A Secret that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// A value is no text.
    #[error("key {key:?} of the Secret is no UTF-8 text")]
    NotText {
        /// Which key.
        key: String,
    },
    /// There are several credentials in it.
    #[error("the Secret holds both {first:?} and {second:?}: leave only one of them")]
    Several {
        /// One of them.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// Nothing in it is known.
    #[error(
        "the Secret holds no credentials: expected username and password, bearerToken, or identity and known_hosts"
    )]
    Nothing,
    /// It is meant to switch checks off.
    #[error("key {key:?} of the Secret would switch off the check of the server: give {instead} instead")]
    Insecure {
        /// Which key.
        key: &'static str,
        /// What to give.
        instead: &'static str,
    },
    /// It is a kind of credentials that is not known here.
    #[error("key {key:?} of the Secret is not supported: use a token, a password or an ssh key")]
    Unsupported {
        /// Which key.
        key: String,
    },
}

/// What holds for remotes whose Secret does not say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretDefaults {
    /// Known hosts, as Argo CD keeps them in a `ConfigMap`.
    pub known_hosts: Option<KnownHosts>,
    /// Authorities to trust.
    pub ca: Option<CertificateAuthority>,
    /// A proxy for http and https.
    pub proxy: Option<Proxy>,
}

impl Remote {
    /// Adds what a Secret of the shape of Flux or Argo CD holds. Values are the decoded bytes.
    ///
    /// A Secret with only certificates or a proxy leaves the credentials of the address in place.
    pub fn with_secret(
        self,
        data: &BTreeMap<String, Vec<u8>>,
        defaults: &SecretDefaults,
    ) -> Result<Self, RemoteError> {
        let fields = Fields { data };
        fields.refuse_what_is_not_done()?;
        let mut remote = self;
        let credentials = fields.credentials(defaults)?;
        let ca = fields.first(&["ca.crt", "caFile"])?.filter(|pem| !pem.trim().is_empty());
        let certificate = fields.client_certificate()?;
        let proxy = fields.text("proxy")?.filter(|proxy| !proxy.trim().is_empty());
        if credentials.is_none() && ca.is_none() && certificate.is_none() && proxy.is_none() {
            return Err(SecretError::Nothing.into());
        }
        if let Some(credentials) = credentials {
            remote = remote.with_credentials(credentials)?;
        }
        match ca {
            Some(pem) => remote = remote.with_ca(CertificateAuthority::from_pem(pem)?),
            None => remote.ca = remote.ca.or_else(|| defaults.ca.clone()),
        }
        if let Some(certificate) = certificate {
            remote = remote.with_client_certificate(certificate);
        }
        if let Some(address) = proxy {
            let except = fields.text("noProxy")?.unwrap_or_default();
            remote = remote.with_proxy(Proxy::new(address)?.except(except))?;
        } else if let (Some(proxy), true) = (&defaults.proxy, remote.url.scheme().is_http()) {
            remote.proxy = remote.proxy.or_else(|| Some(proxy.clone()));
        }
        Ok(remote)
    }
}

struct Fields<'a> {
    data: &'a BTreeMap<String, Vec<u8>>,
}

impl Fields<'_> {
    fn text(&self, key: &str) -> Result<Option<&str>, SecretError> {
        self.data
            .get(key)
            .map(|value| std::str::from_utf8(value).map_err(|_| SecretError::NotText { key: key.to_owned() }))
            .transpose()
    }

    fn first(&self, keys: &[&str]) -> Result<Option<&str>, SecretError> {
        for key in keys {
            if let Some(text) = self.text(key)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    fn refuse_what_is_not_done(&self) -> Result<(), SecretError> {
        for (key, instead) in [("insecure", "ca.crt"), ("insecureIgnoreHostKey", "known_hosts")] {
            if self.text(key)?.is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
                return Err(SecretError::Insecure { key, instead });
            }
        }
        let odd = |key: &&String| key.starts_with("githubApp") || *key == "gcpServiceAccountKey";
        match self.data.keys().find(odd) {
            Some(key) => Err(SecretError::Unsupported { key: key.clone() }),
            None => Ok(()),
        }
    }

    fn credentials(&self, defaults: &SecretDefaults) -> Result<Option<Credentials>, RemoteError> {
        let kinds = ["identity", "sshPrivateKey", "bearerToken", "username"];
        let given: Vec<_> = kinds.into_iter().filter(|key| self.data.contains_key(*key)).collect();
        if let [first, second, ..] = given[..] {
            return Err(SecretError::Several { first, second }.into());
        }
        if let Some(key) = self.first(&["identity", "sshPrivateKey"])? {
            // Flux puts the passphrase of a key into `password`; an encrypted key is refused by its own error.
            let known_hosts = match (self.text("known_hosts")?, &defaults.known_hosts) {
                (Some(text), _) => KnownHosts::new(text).map_err(CredentialError::from)?,
                (None, Some(known_hosts)) => known_hosts.clone(),
                (None, None) => return Err(CredentialError::from(KnownHostsError::Missing).into()),
            };
            return Ok(Some(Credentials::Ssh(SshKey::new(key, known_hosts)?)));
        }
        if let Some(token) = self.text("bearerToken")? {
            return Ok(Some(Credentials::token(token)?));
        }
        match (self.text("username")?, self.text("password")?) {
            (None, None) => Ok(None),
            (user, Some(password)) => {
                let password = without_line_end(password);
                if password.is_empty() {
                    return Err(CredentialError::Empty { what: "password" }.into());
                }
                // Forges take a token with any user name, but not without one.
                let user = without_line_end(user.unwrap_or("git"));
                Ok(Some(Credentials::basic(user, Hidden::new(password))?))
            }
            (Some(_), None) => Err(CredentialError::Empty { what: "password" }.into()),
        }
    }

    fn client_certificate(&self) -> Result<Option<ClientCertificate>, RemoteError> {
        let certificate = self.first(&["tls.crt", "certFile", "tlsClientCertData"])?;
        let key = self.first(&["tls.key", "keyFile", "tlsClientCertKey"])?;
        let filled = |text: Option<&str>| text.is_some_and(|text| !text.trim().is_empty());
        match (certificate, key) {
            _ if !filled(certificate) && !filled(key) => Ok(None),
            (Some(certificate), Some(key)) if filled(Some(certificate)) && filled(Some(key)) => {
                Ok(Some(ClientCertificate::from_pem(certificate, key)?))
            }
            _ => {
                Err(TlsError::Half { missing: if filled(certificate) { "key" } else { "certificate" } }
                    .into())
            }
        }
    }
}

/// `echo secret | base64` leaves a line break at the end, and no password ends with one.
fn without_line_end(text: &str) -> &str {
    text.trim_end_matches(['\r', '\n'])
}
