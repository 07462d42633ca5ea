//! From a revision to a commit.

use std::collections::HashSet;

use gix::{
    ObjectId,
    bstr::BString,
    objs::{CommitRef, Kind},
};
use serde::Serialize;

use super::{
    Revision,
    error::{Candidate, ResolveError},
    names::{self, BRANCHES, TAGS},
};
use crate::{
    id::{ChangeId, ChangePrefix, CommitId},
    jujutsu::{self, ChangeState, Engine},
    repo::{self, ReadError, Repo},
};

/// How many commits are looked at for one that a rebase with plain `git` made of a change.
const SUCCESSORS: usize = 2000;

/// What a revision turned out to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Via {
    /// A branch, by its short name.
    Branch(String),
    /// A tag, by its short name.
    Tag(String),
    /// Another ref, by its full name.
    Ref(String),
    /// A commit, by all or the first of its digits.
    Commit,
    /// A Jujutsu change, by all or the first of its letters. It follows rewrites.
    Change,
}

/// The commit that a revision stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The commit.
    pub commit: CommitId,
    /// The change that the commit is, if it is one of Jujutsu's.
    pub change: Option<ChangeId>,
    /// What the revision turned out to be.
    pub via: Via,
    /// Full names of other refs that the same text names and that lead elsewhere: worth a warning.
    pub shadowed: Vec<String>,
}

/// Finds the commit that a revision stands for.
///
/// Change ids need the engine; without one they are only found when the repository has no use for it. Whether the commit
/// carries conflicts is not looked at: [`jujutsu::require_clean`] does that. Blocks.
pub fn resolve(repo: &Repo, engine: Option<&Engine>, revision: &Revision) -> Result<Resolved, ResolveError> {
    let resolver = Resolver { repo: repo.local(), revision };
    if let Some(resolved) = resolver.name()? {
        return Ok(resolved);
    }
    if let Some(digits) = revision.commit_digits()
        && let Some(resolved) = resolver.commit(digits)?
    {
        return Ok(resolved);
    }
    if let Some(change) = revision.change() {
        return resolver.change(engine, change);
    }
    Err(resolver.unknown("no branch, tag or commit has this name".to_owned())?)
}

struct Resolver<'a> {
    repo: gix::Repository,
    revision: &'a Revision,
}

