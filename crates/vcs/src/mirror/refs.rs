//! Refs here and there, and what moved between two looks at them.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId;
use gix::objs::Kind;

use super::error::MirrorError;
use crate::id::CommitId;
use crate::repo::{ReadError, descends, look_again, peel};
pub(super) use crate::revision::BRANCHES as BRANCHES_HERE;
use crate::revision::TAGS;

/// Where the remote has its branches.
const BRANCHES: &str = "refs/heads/";

/// Names of refs, as the remote has them, and the objects they name.
pub(super) type Refs = BTreeMap<String, ObjectId>;

/// A ref of the remote that moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movement {
    /// Full name of the ref, as the remote has it: `refs/heads/main`.
    pub name: String,
    /// Where it was; `None` when it is new.
    pub from: Option<CommitId>,
    /// Where it is; `None` when it is gone.
    pub to: Option<CommitId>,
    /// Whether commits were left behind: the new place does not descend from the old one.
    pub forced: bool,
}

/// The name of a ref in the mirror.
pub(super) fn name_here(name: &str) -> String {
    match name.strip_prefix(BRANCHES) {
        Some(branch) => format!("{BRANCHES_HERE}{branch}"),
        None => name.to_owned(),
    }
}

/// A script for `git update-ref --stdin` that does all of it or nothing: an input that breaks off has no last line.
pub(super) fn transaction(steps: impl IntoIterator<Item = String>) -> String {
    let steps =
        ["start".to_owned()].into_iter().chain(steps).chain(["prepare".to_owned(), "commit\n".to_owned()]);
    steps.collect::<Vec<_>>().join("\n")
}

/// Branches and tags of the remote, as the mirror has them.
pub(super) fn local(repo: &gix::Repository) -> Result<Refs, ReadError> {
    look_again(|| look(repo))
}

fn look(repo: &gix::Repository) -> Result<Refs, ReadError> {
    let fail = |source: Box<dyn std::error::Error + Send + Sync>| ReadError::refs(repo, source);
    let platform = repo.references().map_err(|error| fail(error.into()))?;
    let mut refs = Refs::new();
    for prefix in [BRANCHES_HERE, TAGS] {
        let found = platform.prefixed(prefix).map_err(|error| fail(error.into()))?;
        for reference in found {
            let reference = reference.map_err(fail)?;
            let name = reference.name().as_bstr().to_string();
            let name =
                name.strip_prefix(BRANCHES_HERE).map_or(name.clone(), |branch| format!("{BRANCHES}{branch}"));
            if let Some(id) = reference.try_id() {
                refs.insert(name, id.detach());
            }
        }
    }
    Ok(refs)
}

/// The refs that `git ls-remote` printed.
pub(super) fn advertised(place: &str, text: &[u8]) -> Result<Refs, MirrorError> {
    let text = String::from_utf8_lossy(text);
    let mut refs = Refs::new();
    for line in text.lines() {
        let odd =
            || MirrorError::Advertisement { place: place.to_owned(), line: line.chars().take(100).collect() };
        let (id, name) = line.split_once('\t').ok_or_else(odd)?;
        let id = ObjectId::from_hex(id.as_bytes())
            .ok()
            .filter(|id| id.kind() == gix::hash::Kind::Sha1)
            .ok_or_else(odd)?;
        if (name.starts_with(BRANCHES) || name.starts_with(TAGS)) && is_plain(name) {
            refs.insert(name.to_owned(), id);
        }
    }
    Ok(refs)
}

/// Names that git would not fetch either are not waited for.
fn is_plain(name: &str) -> bool {
    !name.ends_with("^{}") && gix::validate::reference::name(name.into()).is_ok()
}

/// The branch that `git ls-remote --symref` gave for HEAD.
pub(super) fn advertised_head(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find_map(|line| line.strip_prefix("ref: ")?.strip_suffix("\tHEAD"))?;
    line.strip_prefix(BRANCHES).filter(|_| is_plain(line)).map(ToOwned::to_owned)
}

/// The default branch: the mirror's HEAD names it.
pub(super) fn default_branch(repo: &gix::Repository) -> Option<String> {
    let name = repo.head_name().ok()??.as_bstr().to_string();
    name.strip_prefix(BRANCHES_HERE).map(ToOwned::to_owned)
}

/// The commits that refs name; what is no commit is left out.
pub(super) fn commits(repo: &gix::Repository, refs: &Refs) -> Result<BTreeMap<String, CommitId>, ReadError> {
    let mut commits = BTreeMap::new();
    for (name, id) in refs {
        if let (id, Kind::Commit) = peel(repo, *id)? {
            commits.insert(name.clone(), CommitId(id));
        }
    }
    Ok(commits)
}

/// What moved.
pub(super) fn movements(repo: &gix::Repository, before: &Refs, after: &Refs) -> Vec<Movement> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let commit = |name: &str, id: Option<&ObjectId>| match peel(repo, *id?) {
        Ok((id, Kind::Commit)) => Some(CommitId(id)),
        // A branch can name nothing but a commit, even if that is gone by now.
        _ if name.starts_with(BRANCHES) => Some(CommitId(*id?)),
        _ => None,
    };
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| (name, commit(name, before.get(name)), commit(name, after.get(name))))
        .filter(|(_, from, to)| from != to)
        .map(|(name, from, to)| {
            // What cannot be told counts as forced.
            let forced = from.zip(to).is_some_and(|(from, to)| !descends(repo, to, from).unwrap_or(false));
            Movement { name: name.clone(), from, to, forced }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn lists_of_refs_are_read_and_hostile_names_left_out() {
        let text = format!(
            "{ID}\trefs/heads/main\n{ID}\trefs/heads/a..b\n{ID}\trefs/pull/1/head\n{ID}\trefs/tags/v1^{{}}\n"
        );
        let refs = advertised("there", text.as_bytes()).expect("reads");
        assert_eq!(refs.keys().map(String::as_str).collect::<Vec<_>>(), ["refs/heads/main"]);
        assert!(advertised("there", b"<html>").is_err());
        assert!(advertised("there", format!("{ID}{}\trefs/heads/main", "0".repeat(24)).as_bytes()).is_err());
    }

    #[test]
    fn the_default_branch_is_read() {
        let text = format!("ref: refs/heads/trunk\tHEAD\n{ID}\tHEAD\n");
        assert_eq!(advertised_head(text.as_bytes()).as_deref(), Some("trunk"));
        assert_eq!(advertised_head(format!("{ID}\tHEAD\n").as_bytes()), None);
        assert_eq!(name_here("refs/heads/a/b"), "refs/remotes/origin/a/b");
    }
}
