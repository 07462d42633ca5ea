//! What is to change in a tree.

use std::collections::{BTreeMap, btree_map};

use super::path::{self, BadPath};

/// Edits that cannot be made, or not together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The path must not be written.
    #[error(transparent)]
    BadPath(#[from] BadPath),
    /// A path would have to be a file and a folder at once.
    #[error("{file:?} cannot be a file: {below:?} is written below it; drop one of the two edits")]
    FileAndFolder {
        /// The path that is written as a file.
        file: String,
        /// The path that needs a folder there.
        below: String,
    },
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Writes a file. Whatever else is at the path (a folder with all that is in it, a link, a submodule) gives way.
    Upsert {
        /// The whole content.
        content: Vec<u8>,
        /// Whether the file is executable; `None` keeps what it was, a new file is not.
        executable: Option<bool>,
    },
    /// Removes a file, a link or a submodule. A folder at the path is left alone.
    Delete,
    /// Removes a folder with all that is in it. A file at the path is left alone.
    DeleteFolder,
}

/// A set of edits, at most one for a path: the last one given counts.
///
/// - Deletes come before upserts, so [`Edits::delete_folder`] with upserts below it replaces a folder's content.
/// - Where a path needs a folder and something else is there (a file, a link, a submodule), that gives way.
///   Links are never followed.
/// - A delete of what is not there is no error. A folder that becomes empty vanishes, as Git cannot keep it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    edits: BTreeMap<String, Edit>,
}

impl Edits {
    /// No edits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a file; an existing one keeps its mode.
    pub fn upsert(
        &mut self,
        path: impl Into<String>,
        content: impl Into<Vec<u8>>,
    ) -> Result<&mut Self, EditError> {
        self.add(path.into(), Edit::Upsert { content: content.into(), executable: None })
    }

    /// Writes a file and says whether it is executable.
    pub fn upsert_as(
        &mut self,
        path: impl Into<String>,
        content: impl Into<Vec<u8>>,
        executable: bool,
    ) -> Result<&mut Self, EditError> {
        self.add(path.into(), Edit::Upsert { content: content.into(), executable: Some(executable) })
    }

    /// Removes a file, if there is one.
    pub fn delete(&mut self, path: impl Into<String>) -> Result<&mut Self, EditError> {
        self.add(path.into(), Edit::Delete)
    }

    /// Removes a folder, if there is one.
    pub fn delete_folder(&mut self, path: impl Into<String>) -> Result<&mut Self, EditError> {
        self.add(path.into(), Edit::DeleteFolder)
    }

    /// The edits in the order of their paths.
    pub fn iter(&self) -> btree_map::Iter<'_, String, Edit> {
        self.edits.iter()
    }

    /// How many edits there are.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Bytes of all contents.
    pub fn size(&self) -> usize {
        let content = |edit: &Edit| match edit {
            Edit::Upsert { content, .. } => content.len(),
            Edit::Delete | Edit::DeleteFolder => 0,
        };
        self.edits.values().map(content).sum()
    }

    fn add(&mut self, path: String, edit: Edit) -> Result<&mut Self, EditError> {
        path::check(&path)?;
        if matches!(edit, Edit::Upsert { .. }) {
            self.check_parents(&path)?;
            self.check_below(&path)?;
        }
        self.edits.insert(path, edit);
        Ok(self)
    }

    fn check_parents(&self, path: &str) -> Result<(), EditError> {
        let parents = path.match_indices('/').map(|(end, _)| &path[..end]);
        match parents.into_iter().find(|parent| self.writes(parent)) {
            Some(file) => Err(EditError::FileAndFolder { file: file.to_owned(), below: path.to_owned() }),
            None => Ok(()),
        }
    }

    fn check_below(&self, path: &str) -> Result<(), EditError> {
        let folder = format!("{path}/");
        let below = self.edits.range(folder.clone()..).take_while(|(other, _)| other.starts_with(&folder));
        match below.into_iter().find(|(_, edit)| matches!(edit, Edit::Upsert { .. })) {
            Some((below, _)) => {
                Err(EditError::FileAndFolder { file: path.to_owned(), below: below.to_owned() })
            }
            None => Ok(()),
        }
    }

    fn writes(&self, path: &str) -> bool {
        matches!(self.edits.get(path), Some(Edit::Upsert { .. }))
    }
}

impl<'a> IntoIterator for &'a Edits {
    type Item = (&'a String, &'a Edit);
    type IntoIter = btree_map::Iter<'a, String, Edit>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_not_a_file_and_a_folder_at_once() {
        let mut edits = Edits::new();
        edits.upsert("a/b", "1").unwrap().upsert("a-b", "2").unwrap().upsert("a.b", "3").unwrap();
        let clash = EditError::FileAndFolder { file: "a".into(), below: "a/b".into() };
        assert_eq!(edits.upsert("a", "x").unwrap_err(), clash);
        let clash = EditError::FileAndFolder { file: "a/b".into(), below: "a/b/c/d".into() };
        assert_eq!(edits.upsert("a/b/c/d", "x").unwrap_err(), clash);
        edits.delete("a").unwrap().delete("a/b/c").unwrap().delete_folder("a").unwrap();
        assert_eq!(edits.len(), 5, "deletes clash with nothing");
        assert_eq!(edits.size(), 3);
    }

    #[test]
    fn the_last_edit_of_a_path_counts() {
        let mut edits = Edits::new();
        edits.upsert("a", "1").unwrap().delete("a").unwrap();
        edits.upsert("a/b", "2").unwrap();
        assert!(edits.upsert("../a", "x").is_err());
        let all: Vec<_> = edits.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(all, ["a", "a/b"]);
    }
}
