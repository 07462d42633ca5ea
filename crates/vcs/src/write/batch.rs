//! Objects that are about to be written, readable before they are.

use std::collections::{HashMap, hash_map::Entry};

use gix::objs::Kind;

use super::WriteError;
use crate::repo;

/// One object.
pub(super) struct Object {
    pub(super) id: gix::ObjectId,
    pub(super) kind: Kind,
    pub(super) data: Vec<u8>,
}

/// New objects on top of a repository.
pub(super) struct Batch<'a> {
    repo: &'a gix::Repository,
    objects: Vec<Object>,
    places: HashMap<gix::ObjectId, usize>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(repo: &'a gix::Repository) -> Self {
        Self { repo, objects: Vec::new(), places: HashMap::new() }
    }

    /// The name that an object has.
    pub(super) fn name(&self, kind: Kind, data: &[u8]) -> Result<gix::ObjectId, WriteError> {
        gix::objs::compute_hash(self.repo.object_hash(), kind, data)
            .map_err(|source| WriteError::Hash { source: source.into() })
    }

    /// Adds an object and returns its name.
    pub(super) fn add(&mut self, kind: Kind, data: Vec<u8>) -> Result<gix::ObjectId, WriteError> {
        let id = self.name(kind, &data)?;
        self.add_named(id, kind, data);
        Ok(id)
    }

    /// Adds an object whose name is known.
    pub(super) fn add_named(&mut self, id: gix::ObjectId, kind: Kind, data: Vec<u8>) {
        if let Entry::Vacant(place) = self.places.entry(id) {
            place.insert(self.objects.len());
            self.objects.push(Object { id, kind, data });
        }
    }

    /// Reads a tree, new or old.
    pub(super) fn tree(&self, id: gix::ObjectId) -> Result<Vec<u8>, WriteError> {
        if id.is_empty_tree() {
            return Ok(Vec::new());
        }
        match self.places.get(&id) {
            Some(&place) => Ok(self.objects[place].data.clone()),
            None => Ok(repo::object(self.repo, id, Kind::Tree)?.detach().data),
        }
    }

    /// The repository beneath.
    pub(super) fn repo(&self) -> &'a gix::Repository {
        self.repo
    }

    pub(super) fn into_objects(self) -> Vec<Object> {
        self.objects
    }
}
