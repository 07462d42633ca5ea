//! The journal of movements: every move of every tracked ref, kept through restarts.
//!
//! ```text
//!  fetch, push ──► record(remote, moves, when, who) ──► work dir/journal ──► history (newest first)
//!                                                                        └─► before (what to go back to)
//! ```
//!
//! # Guarantees
//! - All moves of one [`Journal::record`] are kept or none, and they are on disk when it returns.
//! - A move to where the ref was last seen is not kept: whoever crashed before knowing repeats the call.
//! - A move that cannot be read any more stops neither the next one of its ref nor those of others.
//! - A ref keeps a bounded number of moves; its last one always stays.
//! - A file that is damaged, or was written by a newer version, is moved aside and said; it never stops the work.
//!
//! Calls block on the disk: make them from a thread that may. Clones share the file.

mod file;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use redb::{Database, ReadableDatabase as _, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

pub use file::{MovedAside, MovedAsideReason};

use crate::{id::CommitId, mirror::Movement};

/// Remote, ref and a number that grows with each move of that ref.
type Key = (&'static str, &'static str, u64);

/// The moves, as JSON.
const MOVES: TableDefinition<'static, Key, &'static [u8]> = TableDefinition::new("moves");

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The folder is not there and cannot be made, or the file cannot be moved.
    #[error("cannot prepare the journal at {}; may this user write there?", path.display())]
    Prepare {
        /// Which file or folder.
        path: std::path::PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Another process has it open.
    #[error("the journal at {} is in use by another process; give each its own work dir", path.display())]
    InUse {
        /// The file.
        path: std::path::PathBuf,
    },
    /// It cannot be opened, and not because of what is in it.
    #[error("cannot open the journal at {}", path.display())]
    Open {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
    /// Moves cannot be recorded.
    #[error("cannot record a move; is the disk full?")]
    Record {
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
    /// Moves cannot be read.
    #[error("cannot read the journal")]
    Read {
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
    /// A move is not in the form in which it was recorded.
    #[error("a move of {name} in the journal is malformed")]
    Malformed {
        /// The ref.
        name: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

impl JournalError {
    /// A word for metrics and conditions.
    pub fn category(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "InUse",
            Self::Malformed { .. } => "Corrupt",
            Self::Prepare { .. } | Self::Open { .. } | Self::Record { .. } | Self::Read { .. } => "Storage",
        }
    }
}

/// Who moved a ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pusher {
    /// The name, as the source gives it.
    pub name: String,
    /// How it is known: `hook`, `push`, …
    pub via: String,
}

/// A move that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Where the ref was; `None` when it was new.
    pub from: Option<CommitId>,
    /// Where it went; `None` when it was removed.
    pub to: Option<CommitId>,
    /// Whether commits were left behind.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// When it was seen.
    pub when: Timestamp,
    /// Who moved it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Pusher>,
}

/// Where a ref was before it came to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// At this commit.
    At(CommitId),
    /// It did not exist.
    Absent,
    /// The journal does not know: it never saw the ref come there, or no longer does.
    Unknown,
}

/// How much is kept of each ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Number of moves; at least one stays.
    pub moves: usize,
    /// Age, counted from the move that is being recorded.
    pub age: SignedDuration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { moves: 1_000, age: SignedDuration::from_hours(366 * 24) }
    }
}

/// The journal of a work dir.
#[derive(Clone)]
pub struct Journal {
    database: Arc<Database>,
    retention: Retention,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("retention", &self.retention).finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens the journal of a work dir, or begins one. Says so when a file had to be moved aside.
    pub fn open(work_dir: &Path) -> Result<(Self, Option<MovedAside>), JournalError> {
        Self::open_with(work_dir, Retention::default())
    }

    /// Like [`Journal::open`], with another retention.
    pub fn open_with(
        work_dir: &Path,
        retention: Retention,
    ) -> Result<(Self, Option<MovedAside>), JournalError> {
        let (database, moved) = file::open(work_dir)?;
        Ok((Self { database: Arc::new(database), retention }, moved))
    }

    /// Records moves of a remote's refs; returns how many of them were new.
    ///
    /// The remote is named by its digest or its URL; a user name and password in a URL are left out. A movement to
    /// where the ref already was is no move. A ref that is new to a mirror and not to the journal comes from where the
    /// journal saw it last; that counts as forced, for nobody saw what lies between.
    pub fn record(
        &self,
        remote: &str,
        movements: &[Movement],
        when: Timestamp,
        who: Option<&Pusher>,
    ) -> Result<usize, JournalError> {
        let movements: Vec<_> = movements.iter().filter(|movement| movement.from != movement.to).collect();
        if movements.is_empty() {
            return Ok(0);
        }
        self.record_all(&without_credentials(remote), &movements, when, who)
    }

