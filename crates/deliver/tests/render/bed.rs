//! A repository, its mirror and a renderer.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass_api::application::{Source, source};
use windlass_cluster::drive::Key;
use windlass_deliver::{
    render::{Decrypt, Limits, Rendered, Renderer, RendererOptions, Request},
    trouble::Trouble,
};
use windlass_testbed::{
    git::{GitServer, Repo},
    tools::{self, Tool},
};
use windlass_vcs::{
    id::CommitId,
    mirror::{Mirror, MirrorOptions, Mirrors},
    remote::Remote,
};

/// The program that is the door of the cell.
pub const DOOR: &str = env!("CARGO_BIN_EXE_windlass-sandbox");

pub struct Bed {
    pub repo: Repo,
    pub renderer: Renderer,
    pub work: TempDir,
    pub mirror: Arc<Mirror>,
    _mirrors: Mirrors,
    _server: GitServer,
}

/// How a bed is made.
#[derive(Default)]
pub struct Make {
    pub limits: Limits,
    pub kustomize: Option<PathBuf>,
    pub helm: Option<PathBuf>,
}

impl Bed {
    pub async fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, Make::default()).await
    }

    pub async fn with(files: &[(&str, &str)], make: Make) -> Self {
        let server = GitServer::start().await.unwrap();
        let repo = server.repo_with_files("app", files).unwrap();
        let work = tempfile::tempdir().unwrap();
        let mirrors = Mirrors::new(&work.path().join("mirrors"), MirrorOptions::default()).unwrap();
        let mirror = mirrors.mirror(&Remote::new(&repo.url()).unwrap()).unwrap();
        let mut options = RendererOptions::new(work.path().join("scratch"), vec![DOOR.into()]);
        options.kustomize = Some(make.kustomize.unwrap_or_else(|| tools::path(Tool::Kustomize).unwrap()));
        options.helm = Some(make.helm.unwrap_or_else(|| tools::path(Tool::Helm).unwrap()));
        options.limits = make.limits;
        let renderer = Renderer::new(options).unwrap();
        Self { repo, renderer, work, mirror, _mirrors: mirrors, _server: server }
    }

    /// The newest commit, fetched.
    pub async fn tip(&self) -> CommitId {
        self.mirror.fetch(&CancellationToken::new()).await.unwrap();
        self.repo.tip().unwrap().parse().unwrap()
    }

    /// Renders the newest commit for an Application called `web`.
    pub async fn render(&self, source: &Source) -> Result<Arc<Rendered>, Trouble> {
        self.render_as("web", source, None).await
    }

    pub async fn render_as(
        &self,
        name: &str,
        source: &Source,
        keys: Option<&dyn Decrypt>,
    ) -> Result<Arc<Rendered>, Trouble> {
        let app = Key { namespace: Some("team".into()), name: name.into() };
        let request = Request {
            app: &app,
            source,
            commit: self.tip().await,
            path: None,
            namespace: Some("shop"),
            kube_version: Some("v1.36.3"),
            keys,
        };
        self.renderer.render(&self.mirror, request).await
    }

    /// Commits files; `None` removes one.
    pub fn commit(&self, files: &[(&str, Option<&str>)]) {
        self.repo.commit_files(files, "change").unwrap();
    }

    pub fn renders(&self) -> u64 {
        self.renderer.counts().renders
    }

    /// What is left in the scratch folder.
    pub fn scratch(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.work.path().join("scratch")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// A source that tells its kind by its folder.
pub fn folder(path: &str) -> Source {
    Source {
        repo_url: "https://example.org/app.git".into(),
        secret_ref: None,
        revision: None,
        path: Some(path.into()),
        directory: None,
        kustomize: None,
        helm: None,
        decryption: None,
    }
}

pub fn directory(path: &str, directory: source::Directory) -> Source {
    Source { directory: Some(directory), ..folder(path) }
}

pub fn kustomize(path: &str, kustomize: source::Kustomize) -> Source {
    Source { kustomize: Some(kustomize), ..folder(path) }
}

pub fn helm(path: &str, helm: source::Helm) -> Source {
    Source { helm: Some(helm), ..folder(path) }
}

pub fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  value: {value:?}\n")
}

/// Names of all objects, in their order: `ConfigMap a`.
pub fn names(rendered: &Rendered) -> Vec<String> {
    rendered.objects.iter().map(|manifest| manifest.id.short()).collect()
}

/// A program made of a shell script.
pub fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}
