//! The files of a folder, one after the other, within limits.

use std::collections::{HashMap, VecDeque};

use gix::{
    ObjectId,
    bstr::{BStr, BString, ByteSlice},
    objs::{Kind, TreeRefIter, tree::EntryKind},
};

use super::{
    At, Globs, LONGEST_NAME, LONGEST_PATH, Located, Oddity, RepoPath, TreeError,
    changes::below,
    link::{self, Target},
    locate,
};
use crate::{
    id::{BlobId, TreeId},
    repo::{self, ReadError, Repo},
};

/// How much may be read of a folder.
///
/// A single file that is too large is an [`Oddity`]; a folder with too many files or bytes is an error.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many files.
    pub files: usize,
    /// How many bytes a file may have.
    pub file_bytes: u64,
    /// How many bytes all files may have together.
    pub total_bytes: u64,
    /// How many entries of trees are looked at: a hostile tree of a few kilobytes can hold billions of paths.
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 100_000, file_bytes: 8 << 20, total_bytes: 512 << 20, entries: 1_000_000 }
    }
}

/// A file of a folder.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// The path, from the root of the repository.
    pub path: RepoPath,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// The name of what it holds.
    pub content: BlobId,
    /// Whether it may be executed.
    pub executable: bool,
    /// Whether the path is a symbolic link to the file.
    pub linked: bool,
}

impl std::fmt::Debug for File {
    /// Files may hold secrets: their bytes are not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// What is found in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A file.
    File(File),
    /// Something that is not read as a file.
    Odd(Oddity),
}

/// All that was found in a folder.
#[derive(Debug, Clone)]
pub struct Content {
    /// The hash of the folder, whatever the patterns.
    pub hash: TreeId,
    /// The files, in the order of their paths.
    pub files: Vec<File>,
    /// What was not read as a file.
    pub oddities: Vec<Oddity>,
}

/// Reads the files of a folder, in the order of their paths, as they are asked for.
pub fn read(
    repo: &Repo,
    at: impl Into<At>,
    folder: &RepoPath,
    globs: &Globs,
    limits: Limits,
) -> Result<Files, TreeError> {
    let repo = repo.local();
    let root = match locate(&repo, at.into(), folder)? {
        Located::Folder(tree) => tree,
        Located::Missing { nearest } => {
            return Err(TreeError::FolderMissing { folder: folder.clone(), nearest });
        }
        Located::Other { path, what } => return Err(TreeError::NotAFolder { path, what }),
    };
    let mut files = Files {
        repo,
        folder: folder.clone(),
        root,
        globs: globs.clone(),
        limits,
        open: Vec::new(),
        found: VecDeque::new(),
        entries: 0,
        taken: 0,
        bytes: 0,
        failed: false,
    };
    files.enter(root, Vec::new())?;
    Ok(files)
}

/// As [`read`], all at once.
pub fn read_all(
    repo: &Repo,
    at: impl Into<At>,
    folder: &RepoPath,
    globs: &Globs,
    limits: Limits,
) -> Result<Content, TreeError> {
    let found = read(repo, at, folder, globs, limits)?;
    let mut content = Content { hash: found.hash(), files: Vec::new(), oddities: Vec::new() };
    for found in found {
        match found? {
            Found::File(file) => content.files.push(file),
            Found::Odd(oddity) => content.oddities.push(oddity),
        }
    }
    Ok(content)
}

/// The files of a folder, read as they are asked for. After an error there is nothing more.
pub struct Files {
    repo: gix::Repository,
    folder: RepoPath,
    root: ObjectId,
    globs: Globs,
    limits: Limits,
    open: Vec<Open>,
    found: VecDeque<Found>,
    entries: usize,
    taken: usize,
    bytes: u64,
    failed: bool,
}

/// A folder that is being read.
struct Open {
    /// Its path under the folder that was asked for.
    path: Vec<u8>,
    entries: std::vec::IntoIter<Listed>,
}

struct Listed {
    name: BString,
    kind: EntryKind,
    id: ObjectId,
}

impl Files {
    /// The hash of the folder, whatever the patterns.
    pub fn hash(&self) -> TreeId {
        TreeId(self.root)
    }

