//! Plain YAML and JSON files.

use windlass_api::application::source::Directory;
use windlass_vcs::tree::{File, Globs, RepoPath};

use super::snapshot::Snapshot;
use crate::trouble::Trouble;

/// What is read unless the source says otherwise.
const INCLUDE: [&str; 3] = ["*.yaml", "*.yml", "*.json"];

/// The files that hold the objects, in the order of their paths.
pub(super) fn files(
    snapshot: &Snapshot,
    folder: &RepoPath,
    options: &Directory,
) -> Result<Vec<File>, Trouble> {
    snapshot.files(folder, &globs(options)?)
}

fn globs(options: &Directory) -> Result<Globs, Trouble> {
    let mut exclude = options.exclude.clone();
    let include = if options.include.is_empty() {
        // Files and folders that are hidden by their name belong to tools, such as workflows of a forge.
        exclude.extend([".*".to_owned(), "**/.*".to_owned()]);
        let below = if options.recurse { "**/" } else { "" };
        INCLUDE.iter().map(|name| format!("{below}{name}")).collect()
    } else {
        options.include.clone()
    };
    if !options.recurse {
        exclude.push("*/*".to_owned());
    }
    Globs::new(&include, &exclude).map_err(|error| {
        Trouble::standing(
            "InvalidPattern",
            error.to_string(),
            "correct spec.source.directory.include or exclude",
        )
    })
}
