//! A git server, a hub that has Secrets and nothing else, and the keeper of repositories between them.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_api::application::Source;
use windlass_cluster::{backoff::Backoff, drive::Key};
use windlass_deliver::{
    object::ObjectId,
    origin::{Follow, Origin, OriginMetrics, Render, Repos, Seen, Settings, Sighting, Wanted},
    render::{Decrypt, Manifest, Rendered},
    trouble::Trouble,
};
use windlass_testbed::git::{GitServer, Repo};
use windlass_vcs::{
    mirror::{Mirror, MirrorOptions, Tidying},
    repositories::Repositories,
    tree::{self, Globs, Limits, RepoPath},
};

/// So seldom that no test sees a poll.
pub const NEVER: Duration = Duration::from_secs(86_400);

/// How long anything may take on a machine that has other things to do.
const LIMIT: Duration = Duration::from_secs(90);

/// The Secrets of the hub, and how often they were read.
#[derive(Clone, Default)]
pub struct Hub(Arc<Mutex<HubState>>);

#[derive(Default)]
struct HubState {
    secrets: BTreeMap<String, BTreeMap<String, String>>,
    reads: usize,
}

impl Hub {
    pub fn put(&self, namespace: &str, name: &str, data: &[(&str, &str)]) {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value))).collect();
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        self.0.lock().unwrap().secrets.insert(path, data);
    }

    pub fn remove(&self, namespace: &str, name: &str) {
        self.0.lock().unwrap().secrets.remove(&format!("/api/v1/namespaces/{namespace}/secrets/{name}"));
    }

    pub fn reads(&self) -> usize {
        self.0.lock().unwrap().reads
    }

    fn answer(&self, path: &str) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        state.reads += 1;
        match state.secrets.get(path) {
            Some(data) => (
                200,
                json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "any" }, "data": data }),
            ),
            None => (
                404,
                json!({ "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404,
                    "reason": "NotFound", "message": "not found" }),
            ),
        }
    }

    fn client(&self) -> Client {
        let hub = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (status, answer) = hub.answer(request.uri().path());
            async move {
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }
}

/// Makes a `ConfigMap` of every file: enough to see what was read.
#[derive(Clone, Default)]
pub struct Plain;

impl Render for Plain {
    async fn render(
        &self,
        mirror: &Arc<Mirror>,
        wanted: &Wanted<'_>,
        keys: Option<&dyn Decrypt>,
    ) -> Result<Arc<Rendered>, Trouble> {
        let folder: RepoPath = wanted.source.path.as_deref().unwrap_or_default().parse().unwrap();
        let commit: windlass_vcs::id::CommitId = wanted.commit.parse().unwrap();
        let read =
            mirror.read(|repo| tree::read_all(repo, commit, &folder, &Globs::default(), Limits::default()));
        let content = read.unwrap().unwrap();
        let mut objects = Vec::new();
        for file in &content.files {
            let path = file.path.to_string();
            let plain = keys.map(|keys| keys.decrypt_file(&path, &file.bytes)).transpose()?.flatten();
            let text = String::from_utf8(plain.unwrap_or_else(|| file.bytes.clone())).unwrap();
            let id: ObjectId = format!("v1/ConfigMap//{}", path.replace('/', "-")).parse().unwrap();
            objects.push(Manifest { id, place: Some(path), object: Arc::new(json!({ "text": text })) });
        }
        Ok(Arc::new(Rendered { objects, digest: content.hash.to_string() }))
    }
}

pub struct Bed {
    pub server: GitServer,
    pub repo: Repo,
    pub hub: Hub,
    pub repos: Repos<Plain>,
    pub wakes: Arc<Mutex<BTreeMap<String, usize>>>,
    work: tempfile::TempDir,
    running: Option<(CancellationToken, AbortOnDropHandle<()>)>,
}

/// Quick to try again, so that tests are.
pub fn settings() -> Settings {
    Settings {
        backoff: Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(1) },
        patience: Duration::from_secs(3),
        ..Settings::default()
    }
}

