//! An OCI registry for tests: the real distribution registry, with users and faults in front of it.
//!
//! ```text
//!  helm, oras, … ──HTTP(S)──► faults ──► users ──► registry (child process, files in a scratch folder)
//!                                                     ▲
//!  the test ── push, digest, tags, delete ────────────┘  (past faults and users, not counted)
//! ```

mod artifact;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};

pub use crate::faults::{Authorization, Fault, Faults, RequestLog, RequestRecord, Scope};
pub use artifact::{Artifact, Blob, digest_of};

use crate::faults::auth::Users;
use crate::faults::{Forward, HttpClient, HttpServer, Received, ServerIdentity, Upstream};
use crate::tools::Tool;
use artifact::MANIFEST_TYPE;

/// Kind of a request, as counted and as faults can be narrowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `/v2/`, with which clients find out how to sign in.
    Ping,
    /// A manifest, by tag or digest.
    Manifest,
    /// A blob that is read.
    Blob,
    /// A blob that is written.
    Upload,
    /// The list of tags.
    Tags,
    /// Anything else.
    Other,
}

impl Kind {
    /// The word for it in [`RequestRecord`] and [`Scope`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Manifest => "manifest",
            Self::Blob => "blob",
            Self::Upload => "upload",
            Self::Tags => "tags",
            Self::Other => "other",
        }
    }
}

/// A registry on a free port of 127.0.0.1; ends and removes its data when dropped.
///
/// Without users everybody may read and push; from the first user on every request takes one.
#[derive(Debug)]
pub struct Registry {
    http: HttpServer,
    identity: Option<ServerIdentity>,
    users: Users,
    upstream: Upstream,
}

