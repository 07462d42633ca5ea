//! Objects in files and folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;
use windlass_manifest::parse::{self, Limits};

use crate::{cli, error::CommandError, input};

/// Deepest folder that is looked into.
const MAX_DEPTH: usize = 32;

/// The objects of files, of folders with all that is below them, and of standard input (`-`).
///
/// A file that the user named has to hold objects. In a folder only what can be read counts: templates of charts lie
/// beside manifests, and are told on standard error.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Value>, CommandError> {
    let (folders, files): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().partition(|path| path.is_dir());
    let files: Vec<PathBuf> = files.into_iter().cloned().collect();
    let mut objects = Vec::new();
    for file in input::read_all(&files)? {
        objects.extend(file.objects.into_iter().map(|object| object.value));
    }
    for folder in folders {
        let mut found = Vec::new();
        walk(folder, 0, &mut found).map_err(|error| {
            CommandError::failure(format!("cannot read the folder {}", folder.display())).because(error)
        })?;
        for file in found {
            match of_file(&file) {
                Ok(more) => objects.extend(more),
                Err(why) => cli::note(&format!("passed over {}: {why}", file.display())),
            }
        }
    }
    Ok(objects)
}

/// Manifests below a folder, in order. Links and hidden folders are not followed.
fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("{} is too deep", folder.display())));
    }
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type()?);
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let manifest =
            path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml" || ending == "json");
        if kind.is_dir() && !hidden {
            walk(&path, depth + 1, found)?;
        } else if kind.is_file() && manifest {
            found.push(path);
        }
    }
    Ok(())
}

fn of_file(path: &Path) -> Result<Vec<Value>, String> {
    let limits = Limits::default();
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if usize::try_from(size).is_ok_and(|size| size > limits.bytes) {
        return Err(format!("it is larger than {} bytes", limits.bytes));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let objects =
        parse::parse_bytes(&bytes, &limits).and_then(parse::objects).map_err(|error| error.to_string())?;
    Ok(objects.into_iter().map(|object| object.value).collect())
}
