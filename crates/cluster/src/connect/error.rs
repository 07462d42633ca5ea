//! Why a kubeconfig is refused, in words that can go into a condition.

use thiserror::Error;

use super::kubeconfig::MAX_KUBECONFIG_BYTES;

/// Why a kubeconfig is refused.
///
/// Guarantee: neither `Display` nor `Debug` nor any source carries credential content. Field names, the names of
/// contexts, clusters and users, positions and host names are all that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KubeconfigError {
    /// The bytes are not a YAML (or JSON) kubeconfig.
    #[error("not a kubeconfig: {what}{}", position(*.line))]
    Malformed {
        /// What was expected, in fixed words.
        what: &'static str,
        /// Line of the first problem, when known.
        line: Option<u64>,
    },
    /// The bytes exceed what is read.
    #[error("kubeconfig of {bytes} bytes exceeds the limit of {MAX_KUBECONFIG_BYTES} bytes")]
    TooLarge {
        /// Size that was offered.
        bytes: usize,
    },
    /// The YAML expands (aliases, depth, nodes) beyond what any kubeconfig needs.
    #[error("kubeconfig expands beyond its budget of aliases, depth and nodes{}", position(*.line))]
    TooComplex {
        /// Line at which the budget ran out, when known.
        line: Option<u64>,
    },
    /// No context was named and the file has no current-context.
    #[error("kubeconfig has no current-context and none was named")]
    NoContext,
    /// The context is not in the file.
    #[error("kubeconfig has no context {context:?}")]
    UnknownContext {
        /// Context that was looked for.
        context: String,
    },
    /// The context names a cluster that is not in the file.
    #[error("context {context:?} names cluster {cluster:?}, which the kubeconfig does not define")]
    MissingCluster {
        /// Context that was chosen.
        context: String,
        /// Cluster that it names.
        cluster: String,
    },
    /// The context names a user that is not in the file.
    #[error("context {context:?} names user {user:?}, which the kubeconfig does not define")]
    MissingUser {
        /// Context that was chosen.
        context: String,
        /// User that it names.
        user: String,
    },
    /// The user authenticates by running a program.
    #[error("user {user:?} runs an exec credential plug-in")]
    ExecPlugin {
        /// User of the chosen context.
        user: String,
    },
    /// The user authenticates with an auth-provider plug-in.
    #[error("user {user:?} uses an auth-provider plug-in")]
    AuthProvider {
        /// User of the chosen context.
        user: String,
    },
    /// A field points to a file of the machine that reads the kubeconfig.
    #[error("field {field} refers to a file")]
    FileReference {
        /// Field as written in a kubeconfig.
        field: &'static str,
    },
    /// The server's certificate would not be verified.
    #[error("insecure-skip-tls-verify is set for cluster {cluster:?}")]
    InsecureTls {
        /// Cluster of the chosen context.
        cluster: String,
    },
    /// The server is addressed without TLS.
    #[error("the server of cluster {cluster:?} is addressed without TLS")]
    PlainHttp {
        /// Cluster of the chosen context.
        cluster: String,
    },
    /// The server's URL cannot be used.
    #[error("the server URL of cluster {cluster:?} {what}")]
    BadServer {
        /// Cluster of the chosen context.
        cluster: String,
        /// What is wrong, in fixed words.
        what: &'static str,
    },
    /// A URL carries a user name or password.
    #[error("field {field} carries credentials inside its URL")]
    UrlCredentials {
        /// Field as written in a kubeconfig.
        field: &'static str,
    },
    /// The proxy cannot be used.
    #[error("the proxy-url of cluster {cluster:?} {what}")]
    BadProxy {
        /// Cluster of the chosen context.
        cluster: String,
        /// What is wrong, in fixed words.
        what: &'static str,
    },
    /// A URL points to a link-local or instance-metadata address.
    #[error("field {field} points to the link-local or metadata address {host}")]
    ForbiddenAddress {
        /// Field as written in a kubeconfig.
        field: &'static str,
        /// Host as written or resolved.
        host: String,
    },
    /// A certificate is not base64, not PEM or not X.509.
    #[error("field {field} {what}")]
    BadCertificate {
        /// Field as written in a kubeconfig.
        field: &'static str,
        /// What is wrong, in fixed words.
        what: &'static str,
    },
    /// The private key is unusable, missing, or belongs to another certificate.
    #[error("field client-key-data {what}")]
    BadKey {
        /// What is wrong, in fixed words.
        what: &'static str,
    },
    /// A token, user name or password that an HTTP header cannot carry.
    #[error("field {field} holds characters that an HTTP header cannot carry")]
    BadToken {
        /// Field as written in a kubeconfig.
        field: &'static str,
    },
    /// Impersonation without an identity: it would silently fall back to the user itself.
    #[error("user {user:?} {what}")]
    BadImpersonation {
        /// User of the chosen context.
        user: String,
        /// What is wrong, in fixed words.
        what: &'static str,
    },
    /// The user has nothing to prove who it is.
    #[error("user {user:?} has no credentials")]
    NoCredentials {
        /// User of the chosen context.
        user: String,
    },
}