impl Registry {
    /// Starts a registry that speaks HTTP.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(None).await
    }

    /// Starts a registry that speaks HTTPS; clients need [`Registry::ca_pem`] or [`Registry::ca_path`] to trust it.
    pub async fn start_tls() -> anyhow::Result<Self> {
        Self::start_with(Some(ServerIdentity::generate()?)).await
    }

    async fn start_with(identity: Option<ServerIdentity>) -> anyhow::Result<Self> {
        let upstream = Upstream::start(Tool::Registry, "/v2/", |place, spec| {
            let config = place.folder.join("config.yaml");
            let content = serde_json::json!({
                "version": "0.1",
                "log": { "level": "warn" },
                "storage": {
                    "filesystem": { "rootdirectory": place.folder.join("data") },
                    "delete": { "enabled": true },
                    "maintenance": { "uploadpurging": { "enabled": false } },
                },
                "http": { "addr": place.address.to_string(), "secret": "testbed" },
            });
            // JSON is YAML.
            std::fs::write(&config, content.to_string())
                .with_context(|| format!("cannot write {}", config.display()))?;
            Ok(spec.arg("serve").arg(config).env("OTEL_TRACES_EXPORTER", "none"))
        })
        .await?;
        let users = Users::default();
        let service =
            Forward { upstream: upstream.address(), classify, users: users.clone(), tls: identity.is_some() };
        let http = HttpServer::start("testbed-registry", service, identity.as_ref())?;
        if let Some(identity) = &identity {
            let path = upstream.file("ca.pem");
            std::fs::write(&path, identity.ca_pem())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Self { http, identity, users, upstream })
    }

    /// `http://127.0.0.1:port` (or `https`), without a slash at the end.
    pub fn url(&self) -> String {
        self.http.url()
    }

    /// `127.0.0.1:port`, as in the names of images.
    pub fn host(&self) -> String {
        self.http.address().to_string()
    }

    /// `oci://127.0.0.1:port/<repository>`, as helm has it.
    pub fn oci_url(&self, repository: &str) -> String {
        format!("oci://{}/{repository}", self.host())
    }

    /// The certificate authority in PEM, when the registry speaks TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(ServerIdentity::ca_pem)
    }

    /// A file with [`Registry::ca_pem`].
    pub fn ca_path(&self) -> Option<std::path::PathBuf> {
        self.identity.as_ref().map(|_| self.upstream.file("ca.pem"))
    }

    /// Adds a user who may read and push, or changes the password.
    pub fn user(&self, name: &str, password: &str) -> &Self {
        self.users.set_password(name, password);
        self
    }

    /// Says whether a user may push. Adds the user, who cannot sign in yet, when there is none.
    pub fn set_may_push(&self, name: &str, may_push: bool) -> &Self {
        self.users.set_may_write(name, may_push);
        self
    }

    /// Takes a user away.
    pub fn remove_user(&self, name: &str) -> &Self {
        self.users.remove(name);
        self
    }

    /// Stores an artifact with one layer of this media type and returns the digest of its manifest.
    pub async fn push_artifact(
        &self,
        repository: &str,
        tag: &str,
        media_type: &str,
        content: impl Into<Bytes>,
    ) -> anyhow::Result<String> {
        self.push(repository, tag, &Artifact::of(media_type, content)).await
    }

    /// Stores an artifact under a tag and returns the digest of its manifest.
    pub async fn push(&self, repository: &str, tag: &str, artifact: &Artifact) -> anyhow::Result<String> {
        for blob in artifact.blobs() {
            self.push_blob(repository, &blob.content).await?;
        }
        let manifest = Bytes::from(artifact.manifest().to_string());
        let request = Request::put(self.direct(repository, &format!("manifests/{tag}")))
            .header(header::CONTENT_TYPE, MANIFEST_TYPE)
            .body(manifest.clone())
            .context("cannot name a manifest")?;
        expect(StatusCode::CREATED, &self.send(request).await?)?;
        Ok(digest_of(&manifest))
    }

    async fn push_blob(&self, repository: &str, content: &Bytes) -> anyhow::Result<()> {
        let digest = digest_of(content);
        let path = self.direct(repository, &format!("blobs/{digest}"));
        let head = Request::head(path).body(Bytes::new()).context("cannot name a blob")?;
        if self.send(head).await?.status == StatusCode::OK {
            return Ok(());
        }
        let start = Request::post(self.direct(repository, "blobs/uploads/")).body(Bytes::new());
        let upload = self.send(start.context("cannot name an upload")?).await?;
        expect(StatusCode::ACCEPTED, &upload)?;
        let location = upload.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
        let location = location.context("the registry said no place for an upload")?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let put = Request::put(format!("{location}{separator}digest={digest}"))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(content.clone())
            .context("the registry said an odd place for an upload")?;
        expect(StatusCode::CREATED, &self.send(put).await?)
    }

    /// Digest of the manifest under a tag or digest; `None` when there is none.
    pub async fn digest(&self, repository: &str, reference: &str) -> anyhow::Result<Option<String>> {
        let request = Request::head(self.direct(repository, &format!("manifests/{reference}")))
            .header(header::ACCEPT, MANIFEST_TYPE)
            .body(Bytes::new())
            .context("cannot name a manifest")?;
        let answer = self.send(request).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        expect(StatusCode::OK, &answer)?;
        let digest = answer.headers.get("docker-content-digest").and_then(|value| value.to_str().ok());
        digest.map(ToOwned::to_owned).context("the registry said no digest").map(Some)
    }

    /// The tags of a repository, sorted; none when there is no such repository.
    pub async fn tags(&self, repository: &str) -> anyhow::Result<Vec<String>> {
        #[derive(serde::Deserialize)]
        struct List {
            #[serde(default)]
            tags: Option<Vec<String>>,
        }
        let answer = HttpClient::new().get(&self.direct(repository, "tags/list")).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(Vec::new());
        }
        expect(StatusCode::OK, &answer)?;
        let list: List =
            serde_json::from_slice(&answer.body).context("the registry sent an odd list of tags")?;
        let mut tags = list.tags.unwrap_or_default();
        tags.sort_unstable();
        Ok(tags)
    }

    /// Removes a manifest, and with it all of its tags.
    pub async fn delete(&self, repository: &str, reference: &str) -> anyhow::Result<()> {
        let digest = self.digest(repository, reference).await?;
        let digest = digest.with_context(|| format!("there is no {repository}:{reference}"))?;
        let request = Request::builder().method(Method::DELETE);
        let request = request.uri(self.direct(repository, &format!("manifests/{digest}"))).body(Bytes::new());
        expect(StatusCode::ACCEPTED, &self.send(request.context("cannot name a manifest")?).await?)
    }

    /// Lets this fault happen to every request from now on.
    pub fn fault(&self, fault: Fault) {
        self.http.faults().set(Scope::all(), fault);
    }

    /// Lets this fault happen to every request of a kind from now on.
    pub fn fault_on(&self, kind: Kind, fault: Fault) {
        self.http.faults().set(Scope::kind(kind.as_str()), fault);
    }

    /// Lets this fault happen to every request for one repository from now on.
    pub fn fault_in(&self, repository: &str, fault: Fault) {
        self.http.faults().set(Scope::subject(repository), fault);
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.http.faults().clear_all();
    }

    /// All that can be said about faults, e.g. faults for the next few requests only, and how many were hit.
    pub fn faults(&self) -> &Faults {
        self.http.faults()
    }

    /// What came in through the front door.
    pub fn log(&self) -> &RequestLog {
        self.http.log()
    }

    /// Number of requests of a kind since the start or the last `log().reset()`.
    pub fn count(&self, kind: Kind) -> u64 {
        self.log().count(kind.as_str())
    }

    fn direct(&self, repository: &str, rest: &str) -> String {
        format!("{}/v2/{repository}/{rest}", self.upstream.url())
    }

    async fn send(&self, request: Request<Bytes>) -> anyhow::Result<Received> {
        HttpClient::new().send(request).await
    }
}

