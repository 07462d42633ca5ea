//! A folder at a commit → objects.
//!
//! ```text
//!  commit, folder ─► memo ─► inputs (hashes of what is read) ─► key ─► cache ─────────────► Rendered
//!                                                                 └──► flight ─► render ─┘
//!       plain:     files of the folder ─► parse                       (one of equal calls)
//!       kustomize: closure of the kustomization ─► export ─► `kustomize build` in a cell ─► parse
//!       helm:      chart, its file:// dependencies, value files ─► export ─► `helm template` in a cell ─► parse
//! ```
//!
//! Guarantees: equal inputs, options and tool give the same [`Rendered`] without work, whatever the commit; what is
//! decrypted is never written to disk; whatever a repository holds, a render ends within its limits or in a
//! [`Trouble`] that names the file.

mod cache;
mod cell;
mod decrypt;
mod folder;
mod helm;
mod key;
mod kustomize;
mod objects;
mod plain;
mod renderer;
mod snapshot;
pub mod sops;
mod tool;

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::object::ObjectId;

pub use decrypt::Decrypt;
pub use renderer::{Counts, Limits, Renderer, RendererOptions, Request};

/// One object of a render. Its content is not shown.
#[derive(Clone)]
pub struct Manifest {
    /// Its name, as the source spells it (no namespace filled in).
    pub id: ObjectId,
    /// Where it stands, such as `web.yaml:12`, as far as known.
    pub place: Option<String>,
    /// The object.
    pub object: Arc<Value>,
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

/// What a folder at a commit renders to.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// In the order of the source. Every object once.
    pub objects: Vec<Manifest>,
    /// Hash over all objects, hexadecimal: equal digests are equal objects.
    pub digest: String,
}
