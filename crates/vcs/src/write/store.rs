//! Puts objects on disk so that they outlive a crash of the process or of the machine.
//!
//! Everything is written under a temporary name that `git gc` knows how to sweep, synced, and renamed; then the folder
//! is synced. Whoever names a commit afterwards can rely on all of it.
//!
//! However few objects there are, they become one pack: two files to sync. Even the six objects of a one-file commit
//! took four times as long as loose files, each synced. The mirror puts packs together when they pile up.

use std::{
    fs::{File, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::{
    batch::Object,
    pack::{self, PackError},
};

/// Objects that could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// They cannot be encoded.
    #[error("cannot encode the new objects")]
    Encode(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The disk refused.
    #[error("cannot write to {}; is the disk full or read-only?", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// How often a temporary file may be swept away under our hands.
const TRIES: usize = 3;

/// Stores the objects under the repository's folder of objects.
///
/// Whoever sweeps after a fetch that failed cannot tell our temporary files from those of a dead `git`: then it is done
/// once more.
pub(super) fn store(folder: &Path, objects: &[Object], hash: gix::hash::Kind) -> Result<(), StoreError> {
    let swept = |result: &Result<(), StoreError>| match result {
        Err(StoreError::Io { source, .. }) => source.kind() == io::ErrorKind::NotFound,
        _ => false,
    };
    let mut result = store_once(folder, objects, hash);
    for _ in 1..TRIES {
        if !swept(&result) {
            break;
        }
        result = store_once(folder, objects, hash);
    }
    result
}

fn store_once(folder: &Path, objects: &[Object], hash: gix::hash::Kind) -> Result<(), StoreError> {
    let pack = pack::encode(objects, hash)?;
    let folder = folder.join("pack");
    std::fs::create_dir_all(&folder).map_err(at(&folder))?;
    let data = stage(&folder, "tmp_pack_", &pack.data)?;
    let index = stage(&folder, "tmp_idx_", &pack.index)?;
    sync(&data)?;
    sync(&index)?;
    // Readers look for the index, so the pack comes first.
    finish(data, &folder.join(format!("pack-{}.pack", pack.name.to_hex())))?;
    finish(index, &folder.join(format!("pack-{}.idx", pack.name.to_hex())))?;
    sync_folder(&folder)
}

fn stage(folder: &Path, prefix: &str, data: &[u8]) -> Result<tempfile::NamedTempFile, StoreError> {
    let mut file = tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o444))
        .tempfile_in(folder)
        .map_err(at(folder))?;
    file.write_all(data).map_err(at(file.path()))?;
    Ok(file)
}

fn sync(file: &tempfile::NamedTempFile) -> Result<(), StoreError> {
    file.as_file().sync_all().map_err(at(file.path()))
}

fn finish(file: tempfile::NamedTempFile, path: &Path) -> Result<(), StoreError> {
    file.persist(path).map_err(|error| at(path)(error.error))?;
    Ok(())
}

fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}

impl From<PackError> for StoreError {
    fn from(error: PackError) -> Self {
        Self::Encode(error.into())
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    |source| StoreError::Io { path, source }
}
