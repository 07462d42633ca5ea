//! What the engine's thread owns: opens the store, heals it, and hands it to whoever asks.

use std::{path::PathBuf, sync::Arc};

use jj_lib::repo::ReadonlyRepo;

use super::{
    error::EngineError,
    import::Imported,
    site::Site,
    store::{self, Opened},
    tidy::{self, Tidied},
};
use crate::repo::Repo;

/// The mirror and the store beside it.
pub(super) struct Worker {
    mirror: PathBuf,
    site: Site,
}

impl Worker {
    pub(super) fn new(mirror: PathBuf) -> Self {
        let site = Site::new(store::folder(&mirror));
        Self { mirror, site }
    }

    /// Answers a question. A panic of jj-lib's is an error; the store is opened again for the next question.
    pub(super) fn answer<T>(
        &mut self,
        doing: &'static str,
        question: impl FnOnce(&Arc<ReadonlyRepo>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.site.guard(doing, |site| question(&site.repo()?))
    }

    fn mirror(&self) -> Result<Repo, EngineError> {
        Repo::open(&store::git_folder(&self.mirror)).map_err(EngineError::Mirror)
    }

    pub(super) fn open(&mut self) -> Result<Opened, EngineError> {
        self.mirror()?;
        let leftover = store::sweep(&self.mirror)?;
        if !store::exists(&self.mirror) {
            self.rebuild("first import")?;
            return Ok(match leftover {
                Some(reason) => Opened::Rebuilt { reason },
                None => Opened::Created,
            });
        }
        let imported = match self.answer("check the store", store::check) {
            Ok(()) => self.import("import at start")?,
            Err(error) => self.rebuild_because("import at start", &error)?,
        };
        Ok(match imported.rebuilt {
            Some(reason) => Opened::Rebuilt { reason },
            None => Opened::Reopened,
        })
    }

    /// Imports; when that cannot be done, builds the store again.
    pub(super) fn import(&mut self, description: &str) -> Result<Imported, EngineError> {
        let mirror = self.mirror()?;
        match self.site.import(&mirror, description) {
            Ok(imported) => Ok(imported),
            Err(error) => self.rebuild_because(description, &error),
        }
    }

    pub(super) fn tidy(&mut self, operations: usize) -> Result<Tidied, EngineError> {
        let mirror = self.mirror()?;
        self.site.guard("tidy the store", |site| {
            let (repo, tidied) = tidy::tidy(&site.repo()?, &mirror, operations)?;
            site.set_repo(repo);
            Ok(tidied)
        })
    }

    fn rebuild_because(&mut self, description: &str, error: &EngineError) -> Result<Imported, EngineError> {
        let reason = error.line();
        let mut imported = self.rebuild(description)?;
        tracing::warn!(
            mirror = %self.mirror.display(),
            reason,
            "the Jujutsu store could not be used and was built again; its operation log is lost"
        );
        imported.rebuilt = Some(reason);
        Ok(imported)
    }

    /// Builds a new store beside the old one and puts it in its place. The old one goes only when the new one is whole:
    /// if the mirror is what cannot be read, nothing is lost.
    fn rebuild(&mut self, description: &str) -> Result<Imported, EngineError> {
        let mirror = self.mirror()?;
        let mut draft = Site::new(store::draft_folder(&self.mirror));
        draft.guard("create the store", |draft| {
            draft.set_repo(store::create(&store::settings()?, &self.mirror)?);
            Ok(())
        })?;
        let imported = draft.import(&mirror, description)?;
        let place = store::put_in_place(&self.mirror)?;
        self.site = draft.moved(place);
        Ok(imported)
    }
}
