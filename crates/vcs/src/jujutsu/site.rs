//! One store on disk, opened when it is needed, and the import into it.
//!
//! jj-lib panics on some bytes that anybody may push, and after a panic it cannot be used until it is opened again. One
//! bad branch must not keep all others from being known: when an import fails, the refs that make it fail are found and
//! left out until they move.

use std::{
    any::Any,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
};

use gix::ObjectId;
use jj_lib::repo::ReadonlyRepo;

use super::{
    error::EngineError,
    import::{self, FailedRef, Imported},
    store,
};
use crate::{repo::Repo, revision};

/// How many bad refs are told apart. With more, all that are not yet known to be good are left out.
const MOST_BAD: usize = 64;

/// A store, and what is known of the refs that it cannot take.
pub(super) struct Site {
    folder: PathBuf,
    repo: Option<Arc<ReadonlyRepo>>,
    /// Refs that are left out: where they stand, and why.
    left_out: BTreeMap<String, (ObjectId, String)>,
}

impl Site {
    /// The store in a folder.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, repo: None, left_out: BTreeMap::new() }
    }

    /// The same store in another folder, after it was moved there.
    pub(super) fn moved(self, folder: PathBuf) -> Self {
        Self { folder, repo: None, left_out: self.left_out }
    }

    /// Runs something of jj-lib's. After a failure the store is opened again before it is used the next time.
    pub(super) fn guard<T>(
        &mut self,
        doing: &'static str,
        run: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let answer = catch_unwind(AssertUnwindSafe(|| run(self)))
            .unwrap_or_else(|panic| Err(EngineError::Panicked { doing, message: message(&*panic) }));
        if answer.is_err() {
            self.repo = None;
        }
        answer
    }

    /// The store as of the last operation.
    pub(super) fn repo(&mut self) -> Result<Arc<ReadonlyRepo>, EngineError> {
        if let Some(repo) = &self.repo {
            return Ok(repo.clone());
        }
        let repo = store::load(&store::settings()?, &self.folder)?;
        self.repo = Some(repo.clone());
        Ok(repo)
    }

    /// Goes on with a later state of the store.
    pub(super) fn set_repo(&mut self, repo: Arc<ReadonlyRepo>) {
        self.repo = Some(repo);
    }

    /// Imports. When that fails, opens the store again; when that fails, leaves out the refs that are to blame.
    pub(super) fn import(&mut self, mirror: &Repo, description: &str) -> Result<Imported, EngineError> {
        if !self.left_out.is_empty() {
            let refs: BTreeMap<String, ObjectId> = revision::refs(&mirror.local())?.into_iter().collect();
            self.left_out.retain(|name, (at, _)| refs.get(name) == Some(at));
        }
        let error = match self.try_import(description) {
            Ok(imported) => return Ok(imported),
            Err(error) => error,
        };
        tracing::debug!(error = error.line(), "import failed; the store is opened again");
        let error = match self.try_import(description) {
            Ok(imported) => return Ok(imported),
            Err(error) => error,
        };
        let refs = revision::refs(&mirror.local())?;
        let names: Vec<&str> = refs
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !self.left_out.contains_key(*name))
            .collect();
        let mut bad = BTreeMap::new();
        self.find_bad(&names, &mut bad);
        if bad.is_empty() || bad.len() >= names.len() {
            return Err(error);
        }
        for (name, at) in refs {
            if let Some(reason) = bad.remove(&name) {
                tracing::warn!(name, reason, "a ref cannot be taken into the Jujutsu store and is left out");
                self.left_out.insert(name, (at, reason));
            }
        }
        self.try_import(description)
    }

    fn try_import(&mut self, description: &str) -> Result<Imported, EngineError> {
        self.guard("import refs", |site| {
            let repo = site.repo()?;
            let (repo, mut imported) =
                import::import(&repo, description, |name| !site.left_out.contains_key(name))?;
            site.repo = Some(repo);
            let left_out = site.left_out.iter();
            imported.failed.extend(
                left_out.map(|(name, (_, reason))| FailedRef { name: name.clone(), reason: reason.clone() }),
            );
            Ok(imported)
        })
    }

    /// Finds the refs that cannot be imported, by halves.
    fn find_bad(&mut self, names: &[&str], bad: &mut BTreeMap<String, String>) {
        let tried =
            self.guard("try refs", |site| import::dry_run(&site.repo()?, |name| names.contains(&name)));
        let Err(error) = tried else { return };
        if names.len() == 1 || bad.len() >= MOST_BAD {
            let reason = error.line();
            bad.extend(names.iter().map(|name| ((*name).to_owned(), reason.clone())));
            return;
        }
        let (first, second) = names.split_at(names.len() / 2);
        self.find_bad(first, bad);
        self.find_bad(second, bad);
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}
