//! Which kinds a cluster serves, and which of them it could not tell about.
//!
//! A group whose backend is down looks like a group without kinds. Taking the one for the other makes a controller
//! prune what it should keep, so both are kept apart: [`Lookup::Absent`] is said only when the API server was sure.

mod cache;
mod legacy;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use http::{Request, StatusCode, header::ACCEPT};
use http_body_util::{BodyExt, Limited};
use kube::{
    Client,
    api::{ApiResource, GroupVersionKind},
    client::{APIGroupDiscoveryList, APIResourceDiscovery, Body},
};
use serde::Deserialize;
use thiserror::Error;

pub use cache::DiscoveryCache;

/// Both forms of aggregated discovery, then the plain one.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Largest discovery document that is read. A cluster with 2,000 custom kinds has one of about 3 MiB.
const MAX_DOCUMENT: usize = 64 * 1024 * 1024;

/// Why a group version is not known for certain.
const STALE: &str = "the API server could not reach the backend that serves it";

/// One kind, in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// What an `Api` needs.
    pub resource: ApiResource,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// `get`, `list`, `watch`, `patch`, …
    pub verbs: BTreeSet<String>,
    /// `status`, `scale`, … with their verbs.
    pub subresources: BTreeMap<String, BTreeSet<String>>,
    /// Short names, as kubectl takes them.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Place of the version in its group: 0 is preferred.
    pub rank: usize,
    /// Told from memory: its backend is down at the moment.
    pub stale: bool,
}

impl Served {
    /// Whether objects of this kind can be watched and applied.
    pub fn is_manageable(&self) -> bool {
        ["list", "watch", "patch", "delete"].into_iter().all(|verb| self.verbs.contains(verb))
    }

    /// The kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.resource.group, &self.resource.version, &self.resource.kind)
    }
}

/// What is known about a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// It is served.
    Found(Arc<Served>),
    /// The API server is sure that it is not served.
    Absent,
    /// Its group could not be asked; why, in words. Never treat as absent.
    Unknown(String),
}

/// Everything that a cluster serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    // Group, kind, version: all versions of a kind lie side by side.
    kinds: BTreeMap<(String, String, String), Arc<Served>>,
    failed: BTreeMap<String, String>,
    groups_failed: BTreeMap<String, String>,
}

impl Discovered {
    /// Looks for a kind in exactly this version.
    pub fn lookup(&self, gvk: &GroupVersionKind) -> Lookup {
        let key = (gvk.group.clone(), gvk.kind.clone(), gvk.version.clone());
        match self.kinds.get(&key) {
            Some(served) => Lookup::Found(Arc::clone(served)),
            None => self.missing(&gvk.group),
        }
    }

    /// Looks for a kind in the version that the cluster prefers.
    pub fn preferred(&self, group: &str, kind: &str) -> Lookup {
        match self.versions(group, kind).min_by_key(|served| served.rank) {
            Some(served) => Lookup::Found(Arc::clone(served)),
            None => self.missing(group),
        }
    }

    /// All versions of a kind, in no order.
    pub fn versions<'a>(
        &'a self,
        group: &str,
        kind: &str,
    ) -> impl Iterator<Item = &'a Arc<Served>> + use<'a> {
        let start = (group.to_owned(), kind.to_owned(), String::new());
        let (group, kind) = (group.to_owned(), kind.to_owned());
        self.kinds
            .range(start..)
            .take_while(move |(key, _)| key.0 == group && key.1 == kind)
            .map(|(_, served)| served)
    }

    /// Every kind in every version.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.kinds.values()
    }

    /// Group versions (`group/version`) that could not be asked, with the reason.
    pub fn failed(&self) -> &BTreeMap<String, String> {
        &self.failed
    }

    fn missing(&self, group: &str) -> Lookup {
        match self.groups_failed.get(group) {
            Some(reason) => Lookup::Unknown(reason.clone()),
            None => Lookup::Absent,
        }
    }

    fn add(&mut self, served: Served) {
        let resource = &served.resource;
        let key = (resource.group.clone(), resource.kind.clone(), resource.version.clone());
        // Several resources may answer with one kind; the first is the kind's own.
        self.kinds.entry(key).or_insert_with(|| Arc::new(served));
    }

    fn fail(&mut self, group: &str, version: &str, reason: &str) {
        let name = api_version(group, version);
        self.groups_failed.insert(group.to_owned(), format!("{name}: {reason}"));
        self.failed.insert(name, reason.to_owned());
    }

    fn add_aggregated(&mut self, list: APIGroupDiscoveryList) {
        for group in list.items {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            for (rank, version) in group.versions.into_iter().enumerate() {
                let Some(version_name) = version.version else { continue };
                let stale = version.freshness.as_deref() == Some("Stale");
                if stale {
                    self.fail(&name, &version_name, STALE);
                }
                for resource in version.resources {
                    if let Some(served) = from_aggregated(&name, &version_name, resource, rank, stale) {
                        self.add(served);
                    }
                }
            }
        }
    }
}

