//! What goes wrong with a repository, in words for a condition. No credentials in any of them.

use windlass_api::application::Source;
use windlass_vcs::{
    command::Category,
    jujutsu::ConflictError,
    mirror::MirrorError,
    remote::{Remote, RemoteError},
    repositories::RepositoriesError,
    revision::{InvalidRevision, ResolveError},
};

use crate::trouble::Trouble;

/// The address, or what a Secret holds for it, cannot be used.
pub(super) fn remote(error: &RemoteError, secret: Option<&str>) -> Trouble {
    let (reason, remedy) = match error {
        RemoteError::Url(_) => ("RepositoryAddressInvalid", "correct spec.source.repoURL".to_owned()),
        _ => match secret {
            Some(secret) => ("SecretInvalid", format!("correct Secret {secret}")),
            None => {
                ("CredentialsInvalid", "name a Secret with credentials in spec.source.secretRef".to_owned())
            }
        },
    };
    Trouble::standing(reason, error.to_string(), remedy)
}

/// An ssh address without a key.
pub(super) fn no_key(url: &impl std::fmt::Display) -> Trouble {
    Trouble::standing(
        "CredentialsMissing",
        format!("the ssh address {url} cannot be used without a key"),
        "name a Secret with identity and known_hosts in spec.source.secretRef",
    )
}

/// The repository could not be brought up to date.
pub(super) fn fetch(error: &RepositoriesError, remote: &Remote) -> Trouble {
    let category = match error {
        RepositoriesError::Mirror(error) => error.category(),
        _ => Category::Other,
    };
    let text = remote.redact(&error.to_string());
    // The hint is the remedy, and not to be said twice.
    let what = text.strip_suffix(category.hint()).unwrap_or(&text).trim_end_matches([' ', ':', ';']);
    let remedy = match error {
        RepositoriesError::Mirror(_) => category.hint(),
        _ => "it is tried again; look at the work folder's disk if it stays",
    };
    Trouble::passing(fetch_reason(category), what, remedy)
}

fn fetch_reason(category: Category) -> &'static str {
    match category {
        Category::Unauthorized => "RepositoryUnauthorized",
        Category::Forbidden => "RepositoryForbidden",
        Category::NotFound => "RepositoryNotFound",
        Category::Unavailable => "RepositoryUnavailable",
        Category::Throttled => "RepositoryThrottled",
        Category::Redirected => "RepositoryMoved",
        Category::Timeout => "RepositoryTimeout",
        Category::TooLarge => "RepositoryTooLarge",
        Category::HostKey => "RepositoryHostKeyUnknown",
        Category::Certificate => "RepositoryCertificateUntrusted",
        Category::NotARepository => "NotARepository",
        Category::Emptied => "RepositoryEmptied",
        Category::Corrupt => "RepositoryCorrupt",
        Category::DiskFull => "DiskFull",
        Category::Busy | Category::Program | Category::Cancelled | Category::Other => "FetchFailed",
    }
}

/// The repository is there from earlier and did not answer yet since the start.
pub(super) fn slow(remote: &Remote) -> Trouble {
    Trouble::passing(
        "RepositoryTimeout",
        format!("{remote} has not answered yet; what was fetched before is used"),
        "the server or the way to it is slow; it is waited for",
    )
}

/// A text that can be no revision.
pub(super) fn invalid_revision(error: &InvalidRevision) -> Trouble {
    Trouble::standing("RevisionInvalid", error.to_string(), "correct spec.source.revision")
}

/// The repository has no default branch.
pub(super) fn no_default_branch(remote: &Remote) -> Trouble {
    Trouble::standing(
        "RevisionNotFound",
        format!("{remote} has no default branch, or it has no commit yet"),
        "push to it, or name a branch in spec.source.revision",
    )
}

/// The branch or tag was there and is not any more.
pub(super) fn deleted(source: &Source, what: &str, last: &str) -> Trouble {
    let revision = source.revision.as_deref().unwrap_or_default();
    Trouble::standing(
        "RevisionDeleted",
        format!("{what} {revision} was deleted from the repository; it was at {last}"),
        "push it again, or name another revision in spec.source.revision; what runs stays as it is",
    )
}

/// The revision stands for no commit, or for one that cannot be deployed.
pub(super) fn resolve(error: &RepositoriesError, remote: &Remote) -> Trouble {
    let standing =
        |reason, remedy: &str| Trouble::standing(reason, remote.redact(&error.to_string()), remedy);
    match error {
        RepositoriesError::Resolve(error) => match error {
            ResolveError::Unknown { .. } => standing(
                "RevisionNotFound",
                "push it, or name another branch, tag, commit or change in spec.source.revision",
            ),
            ResolveError::Ambiguous { .. } => {
                standing("RevisionAmbiguous", "write more of it in spec.source.revision")
            }
            ResolveError::Divergent { .. } => {
                standing("ChangeDivergent", "leave one commit of the change and push, or name a commit")
            }
            ResolveError::Abandoned { .. } => {
                standing("ChangeAbandoned", "push the change again, or name another revision")
            }
            ResolveError::NotACommit { .. } => standing("RevisionNotACommit", "point it at a commit"),
            ResolveError::Hidden { .. } => {
                standing("RevisionHidden", "push a branch or a tag that leads to the commit")
            }
            ResolveError::Read(_) | ResolveError::Engine(_) => unreadable(&error.to_string(), remote),
        },
        RepositoriesError::Conflict(ConflictError::Conflicted(_)) => standing(
            "CommitConflicted",
            "resolve the conflicts and push again; nothing of this commit is deployed",
        ),
        RepositoriesError::Mirror(MirrorError::NotFetched { .. }) => not_fetched(remote),
        error => unreadable(&error.to_string(), remote),
    }
}

/// There is nothing of the repository here yet.
pub(super) fn not_fetched(remote: &Remote) -> Trouble {
    Trouble::passing("RepositoryNotFetched", format!("{remote} was not fetched yet"), "it is fetched soon")
}

/// A commit that a pin or the history names and that is here no longer.
pub(super) fn commit_gone(commit: &str, remote: &Remote) -> Trouble {
    Trouble::standing(
        "CommitNotFound",
        format!(
            "commit {commit} is not in the mirror of {remote}: no branch and no tag leads to it, or it was tidied away"
        ),
        "push a branch or a tag that leads to it, or pin another commit",
    )
}

/// The mirror itself is in trouble.
pub(super) fn unreadable(error: &str, remote: &Remote) -> Trouble {
    Trouble::passing(
        "RepositoryUnreadable",
        format!("the mirror of {remote} cannot be read: {}", remote.redact(error)),
        "the next fetch checks it and clones it anew if need be",
    )
}
