//! From a source to what its revision stands for, by what was last fetched.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::application::{Source, status::Movement};
use windlass_vcs::{
    journal::{Before, Move},
    remote::Remote,
    repositories::{Repositories, RepositoriesError},
    revision::{ResolveError, Resolved, Revision, Via},
};

use super::{
    Seen,
    feed::{Answer, Stake},
    words,
};
use crate::trouble::Trouble;

/// How many movements are told.
const MOVEMENTS: usize = 10;

/// What the revision of a source stands for. Reads the mirror, never the network.
pub(super) async fn look(repositories: &Repositories, remote: &Remote, source: &Source) -> Answer {
    let revision = revision(repositories, remote, source).await?;
    let resolved = match repositories.resolve(remote, &revision).await {
        Ok(resolved) => resolved,
        Err(error) => return Err(unresolved(repositories, remote, source, &error).await),
    };
    let stake = Stake::of(source.revision.as_deref(), &resolved.via);
    Ok((seen(repositories, remote, &revision, resolved).await?, stake))
}

/// What the source names, or the default branch.
async fn revision(
    repositories: &Repositories,
    remote: &Remote,
    source: &Source,
) -> Result<Revision, Trouble> {
    if let Some(text) = &source.revision {
        return text.parse().map_err(|error| words::invalid_revision(&error));
    }
    let mirror = repositories.mirror(remote).await.map_err(|error| words::resolve(&error, remote))?;
    let branch = tokio::task::spawn_blocking(move || mirror.default_branch())
        .await
        .map_err(|_| words::resolve(&RepositoriesError::Interrupted, remote))?
        .map_err(|error| words::resolve(&error.into(), remote))?;
    let branch = branch.ok_or_else(|| words::no_default_branch(remote))?;
    format!("refs/heads/{branch}").parse().map_err(|error| words::invalid_revision(&error))
}

/// Why a revision stands for nothing: one that was deleted is told from one that never was.
async fn unresolved(
    repositories: &Repositories,
    remote: &Remote,
    source: &Source,
    error: &RepositoriesError,
) -> Trouble {
    let RepositoriesError::Resolve(ResolveError::Unknown { revision, .. }) = error else {
        return words::resolve(error, remote);
    };
    if source.revision.is_none() {
        return words::no_default_branch(remote);
    }
    for (what, prefix) in [("branch", "refs/heads/"), ("tag", "refs/tags/")] {
        let name =
            if revision.starts_with("refs/") { revision.clone() } else { format!("{prefix}{revision}") };
        if !name.starts_with(prefix) {
            continue;
        }
        if let Ok(moves) = repositories.history(remote, &name, 1).await
            && let Some(Move { from: Some(last), to: None, .. }) = moves.first()
        {
            return words::deleted(source, what, &last.to_string());
        }
    }
    words::resolve(error, remote)
}

async fn seen(
    repositories: &Repositories,
    remote: &Remote,
    revision: &Revision,
    resolved: Resolved,
) -> Result<Seen, Trouble> {
    let (name, reference) = match &resolved.via {
        Via::Branch(name) => (Some(name.clone()), Some(format!("refs/heads/{name}"))),
        Via::Tag(name) => (Some(name.clone()), Some(format!("refs/tags/{name}"))),
        Via::Ref(name) => (Some(name.clone()), Some(name.clone())),
        // Its name stays while commits come and go behind it, and no ref has it.
        Via::Change => (Some(revision.to_string()), None),
        Via::Commit => (None, None),
    };
    let (mut movements, mut before) = (Vec::new(), None);
    if let Some(reference) = &reference {
        let fail = |error: RepositoriesError| words::unreadable(&error.to_string(), remote);
        let moves = repositories.history(remote, reference, MOVEMENTS).await.map_err(fail)?;
        movements = moves.into_iter().map(movement).collect();
        if let Before::At(commit) =
            repositories.before(remote, reference, resolved.commit).await.map_err(fail)?
        {
            before = Some(commit.to_string());
        }
    }
    Ok(Seen {
        commit: resolved.commit.to_string(),
        change_id: resolved.change.map(|change| change.to_string()),
        name,
        movements,
        before,
        stale: None,
    })
}

fn movement(from: Move) -> Movement {
    Movement {
        from: from.from.map(|commit| commit.to_string()),
        to: from.to.map(|commit| commit.to_string()),
        forced: from.forced,
        by: from.who.map(|who| who.name),
        at: Some(Time(from.when)),
    }
}