    fn record_all(
        &self,
        remote: &str,
        movements: &[&Movement],
        when: Timestamp,
        who: Option<&Pusher>,
    ) -> Result<usize, JournalError> {
        let transaction = self.database.begin_write().map_err(record_error)?;
        let mut kept = 0;
        {
            let mut table = transaction.open_table(MOVES).map_err(record_error)?;
            for Movement { name, from, to, forced } in movements.iter().copied() {
                let last = last_of(&table, remote, name)?;
                let number = last.as_ref().map_or(0, |(number, _)| number + 1);
                let last = last.and_then(|(_, last)| last);
                if last.as_ref().is_some_and(|last| last.to == *to) {
                    continue;
                }
                let seen = last.and_then(|last| last.to).filter(|_| from.is_none());
                let forced = *forced || (seen.is_some() && to.is_some());
                let entry = Move { from: from.or(seen), to: *to, forced, when, who: who.cloned() };
                let value = serde_json::to_vec(&entry)
                    .map_err(|source| JournalError::Malformed { name: name.clone(), source })?;
                table.insert((remote, name.as_str(), number), value.as_slice()).map_err(record_error)?;
                self.forget(&mut table, remote, name, number, when)?;
                kept += 1;
            }
        }
        if kept == 0 {
            transaction.abort().map_err(record_error)?;
        } else {
            transaction.commit().map_err(record_error)?;
        }
        Ok(kept)
    }

    /// Drops what the retention no longer covers, from the oldest on.
    fn forget(
        &self,
        table: &mut redb::Table<'_, Key, &'static [u8]>,
        remote: &str,
        name: &str,
        newest: u64,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let most = u64::try_from(self.retention.moves.max(1)).unwrap_or(u64::MAX);
        let oldest_kept = (newest + 1).saturating_sub(most);
        let mut gone = Vec::new();
        for entry in table.range((remote, name, 0)..(remote, name, newest)).map_err(record_error)? {
            let (key, value) = entry.map_err(record_error)?;
            let number = key.value().2;
            // What cannot be read is as good as gone.
            let is_young = parse(name, value.value())
                .is_ok_and(|entry| now.duration_since(entry.when) <= self.retention.age);
            if number >= oldest_kept && is_young {
                break;
            }
            gone.push(number);
        }
        for number in gone {
            table.remove((remote, name, number)).map_err(record_error)?;
        }
        Ok(())
    }

    /// The moves of a ref, newest first, at most so many.
    pub fn history(&self, remote: &str, name: &str, limit: usize) -> Result<Vec<Move>, JournalError> {
        self.moves(remote, name, |moves| moves.take(limit).collect())
    }

    /// The last move of a ref.
    pub fn last(&self, remote: &str, name: &str) -> Result<Option<Move>, JournalError> {
        self.moves(remote, name, |moves| moves.next().transpose())
    }

    /// Where a ref was before it came to a commit for the last time: what an undo goes back to.
    pub fn before(&self, remote: &str, name: &str, commit: CommitId) -> Result<Before, JournalError> {
        self.moves(remote, name, |moves| {
            for entry in moves {
                let entry = entry?;
                if entry.to == Some(commit) {
                    return Ok(entry.from.map_or(Before::Absent, Before::At));
                }
            }
            Ok(Before::Unknown)
        })
    }

    /// Where the refs of a remote were last seen; those that were removed are left out.
    pub fn positions(&self, remote: &str) -> Result<BTreeMap<String, CommitId>, JournalError> {
        let remote = without_credentials(remote);
        let transaction = self.database.begin_read().map_err(read_error)?;
        let table = match transaction.open_table(MOVES) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(BTreeMap::new()),
            table => table.map_err(read_error)?,
        };
        let mut positions = BTreeMap::new();
        let mut start = String::new();
        loop {
            let next = table.range((remote.as_str(), start.as_str(), 0)..).map_err(read_error)?.next();
            let Some(entry) = next else { return Ok(positions) };
            let (key, _) = entry.map_err(read_error)?;
            let (found, name, _) = key.value();
            if found != remote {
                return Ok(positions);
            }
            let last = last_of(&table, &remote, name)?.and_then(|(_, last)| last);
            positions.extend(last.and_then(|last| last.to).map(|to| (name.to_owned(), to)));
            // The first name after this one.
            start = format!("{name}\0");
        }
    }

    /// Forgets refs that were removed and have not come back for longer than the retention's age.
    ///
    /// Every short-lived branch leaves its moves behind; this is what bounds them. Returns how many refs went.
    pub fn sweep(&self, now: Timestamp) -> Result<usize, JournalError> {
        let transaction = self.database.begin_write().map_err(record_error)?;
        let mut gone: Vec<(String, String)> = Vec::new();
        {
            let mut table = transaction.open_table(MOVES).map_err(record_error)?;
            for (remote, name) in refs(&table)? {
                let last = last_of(&table, &remote, &name)?;
                let old = |last: &Move| now.duration_since(last.when) > self.retention.age;
                if last.and_then(|(_, last)| last).is_some_and(|last| last.to.is_none() && old(&last)) {
                    gone.push((remote, name));
                }
            }
            for (remote, name) in &gone {
                let all = (remote.as_str(), name.as_str(), 0)..=(remote.as_str(), name.as_str(), u64::MAX);
                table.retain_in(all, |_, _| false).map_err(record_error)?;
            }
        }
        transaction.commit().map_err(record_error)?;
        Ok(gone.len())
    }

    fn moves<T>(
        &self,
        remote: &str,
        name: &str,
        read: impl FnOnce(&mut dyn Iterator<Item = Result<Move, JournalError>>) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let remote = without_credentials(remote);
        let transaction = self.database.begin_read().map_err(read_error)?;
        let table = match transaction.open_table(MOVES) {
            Err(redb::TableError::TableDoesNotExist(_)) => return read(&mut std::iter::empty()),
            table => table.map_err(read_error)?,
        };
        let all = (remote.as_str(), name, 0)..=(remote.as_str(), name, u64::MAX);
        let mut moves = table.range(all).map_err(read_error)?.rev().map(|entry| {
            let (_, value) = entry.map_err(read_error)?;
            parse(name, value.value())
        });
        read(&mut moves)
    }
}

