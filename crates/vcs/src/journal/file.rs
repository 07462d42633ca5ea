//! The file of the journal: opened, looked through, and moved aside when it is not usable.

use std::{
    fs::File,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use redb::{Database, DatabaseError, ReadableDatabase as _, StorageError, TableDefinition, TableError};

use super::JournalError;

/// Name of the file in the work dir.
const NAME: &str = "journal";

/// The form of what is inside. A higher number means a form that this version cannot read.
const FORMAT: u64 = 1;

/// Facts about the file itself.
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// The journal is read a few entries at a time; the store's own default would be a gibibyte.
const CACHE: usize = 4 * 1024 * 1024;

/// Up to this size every page is checked at open; more would delay a start.
const CHECKED: u64 = 64 * 1024 * 1024;

/// A journal that was moved aside, so that a new one could begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedAside {
    /// Where it is now.
    pub to: PathBuf,
    /// Why it was moved.
    pub reason: MovedAsideReason,
}

/// Why a journal was moved aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MovedAsideReason {
    /// It cannot be read.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// A newer version wrote it.
    #[error("it has format {found}, and this version reads up to {FORMAT}")]
    Newer {
        /// The format that it has.
        found: u64,
    },
}

impl std::fmt::Display for MovedAside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the journal was moved to {} and a new one begun: {}", self.to.display(), self.reason)
    }
}

/// Why a file could not be used.
enum Unusable {
    /// Something to report.
    Error(JournalError),
    /// Something about its content.
    Aside(MovedAsideReason),
}

/// Opens the journal of a work dir.
pub(super) fn open(work_dir: &Path) -> Result<(Database, Option<MovedAside>), JournalError> {
    std::fs::create_dir_all(work_dir)
        .map_err(|source| JournalError::Prepare { path: work_dir.to_owned(), source })?;
    let path = work_dir.join(NAME);
    match open_file(&path) {
        Ok(database) => Ok((database, None)),
        Err(Unusable::Error(error)) => Err(error),
        Err(Unusable::Aside(reason)) => {
            let to = move_aside(work_dir, &path)?;
            let moved = MovedAside { to, reason };
            tracing::warn!("{moved}");
            match open_file(&path) {
                Ok(database) => Ok((database, Some(moved))),
                Err(Unusable::Error(error)) => Err(error),
                Err(Unusable::Aside(reason)) => {
                    let source = Box::new(redb::Error::Corrupted(reason.to_string()));
                    Err(JournalError::Open { path, source })
                }
            }
        }
    }
}

/// The store reports damage as an error where it expects it, and panics where it does not: both mean the same here.
fn open_file(path: &Path) -> Result<Database, Unusable> {
    match catch_unwind(AssertUnwindSafe(|| try_open(path))) {
        Ok(result) => result,
        Err(_) => Err(damaged("its content breaks the store's assumptions")),
    }
}

fn try_open(path: &Path) -> Result<Database, Unusable> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    let mut database = builder.create(path).map_err(|error| from_open(path, error))?;
    let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size <= CHECKED {
        database.check_integrity().map_err(|error| from_open(path, error))?;
    }
    match format(&database).map_err(|error| from_store(path, error))? {
        Some(found) if found > FORMAT => Err(Unusable::Aside(MovedAsideReason::Newer { found })),
        Some(_) => Ok(database),
        None => {
            set_format(&database).map_err(|error| from_store(path, error))?;
            Ok(database)
        }
    }
}

fn format(database: &Database) -> Result<Option<u64>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(META) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        table => table?,
    };
    Ok(table.get("format")?.map(|value| value.value()))
}

fn set_format(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert("format", FORMAT)?;
    transaction.commit()?;
    Ok(())
}

fn from_open(path: &Path, error: DatabaseError) -> Unusable {
    match error {
        DatabaseError::DatabaseAlreadyOpen => Unusable::Error(JournalError::InUse { path: path.to_owned() }),
        DatabaseError::UpgradeRequired(_) | DatabaseError::RepairAborted => damaged(error),
        error => from_store(path, error.into()),
    }
}

fn from_store(path: &Path, error: redb::Error) -> Unusable {
    let content = |source: &io::Error| {
        matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
    };
    match error {
        redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableIsMultimap(_) => damaged(error),
        redb::Error::Io(source) if content(&source) => damaged(StorageError::Io(source)),
        error => Unusable::Error(JournalError::Open { path: path.to_owned(), source: Box::new(error) }),
    }
}

fn damaged(why: impl std::fmt::Display) -> Unusable {
    Unusable::Aside(MovedAsideReason::Damaged(why.to_string()))
}

fn move_aside(work_dir: &Path, path: &Path) -> Result<PathBuf, JournalError> {
    let failed = |source| JournalError::Prepare { path: path.to_owned(), source };
    let stamp = Timestamp::now().as_second();
    let free =
        (0..10_000).map(|n| work_dir.join(format!("{NAME}.{stamp}-{n}.aside"))).find(|to| !to.exists());
    let to = free.ok_or_else(|| failed(io::Error::other("no free name")))?;
    std::fs::rename(path, &to).map_err(failed)?;
    File::open(work_dir).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(to)
}