    fn advance(&mut self) -> Result<Option<Found>, TreeError> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(Some(found));
            }
            let Some(open) = self.open.last_mut() else { return Ok(None) };
            let Some(entry) = open.entries.next() else {
                self.open.pop();
                continue;
            };
            let folder = open.path.clone();
            self.visit(&folder, &entry)?;
        }
    }

    fn odd(&mut self, oddity: Oddity) {
        self.found.push_back(Found::Odd(oddity));
    }

    fn too_much(&self, what: &'static str, limit: u64) -> TreeError {
        TreeError::TooMuch { folder: self.folder.clone(), what, limit }
    }

    /// Lists a folder.
    fn enter(&mut self, tree: ObjectId, path: Vec<u8>) -> Result<(), TreeError> {
        let object = repo::object(&self.repo, tree, Kind::Tree)?;
        let mut entries = Vec::new();
        for entry in TreeRefIter::from_bytes(&object.data, self.repo.object_hash()) {
            let entry = entry.map_err(|source| ReadError::corrupt(&self.repo, tree, source))?;
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(self.too_much("entries", self.limits.entries as u64));
            }
            entries.push(Listed {
                name: entry.filename.to_owned(),
                kind: entry.mode.kind(),
                id: entry.oid.to_owned(),
            });
        }
        drop(object);
        self.report_collisions(&path, &entries);
        self.open.push(Open { path, entries: entries.into_iter() });
        Ok(())
    }

    /// Reports wanted names that differ only in case.
    fn report_collisions(&mut self, folder: &[u8], entries: &[Listed]) {
        let mut seen: HashMap<String, &BString> = HashMap::new();
        for entry in entries {
            let Ok(name) = entry.name.to_str() else { continue };
            if !self.wants(folder, entry) {
                continue;
            }
            let lower = name.to_lowercase();
            if let Some(first) = seen.get(&lower) {
                let path = self.folder.join(&below(folder, first));
                let other = self.folder.join(&below(folder, &entry.name));
                self.found.push_back(Found::Odd(Oddity::CaseCollision { path, other }));
            } else {
                seen.insert(lower, &entry.name);
            }
        }
    }

    fn wants(&self, folder: &[u8], entry: &Listed) -> bool {
        let path = below(folder, &entry.name);
        let Ok(path) = path.to_str() else { return true };
        if entry.kind == EntryKind::Tree { self.globs.enters(path) } else { self.globs.takes(path) }
    }

    fn visit(&mut self, folder: &[u8], entry: &Listed) -> Result<(), TreeError> {
        let below = below(folder, &entry.name);
        if let Some(oddity) = self.odd_name(folder, entry.name.as_bstr(), &below) {
            self.odd(oddity);
            return Ok(());
        }
        if !self.wants(folder, entry) {
            return Ok(());
        }
        let path = self.folder.join(&below);
        match entry.kind {
            EntryKind::Tree if is_conflict_side(&path) => self.odd(Oddity::ConflictSide { path }),
            EntryKind::Tree => self.enter(entry.id, below)?,
            EntryKind::Commit => self.odd(Oddity::Submodule { path, commit: entry.id.to_string() }),
            EntryKind::Link => self.link(path, folder, entry.id)?,
            kind => self.file(path, entry.id, kind == EntryKind::BlobExecutable, false)?,
        }
        Ok(())
    }

    /// A name that cannot be a path.
    fn odd_name(&self, folder: &[u8], name: &BStr, below: &[u8]) -> Option<Oddity> {
        let unsafe_name = matches!(name.as_bytes(), b"" | b"." | b"..")
            || name.contains(&b'/')
            || name.eq_ignore_ascii_case(b".git");
        if unsafe_name {
            let folder = if folder.is_empty() { self.folder.clone() } else { self.folder.join(folder) };
            let name = RepoPath::from_tree(name.to_owned());
            return Some(Oddity::UnsafeName { folder, name });
        }
        let path = self.folder.join(below);
        let length = path.as_bytes().len();
        if length > LONGEST_PATH || name.len() > LONGEST_NAME {
            let start = path.as_bytes().iter().copied().take(100).collect::<Vec<_>>();
            return Some(Oddity::TooLong { path: RepoPath::from_tree(start), length });
        }
        name.to_str().is_err().then_some(Oddity::NotUtf8 { path })
    }

    fn link(&mut self, path: RepoPath, folder: &[u8], id: ObjectId) -> Result<(), TreeError> {
        let Some(text) = link::text(&self.repo, id)? else {
            let problem = super::LinkProblem::Broken;
            self.odd(Oddity::Link {
                path,
                target: "a text that is longer than a path can be".to_owned(),
                problem,
            });
            return Ok(());
        };
        match link::follow(&self.repo, self.root, folder, &text)? {
            Target::File { content, executable } => self.file(path, content, executable, true),
            Target::Problem(problem) => {
                let target = RepoPath::from_tree(text).to_string();
                self.odd(Oddity::Link { path, target, problem });
                Ok(())
            }
        }
    }

    fn file(
        &mut self,
        path: RepoPath,
        id: ObjectId,
        executable: bool,
        linked: bool,
    ) -> Result<(), TreeError> {
        let missing = || ReadError::Missing { id: id.to_string(), path: self.repo.path().to_owned() };
        let (_, size) = repo::header(&self.repo, id)?.ok_or_else(missing)?;
        if size > self.limits.file_bytes {
            self.odd(Oddity::TooLarge { path, size, limit: self.limits.file_bytes });
            return Ok(());
        }
        self.taken += 1;
        if self.taken > self.limits.files {
            return Err(self.too_much("files", self.limits.files as u64));
        }
        self.bytes += size;
        if self.bytes > self.limits.total_bytes {
            return Err(self.too_much("bytes", self.limits.total_bytes));
        }
        let bytes = repo::object(&self.repo, id, Kind::Blob)?.detach().data;
        if is_lfs_pointer(&bytes) {
            self.odd(Oddity::LfsPointer { path });
        } else {
            let content = BlobId(id);
            self.found.push_back(Found::File(File { path, bytes, content, executable, linked }));
        }
        Ok(())
    }
}

impl Iterator for Files {
    type Item = Result<Found, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = next.is_err();
        next.transpose()
    }
}

/// The folders in which Jujutsu keeps the sides of a conflict lie at the root.
fn is_conflict_side(path: &RepoPath) -> bool {
    path.as_bytes().starts_with(b".jjconflict-") && !path.as_bytes().contains(&b'/')
}

/// A pointer begins with its version and is short by the rules of its format.
fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.len() < 1024 && bytes.starts_with(b"version https://git-lfs.github.com/spec/")
}
