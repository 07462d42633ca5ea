//! The journal of movements, on disk.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use windlass_vcs::{
    id::CommitId,
    journal::{Before, Journal, JournalError, Move, MovedAsideReason, Pusher, Retention},
    mirror::Movement,
};

const REMOTE: &str = "https://host/app.git";
const MAIN: &str = "refs/heads/main";

fn id(n: u8) -> CommitId {
    format!("{n:02x}").repeat(20).parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn movement(name: &str, from: Option<u8>, to: Option<u8>) -> Movement {
    Movement { name: name.into(), from: from.map(id), to: to.map(id), forced: false }
}

fn open(folder: &Path) -> Journal {
    let (journal, moved) = Journal::open(folder).unwrap();
    assert_eq!(moved, None);
    journal
}

#[test]
fn moves_are_told_newest_first_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ada = Pusher { name: "ada".into(), via: "hook".into() };
    let journal = open(folder.path());
    assert_eq!(journal.record(REMOTE, &[movement(MAIN, None, Some(1))], at(10), None).unwrap(), 1);
    let forced = Movement { forced: true, ..movement(MAIN, Some(1), Some(2)) };
    let both = [forced, movement("refs/heads/x", None, Some(2))];
    assert_eq!(journal.record("https://ada:geheim@host/app.git", &both, at(20), Some(&ada)).unwrap(), 2);
    drop(journal);

    let journal = open(folder.path());
    let expected = [
        Move { from: Some(id(1)), to: Some(id(2)), forced: true, when: at(20), who: Some(ada) },
        Move { from: None, to: Some(id(1)), forced: false, when: at(10), who: None },
    ];
    assert_eq!(journal.history(REMOTE, MAIN, 10).unwrap(), expected);
    assert_eq!(journal.history(REMOTE, MAIN, 1).unwrap(), expected[..1]);
    assert_eq!(journal.last(REMOTE, MAIN).unwrap().as_ref(), Some(&expected[0]));
    assert_eq!(journal.before(REMOTE, MAIN, id(2)).unwrap(), Before::At(id(1)));
    assert_eq!(journal.before(REMOTE, MAIN, id(1)).unwrap(), Before::Absent);
    assert_eq!(journal.before(REMOTE, MAIN, id(9)).unwrap(), Before::Unknown);
    assert_eq!(journal.history("https://elsewhere/app.git", MAIN, 10).unwrap(), []);
    drop(journal);
    let bytes = std::fs::read(folder.path().join("journal")).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"geheim"), "no password on disk");
}

#[test]
fn a_move_that_is_repeated_after_a_crash_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let step = [movement(MAIN, Some(1), Some(2))];
    assert_eq!(open(folder.path()).record(REMOTE, &step, at(1), None).unwrap(), 1);
    let journal = open(folder.path());
    assert_eq!(journal.record(REMOTE, &step, at(2), None).unwrap(), 0);
    assert_eq!(journal.record(REMOTE, &[movement(MAIN, Some(2), Some(2))], at(2), None).unwrap(), 0);
    assert_eq!(journal.record(REMOTE, &[movement(MAIN, Some(2), Some(1))], at(3), None).unwrap(), 1);
    assert_eq!(journal.record(REMOTE, &step, at(4), None).unwrap(), 1, "there and back and there again");
    assert_eq!(journal.history(REMOTE, MAIN, 9).unwrap().len(), 3);
}

