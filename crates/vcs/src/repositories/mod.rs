//! One place for all repositories of a work dir: what is fetched is recorded, and known to Jujutsu where it is used.
//!
//! ```text
//!  fetch(remote) ──► Mirror::fetch ──every move, in order──► Journal        resolve(remote, revision) ──► a clean commit
//!                        └──where commits carry change ids──► Engine         history, before ──► what an undo goes back to
//! ```
//!
//! # Guarantees
//! - Every move that a fetch makes is recorded before its callers hear of it. What a crash or a full disk kept out of the
//!   journal is recorded by the next fetch, from where the journal saw each ref last to where it is.
//! - A Jujutsu store that cannot be used stops no fetch and no branch, tag or commit: only change ids need it.
//! - A commit that carries conflicts is not resolved to.

mod error;

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use error::RepositoriesError;

use crate::{
    id::CommitId,
    journal::{Before, Journal, Move, MovedAside, Pusher},
    jujutsu::{self, Engine, EngineError},
    mirror::{Fetched, Mirror, MirrorOptions, Mirrors, Movement},
    push::MirrorLink,
    remote::Remote,
    repo,
    revision::{self, ResolveError, Resolved, Revision},
};

/// After so many imports old operations are given up, all but the last so many.
const TIDY_EVERY: usize = 256;
const OPERATIONS: usize = 1000;

/// How many pushes are remembered until a fetch sees them.
const PUSHES: usize = 1024;

/// All repositories of a work dir.
#[derive(Debug)]
pub struct Repositories {
    mirrors: Arc<Mirrors>,
    books: Arc<Books>,
}

/// What is kept beside the mirrors. Their fetches write into it.
#[derive(Debug)]
struct Books {
    journal: Journal,
    sides: Mutex<HashMap<String, Arc<Side>>>,
    /// Who is said to have pushed a commit to a remote, the last one last.
    pushers: Mutex<VecDeque<(String, CommitId, Pusher)>>,
}

/// What is kept beside one mirror.
#[derive(Debug, Default)]
struct Side {
    /// Whether the journal has all moves of the mirror. Whoever records them holds it.
    recorded: Mutex<bool>,
    /// How often a fetch moved something.
    moves: AtomicU64,
    /// Held by whoever opens the engine or imports, to the end: two engines would spoil the store.
    jujutsu: Arc<tokio::sync::Mutex<Jujutsu>>,
}

#[derive(Debug, Default)]
struct Jujutsu {
    engine: Option<Engine>,
    /// How many of the moves it has seen; `None` before it was looked whether there is one.
    seen: Option<u64>,
    imports: usize,
}

impl Repositories {
    /// Opens a work dir, or begins one; says so when its journal had to be moved aside. Only one process can. Blocks.
    ///
    /// The journal hears of movements before an `on_move` of the options does.
    pub fn open(
        work_dir: &Path,
        options: MirrorOptions,
    ) -> Result<(Self, Option<MovedAside>), RepositoriesError> {
        let (journal, moved) = Journal::open(work_dir)?;
        journal.sweep(Timestamp::now())?;
        let books = Arc::new(Books { journal, sides: Mutex::default(), pushers: Mutex::default() });
        let (writer, next) = (books.clone(), options.on_move.clone());
        let on_move = move |remote: &Remote, movements: &[Movement]| {
            writer.moved(&remote.digest(), movements);
            if let Some(next) = &next {
                next(remote, movements);
            }
        };
        let options = MirrorOptions { on_move: Some(Arc::new(on_move)), ..options };
        let mirrors = Arc::new(Mirrors::new(work_dir, options)?);
        Ok((Self { mirrors, books }, moved))
    }

    /// The mirror of a remote, for reading trees.
    pub async fn mirror(&self, remote: &Remote) -> Result<Arc<Mirror>, RepositoriesError> {
        // The first time it sweeps the folder.
        let (mirrors, remote) = (self.mirrors.clone(), remote.clone());
        blocking(move || Ok(mirrors.mirror(&remote)?)).await
    }

    /// The way to a remote for [pushes](crate::push::push): make one for each, it keeps new objects from being tidied away.
    pub async fn link(&self, remote: &Remote) -> Result<MirrorLink, RepositoriesError> {
        let mirror = self.mirror(remote).await?;
        Ok(MirrorLink::new(self.mirrors.git().clone(), mirror).await)
    }