fn from_aggregated(
    group: &str,
    version: &str,
    found: APIResourceDiscovery,
    rank: usize,
    stale: bool,
) -> Option<Served> {
    let plural = found.resource?;
    let kind = found.response_kind.and_then(|kind| kind.kind).filter(|kind| !kind.is_empty())?;
    let subresources = found
        .subresources
        .into_iter()
        .filter_map(|sub| Some((sub.subresource?, sub.verbs.into_iter().collect())))
        .collect();
    Some(Served {
        resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version(group, version),
            kind,
            plural,
        },
        namespaced: found.scope.as_deref() == Some("Namespaced"),
        verbs: found.verbs.into_iter().collect(),
        subresources,
        short_names: found.short_names,
        categories: found.categories,
        rank,
        stale,
    })
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Why nothing could be discovered.
#[derive(Debug, Error)]
pub enum DiscoverError {
    /// No answer.
    #[error("cannot read {path} of the API server")]
    Request {
        /// The document.
        path: String,
        /// What failed.
        #[source]
        source: kube::Error,
    },
    /// The answer broke off, or is larger than any discovery document.
    #[error("cannot read {path} of the API server to its end")]
    Body {
        /// The document.
        path: String,
        /// What failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An answer other than 200.
    #[error("the API server answers {code} for {path}")]
    Status {
        /// The document.
        path: String,
        /// HTTP status.
        code: u16,
    },
    /// An answer that is no discovery document.
    #[error("the API server's answer for {path} is no discovery document")]
    Malformed {
        /// The document.
        path: String,
    },
}

impl DiscoverError {
    /// One of a few names, for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Request { .. } | Self::Body { .. } => "Unreachable",
            Self::Status { code: 401, .. } => "Unauthorized",
            Self::Status { code: 403, .. } => "Forbidden",
            Self::Status { code: 429 | 500..=599, .. } => "Transient",
            Self::Status { .. } | Self::Malformed { .. } => "NotKubernetes",
        }
    }
}

/// Asks a cluster for everything that it serves.
///
/// Two requests where the API server aggregates (since 1.26), one per group version elsewhere. A group that cannot
/// be asked is recorded in [`Discovered::failed`]; only a failure of the root documents is an error.
pub async fn discover(client: &Client) -> Result<Discovered, DiscoverError> {
    let mut discovered = Discovered::default();
    for root in ["/api", "/apis"] {
        let (status, body) = fetch(client, root, AGGREGATED).await?;
        let (status, body) = if status == StatusCode::NOT_ACCEPTABLE {
            fetch(client, root, "application/json").await?
        } else {
            (status, body)
        };
        if status != StatusCode::OK {
            return Err(DiscoverError::Status { path: root.to_owned(), code: status.as_u16() });
        }
        let malformed = || DiscoverError::Malformed { path: root.to_owned() };
        let document: Kind = serde_json::from_slice(&body).map_err(|_| malformed())?;
        match document.kind.as_str() {
            "APIGroupDiscoveryList" => {
                discovered.add_aggregated(serde_json::from_slice(&body).map_err(|_| malformed())?);
            }
            "APIVersions" => legacy::core(client, &body, &mut discovered).await?,
            "APIGroupList" => legacy::groups(client, &body, &mut discovered).await?,
            _ => return Err(malformed()),
        }
    }
    Ok(discovered)
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

async fn fetch(client: &Client, path: &str, accept: &str) -> Result<(StatusCode, Bytes), DiscoverError> {
    let failed = |source| DiscoverError::Request { path: path.to_owned(), source };
    let request = Request::get(path)
        .header(ACCEPT, accept)
        .body(Body::empty())
        .map_err(|error| failed(kube::Error::HttpError(error)))?;
    let response = client.send(request).await.map_err(failed)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_DOCUMENT)
        .collect()
        .await
        .map_err(|source| DiscoverError::Body { path: path.to_owned(), source })?;
    Ok((status, body.to_bytes()))
}

#[cfg(test)]
mod tests;
