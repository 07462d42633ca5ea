//! A request to the API, read from its HTTP form: what a fault, a trace line or an invariant asks about.

use std::{collections::BTreeMap, fmt};

use http::{HeaderMap, Method, Uri};
use serde_json::Value;

use super::trace::short_digest;

/// What a request does, in the words of RBAC. `Apply` is a server-side apply patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Stream changes.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// Merge, strategic or JSON patch.
    Patch,
    /// Server-side apply.
    Apply,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// Not a resource: discovery, health, version.
    Other,
}

impl Verb {
    /// Whether the request may change something.
    pub fn is_write(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Patch | Self::Apply | Self::Delete | Self::DeleteCollection
        )
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        })
    }
}

/// One request, as the harness sees it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The instance that made it; people and other controllers have their own names.
    pub instance: String,
    /// Which life of that instance, from 1.
    pub incarnation: u32,
    /// The cluster it goes to; empty for the hub, where the controllers live.
    pub cluster: String,
    /// What it does.
    pub verb: Verb,
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource name, as in the path.
    pub resource: String,
    /// Namespace, when the request names one.
    pub namespace: Option<String>,
    /// Object name: from the path, or for a create from the body.
    pub name: Option<String>,
    /// Subresource such as `status`.
    pub subresource: Option<String>,
    /// Query parameters.
    pub query: BTreeMap<String, String>,
    /// `fieldManager` when given, else the User-Agent up to the first slash.
    pub manager: String,
    /// `Impersonate-User`, when sent.
    pub impersonate: Option<String>,
    /// The body as JSON; null when there is none.
    pub body: Value,
    /// Path and query as sent.
    pub target: String,
    pub(crate) digest: String,
}

impl Call {
    pub(crate) fn read(
        (instance, incarnation): (&str, u32),
        cluster: &str,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Self {
        let query = parse_query(uri.query().unwrap_or_default());
        let path = Path::parse(uri.path());
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let body_value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let verb = verb(method, &path, &query, header("content-type").unwrap_or_default());
        let name = path.name.or_else(|| {
            let name = body_value.pointer("/metadata/name").and_then(Value::as_str);
            name.filter(|_| verb == Verb::Create).map(str::to_owned)
        });
        let agent = header("user-agent").unwrap_or_default();
        let manager = query.get("fieldManager").cloned().unwrap_or_else(|| {
            agent.split('/').next().filter(|agent| !agent.is_empty()).unwrap_or("unknown").to_owned()
        });
        Self {
            instance: instance.to_owned(),
            incarnation,
            cluster: cluster.to_owned(),
            verb,
            group: path.group,
            version: path.version,
            resource: path.resource,
            namespace: path.namespace,
            name,
            subresource: path.subresource,
            manager,
            impersonate: header("impersonate-user").map(str::to_owned),
            body: body_value,
            target: uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string),
            digest: short_digest(body),
            query,
        }
    }

    /// Whether the request may change something; a dry run does not.
    pub fn is_write(&self) -> bool {
        self.verb.is_write() && !self.query.contains_key("dryRun")
    }

