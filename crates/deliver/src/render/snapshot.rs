//! A repository at a commit, read within limits. Everything here blocks.

use std::sync::Arc;

use windlass_vcs::{
    id::{CommitId, TreeId},
    mirror::Mirror,
    repo::Repo,
    tree::{self, File, Globs, LinkProblem, Oddity, RepoPath, TreeError},
};

use crate::trouble::Trouble;

/// A repository at a commit.
#[derive(Clone)]
pub(super) struct Snapshot {
    mirror: Arc<Mirror>,
    commit: CommitId,
    limits: tree::Limits,
}

impl Snapshot {
    pub(super) fn new(mirror: Arc<Mirror>, commit: CommitId, limits: tree::Limits) -> Self {
        Self { mirror, commit, limits }
    }

    /// The commit in short, for people.
    pub(super) fn at(&self) -> String {
        self.commit.to_string().chars().take(12).collect()
    }

    /// The hash of a folder, which has to be there.
    pub(super) fn hash(&self, folder: &RepoPath) -> Result<TreeId, Trouble> {
        self.read(|repo| tree::hash(repo, self.commit, folder))?.ok_or_else(|| self.no_folder(folder))
    }

    /// The files of a folder that match, all of them: whatever hides one is trouble.
    pub(super) fn files(&self, folder: &RepoPath, globs: &Globs) -> Result<Vec<File>, Trouble> {
        let content = self.read(|repo| tree::read_all(repo, self.commit, folder, globs, self.limits))?;
        match content.oddities.into_iter().find(Oddity::hides_content) {
            Some(oddity) => Err(odd(&oddity)),
            None => Ok(content.files),
        }
    }

