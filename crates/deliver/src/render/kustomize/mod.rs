//! Folders that kustomize builds.
//!
//! The files that a build reads are found in process, by following the kustomization files: they are what is exported
//! and what the key of the render is made of. A build that still misses a file gets the whole repository once.

mod closure;
mod overlay;

use std::collections::BTreeMap;

use windlass_api::application::source::Kustomize;
use windlass_vcs::{
    id::BlobId,
    tree::{File, Globs, RepoPath},
};

use super::{
    cell::{Cells, Job, in_tree},
    key::Hasher,
    objects::{self, Found},
    snapshot::Snapshot,
    tool::Tool,
};
use crate::trouble::Trouble;

/// How people call it.
const CALLED: &str = "kustomize build";

/// What kustomize says when it misses a file.
const MISSES: [&str; 4] =
    ["no such file", "doesn't exist", "does not exist", "unable to find one of 'kustomization.yaml'"];

/// A file to export.
#[derive(Clone)]
pub(super) struct Input {
    bytes: Vec<u8>,
    content: BlobId,
}

/// What a build reads.
pub(super) struct Inputs {
    folder: String,
    files: BTreeMap<String, Input>,
    /// The kustomization that is laid over the folder's own, if the source has options.
    overlay: Option<Vec<u8>>,
}

impl Inputs {
    /// Follows the kustomization of a folder.
    pub(super) fn gather(
        snapshot: &Snapshot,
        folder: &RepoPath,
        options: &Kustomize,
        limits: &super::Limits,
    ) -> Result<Self, Trouble> {
        let folder = folder.as_str().unwrap_or_default().to_owned();
        let mut closure = closure::Closure::new(snapshot, limits);
        closure.follow(&folder)?;
        let overlay = overlay::write(options, &folder, &mut closure)?;
        Ok(Self { folder, files: closure.into_files(), overlay })
    }

    /// Writes what the build depends on.
    pub(super) fn hash(&self, hasher: &mut Hasher) {
        hasher.part(&self.folder).maybe(self.overlay.as_ref());
        for (path, input) in &self.files {
            hasher.part(path).part(input.content.to_string());
        }
    }

    /// All files of the repository instead of those that were found.
    pub(super) fn widen(&self, snapshot: &Snapshot) -> Result<Self, Trouble> {
        let all = snapshot.files(&RepoPath::root(), &Globs::default())?;
        let files = all.into_iter().filter_map(entry).collect();
        Ok(Self { folder: self.folder.clone(), files, overlay: self.overlay.clone() })
    }
}

fn entry(file: File) -> Option<(String, Input)> {
    let path = file.path.as_str()?.to_owned();
    Some((path, Input { bytes: file.bytes, content: file.content }))
}

/// Builds. The flag says that a file was missed.
pub(super) async fn build(
    cells: &Cells,
    tool: &Tool,
    inputs: &Inputs,
) -> Result<Vec<Found>, (Trouble, bool)> {
    let mut files: Vec<(String, Vec<u8>)> =
        inputs.files.iter().map(|(path, input)| (in_tree(path), input.bytes.clone())).collect();
    let built = match &inputs.overlay {
        Some(overlay) => {
            files.push((format!("{}/kustomization.yaml", overlay::FOLDER), overlay.clone()));
            overlay::FOLDER.to_owned()
        }
        None => in_tree(&inputs.folder),
    };
    let folder = cells.folder(files).await.map_err(|trouble| (trouble, false))?;
    let job = Job {
        program: tool.path(),
        called: CALLED,
        args: vec!["build".into(), built.into()],
        stdin: None,
        hide: &[],
        reason: "KustomizeFailed",
    };
    let printed = cells.run(&folder, job).await.map_err(|trouble| {
        let misses = MISSES.iter().any(|words| trouble.what.contains(words));
        (trouble, misses)
    })?;
    objects::of_output(CALLED, &printed).map_err(|trouble| (trouble, false))
}