    /// `resource.group`, or the bare resource for core.
    pub fn kind(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    /// `kind/namespace/name` of the object, for messages.
    pub fn object(&self) -> String {
        let mut out = self.kind();
        for part in [self.namespace.as_deref(), self.name.as_deref()].into_iter().flatten() {
            out.push('/');
            out.push_str(part);
        }
        out
    }

    /// Instance and incarnation, as shown in traces.
    pub fn who(&self) -> String {
        format!("{}#{}", self.instance, self.incarnation)
    }

    /// What identifies the question “what happens to this request”: not its order among others.
    pub(crate) fn key(&self) -> String {
        format!("{}{} {} {}", self.instance, self.at(), self.verb, self.target)
    }

    /// `@cluster`; nothing for the hub.
    pub(crate) fn at(&self) -> String {
        if self.cluster.is_empty() { String::new() } else { format!("@{}", self.cluster) }
    }

    /// The path of the one object that the request is about, without a subresource.
    pub(crate) fn object_path(&self) -> Option<String> {
        let name = self.name.as_deref().filter(|_| self.verb != Verb::Other)?;
        let mut out = self.collection_path();
        out.push('/');
        out.push_str(name);
        Some(out)
    }

    /// The path of the collection that the request is about.
    pub(crate) fn collection_path(&self) -> String {
        let mut out = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let Some(namespace) = self.namespace.as_deref() {
            out.push_str("/namespaces/");
            out.push_str(namespace);
        }
        out.push('/');
        out.push_str(&self.resource);
        out
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", self.verb, self.at(), self.target)?;
        if self.verb.is_write() { write!(f, " body={}", self.digest) } else { Ok(()) }
    }
}

#[derive(Debug, Default)]
struct Path {
    group: String,
    version: String,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
}

impl Path {
    fn parse(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::default(),
        };
        let (namespace, rest) = match rest {
            // `namespaces/x` and `namespaces/x/status` are about the Namespace itself.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let part = |index: usize| rest.get(index).map(|part| decode(part));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: part(0).unwrap_or_default(),
            namespace,
            name: part(1),
            subresource: part(2),
        }
    }
}

fn verb(method: &Method, path: &Path, query: &BTreeMap<String, String>, content_type: &str) -> Verb {
    if path.resource.is_empty() {
        return Verb::Other;
    }
    match *method {
        Method::GET if query.get("watch").is_some_and(|value| value == "true" || value == "1") => Verb::Watch,
        Method::GET if path.name.is_none() => Verb::List,
        Method::GET => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH if content_type.contains("apply-patch") => Verb::Apply,
        Method::PATCH => Verb::Patch,
        Method::DELETE if path.name.is_none() => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ => Verb::Other,
    }
}

fn parse_query(query: &str) -> BTreeMap<String, String> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
        .collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "calls read better")]

    use super::*;

    fn read(method: Method, uri: &str, content_type: &'static str, body: &str) -> Call {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", http::HeaderValue::from_static(content_type));
        headers.insert("user-agent", http::HeaderValue::from_static("windlass/1 (linux)"));
        Call::read(("a", 1), "", &method, &uri.parse().unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn reads_namespaced_and_cluster_scoped_paths() {
        let call = read(Method::GET, "/apis/apps/v1/namespaces/x/deployments/web/status", "", "");
        assert_eq!((call.verb, call.kind().as_str()), (Verb::Get, "deployments.apps"));
        assert_eq!(call.namespace.as_deref(), Some("x"));
        assert_eq!((call.name.as_deref(), call.subresource.as_deref()), (Some("web"), Some("status")));
        assert_eq!(call.object_path().unwrap(), "/apis/apps/v1/namespaces/x/deployments/web");

        let call = read(Method::DELETE, "/api/v1/namespaces/x", "", "");
        assert_eq!((call.verb, call.object().as_str()), (Verb::Delete, "namespaces/x"));
        assert_eq!(call.namespace, None);
    }

    #[test]
    fn tells_watch_list_apply_and_dry_run() {
        let watch = "/api/v1/configmaps?watch=true&labelSelector=a%3Db%2Cc%20d";
        let call = read(Method::GET, watch, "", "");
        assert_eq!(call.verb, Verb::Watch);
        assert_eq!(call.query["labelSelector"], "a=b,c d");
        assert_eq!(read(Method::GET, "/api/v1/configmaps", "", "").verb, Verb::List);
        assert_eq!(read(Method::GET, "/apis", "", "").verb, Verb::Other);
        let apply = "/api/v1/namespaces/x/configmaps/m?fieldManager=deliver&dryRun=All";
        let call = read(Method::PATCH, apply, "application/apply-patch+yaml", "{}");
        assert_eq!((call.verb, call.is_write(), call.manager.as_str()), (Verb::Apply, false, "deliver"));
        let body = r#"{"metadata":{"name":"m"}}"#;
        let call = read(Method::POST, "/api/v1/namespaces/x/configmaps", "application/json", body);
        assert_eq!((call.name.as_deref(), call.manager.as_str()), (Some("m"), "windlass"));
    }
}
