//! Changes that are taken back, judged by the real `git`.

use crate::support::{Bare, spec, spec_with};
use windlass_vcs::{
    id::CommitId,
    tree::RepoPath,
    write::{Edits, Message, RevertError, revert, with_trailers},
};

struct Range {
    bare: Bare,
    good: CommitId,
    bad: CommitId,
}

/// Two commits that change, add, remove and make executable, within `shop` and beside it.
fn range() -> Range {
    let bare = Bare::new();
    let mut first = Edits::new();
    first.upsert("shop/web.yaml", "web: 1\n").unwrap();
    first.upsert("shop/old.yaml", "old: 1\n").unwrap();
    first.upsert_as("shop/run.sh", "#!/bin/sh\n", true).unwrap();
    first.upsert("bank/app.yaml", "bank: 1\n").unwrap();
    let good = bare.write(None, &[spec(first)]);
    let mut second = Edits::new();
    second.upsert("shop/web.yaml", "web: 2\n").unwrap();
    second.upsert("shop/sub/new.yaml", "new: 2\n").unwrap();
    second.delete("shop/old.yaml").unwrap();
    let mut third = Edits::new();
    third.upsert_as("shop/run.sh", "#!/bin/sh\n", false).unwrap();
    third.upsert("bank/app.yaml", "bank: 2\n").unwrap();
    let bad = bare.write(Some(good), &[spec(second), spec(third)]);
    Range { bare, good, bad }
}

fn folders(names: &[&str]) -> Vec<RepoPath> {
    names.iter().map(|name| RepoPath::parse(name).unwrap()).collect()
}

impl Range {
    fn revert(&self, tip: CommitId, names: &[&str]) -> Result<Edits, RevertError> {
        revert(&self.bare.repo(), self.good, self.bad, tip, &folders(names))
    }

    fn tree(&self, commit: CommitId, folder: &str) -> String {
        self.bare.git(&["rev-parse", &format!("{commit}:{folder}")])
    }
}

#[test]
fn a_folder_is_put_back_to_what_it_was_and_nothing_beside_it() {
    let range = range();
    let edits = range.revert(range.bad, &["shop"]).unwrap();
    let made = range.bare.write(Some(range.bad), &[spec(edits)]);
    assert_eq!(range.tree(made, "shop"), range.tree(range.good, "shop"));
    assert_eq!(range.tree(made, "bank"), range.tree(range.bad, "bank"));
    range.bare.git(&["update-ref", "refs/heads/main", &made.to_string()]);
    range.bare.fsck();
}

#[test]
fn folders_within_each_other_are_put_back_once() {
    let range = range();
    let edits = range.revert(range.bad, &["", "shop", "shop/sub"]).unwrap();
    let made = range.bare.write(Some(range.bad), &[spec(edits)]);
    let whole = |commit: CommitId| range.bare.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
    assert_eq!(whole(made), whole(range.good));
}

#[test]
fn what_others_pushed_since_stays_and_what_is_taken_back_already_is_left_out() {
    let range = range();
    let mut since = Edits::new();
    since.upsert("shop/other.yaml", "other: 3\n").unwrap();
    since.upsert("shop/web.yaml", "web: 1\n").unwrap();
    let tip = range.bare.write(Some(range.bad), &[spec(since)]);
    let edits = range.revert(tip, &["shop"]).unwrap();
    assert!(edits.iter().all(|(path, _)| path != "shop/web.yaml"), "{edits:?}");
    let made = range.bare.write(Some(tip), &[spec(edits)]);
    let files = range.bare.files(made);
    assert!(files.contains(&"shop/other.yaml".to_owned()) && files.contains(&"shop/old.yaml".to_owned()));
    assert!(!files.contains(&"shop/sub/new.yaml".to_owned()), "{files:?}");
}

#[test]
fn a_file_that_was_changed_again_is_never_overwritten_and_nothing_is_half_reverted() {
    let range = range();
    let mut since = Edits::new();
    since.upsert("shop/web.yaml", "web: 3\n").unwrap();
    let tip = range.bare.write(Some(range.bad), &[spec(since)]);
    let error = range.revert(tip, &["shop"]).unwrap_err();
    assert!(
        matches!(&error, RevertError::Changed { path } if path.to_string() == "shop/web.yaml"),
        "{error}"
    );
}

#[test]
fn a_commit_is_found_by_its_trailers_and_only_after_the_one_it_takes_back() {
    let range = range();
    let repo = range.bare.repo();
    let bad = range.bad.to_string();
    let trailers = [("Windlass-Reverts", bad.as_str()), ("Windlass-Application", "shop/web")];
    assert_eq!(with_trailers(&repo, range.bad, range.bad, &trailers).unwrap(), None);
    let message = |app: &str| {
        Message::new("Revert").trailer("Windlass-Reverts", &bad).trailer("Windlass-Application", app)
    };
    let mut edits = Edits::new();
    edits.upsert("shop/web.yaml", "web: 1\n").unwrap();
    let other = range.bare.write(Some(range.bad), &[spec_with(edits, message("shop/other"))]);
    let repo = range.bare.repo();
    assert_eq!(with_trailers(&repo, other, range.bad, &trailers).unwrap(), None, "made for somebody else");
    let mut edits = Edits::new();
    edits.upsert("shop/web.yaml", "web: 0\n").unwrap();
    let made = range.bare.write(Some(other), &[spec_with(edits, message("shop/web"))]);
    let mut edits = Edits::new();
    edits.upsert("z", "z\n").unwrap();
    let tip = range.bare.write(Some(made), &[spec(edits)]);
    let repo = range.bare.repo();
    assert_eq!(with_trailers(&repo, tip, range.bad, &trailers).unwrap(), Some(made));
    assert_eq!(with_trailers(&repo, tip, made, &trailers).unwrap(), None, "not before it");
}
