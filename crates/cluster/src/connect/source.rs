//! Where credentials come from.

use std::{
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
};

use kube::{Client, config::InClusterError};
use thiserror::Error;

use super::{
    Fingerprint, KubeconfigError, KubeconfigPolicy, Limits, Target, cache,
    kubeconfig::{Raw, Rules},
};
use crate::requests::RequestMetrics;

/// Where the credentials for a cluster come from.
#[derive(Clone)]
pub enum Credentials {
    /// The bytes of a kubeconfig that somebody stored in a Secret: untrusted.
    Kubeconfig {
        /// Content of the Secret's key.
        bytes: Vec<u8>,
        /// Context to use instead of current-context.
        context: Option<String>,
    },
    /// A file of the operator's own, treated as kubectl would treat it.
    File {
        /// The file; without it `KUBECONFIG`, then `~/.kube/config`.
        path: Option<PathBuf>,
        /// Context to use instead of current-context.
        context: Option<String>,
    },
    /// The service account of the pod that this process runs in. Its token is re-read as it rotates.
    InCluster,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig { bytes, context } => f
                .debug_struct("Kubeconfig")
                .field("bytes", &format_args!("[{} bytes]", bytes.len()))
                .field("context", context)
                .finish(),
            Self::File { path, context } => {
                f.debug_struct("File").field("path", path).field("context", context).finish()
            }
            Self::InCluster => f.write_str("InCluster"),
        }
    }
}

/// Why no client could be made. Holds no part of a credential.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig is refused.
    #[error("{}{}", from_file(.path.as_deref()), .source)]
    Kubeconfig {
        /// The file, when it came from one.
        path: Option<PathBuf>,
        /// Why it is refused.
        source: KubeconfigError,
    },
    /// A kubeconfig file cannot be read.
    #[error("cannot read the kubeconfig {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no kubeconfig anywhere, and this is no pod.
    #[error("found no cluster: no kubeconfig given, KUBECONFIG not set, not inside of a cluster, {tried}")]
    NotFound {
        /// The last place that was tried, in words.
        tried: String,
    },
    /// The service account of this pod cannot be used.
    #[error("cannot use the pod's service account")]
    InCluster {
        /// What is missing.
        source: InClusterError,
    },
    /// A credential plug-in failed. Its output may hold credentials and is not kept.
    #[error("the credential plug-in {what}")]
    Plugin {
        /// How it failed.
        what: String,
    },
    /// The settings do not make a client.
    #[error("cannot make a client: {what}")]
    Client {
        /// What was refused, in fixed words.
        what: &'static str,
    },
}

impl ConnectError {
    /// A reason for a condition: one of a fixed set, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Kubeconfig { source, .. } => source.reason(),
            Self::Read { .. } => "KubeconfigUnreadable",
            Self::NotFound { .. } => "KubeconfigNotFound",
            Self::InCluster { .. } => "ServiceAccountUnusable",
            Self::Plugin { .. } => "CredentialPluginFailed",
            Self::Client { .. } => "ClientRefused",
        }
    }

    /// What can be done about it, as one sentence.
    pub fn remedy(&self) -> String {
        match self {
            Self::Kubeconfig { source, .. } => source.remedy(),
            Self::Read { .. } => "Check that the file exists and that this process may read it.".to_owned(),
            Self::NotFound { .. } => {
                "Give a kubeconfig, set KUBECONFIG, or run inside of a cluster with a service account."
                    .to_owned()
            }
            Self::InCluster { .. } => {
                "Mount a service account token into the pod (automountServiceAccountToken: true).".to_owned()
            }
            Self::Plugin { .. } => "Run the plug-in by hand to see its output.".to_owned(),
            Self::Client { .. } => "Check the certificates, keys and proxy of the kubeconfig.".to_owned(),
        }
    }
}

fn from_file(path: Option<&Path>) -> String {
    path.map(|path| format!("{}: ", path.display())).unwrap_or_default()
}

/// Credentials as they were found, before anything is judged.
pub(super) enum Found<'a> {
    Bytes { bytes: &'a [u8], context: Option<&'a str> },
    Files { files: Vec<(PathBuf, Vec<u8>)>, context: Option<&'a str> },
    InCluster,
}

impl Credentials {
    /// Reads files; the environment names them when no path is given.
    pub(super) async fn find(&self) -> Result<Found<'_>, ConnectError> {
        match self {
            Self::Kubeconfig { bytes, context } => Ok(Found::Bytes { bytes, context: context.as_deref() }),
            Self::File { path, context } => {
                let paths = match path {
                    Some(path) => vec![path.clone()],
                    None => from_environment(std::env::var_os("KUBECONFIG"))
                        .or_else(|| home_file().map(|path| vec![path]))
                        .ok_or_else(|| ConnectError::NotFound { tried: "no home directory".to_owned() })?,
                };
                let named_by_list = path.is_none() && paths.len() > 1;
                Ok(Found::Files {
                    files: read_files(paths, named_by_list).await?,
                    context: context.as_deref(),
                })
            }
            Self::InCluster => Ok(Found::InCluster),
        }
    }
}