    /// The mirrors.
    pub fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    /// Brings the mirror of a remote up to date, records what moved and tells it to Jujutsu. Callers share the work.
    pub async fn fetch(
        &self,
        remote: &Remote,
        cancel: &CancellationToken,
    ) -> Result<Fetched, RepositoriesError> {
        let mirror = self.mirror(remote).await?;
        let side = self.books.side(mirror.digest());
        if mirror.git_dir().exists() {
            self.catch_up(&mirror, &side).await?;
        }
        let fetched = mirror.fetch(cancel).await?;
        self.catch_up(&mirror, &side).await?;
        if fetched.cloned_anew {
            side.close().await;
        }
        if let Err(error) = engine(&mirror, &side).await {
            tracing::warn!(%remote, error = error.line(), "the Jujutsu store cannot be used: change ids are not found");
        }
        Ok(fetched)
    }

    /// The commit that a revision stands for, by what was last fetched. A commit with conflicts is refused.
    pub async fn resolve(&self, remote: &Remote, revision: &Revision) -> Result<Resolved, RepositoriesError> {
        let mirror = self.mirror(remote).await?;
        let side = self.books.side(mirror.digest());
        // Nobody else waits for an import.
        let (engine, unusable) = match revision.change() {
            None => (None, None),
            Some(_) => match engine(&mirror, &side).await {
                Ok(engine) => (engine, None),
                Err(error) => (None, Some(error)),
            },
        };
        let revision = revision.clone();
        let resolved = blocking(move || {
            let resolved = mirror.read(|repo| revision::resolve(repo, engine.as_ref(), &revision))??;
            mirror.read(|repo| jujutsu::require_clean(repo, resolved.commit))??;
            Ok(resolved)
        })
        .await;
        match (resolved, unusable) {
            (Err(RepositoriesError::Resolve(ResolveError::Unknown { .. })), Some(error)) => {
                Err(ResolveError::Engine(error).into())
            }
            (resolved, _) => resolved,
        }
    }

    /// The moves of a ref (`refs/heads/main`), newest first, at most so many.
    pub async fn history(
        &self,
        remote: &Remote,
        name: &str,
        limit: usize,
    ) -> Result<Vec<Move>, RepositoriesError> {
        let (books, digest, name) = (self.books.clone(), remote.digest(), name.to_owned());
        blocking(move || Ok(books.journal.history(&digest, &name, limit)?)).await
    }

    /// Where a ref was before it came to a commit for the last time: what an undo goes back to.
    pub async fn before(
        &self,
        remote: &Remote,
        name: &str,
        commit: CommitId,
    ) -> Result<Before, RepositoriesError> {
        let (books, digest, name) = (self.books.clone(), remote.digest(), name.to_owned());
        blocking(move || Ok(books.journal.before(&digest, &name, commit)?)).await
    }

    /// Says who pushed a commit, as a hook or a push of our own knows it: the move to it is recorded with that name.
    pub fn pushed_by(&self, remote: &Remote, commit: CommitId, who: Pusher) {
        let mut pushers = guard(&self.books.pushers);
        if pushers.len() >= PUSHES {
            pushers.pop_front();
        }
        pushers.push_back((remote.digest(), commit, who));
    }

    /// Removes what is kept of all other remotes but their journal; what is in use stays until the next time. Returns
    /// how many mirrors went.
    pub async fn retain(&self, remotes: &[Remote]) -> Result<usize, RepositoriesError> {
        let wanted: Vec<String> = remotes.iter().map(Remote::digest).collect();
        let unused =
            |digest: &String, side: &mut Arc<Side>| !wanted.contains(digest) && Arc::strong_count(side) == 1;
        let gone: Vec<_> = guard(&self.books.sides).extract_if(unused).collect();
        for (_, side) in gone {
            side.close().await;
        }
        let (mirrors, books, remotes) = (self.mirrors.clone(), self.books.clone(), remotes.to_vec());
        blocking(move || {
            books.journal.sweep(Timestamp::now())?;
            Ok(mirrors.retain(&remotes)?)
        })
        .await
    }

    /// Records moves that the journal does not have: those of a process that was killed, or of a disk that was full.
    async fn catch_up(&self, mirror: &Arc<Mirror>, side: &Arc<Side>) -> Result<(), RepositoriesError> {
        let (books, mirror, side) = (self.books.clone(), mirror.clone(), side.clone());
        blocking(move || {
            let mut recorded = guard(&side.recorded);
            if !*recorded {
                match books.catch_up(&mirror) {
                    Ok(()) => *recorded = true,
                    Err(error) => {
                        tracing::warn!(mirror = mirror.digest(), %error, "moves are recorded after the next fetch");
                    }
                }
            }
            Ok(())
        })
        .await
    }
}

impl Books {
    fn side(&self, digest: &str) -> Arc<Side> {
        guard(&self.sides).entry(digest.to_owned()).or_default().clone()
    }

