//! A kubeconfig that was found acceptable.

use std::{fmt, path::PathBuf, time::Duration};

use http::Uri;
use jiff::Timestamp;
use kube::config::AuthInfo;
use sha2::{Digest, Sha256};

use super::{KubeconfigPolicy, address};

/// How long a TCP connection with its TLS handshake may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Identifies the exact credentials of a client, so that a rotation is noticed. Holds no credential.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Over the content, the chosen context and the policy: whatever changes what the client would be.
    pub(super) fn of(bytes: &[u8], context: Option<&str>, policy: KubeconfigPolicy) -> Self {
        let mut hash = Sha256::new();
        hash.update([
            u8::from(policy.allow_exec),
            u8::from(policy.allow_files),
            u8::from(policy.allow_insecure_tls),
            u8::from(context.is_some()),
        ]);
        let context = context.unwrap_or_default();
        hash.update((context.len() as u64).to_be_bytes());
        hash.update(context);
        hash.update(bytes);
        Self(hash.finalize().into())
    }

    /// For credentials that are re-read by the client itself.
    pub(super) fn fixed(name: &'static str) -> Self {
        Self(Sha256::digest(name).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Whom to trust as the server.
#[derive(Clone)]
pub(super) enum Authorities {
    /// The machine's own trust store.
    Platform,
    /// These certificates, DER.
    Inline(Vec<Vec<u8>>),
    /// A file that is re-read.
    File(PathBuf),
}

/// An API server and how to authenticate to it. Made by [`parse_kubeconfig`](super::parse_kubeconfig).
#[derive(Clone)]
pub struct Target {
    pub(super) server: Uri,
    pub(super) proxy: Option<Uri>,
    pub(super) authorities: Authorities,
    pub(super) insecure: bool,
    pub(super) tls_server_name: Option<String>,
    pub(super) disable_compression: bool,
    pub(super) namespace: String,
    pub(super) auth_info: AuthInfo,
    pub(super) expires: Option<Timestamp>,
    pub(super) fingerprint: Fingerprint,
}

impl Target {
    /// Address of the API server. Holds no credentials.
    pub fn server(&self) -> &Uri {
        &self.server
    }

    /// Namespace of the context, `default` when it names none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Changes whenever the kubeconfig's content does.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// When the client certificate ends, if one is used.
    pub fn client_certificate_expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Whether building a client runs a program.
    pub(super) fn runs_program(&self) -> bool {
        self.auth_info.exec.is_some() || self.auth_info.auth_provider.is_some()
    }

    /// The settings that kube builds a client from.
    ///
    /// Without a proxy of its own, `HTTPS_PROXY` and `NO_PROXY` of this process apply. kube's own retries are off:
    /// they may hold a request for minutes, and every caller here has a back-off of its own.
    pub fn config(&self) -> kube::Config {
        self.config_in(&|name| std::env::var(name).ok())
    }

    fn config_in(&self, env: &dyn Fn(&str) -> Option<String>) -> kube::Config {
        let mut config = kube::Config::new(self.server.clone());
        config.default_namespace.clone_from(&self.namespace);
        match &self.authorities {
            Authorities::Platform => {}
            Authorities::Inline(ders) => config.root_cert = Some(ders.clone()),
            Authorities::File(path) => {
                // The list is replaced by the file's content when the client is built.
                config.root_cert = Some(Vec::new());
                config.root_cert_file = Some(path.clone());
            }
        }
        config.accept_invalid_certs = self.insecure;
        config.tls_server_name.clone_from(&self.tls_server_name);
        config.disable_compression = self.disable_compression;
        config.auth_info = self.auth_info.clone();
        config.proxy_url = self.proxy.clone().or_else(|| address::environment_proxy(&self.server, env));
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.default_retry = false;
        config
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credentials = if self.auth_info.token.is_some() || self.auth_info.token_file.is_some() {
            "token"
        } else if self.auth_info.username.is_some() {
            "password"
        } else if self.auth_info.client_certificate_data.is_some()
            || self.auth_info.client_certificate.is_some()
        {
            "client certificate"
        } else if self.runs_program() {
            "plug-in"
        } else {
            "none"
        };
        f.debug_struct("Target")
            .field("server", &self.server)
            .field("namespace", &self.namespace)
            .field("credentials", &credentials)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}