impl KubeconfigError {
    /// A reason for a condition: one of a fixed set, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "KubeconfigMalformed",
            Self::TooLarge { .. } => "KubeconfigTooLarge",
            Self::TooComplex { .. } => "KubeconfigTooComplex",
            Self::NoContext => "KubeconfigNoContext",
            Self::UnknownContext { .. } => "KubeconfigUnknownContext",
            Self::MissingCluster { .. } => "KubeconfigMissingCluster",
            Self::MissingUser { .. } => "KubeconfigMissingUser",
            Self::ExecPlugin { .. } => "KubeconfigExecRefused",
            Self::AuthProvider { .. } => "KubeconfigAuthProviderRefused",
            Self::FileReference { .. } => "KubeconfigFileRefused",
            Self::InsecureTls { .. } => "KubeconfigInsecureTLSRefused",
            Self::PlainHttp { .. } => "KubeconfigPlainHTTPRefused",
            Self::BadServer { .. } => "KubeconfigBadServer",
            Self::UrlCredentials { .. } => "KubeconfigURLCredentialsRefused",
            Self::BadProxy { .. } => "KubeconfigBadProxy",
            Self::ForbiddenAddress { .. } => "KubeconfigAddressRefused",
            Self::BadCertificate { .. } => "KubeconfigBadCertificate",
            Self::BadKey { .. } => "KubeconfigBadKey",
            Self::BadToken { .. } => "KubeconfigBadToken",
            Self::BadImpersonation { .. } => "KubeconfigBadImpersonation",
            Self::NoCredentials { .. } => "KubeconfigNoCredentials",
        }
    }

    /// What the owner of the kubeconfig can do about it, as one sentence.
    pub fn remedy(&self) -> String {
        match self {
            Self::Malformed { .. } | Self::TooLarge { .. } | Self::TooComplex { .. } => {
                "Store the output of `kubectl config view --raw --flatten --minify` for the cluster."
                    .to_owned()
            }
            Self::NoContext => "Set current-context in the kubeconfig, or name a context.".to_owned(),
            Self::UnknownContext { .. } => {
                "Name a context that `kubectl config get-contexts` lists for this kubeconfig.".to_owned()
            }
            Self::MissingCluster { cluster, .. } => format!("Add the cluster {cluster:?} to the kubeconfig."),
            Self::MissingUser { user, .. } => format!("Add the user {user:?} to the kubeconfig."),
            Self::ExecPlugin { .. } | Self::AuthProvider { .. } => "Use a service account token or a client \
                 certificate instead, or ask an administrator to allow plug-ins in kubeconfigs."
                .to_owned(),
            Self::FileReference { field } => format!(
                "Embed the content with `kubectl config view --raw --flatten` (field {}), or ask an administrator \
                 to allow file references in kubeconfigs.",
                embedded(field)
            ),
            Self::InsecureTls { .. } => {
                "Add certificate-authority-data and remove insecure-skip-tls-verify, or ask \
                 an administrator to allow insecure TLS in kubeconfigs."
                    .to_owned()
            }
            Self::PlainHttp { .. } => "Use the https address of the API server.".to_owned(),
            Self::BadServer { .. } => {
                "Set server to the https address of the API server, such as https://host:6443.".to_owned()
            }
            Self::UrlCredentials { field } => {
                format!("Remove the user name and password from {field}; put the credentials under users.")
            }
            Self::BadProxy { .. } => "Use an http:// or https:// proxy address, or none.".to_owned(),
            Self::ForbiddenAddress { .. } => {
                "Use the address of the API server; link-local and metadata addresses are never contacted."
                    .to_owned()
            }
            Self::BadCertificate { field, .. } => {
                format!("Set {field} to the base64 form of a PEM certificate.")
            }
            Self::BadKey { .. } => {
                "Set client-key-data to the base64 form of the unencrypted PEM key that belongs to \
                 client-certificate-data."
                    .to_owned()
            }
            Self::BadToken { field } => {
                format!("Remove line breaks, spaces and control characters from {field}.")
            }
            Self::BadImpersonation { .. } => {
                "Set `as` to a user name when impersonating, or remove all impersonation fields.".to_owned()
            }
            Self::NoCredentials { user } => {
                format!("Give user {user:?} a token, or client-certificate-data with client-key-data.")
            }
        }
    }
}

fn position(line: Option<u64>) -> String {
    line.map(|line| format!(" (line {line})")).unwrap_or_default()
}

fn embedded(field: &str) -> &str {
    match field {
        "certificate-authority" => "certificate-authority-data",
        "client-certificate" => "client-certificate-data",
        "client-key" => "client-key-data",
        "tokenFile" => "token",
        other => other,
    }
}