impl Bed {
    pub async fn new() -> Self {
        Self::with(settings()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let server = GitServer::start().await.unwrap();
        let repo =
            server.repo_with_files("team/app", &[("a/one.yaml", "one: 1\n"), ("b/two.yaml", "two: 2\n")]);
        let work = tempfile::tempdir().unwrap();
        let hub = Hub::default();
        let wakes = Arc::default();
        let repos = repos(&work, &hub, &wakes, settings);
        let mut bed = Self { server, repo: repo.unwrap(), hub, repos, wakes, work, running: None };
        bed.run();
        bed
    }

    fn run(&mut self) {
        let (stop, repos) = (CancellationToken::new(), self.repos.clone());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { repos.run(stop).await }
        });
        self.running = Some((stop, AbortOnDropHandle::new(task)));
    }

    /// Ends the process, so to speak, and starts the next one in the same work folder.
    pub async fn restart(self, settings: Settings) -> Self {
        let Self { server, repo, hub, repos: old, wakes, work, running } = self;
        let (stop, task) = running.unwrap();
        stop.cancel();
        task.await.unwrap();
        drop(old);
        // The folder is free once the last thread that reads in it is done.
        let mut tries = 0;
        while Repositories::open(work.path(), MirrorOptions::default()).is_err() {
            tries += 1;
            assert!(tries < 200, "the work folder stays in use");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        wakes.lock().unwrap().clear();
        let repos = repos(&work, &hub, &wakes, settings);
        let mut bed = Self { server, repo, hub, repos, wakes, work, running: None };
        bed.run();
        bed
    }

    pub fn source(&self) -> Source {
        source(&self.repo.url())
    }

    /// An Application of namespace `shop` that follows a revision, and never polls.
    pub fn follow(&self, name: &str, revision: Option<&str>) -> Follow {
        let source = Source { revision: revision.map(ToOwned::to_owned), ..self.source() };
        Follow { app: app("shop", name), source, interval: NEVER }
    }

    /// Looks until what is seen is what is waited for.
    pub async fn until(&self, what: &str, follow: &Follow, holds: impl Fn(&Sighting) -> bool) -> Sighting {
        let end = tokio::time::Instant::now() + LIMIT;
        loop {
            let sighting = self.repos.look(follow).await;
            if holds(&sighting) {
                return sighting;
            }
            assert!(tokio::time::Instant::now() < end, "{what} does not come about: {sighting:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Looks until the revision stands for a commit.
    pub async fn until_at(&self, follow: &Follow, commit: &str) -> Seen {
        let at = |sighting: &Sighting| matches!(sighting, Sighting::Found(seen) if seen.commit == commit);
        match self.until(commit, follow, at).await {
            Sighting::Found(seen) => seen,
            other => panic!("{other:?}"),
        }
    }

    /// Looks until there is trouble.
    pub async fn until_trouble(&self, follow: &Follow, reason: &str) -> Trouble {
        let there =
            |sighting: &Sighting| matches!(sighting, Sighting::Trouble(trouble) if trouble.reason == reason);
        match self.until(reason, follow, there).await {
            Sighting::Trouble(trouble) => {
                assert!(!trouble.what.is_empty() && !trouble.remedy.is_empty(), "{trouble:?}");
                trouble
            }
            other => panic!("{other:?}"),
        }
    }

    /// How many mirrors there are.
    pub fn mirrors(&self) -> usize {
        let entries = std::fs::read_dir(self.work.path()).unwrap();
        entries.flatten().filter(|entry| entry.path().join("git").is_dir()).count()
    }

    pub fn woken(&self, app: &Key) -> usize {
        self.wakes.lock().unwrap().get(&app.to_string()).copied().unwrap_or_default()
    }
}

/// Waits until something holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + LIMIT;
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "{what} does not come about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn repos(
    work: &tempfile::TempDir,
    hub: &Hub,
    wakes: &Arc<Mutex<BTreeMap<String, usize>>>,
    settings: Settings,
) -> Repos<Plain> {
    let options = MirrorOptions {
        tidying: Tidying { automatic: false, ..Tidying::default() },
        ..MirrorOptions::default()
    };
    let (repositories, _) = Repositories::open(work.path(), options).unwrap();
    let wakes = wakes.clone();
    let wake = Arc::new(move |app: Key| *wakes.lock().unwrap().entry(app.to_string()).or_default() += 1);
    Repos::new(hub.client(), Arc::new(repositories), Plain, wake, settings, OriginMetrics::default())
}

pub fn source(url: &str) -> Source {
    serde_json::from_value(json!({ "repoURL": url })).unwrap()
}

pub fn app(namespace: &str, name: &str) -> Key {
    Key { namespace: Some(namespace.into()), name: name.into() }
}