fn expect(status: StatusCode, answer: &Received) -> anyhow::Result<()> {
    if answer.status != status {
        bail!("the registry answered {} instead of {status}: {}", answer.status, answer.text().trim());
    }
    Ok(())
}

fn classify(request: &http::request::Parts) -> (String, &'static str) {
    let Some(path) = request.uri.path().strip_prefix("/v2/") else {
        return (String::new(), Kind::Other.as_str());
    };
    if path.is_empty() {
        return (String::new(), Kind::Ping.as_str());
    }
    let before = |mark: &str| path.rfind(mark).map(|end| path[..end].to_owned());
    let (repository, kind) = if let Some(repository) = before("/manifests/") {
        (repository, Kind::Manifest)
    } else if let Some(repository) = before("/blobs/uploads/") {
        (repository, Kind::Upload)
    } else if let Some(repository) = before("/blobs/") {
        (repository, Kind::Blob)
    } else if let Some(repository) = before("/tags/list") {
        (repository, Kind::Tags)
    } else {
        (String::new(), Kind::Other)
    };
    (repository, kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(path: &str) -> (String, &'static str) {
        classify(&Request::get(path).body(()).expect("valid").into_parts().0)
    }

    #[test]
    fn requests_are_told_apart() {
        assert_eq!(classified("/v2/"), (String::new(), "ping"));
        assert_eq!(classified("/v2/team/app/manifests/v1"), ("team/app".into(), "manifest"));
        assert_eq!(classified("/v2/team/app/blobs/sha256:00"), ("team/app".into(), "blob"));
        assert_eq!(classified("/v2/team/app/blobs/uploads/"), ("team/app".into(), "upload"));
        assert_eq!(
            classified("/v2/team/app/blobs/uploads/1?digest=sha256:00"),
            ("team/app".into(), "upload")
        );
        assert_eq!(classified("/v2/app/tags/list"), ("app".into(), "tags"));
        assert_eq!(classified("/other"), (String::new(), "other"));
    }
}
