//! The store on disk: created whole, reopened, put in place of a broken one.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::executor::block_on;
use jj_lib::{
    config::{ConfigLayer, ConfigSource, StackedConfig},
    default_backend_factories::default_backend_factories,
    git_backend::GitBackend,
    repo::{ReadonlyRepo, Repo as _, RepoLoader},
    settings::UserSettings,
    signing::Signer,
};
use serde::Serialize;

use super::{
    error::{Cause, EngineError},
    tidy::KEEP,
};

/// The bare repository, as the store's folder (`<mirror>/jj/store`) sees it. It is relative, so that a work dir can move.
const GIT_FROM_STORE: &str = "../../git";

/// How many heads of a store are read to see whether it can be read.
const HEADS_CHECKED: usize = 16;

/// What [`Engine::open`](super::Engine::open) found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Opened {
    /// There was no store; there is one now.
    Created,
    /// The store was there.
    Reopened,
    /// The store could not be read and was built again from the mirror. The log of operations begins anew; changes that
    /// were abandoned before are no longer known.
    Rebuilt {
        /// Why the old one could not be read.
        reason: String,
    },
}

pub(super) fn git_folder(mirror: &Path) -> PathBuf {
    mirror.join("git")
}

pub(super) fn folder(mirror: &Path) -> PathBuf {
    mirror.join("jj")
}

pub(super) fn draft_folder(mirror: &Path) -> PathBuf {
    mirror.join("jj.new")
}

fn broken_folder(mirror: &Path) -> PathBuf {
    mirror.join("jj.broken")
}

pub(super) fn exists(mirror: &Path) -> bool {
    folder(mirror).exists()
}

/// Settings of our own: those of the machine and of its users are not read. Nothing here ever writes a commit, the name
/// is for the operation log.
pub(super) fn settings() -> Result<UserSettings, EngineError> {
    let fail = EngineError::Settings;
    let text = r#"
        user.name = "Windlass"
        user.email = "windlass@localhost"
        operation.username = "windlass"
        operation.hostname = "windlass"
        git.abandon-unreachable-commits = true
    "#;
    let mut config = StackedConfig::with_defaults();
    config.add_layer(ConfigLayer::parse(ConfigSource::User, text).map_err(|error| fail(error.into()))?);
    UserSettings::from_config(config).map_err(|error| fail(error.into()))
}

/// Loads the store in a folder at its last operation.
pub(super) fn load(settings: &UserSettings, folder: &Path) -> Result<Arc<ReadonlyRepo>, EngineError> {
    let fail = |source: Cause| EngineError::Load { path: folder.to_owned(), source };
    let loader = RepoLoader::init_from_file_system(settings, folder, &default_backend_factories())
        .map_err(|error| fail(error.into()))?;
    block_on(loader.load_at_head()).map_err(|error| fail(error.into()))
}

/// Reads a few commits through the store, which shows whether its tables are whole.
pub(super) fn check(repo: &Arc<ReadonlyRepo>) -> Result<(), EngineError> {
    for head in repo.view().heads().iter().take(HEADS_CHECKED) {
        block_on(repo.store().get_commit_async(head)).map_err(|error| EngineError::Import(error.into()))?;
    }
    Ok(())
}

/// Creates an empty store in a folder of its own. Nobody sees it until it is [put in place](put_in_place).
pub(super) fn create(settings: &UserSettings, mirror: &Path) -> Result<Arc<ReadonlyRepo>, EngineError> {
    let draft = draft_folder(mirror);
    remove(&draft)?;
    fs::create_dir_all(&draft).map_err(|source| disk("create", &draft, source))?;
    let fail = |source: Cause| EngineError::Create { path: draft.clone(), source };
    let signer = Signer::from_settings(settings).map_err(|error| fail(error.into()))?;
    let repo = block_on(ReadonlyRepo::init(
        settings,
        &draft,
        &|settings, store| {
            Ok(Box::new(GitBackend::init_external(settings, store, Path::new(GIT_FROM_STORE))?))
        },
        signer,
        ReadonlyRepo::default_op_store_initializer(),
        ReadonlyRepo::default_op_heads_store_initializer(),
        ReadonlyRepo::default_index_store_initializer(),
        ReadonlyRepo::default_submodule_store_initializer(),
    ))
    .map_err(|error| fail(error.into()))?;
    Ok(repo)
}

/// Moves a finished store to its place, and the one that was there out of the way. Gives the place.
pub(super) fn put_in_place(mirror: &Path) -> Result<PathBuf, EngineError> {
    let draft = draft_folder(mirror);
    let place = folder(mirror);
    let broken = broken_folder(mirror);
    if place.exists() {
        remove(&broken)?;
        fs::rename(&place, &broken).map_err(|source| disk("move aside", &place, source))?;
    }
    fs::rename(&draft, &place).map_err(|source| disk("put in place", &draft, source))?;
    remove(&broken)?;
    Ok(place)
}

/// Removes what an ended process left behind. When it ended between taking a broken store away and putting the new one
/// in place, says so.
pub(super) fn sweep(mirror: &Path) -> Result<Option<String>, EngineError> {
    let broken = broken_folder(mirror);
    let half_way = broken.exists() && !exists(mirror);
    remove(&draft_folder(mirror))?;
    remove(&broken)?;
    sweep_locks(&git_folder(mirror).join(KEEP))?;
    Ok(half_way.then(|| "the store was being built again when the process ended".to_owned()))
}

/// Removes the locks of jj-lib's refs. Nobody else writes these refs, and a lock that was left behind would make every
/// import of its commit fail.
fn sweep_locks(refs: &Path) -> Result<(), EngineError> {
    let entries = match fs::read_dir(refs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(disk("list", refs, error)),
    };
    for entry in entries {
        let path = entry.map_err(|error| disk("list", refs, error))?.path();
        if path.extension().is_some_and(|extension| extension == "lock") {
            remove(&path)?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), EngineError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_dir() => fs::remove_file(path),
        _ => fs::remove_dir_all(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk("remove", path, error)),
        _ => Ok(()),
    }
}

fn disk(doing: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::Disk { doing, path: path.to_owned(), source }
}