/// The last move of a ref and its number. A move that cannot be read is none, but its number counts.
fn last_of(
    table: &impl ReadableTable<Key, &'static [u8]>,
    remote: &str,
    name: &str,
) -> Result<Option<(u64, Option<Move>)>, JournalError> {
    let all = (remote, name, 0)..=(remote, name, u64::MAX);
    let Some(entry) = table.range(all).map_err(read_error)?.next_back() else { return Ok(None) };
    let (key, value) = entry.map_err(read_error)?;
    let last = parse(name, value.value());
    if let Err(error) = &last {
        tracing::warn!(name, %error, "the last move of a ref cannot be read and is passed over");
    }
    Ok(Some((key.value().2, last.ok())))
}

/// Every ref that has moves.
fn refs(table: &impl ReadableTable<Key, &'static [u8]>) -> Result<Vec<(String, String)>, JournalError> {
    let mut refs: Vec<(String, String)> = Vec::new();
    for entry in table.iter().map_err(read_error)? {
        let (key, _) = entry.map_err(read_error)?;
        let (remote, name, _) = key.value();
        if refs.last().is_none_or(|last| last.0 != remote || last.1 != name) {
            refs.push((remote.to_owned(), name.to_owned()));
        }
    }
    Ok(refs)
}

fn parse(name: &str, value: &[u8]) -> Result<Move, JournalError> {
    serde_json::from_slice(value).map_err(|source| JournalError::Malformed { name: name.to_owned(), source })
}

/// A URL without what stands before an `@` in its authority.
fn without_credentials(remote: &str) -> String {
    let Some((scheme, rest)) = remote.split_once("://") else { return remote.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

fn record_error(source: impl Into<redb::Error>) -> JournalError {
    JournalError::Record { source: Box::new(source.into()) }
}

fn read_error(source: impl Into<redb::Error>) -> JournalError {
    JournalError::Read { source: Box::new(source.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_url_are_left_out() {
        assert_eq!(without_credentials("https://u:p@host/a@b.git"), "https://host/a@b.git");
        assert_eq!(without_credentials("https://tok@en@host"), "https://host");
        assert_eq!(without_credentials("ssh://git@host:22/a"), "ssh://host:22/a");
        assert_eq!(without_credentials("0a1b2c"), "0a1b2c");
    }

    #[test]
    fn a_move_that_cannot_be_read_does_not_stop_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path()).unwrap();
        let id = |digit: &str| Some(digit.repeat(40).parse().unwrap());
        let movement = |name: &str, to| Movement { name: name.into(), from: None, to, forced: false };
        journal.record("r", &[movement("a", id("1"))], Timestamp::UNIX_EPOCH, None).unwrap();
        let transaction = journal.database.begin_write().unwrap();
        transaction.open_table(MOVES).unwrap().insert(("r", "a", 1), b"{}".as_slice()).unwrap();
        transaction.commit().unwrap();
        let both = [movement("a", id("2")), movement("b", id("3"))];
        assert_eq!(journal.record("r", &both, Timestamp::UNIX_EPOCH, None).unwrap(), 2);
        assert_eq!(journal.last("r", "a").unwrap().unwrap().to, id("2"));
        let positions: Vec<_> = journal.positions("r").unwrap().into_iter().collect();
        assert_eq!(positions, [("a".to_owned(), id("2").unwrap()), ("b".to_owned(), id("3").unwrap())]);
        assert_eq!(journal.sweep(Timestamp::now()).unwrap(), 0);
    }
}