#[test]
fn a_ref_that_is_new_to_the_mirror_only_comes_from_where_it_was_last_seen() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    let gone = "refs/heads/gone";
    let begin = [movement(MAIN, None, Some(1)), movement(gone, None, Some(1)), movement(gone, Some(1), None)];
    assert_eq!(journal.record(REMOTE, &begin, at(1), None).unwrap(), 3);
    assert_eq!(
        journal.positions(REMOTE).unwrap().into_iter().collect::<Vec<_>>(),
        [(MAIN.to_owned(), id(1))]
    );
    assert_eq!(journal.positions("https://host/app").unwrap().len(), 0, "another remote");
    // The mirror was lost: everything is new to it.
    assert_eq!(journal.record(REMOTE, &[movement(MAIN, None, Some(1))], at(2), None).unwrap(), 0);
    let again = [movement(MAIN, None, Some(2)), movement(gone, None, Some(2))];
    assert_eq!(journal.record(REMOTE, &again, at(3), None).unwrap(), 2);
    let last = journal.last(REMOTE, MAIN).unwrap().unwrap();
    assert_eq!((last.from, last.to, last.forced), (Some(id(1)), Some(id(2)), true));
    let last = journal.last(REMOTE, gone).unwrap().unwrap();
    assert_eq!((last.from, last.to, last.forced), (None, Some(id(2)), false), "this one is new indeed");
}

#[test]
fn old_moves_go_but_the_last_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let retention = Retention { moves: 3, age: SignedDuration::from_secs(100) };
    let (journal, _) = Journal::open_with(folder.path(), retention).unwrap();
    for n in 1..=10u8 {
        journal.record(REMOTE, &[movement(MAIN, Some(n - 1), Some(n))], at(i64::from(n)), None).unwrap();
    }
    let kept: Vec<_> = journal.history(REMOTE, MAIN, 99).unwrap().iter().map(|entry| entry.to).collect();
    assert_eq!(kept, [Some(id(10)), Some(id(9)), Some(id(8))]);
    journal.record(REMOTE, &[movement(MAIN, Some(10), Some(11))], at(109), None).unwrap();
    let kept: Vec<_> = journal.history(REMOTE, MAIN, 99).unwrap().iter().map(|entry| entry.to).collect();
    assert_eq!(kept, [Some(id(11)), Some(id(10)), Some(id(9))]);
    journal.record(REMOTE, &[movement(MAIN, Some(11), Some(12))], at(1000), None).unwrap();
    assert_eq!(journal.history(REMOTE, MAIN, 99).unwrap().len(), 1);

    journal.record(REMOTE, &[movement("refs/heads/gone", Some(1), None)], at(1000), None).unwrap();
    assert_eq!(journal.sweep(at(1050)).unwrap(), 0);
    assert_eq!(journal.sweep(at(1101)).unwrap(), 1, "a ref that is gone is forgotten in the end");
    assert_eq!(journal.history(REMOTE, "refs/heads/gone", 9).unwrap(), []);
    assert_eq!(journal.history(REMOTE, MAIN, 9).unwrap().len(), 1, "one that is there is not");
}

#[test]
fn two_processes_do_not_share_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    let second = Journal::open(folder.path());
    assert!(matches!(second, Err(JournalError::InUse { .. })), "{second:?}");
    drop(journal);
    open(folder.path());
}

#[test]
fn a_newer_format_is_moved_aside() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let database = redb::Database::open(folder.path().join("journal")).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    transaction.open_table(meta).unwrap().insert("format", 99).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let (journal, moved) = Journal::open(folder.path()).unwrap();
    let moved = moved.unwrap();
    assert_eq!(moved.reason, MovedAsideReason::Newer { found: 99 });
    assert!(moved.to.exists());
    journal.record(REMOTE, &[movement(MAIN, None, Some(1))], at(1), None).unwrap();
}

/// A journal with some content, as bytes.
fn sample() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(folder.path());
    for n in 1..=50u8 {
        let moves = [movement(MAIN, Some(n - 1), Some(n)), movement("refs/heads/x", Some(n), Some(n - 1))];
        journal.record(REMOTE, &moves, at(i64::from(n)), None).unwrap();
    }
    drop(journal);
    std::fs::read(folder.path().join("journal")).unwrap()
}