    /// A file, if there is one at the path. A link is followed as long as it stays in the repository.
    pub(super) fn file(&self, path: &str) -> Result<Option<File>, Trouble> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = repo_path(parent)?;
        match self.only(&parent, name)? {
            Found::Odd(Oddity::Link { problem: LinkProblem::Leaves, .. }) if !parent.is_root() => {
                // It leaves its folder, but perhaps not the repository.
                match self.only(&RepoPath::root(), path)? {
                    Found::Odd(oddity) => Err(odd(&oddity)),
                    Found::File(file) => Ok(Some(*file)),
                    Found::Nothing => Ok(None),
                }
            }
            Found::Odd(oddity) => Err(odd(&oddity)),
            Found::File(file) => Ok(Some(*file)),
            Found::Nothing => Ok(None),
        }
    }

    /// Whether there is a folder at the path.
    pub(super) fn has_folder(&self, path: &str) -> Result<bool, Trouble> {
        let path = repo_path(path)?;
        let found = self.read(|repo| match tree::hash(repo, self.commit, &path) {
            Err(TreeError::NotAFolder { .. }) => Ok(None),
            other => other,
        })?;
        Ok(found.is_some())
    }

    /// Those of the names that are files of a folder, or stand there as something that should be one.
    pub(super) fn present<'n>(&self, folder: &str, names: &[&'n str]) -> Result<Vec<&'n str>, Trouble> {
        let folder = repo_path(folder)?;
        let patterns: Vec<String> = names.iter().map(|name| literal(name)).collect();
        let Some(content) = self.content(&folder, &patterns)? else { return Ok(Vec::new()) };
        let found: Vec<&RepoPath> = content
            .files
            .iter()
            .map(|file| &file.path)
            .chain(content.oddities.iter().filter_map(asked))
            .collect();
        let is = |name: &&&str| {
            found.iter().any(|path| path.within(&folder).is_some_and(|path| path.as_str() == Some(**name)))
        };
        Ok(names.iter().filter(is).copied().collect())
    }

    /// What exactly this name below the folder is. A folder is nothing.
    fn only(&self, folder: &RepoPath, name: &str) -> Result<Found, Trouble> {
        let Some(content) = self.content(folder, &[literal(name)])? else { return Ok(Found::Nothing) };
        if let Some(file) = content.files.into_iter().next() {
            return Ok(Found::File(Box::new(file)));
        }
        let whole = if folder.is_root() { name.to_owned() } else { format!("{folder}/{name}") };
        let is = |oddity: &Oddity| asked(oddity).is_some_and(|path| path.as_str() == Some(&whole));
        Ok(content.oddities.into_iter().find(is).map_or(Found::Nothing, Found::Odd))
    }

    /// What matches in a folder, whatever it is. `None` when there is no such folder, or when no name can be so.
    fn content(&self, folder: &RepoPath, patterns: &[String]) -> Result<Option<tree::Content>, Trouble> {
        let Ok(globs) = Globs::new(patterns, &[]) else { return Ok(None) };
        self.read(|repo| match tree::read_all(repo, self.commit, folder, &globs, self.limits) {
            Ok(content) => Ok(Some(content)),
            Err(TreeError::FolderMissing { .. } | TreeError::NotAFolder { .. }) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn read<T>(&self, work: impl FnMut(&Repo) -> Result<T, TreeError>) -> Result<T, Trouble> {
        self.mirror.read(work).map_err(|error| unreadable(&error))?.map_err(|error| self.trouble(error))
    }

    fn trouble(&self, error: TreeError) -> Trouble {
        match error {
            TreeError::FolderMissing { folder, .. } => self.no_folder(&folder),
            TreeError::NotAFolder { path, what } => Trouble::standing(
                "PathNotFound",
                format!("{path} is a {what} at commit {}, not a folder", self.at()),
                "name the folder itself in spec.source.path",
            ),
            TreeError::TooMuch { folder, what, limit } => Trouble::standing(
                "InputTooLarge",
                format!("the folder {folder} holds more than {limit} {what}"),
                "narrow spec.source.path or leave files out with spec.source.directory.exclude",
            ),
            TreeError::Read(error) => unreadable(&error),
        }
    }

    fn no_folder(&self, folder: &RepoPath) -> Trouble {
        Trouble::standing(
            "PathNotFound",
            format!("the folder {folder} is not in the repository at commit {}", self.at()),
            "correct spec.source.path, or commit the folder",
        )
    }
}

enum Found {
    File(Box<File>),
    Odd(Oddity),
    Nothing,
}

/// The path of an oddity that stands where a file was asked for. Others of the folder are told too, and not asked for.
fn asked(oddity: &Oddity) -> Option<&RepoPath> {
    match oddity {
        Oddity::Link { path, .. }
        | Oddity::Submodule { path, .. }
        | Oddity::LfsPointer { path }
        | Oddity::TooLarge { path, .. } => Some(path),
        _ => None,
    }
}

/// A name as a pattern that matches nothing else.
fn literal(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len() + 8);
    for letter in name.chars() {
        match letter {
            '*' | '?' | '[' | ']' | '{' | '}' | '!' | ',' => pattern.extend(['[', letter, ']']),
            '\\' => pattern.push_str("\\\\"),
            other => pattern.push(other),
        }
    }
    pattern
}

/// A path of the repository from text.
pub(super) fn repo_path(text: &str) -> Result<RepoPath, Trouble> {
    RepoPath::parse(text).map_err(|error| {
        Trouble::standing("InvalidPath", error.to_string(), "write the path from the root of the repository")
    })
}

/// Where `text`, written in a file of `folder`, leads. `None` when it leaves the repository.
pub(super) fn resolve(folder: &str, text: &str) -> Option<String> {
    let mut parts: Vec<&str> = if text.starts_with('/') {
        return None;
    } else {
        folder.split('/').filter(|part| !part.is_empty()).collect()
    };
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A path within a folder.
pub(super) fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn odd(oddity: &Oddity) -> Trouble {
    let text = oddity.to_string();
    let (what, remedy) = text.split_once(": ").unwrap_or((&text, "remove it or leave it out"));
    let reason = match oddity {
        Oddity::TooLarge { .. } => "InputTooLarge",
        Oddity::Link { .. } => "LinkNotFollowed",
        _ => "UnreadableFile",
    };
    Trouble::standing(reason, what, remedy)
}

fn unreadable(error: &dyn std::error::Error) -> Trouble {
    Trouble::passing(
        "RepositoryUnreadable",
        format!("the mirror of the repository cannot be read: {error}"),
        "it is read again after the next fetch",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_path_never_resolves_out_of_the_repository() {
        for (folder, text, found) in [
            ("apps/web", "../base", Some("apps/base")),
            ("apps/web", "../../x.yaml", Some("x.yaml")),
            ("apps/web", "../../../x", None),
            ("apps", "/etc/passwd", None),
            ("", "..", None),
            ("", "./a//b/.", Some("a/b")),
            ("a", "..", Some("")),
        ] {
            assert_eq!(resolve(folder, text).as_deref(), found, "{folder} {text}");
        }
    }

    #[test]
    fn a_name_with_signs_of_patterns_is_itself_alone() {
        assert_eq!(literal("a*[1]{x,y}?.yaml"), "a[*][[]1[]][{]x[,]y[}][?].yaml");
        assert!(Globs::new(&[literal("a*[1]{x,y}!?\\.yaml")], &[]).is_ok());
    }
}
