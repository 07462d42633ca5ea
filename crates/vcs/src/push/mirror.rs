//! Pushes out of a mirror: its fetches are shared with everybody else who wants news of the remote.

use std::sync::Arc;

use tokio::sync::OwnedRwLockReadGuard;
use tokio_util::sync::CancellationToken;

use super::link::{Answer, GitLink, Link, LinkError, Reply};
use crate::{
    command::{Category, Git},
    id::CommitId,
    mirror::Mirror,
    repo::Repo,
};

/// The way from a mirror to its remote.
///
/// While it lives, tidying leaves objects alone that no ref names yet: make one for each push. What was pushed is seen in the mirror at
/// once unless a fetch is under way, and told as a movement by the next fetch.
#[derive(Debug)]
pub struct MirrorLink {
    mirror: Arc<Mirror>,
    git: Git,
    _objects_stay: OwnedRwLockReadGuard<()>,
}

impl MirrorLink {
    /// The way to the remote of a mirror; `git` is that of [`Mirrors::git`](crate::mirror::Mirrors::git).
    pub async fn new(git: Git, mirror: Arc<Mirror>) -> Self {
        let objects_stay = mirror.keep_objects().await;
        Self { mirror, git, _objects_stay: objects_stay }
    }

    /// The mirror's repository, fetched if it never was.
    pub async fn repo(&self, cancel: &CancellationToken) -> Result<Arc<Repo>, LinkError> {
        if !self.mirror.git_dir().exists() {
            self.mirror.fetch(cancel).await?;
        }
        Ok(self.mirror.repo()?)
    }
}

impl Link for MirrorLink {
    async fn fetch(&self, name: &str, cancel: &CancellationToken) -> Result<Option<CommitId>, LinkError> {
        self.mirror.fetch(cancel).await?;
        let mirror = self.mirror.clone();
        let refs = tokio::task::spawn_blocking(move || mirror.refs()).await;
        let refs =
            refs.map_err(|source| LinkError::Read { name: name.to_owned(), source: source.into() })??;
        Ok(refs.get(name).copied())
    }

    async fn send(
        &self,
        name: &str,
        commit: CommitId,
        cancel: &CancellationToken,
    ) -> Result<Reply, LinkError> {
        let repo = Repo::clone(&*self.mirror.repo()?);
        // The credentials may have been renewed since the last time.
        let link = GitLink::new(self.git.clone(), self.mirror.remote(), repo)
            .with_limits(self.mirror.limits().clone());
        let reply = link.send(name, commit, cancel).await;
        if reply.as_ref().is_ok_and(|reply| matches!(reply.answer, Answer::Accepted | Answer::Current)) {
            self.mirror.pushed(name, commit).await;
        }
        if reply.as_ref().is_err_and(|error| error.category() == Category::Corrupt) {
            self.mirror.report_corrupt();
        }
        reply
    }
}