/// Opens a journal whose file has this content and uses it. Returns whether it was moved aside.
fn opens_with(content: &[u8]) -> bool {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("journal"), content).unwrap();
    let (journal, moved) = Journal::open(folder.path()).unwrap();
    journal.record(REMOTE, &[movement(MAIN, Some(200), Some(201))], at(1000), None).unwrap();
    let history = journal.history(REMOTE, MAIN, 9999).unwrap();
    assert_eq!(history[0].to, Some(id(201)));
    if let Some(moved) = &moved {
        assert_eq!(std::fs::read(&moved.to).unwrap().len(), content.len());
        assert_eq!(history.len(), 1);
    }
    moved.is_some()
}

#[test]
fn a_damaged_file_is_moved_aside_and_never_a_panic() {
    let sample = sample();
    assert!(!opens_with(&sample));
    assert!(opens_with(b"this is no journal"));
    assert!(opens_with(&vec![0; 8192]));
    assert!(opens_with(&sample[..sample.len() / 2]), "cut in half");
    let mut damaged = 0;
    for round in 0..60usize {
        let mut bytes = sample.clone();
        let start = round * bytes.len() / 60;
        let end = (start + 512).min(bytes.len());
        bytes[start..end].fill(0xa5);
        damaged += usize::from(opens_with(&bytes));
    }
    assert!(damaged > 5, "only {damaged} of 60 damages were noticed");
}

#[derive(Debug, Clone)]
enum Step {
    Record { remote: u8, moves: Vec<(u8, Option<u8>, Option<u8>)>, after: i64 },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let commit = || prop::option::of(0..4u8);
    let record = (0..2u8, prop::collection::vec((0..3u8, commit(), commit()), 1..4), 0..40i64);
    let record = record.prop_map(|(remote, moves, after)| Step::Record { remote, moves, after });
    prop::collection::vec(prop_oneof![6 => record, 1 => Just(Step::Reopen)], 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn the_journal_equals_a_plain_list(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let retention = Retention { moves: 5, age: SignedDuration::from_secs(100) };
        let mut journal = Journal::open_with(folder.path(), retention).unwrap().0;
        let mut model: std::collections::BTreeMap<(u8, u8), Vec<Move>> = std::collections::BTreeMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Reopen => {
                    drop(journal);
                    let (again, moved) = Journal::open_with(folder.path(), retention).unwrap();
                    prop_assert_eq!(moved, None);
                    journal = again;
                }
                Step::Record { remote, moves, after } => {
                    now += after;
                    let list: Vec<_> =
                        moves.iter().map(|(name, from, to)| movement(&format!("refs/{name}"), *from, *to)).collect();
                    let mut new = 0;
                    for (name, from, to) in moves {
                        let all = model.entry((remote, name)).or_default();
                        let seen = all.last().and_then(|last| last.to).filter(|_| from.is_none());
                        let forced = seen.is_some();
                        let from_seen = from.map(id).or(seen);
                        let entry = Move { from: from_seen, to: to.map(id), forced, when: at(now), who: None };
                        let repeated = all.last().is_some_and(|last| last.to == entry.to);
                        if from != to && !repeated {
                            all.push(entry);
                            new += 1;
                            let fresh = all.iter().position(|entry| at(now).duration_since(entry.when) <= retention.age);
                            all.drain(..fresh.unwrap().max(all.len().saturating_sub(5)));
                        }
                    }
                    prop_assert_eq!(journal.record(&format!("r{remote}"), &list, at(now), None).unwrap(), new);
                }
            }
            for ((remote, name), moves) in &model {
                let (remote, name) = (format!("r{remote}"), format!("refs/{name}"));
                let newest_first: Vec<_> = moves.iter().rev().cloned().collect();
                for n in 0..4 {
                    let before = newest_first.iter().find(|entry| entry.to == Some(id(n)));
                    let before = before.map_or(Before::Unknown, |entry| entry.from.map_or(Before::Absent, Before::At));
                    prop_assert_eq!(journal.before(&remote, &name, id(n)).unwrap(), before);
                }
                prop_assert_eq!(journal.history(&remote, &name, 99).unwrap(), newest_first);
            }
        }
    }
}
