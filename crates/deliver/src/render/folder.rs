//! What kind of folder it is that is rendered.

use windlass_api::application::{
    Source,
    source::{Directory, Helm, Kustomize},
};
use windlass_vcs::tree::{Globs, RepoPath};

use super::snapshot::{Snapshot, repo_path};
use crate::trouble::Trouble;

/// Names that kustomize knows its file by.
pub(super) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// What makes objects of a folder, with its options.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Plain(Directory),
    Kustomize(Box<Kustomize>),
    Helm(Box<Helm>),
}

/// The folder that is rendered: the source's, or another one that then tells its kind itself.
pub(super) fn path(source: &Source, other: Option<&str>) -> Result<RepoPath, Trouble> {
    // People write `/apps` for a folder of the root.
    repo_path(other.or(source.path.as_deref()).unwrap_or_default().trim_start_matches('/'))
}

/// The kind that the source says; else what the folder holds tells.
pub(super) fn kind(
    source: &Source,
    other: Option<&str>,
    snapshot: &Snapshot,
    folder: &RepoPath,
) -> Result<Kind, Trouble> {
    if other.is_none() {
        if let Some(directory) = &source.directory {
            return Ok(Kind::Plain(directory.clone()));
        }
        if let Some(kustomize) = &source.kustomize {
            return Ok(Kind::Kustomize(Box::new(kustomize.clone())));
        }
        if let Some(helm) = &source.helm {
            return Ok(Kind::Helm(Box::new(helm.clone())));
        }
    }
    let [yaml, yml, plain] = KUSTOMIZATIONS;
    let telling = Globs::new(&[yaml, yml, plain, "Chart.yaml"], &[])
        .map_err(|error| Trouble::standing("InvalidPath", error.to_string(), "correct the pattern"))?;
    let found = snapshot.files(folder, &telling)?;
    let is = |name: &str| {
        found.iter().any(|file| file.path.within(folder).is_some_and(|path| path.as_str() == Some(name)))
    };
    Ok(if KUSTOMIZATIONS.iter().any(|name| is(name)) {
        Kind::Kustomize(Box::default())
    } else if is("Chart.yaml") {
        Kind::Helm(Box::default())
    } else {
        Kind::Plain(Directory::default())
    })
}