impl Found<'_> {
    pub(super) fn fingerprint(&self, policy: KubeconfigPolicy) -> Fingerprint {
        match self {
            Self::Bytes { bytes, context } => Fingerprint::of(bytes, *context, policy),
            Self::Files { files, context } => {
                let all: Vec<u8> = files.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
                Fingerprint::of(&all, *context, KubeconfigPolicy::trusted())
            }
            Self::InCluster => Fingerprint::fixed("in-cluster"),
        }
    }

    /// The target, or `None` for the pod's own service account.
    pub(super) fn target(&self, policy: KubeconfigPolicy) -> Result<Option<Target>, ConnectError> {
        match self {
            Self::Bytes { bytes, context } => super::parse_kubeconfig(bytes, *context, &policy)
                .map(Some)
                .map_err(|source| ConnectError::Kubeconfig { path: None, source }),
            Self::Files { files, context } => {
                let first = files.first().map(|(path, _)| path.clone());
                let mut merged = Raw::default();
                for (path, bytes) in files {
                    let refused = |source| ConnectError::Kubeconfig { path: Some(path.clone()), source };
                    let mut raw = Raw::read(bytes).map_err(refused)?;
                    raw.anchor(path.parent().unwrap_or(Path::new("")));
                    merged.merge(raw);
                }
                let rules = Rules { policy: KubeconfigPolicy::trusted(), own_file: true };
                merged
                    .select(*context, rules, self.fingerprint(policy))
                    .map(Some)
                    .map_err(|source| ConnectError::Kubeconfig { path: first, source })
            }
            Self::InCluster => Ok(None),
        }
    }

    /// Whether somebody other than the operator of this process wrote the credentials.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, Self::Bytes { .. })
    }
}

/// kubectl skips files of a `KUBECONFIG` list that do not exist.
async fn read_files(
    paths: Vec<PathBuf>,
    skip_missing: bool,
) -> Result<Vec<(PathBuf, Vec<u8>)>, ConnectError> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        match tokio::fs::read(&path).await {
            Ok(bytes) => files.push((path, bytes)),
            Err(error) if skip_missing && error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(ConnectError::Read { path, source }),
        }
    }
    if files.is_empty() {
        return Err(ConnectError::NotFound { tried: "no file of KUBECONFIG exists".to_owned() });
    }
    Ok(files)
}

fn from_environment(value: Option<OsString>) -> Option<Vec<PathBuf>> {
    let paths: Vec<PathBuf> =
        std::env::split_paths(&value?).filter(|path| !path.as_os_str().is_empty()).collect();
    (!paths.is_empty()).then_some(paths)
}

fn home_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".kube").join("config"))
}

/// How to reach the cluster that holds Windlass' own objects.
#[derive(Debug, Clone, Default)]
pub struct HubOptions {
    /// A kubeconfig file named by the user.
    pub kubeconfig: Option<PathBuf>,
    /// A context named by the user.
    pub context: Option<String>,
    /// A namespace named by the user; else the context's or the pod's.
    pub namespace: Option<String>,
    /// Rate and time limits.
    pub limits: Limits,
    /// Counts the client's requests.
    pub metrics: Option<RequestMetrics>,
}

/// A client for the cluster that holds Windlass' own objects.
///
/// In order: the file that was named, `KUBECONFIG`, the pod's service account, `~/.kube/config`. The first that is
/// there is used; an error in it is an error, not a reason to look further.
pub async fn hub(options: &HubOptions) -> Result<Client, ConnectError> {
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let credentials = choose(options, std::env::var_os("KUBECONFIG"), in_pod, home_file())?;
    let connection = cache::connect(
        &credentials,
        KubeconfigPolicy::trusted(),
        &options.limits,
        options.metrics.as_ref(),
        |config| {
            if let Some(namespace) = &options.namespace {
                config.default_namespace.clone_from(namespace);
            }
        },
    )
    .await?;
    Ok(connection.client)
}

fn choose(
    options: &HubOptions,
    environment: Option<OsString>,
    in_pod: bool,
    home: Option<PathBuf>,
) -> Result<Credentials, ConnectError> {
    let context = options.context.clone();
    if let Some(path) = &options.kubeconfig {
        return Ok(Credentials::File { path: Some(path.clone()), context });
    }
    if from_environment(environment).is_some() {
        return Ok(Credentials::File { path: None, context });
    }
    // A context can only mean a kubeconfig.
    if in_pod && context.is_none() {
        return Ok(Credentials::InCluster);
    }
    match home {
        Some(path) if path.exists() => Ok(Credentials::File { path: Some(path), context }),
        Some(path) => Err(ConnectError::NotFound { tried: format!("no {}", path.display()) }),
        None => Err(ConnectError::NotFound { tried: "no home directory".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_is_looked_for_in_the_promised_order() {
        let named = HubOptions { kubeconfig: Some("named".into()), ..HubOptions::default() };
        let plain = HubOptions::default();
        let env = || Some(OsString::from("from-env"));
        let chosen = |options: &HubOptions, env, in_pod| match choose(options, env, in_pod, None) {
            Ok(Credentials::File { path: Some(path), .. }) => path.display().to_string(),
            Ok(Credentials::File { path: None, .. }) => "environment".to_owned(),
            Ok(Credentials::InCluster) => "pod".to_owned(),
            Ok(Credentials::Kubeconfig { .. }) => "bytes".to_owned(),
            Err(error) => error.reason().to_owned(),
        };
        assert_eq!(chosen(&named, env(), true), "named");
        assert_eq!(chosen(&plain, env(), true), "environment");
        assert_eq!(chosen(&plain, Some(OsString::new()), true), "pod");
        assert_eq!(chosen(&plain, None, true), "pod");
        assert_eq!(chosen(&plain, None, false), "KubeconfigNotFound");
        let context = HubOptions { context: Some("c".into()), ..HubOptions::default() };
        assert_eq!(chosen(&context, None, true), "KubeconfigNotFound");
    }
}