    /// Records what a fetch moved. What cannot be recorded now is recorded after the next fetch.
    fn moved(&self, digest: &str, movements: &[Movement]) {
        let side = self.side(digest);
        side.moves.fetch_add(1, Ordering::SeqCst);
        let mut is_recorded = guard(&side.recorded);
        let mut of_nobody = Vec::new();
        let mut recorded = Ok(0);
        for movement in movements {
            match movement.to.and_then(|to| self.pusher(digest, to)) {
                Some(who) => {
                    let one = std::slice::from_ref(movement);
                    recorded = recorded.and(self.journal.record(digest, one, Timestamp::now(), Some(&who)));
                }
                None => of_nobody.push(movement.clone()),
            }
        }
        let recorded = recorded.and(self.journal.record(digest, &of_nobody, Timestamp::now(), None));
        if let Err(error) = recorded {
            *is_recorded = false;
            tracing::warn!(mirror = digest, %error, "moves are recorded after the next fetch");
        }
    }

    fn pusher(&self, digest: &str, commit: CommitId) -> Option<Pusher> {
        let pushers = guard(&self.pushers);
        let found = pushers.iter().rev().find(|(remote, to, _)| remote == digest && *to == commit);
        found.map(|(_, _, who)| who.clone())
    }

    /// Records the way from where the journal saw each ref last to where it is.
    fn catch_up(&self, mirror: &Mirror) -> Result<(), RepositoriesError> {
        // In this order: a fetch that goes on meanwhile makes the refs newer than the journal, never older.
        let seen = self.journal.positions(mirror.digest())?;
        let refs = mirror.refs()?;
        let local = mirror.repo()?.local();
        let gone = seen.keys().filter(|name| !refs.contains_key(*name));
        let moved = |name: &String| {
            let (from, to) = (seen.get(name).copied(), refs.get(name).copied());
            let forced = |(from, to)| !repo::descends(&local, to, from).unwrap_or(false);
            (from != to).then(|| Movement {
                name: name.clone(),
                from,
                to,
                forced: from.zip(to).is_some_and(forced),
            })
        };
        let movements: Vec<_> = refs.keys().chain(gone).filter_map(moved).collect();
        self.journal.record(mirror.digest(), &movements, Timestamp::now(), None)?;
        Ok(())
    }
}

impl Side {
    /// Ends the engine, and waits for its end.
    async fn close(&self) {
        let mut jujutsu = self.jujutsu.clone().lock_owned().await;
        // If it still answers somebody, it ends with that.
        let end = move || {
            jujutsu.seen = None;
            jujutsu.engine.take().map(Engine::close)
        };
        drop(tokio::task::spawn_blocking(end).await);
    }
}

/// The engine of a mirror, with all that was fetched in it; `None` where no commit near the tips carries a change id.
async fn engine(mirror: &Arc<Mirror>, side: &Arc<Side>) -> Result<Option<Engine>, EngineError> {
    let mut jujutsu = side.jujutsu.clone().lock_owned().await;
    let (mirror, side) = (mirror.clone(), side.clone());
    let work = move || {
        // Read before anything is done: what moves meanwhile is seen the next time.
        let moves = Some(side.moves.load(Ordering::SeqCst));
        if jujutsu.seen != moves {
            jujutsu.bring_up_to_date(&mirror)?;
            jujutsu.seen = moves;
        }
        Ok(jujutsu.engine.clone())
    };
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(EngineError::Ended))
}

impl Jujutsu {
    fn bring_up_to_date(&mut self, mirror: &Mirror) -> Result<(), EngineError> {
        let Some(engine) = &self.engine else {
            self.engine = open_engine(mirror)?;
            return Ok(());
        };
        engine.import("fetch").wait()?;
        self.imports += 1;
        if self.imports >= TIDY_EVERY {
            self.imports = 0;
            engine.tidy(OPERATIONS).wait()?;
        }
        Ok(())
    }
}

/// Opens the engine where there is one, or should be.
fn open_engine(mirror: &Mirror) -> Result<Option<Engine>, EngineError> {
    // A mirror that was never fetched has nothing to look at, and a broken one is cloned anew first.
    let Ok(repo) = mirror.repo() else { return Ok(None) };
    let names = revision::names(&repo)?;
    let tips: Vec<CommitId> = names.branches.into_values().chain(names.tags.into_values()).collect();
    if !Engine::exists(mirror.folder()) && !jujutsu::is_jujutsu(&repo, &tips)? {
        return Ok(None);
    }
    Engine::open(mirror.folder()).map(|(engine, _)| Some(engine))
}

/// Runs what blocks on the disk where it disturbs nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepositoriesError> + Send + 'static,
) -> Result<T, RepositoriesError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(RepositoriesError::Interrupted))
}

/// Nothing here can be left half-done by a panic.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
