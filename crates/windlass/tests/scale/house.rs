//! One repository with many folders, and the keeper of repositories with the real renderer.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt as _;
use kube::{Client, Config};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_api::application::Source;
use windlass_cluster::drive::Key;
use windlass_deliver::{
    origin::{Follow, Origin as _, OriginMetrics, Repos, Settings, Sighting, Wanted},
    render::{Renderer, RendererOptions},
};
use windlass_testbed::{
    git::{GitServer, Repo},
    tools::{self, Tool},
};
use windlass_vcs::{mirror::MirrorOptions, repositories::Repositories};

use crate::support::{WINDLASS, eventually};

/// So seldom that no test sees a poll.
const NEVER: Duration = Duration::from_secs(86_400);

/// Generous: the machine may be busy with other tests.
pub const LIMIT: Duration = Duration::from_mins(3);

/// A git server with one repository that many Applications follow.
pub struct House {
    pub repo: Repo,
    pub repos: Repos<Renderer>,
    pub renderer: Renderer,
    pub follows: Vec<Follow>,
    woken: Arc<Mutex<BTreeSet<String>>>,
    _server: GitServer,
    _running: AbortOnDropHandle<()>,
    _work: TempDir,
}

/// The folder of an Application.
pub fn folder(n: usize) -> String {
    format!("apps/app-{n:04}")
}

/// A `ConfigMap`.
pub fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  value: {value}\n")
}

/// The name of an Application as it is woken.
pub fn name(n: usize) -> String {
    format!("shop/app-{n:04}")
}

impl House {
    /// So many Applications, each with a folder; the first `on_base` build it with kustomize on a shared base.
    pub async fn with(count: usize, on_base: usize) -> Self {
        let server = GitServer::start().await.unwrap();
        let repo = server.empty_repo("fleet").unwrap();
        let mut commit = repo.commit("everything").file("README.md", "one\n");
        commit = commit
            .file("base/kustomization.yaml", "resources: [shared.yaml]\n")
            .file("base/shared.yaml", config_map("shared", "one"));
        for n in 0..count {
            let folder = folder(n);
            commit = commit.file(&format!("{folder}/web.yaml"), config_map(&format!("web-{n}"), "one"));
            if n < on_base {
                let text = "resources: [../../base, web.yaml]\n";
                commit = commit.file(&format!("{folder}/kustomization.yaml"), text);
            }
        }
        commit.write().unwrap();
        let work = tempfile::tempdir().unwrap();
        let mut options =
            RendererOptions::new(work.path().join("scratch"), vec![WINDLASS.into(), "sandbox".into()]);
        options.kustomize = Some(tools::path(Tool::Kustomize).unwrap());
        let renderer = Renderer::new(options).unwrap();
        let (repositories, _) =
            Repositories::open(&work.path().join("repositories"), MirrorOptions::default()).unwrap();
        let woken: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let book = woken.clone();
        let wake = Arc::new(move |key: Key| {
            book.lock().unwrap().insert(key.to_string());
        });
        // No Application here has a Secret: the hub is never asked.
        let hub = Client::try_from(Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        let repos = Repos::new(
            hub,
            Arc::new(repositories),
            renderer.clone(),
            wake,
            Settings::default(),
            OriginMetrics::default(),
        );
        let keeper = repos.clone();
        let running = AbortOnDropHandle::new(tokio::spawn(async move {
            keeper.run(CancellationToken::new()).await;
        }));
        let follows = (0..count).map(|n| follow(&repo, n)).collect();
        Self { repo, repos, renderer, follows, woken, _server: server, _running: running, _work: work }
    }

    /// Every Application looks until all see this commit.
    pub async fn all_see(&self, commit: &str) {
        for follow in &self.follows {
            eventually(&format!("{} sees {commit}", follow.app), LIMIT, || async {
                match self.repos.look(follow).await {
                    Sighting::Found(seen) if seen.commit == commit => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        }
    }

    /// Every Application renders what it follows. How many renders that took.
    pub async fn render_all(&self, commit: &str) -> u64 {
        let before = self.renderer.counts().renders;
        let renders = futures::stream::iter(&self.follows).map(|follow| {
            self.repos.render(Wanted {
                app: &follow.app,
                source: &follow.source,
                commit,
                path: None,
                namespace: Some("shop"),
                kube_version: Some("v1.36.3"),
            })
        });
        let mut renders = renders.buffer_unordered(16);
        while let Some(rendered) = renders.next().await {
            assert!(!rendered.unwrap().objects.is_empty());
        }
        self.renderer.counts().renders - before
    }

    /// Who was woken since the last call.
    pub fn woken(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.woken.lock().unwrap())
    }
}

fn follow(repo: &Repo, n: usize) -> Follow {
    let source: Source =
        serde_json::from_value(json!({ "repoURL": repo.url(), "revision": "main", "path": folder(n) }))
            .unwrap();
    let app = Key { namespace: Some("shop".into()), name: format!("app-{n:04}").into() };
    Follow { app, source, interval: NEVER }
}