impl Resolver<'_> {
    fn unknown(&self, hint: String) -> Result<ResolveError, ReadError> {
        let revision = self.revision.to_string();
        let near = names::near(&self.repo, &revision)?;
        let empty = names::refs(&self.repo)?.is_empty();
        let hint = if empty { "it has no branches and no tags yet".to_owned() } else { hint };
        Ok(ResolveError::Unknown { revision, hint, near })
    }

    fn found(&self, commit: ObjectId, via: Via) -> Result<Resolved, ReadError> {
        let change = jujutsu::with_commit(&self.repo, commit, jujutsu::change_id)?;
        Ok(Resolved { commit: CommitId(commit), change, via, shadowed: Vec::new() })
    }

    /// Peels what a name leads to down to a commit.
    fn peel(&self, name: &str, id: ObjectId) -> Result<ObjectId, ResolveError> {
        match repo::peel(&self.repo, id)? {
            (id, Kind::Commit) => Ok(id),
            (_, kind) => Err(ResolveError::NotACommit { revision: name.to_owned(), kind: kind.to_string() }),
        }
    }

    /// The revision as the name of a ref.
    fn name(&self) -> Result<Option<Resolved>, ResolveError> {
        let text = self.revision.as_str();
        if text.starts_with("refs/") {
            return self.full_name(text);
        }
        let branch = names::target(&self.repo, &format!("{BRANCHES}{text}"))?;
        let tag = names::target(&self.repo, &format!("{TAGS}{text}"))?;
        let Some(id) = branch.or(tag) else { return Ok(None) };
        let via = if branch.is_some() { Via::Branch(text.to_owned()) } else { Via::Tag(text.to_owned()) };
        let commit = self.peel(text, id)?;
        let mut resolved = self.found(commit, via)?;
        if let (Some(_), Some(tag)) = (branch, tag)
            && repo::peel(&self.repo, tag)?.0 != commit
        {
            resolved.shadowed.push(format!("{TAGS}{text}"));
        }
        Ok(Some(resolved))
    }

    /// The revision as the full name of a ref. What is a branch at the remote is kept elsewhere in a mirror.
    fn full_name(&self, text: &str) -> Result<Option<Resolved>, ResolveError> {
        if names::is_ours(text) {
            return Ok(None);
        }
        let (stored, via) = if let Some(name) = text.strip_prefix("refs/heads/") {
            (format!("{BRANCHES}{name}"), Via::Branch(name.to_owned()))
        } else if let Some(name) = text.strip_prefix(BRANCHES) {
            (text.to_owned(), Via::Branch(name.to_owned()))
        } else if let Some(name) = text.strip_prefix(TAGS) {
            (text.to_owned(), Via::Tag(name.to_owned()))
        } else {
            (text.to_owned(), Via::Ref(text.to_owned()))
        };
        let Some(id) = names::target(&self.repo, &stored)? else { return Ok(None) };
        let commit = self.peel(text, id)?;
        Ok(Some(self.found(commit, via)?))
    }

    /// The revision as a commit. A commit counts when a branch or a tag leads to it: others are gone with the next
    /// tidying, and a mirror that was cloned later never had them.
    fn commit(&self, digits: &str) -> Result<Option<Resolved>, ResolveError> {
        let candidates = self.candidates(digits)?;
        let mut commits = Vec::new();
        for id in &candidates {
            if let (id, Kind::Commit) = repo::peel(&self.repo, *id)? {
                commits.push(id);
            }
        }
        commits.sort_unstable();
        commits.dedup();
        if commits.is_empty() {
            let full = ObjectId::from_hex(digits.to_ascii_lowercase().as_bytes()).ok();
            return match candidates.first().filter(|id| full == Some(**id)) {
                Some(id) => self.peel(digits, *id).map(|_| None),
                None => Ok(None),
            };
        }
        let visible = self.visible(&commits)?;
        match visible.as_slice() {
            [commit] => Ok(Some(self.found(*commit, Via::Commit)?)),
            [] if commits.len() == 1 => Err(ResolveError::Hidden { commit: CommitId(commits[0]) }),
            _ => {
                let candidates = if visible.is_empty() { commits } else { visible };
                let candidates = candidates.into_iter().map(|id| Candidate::Commit(CommitId(id))).collect();
                Err(ResolveError::Ambiguous { revision: digits.to_owned(), candidates })
            }
        }
    }

    /// The objects whose names begin with these digits.
    fn candidates(&self, digits: &str) -> Result<Vec<ObjectId>, ReadError> {
        let digits = digits.to_ascii_lowercase();
        let length = self.repo.object_hash().len_in_hex();
        // Padded to the length of this repository's names: by itself, a prefix of 40 digits would be a SHA-1 name.
        let Ok(padded) = ObjectId::from_hex(format!("{digits:0<length$}").as_bytes()) else {
            return Ok(Vec::new());
        };
        if digits.len() == length {
            return Ok(repo::header(&self.repo, padded)?.map(|_| padded).into_iter().collect());
        }
        if digits.len() > length {
            return Ok(Vec::new());
        }
        let Ok(prefix) = gix::hash::Prefix::new(&padded, digits.len()) else { return Ok(Vec::new()) };
        let mut found = HashSet::new();
        self.repo
            .objects
            .lookup_prefix(prefix, Some(&mut found))
            .map_err(|error| ReadError::corrupt(&self.repo, &digits, error))?;
        Ok(found.into_iter().collect())
    }

    /// Those of the commits that a branch or a tag leads to. The newest commits come first, so that the usual case, a
    /// commit near a tip, is quick.
    fn visible(&self, commits: &[ObjectId]) -> Result<Vec<ObjectId>, ReadError> {
        let mut left: HashSet<ObjectId> = commits.iter().copied().collect();
        let tips = names::tips(&self.repo)?;
        for tip in &tips {
            left.remove(tip);
        }
        if !left.is_empty() {
            for id in walk(&self.repo, tips)? {
                left.remove(&id?);
                if left.is_empty() {
                    break;
                }
            }
        }
        Ok(commits.iter().copied().filter(|id| !left.contains(id)).collect())
    }

    /// The revision as a change.
    fn change(&self, engine: Option<&Engine>, change: ChangePrefix) -> Result<Resolved, ResolveError> {
        let Some(engine) = engine else {
            let hint = "no branch or tag has this name, and as a Jujutsu change id it cannot be found, because no commit near the tips carries one; was the header lost in a rebase with plain `git`?";
            return Err(self.unknown(hint.to_owned())?);
        };
        match engine.change(change).wait()? {
            ChangeState::Visible { change, commit } => {
                let mut resolved = self.found(commit.0, Via::Change)?;
                resolved.change = Some(change);
                Ok(resolved)
            }
            ChangeState::Divergent { change, commits } => Err(ResolveError::Divergent { change, commits }),
            ChangeState::Abandoned { change, last } => {
                let successor = self.successor(last)?;
                Err(ResolveError::Abandoned { change, last, successor })
            }
            ChangeState::Ambiguous { candidates } => {
                let candidates = candidates.into_iter().map(Candidate::Change).collect();
                Err(ResolveError::Ambiguous { revision: self.revision.to_string(), candidates })
            }
            ChangeState::Unknown => {
                let hint = "no branch or tag has this name, and no commit was ever seen with it as its change id; a rebase with plain `git` loses it, `jj` keeps it";
                Err(self.unknown(hint.to_owned())?)
            }
        }
    }

    /// What a rebase with plain `git` made of a commit: it keeps the author, the time and the message, and loses the
    /// change id.
    fn successor(&self, last: CommitId) -> Result<Option<CommitId>, ReadError> {
        // The commit itself may be gone.
        if repo::header(&self.repo, last.0)?.is_none() {
            return Ok(None);
        }
        let wanted = jujutsu::with_commit(&self.repo, last.0, likeness)?;
        for id in walk(&self.repo, names::tips(&self.repo)?)?.take(SUCCESSORS) {
            let id = id?;
            let (change, like) = jujutsu::with_commit(&self.repo, id, |commit| {
                (jujutsu::change_id(commit), likeness(commit))
            })?;
            if change.is_none() && like == wanted {
                return Ok(Some(CommitId(id)));
            }
        }
        Ok(None)
    }
}

/// What a rebase keeps of a commit.
fn likeness(commit: &CommitRef<'_>) -> (BString, BString) {
    (commit.author.to_owned(), commit.message.to_owned())
}

/// The commits behind tips, the newest first.
fn walk(
    repo: &gix::Repository,
    tips: Vec<ObjectId>,
) -> Result<impl Iterator<Item = Result<ObjectId, ReadError>> + '_, ReadError> {
    use gix::{revision::walk::Sorting, traverse::commit::simple::CommitTimeOrder};
    let walk = repo
        .rev_walk(tips)
        .sorting(Sorting::ByCommitTime(CommitTimeOrder::NewestFirst))
        .all()
        .map_err(|error| ReadError::refs(repo, error))?;
    Ok(walk.map(|commit| commit.map(|commit| commit.id).map_err(|error| ReadError::refs(repo, error))))
}
