//! Applies edits to trees: every folder on the way to an edit is read once and written at most once.

use std::collections::BTreeMap;

use gix::objs::{
    Kind,
    tree::{EntryKind, EntryMode},
};

use super::{
    WriteError,
    batch::Batch,
    edits::{Edit, Edits},
};
use crate::repo::ReadError;

/// Edits of one folder, by name.
#[derive(Default)]
struct Folder<'a> {
    names: BTreeMap<&'a [u8], Place<'a>>,
}

/// What happens at one name of a folder.
#[derive(Default)]
struct Place<'a> {
    edit: Option<&'a Edit>,
    /// Edits further down.
    below: Folder<'a>,
    /// Whether one of those writes something, so that a folder must be here.
    writes_below: bool,
}

/// An entry of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    mode: EntryMode,
    id: gix::ObjectId,
}

impl Entry {
    fn folder(id: gix::ObjectId) -> Self {
        Self { mode: EntryKind::Tree.into(), id }
    }
}

/// Applies the edits to a tree; new blobs and trees go to the batch. Returns the resulting tree.
pub(super) fn apply(
    batch: &mut Batch<'_>,
    root: gix::ObjectId,
    edits: &Edits,
) -> Result<gix::ObjectId, WriteError> {
    let mut top = Folder::default();
    for (path, edit) in edits {
        top.insert(path, edit);
    }
    match apply_folder(batch, Some(root), &top)? {
        Some(tree) => Ok(tree),
        // An empty folder vanishes, but a commit needs some tree.
        None => batch.add(Kind::Tree, Vec::new()),
    }
}

impl<'a> Folder<'a> {
    fn insert(&mut self, path: &'a str, edit: &'a Edit) {
        let writes = matches!(edit, Edit::Upsert { .. });
        let mut folder = self;
        let mut rest = path;
        while let Some((name, below)) = rest.split_once('/') {
            let place = folder.names.entry(name.as_bytes()).or_default();
            place.writes_below |= writes;
            folder = &mut place.below;
            rest = below;
        }
        folder.names.entry(rest.as_bytes()).or_default().edit = Some(edit);
    }
}

/// Edits one folder; `None` means that nothing is left in it.
fn apply_folder(
    batch: &mut Batch<'_>,
    tree: Option<gix::ObjectId>,
    folder: &Folder<'_>,
) -> Result<Option<gix::ObjectId>, WriteError> {
    let data = tree.map(|id| batch.tree(id)).transpose()?.unwrap_or_default();
    let (mut entries, before) = split(batch, tree, &data, folder)?;
    let mut changed = false;
    for (name, place) in &folder.names {
        let old = before.get(name).copied();
        let new = apply_place(batch, old, place)?;
        changed |= new != old;
        if let Some(entry) = new {
            entries.push((name, entry));
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    match tree {
        Some(tree) if !changed => Ok(Some(tree)),
        _ => batch.add(Kind::Tree, encode(entries, data.len())).map(Some),
    }
}

type Split<'d, 'e> = (Vec<(&'d [u8], Entry)>, BTreeMap<&'e [u8], Entry>);

/// Parses a tree into the entries that no edit names, and those that one does.
fn split<'d>(
    batch: &Batch<'_>,
    tree: Option<gix::ObjectId>,
    data: &'d [u8],
    folder: &Folder<'d>,
) -> Result<Split<'d, 'd>, WriteError> {
    let mut kept = Vec::with_capacity(data.len() / 32 + folder.names.len());
    let mut named = BTreeMap::new();
    for entry in gix::objs::TreeRefIter::from_bytes(data, batch.repo().object_hash()) {
        let name = || tree.map(|id| id.to_hex().to_string()).unwrap_or_default();
        let entry = entry.map_err(|source| ReadError::corrupt(batch.repo(), name(), source))?;
        let name: &[u8] = entry.filename;
        let entry = Entry { mode: entry.mode, id: entry.oid.to_owned() };
        if folder.names.contains_key(name) {
            named.insert(name, entry);
        } else {
            kept.push((name, entry));
        }
    }
    Ok((kept, named))
}

fn apply_place(
    batch: &mut Batch<'_>,
    old: Option<Entry>,
    place: &Place<'_>,
) -> Result<Option<Entry>, WriteError> {
    let left = match place.edit {
        Some(Edit::Upsert { content, executable }) => {
            return upsert(batch, old, content, *executable).map(Some);
        }
        Some(Edit::Delete) => old.filter(|entry| entry.mode.is_tree()),
        Some(Edit::DeleteFolder) => old.filter(|entry| !entry.mode.is_tree()),
        None => old,
    };
    let folder = left.filter(|entry| entry.mode.is_tree());
    if place.below.names.is_empty() || (folder.is_none() && !place.writes_below) {
        return Ok(left);
    }
    let tree = apply_folder(batch, folder.map(|entry| entry.id), &place.below)?;
    // An old entry that stays the same keeps its mode to the letter, so that nothing seems changed.
    Ok(tree.map(|id| folder.filter(|entry| entry.id == id).unwrap_or_else(|| Entry::folder(id))))
}

fn upsert(
    batch: &mut Batch<'_>,
    old: Option<Entry>,
    content: &[u8],
    executable: Option<bool>,
) -> Result<Entry, WriteError> {
    let file = old.filter(|entry| entry.mode.is_blob());
    let was_executable = file.is_some_and(|entry| entry.mode.is_executable());
    let wanted = executable.unwrap_or(was_executable);
    let mode = match file {
        Some(entry) if wanted == was_executable => entry.mode,
        _ if wanted => EntryKind::BlobExecutable.into(),
        _ => EntryKind::Blob.into(),
    };
    let id = batch.name(Kind::Blob, content)?;
    if old.is_none_or(|entry| entry.id != id) {
        batch.add_named(id, Kind::Blob, content.to_owned());
    }
    Ok(Entry { mode, id })
}

fn encode(mut entries: Vec<(&[u8], Entry)>, size: usize) -> Vec<u8> {
    entries.sort_by(|(a_name, a), (b_name, b)| {
        gix::objs::tree::name_order(a_name, a.mode.is_tree(), b_name, b.mode.is_tree())
    });
    let mut data = Vec::with_capacity(size + 64);
    let mut digits = [0; 6];
    for (name, entry) in entries {
        data.extend_from_slice(entry.mode.as_bytes(&mut digits));
        data.push(b' ');
        data.extend_from_slice(name);
        data.push(0);
        data.extend_from_slice(entry.id.as_bytes());
    }
    data
}
