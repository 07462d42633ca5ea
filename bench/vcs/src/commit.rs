//! A commit of 200 changes: in the object database, in a work tree, and with git's plumbing.

use std::{io::Write as _, path::Path, process::Stdio};

use anyhow::Context as _;
use jiff::Timestamp;
use windlass_vcs::{
    id::CommitId,
    repo::Repo,
    write::{CommitSpec, Edits, Message, Person, write},
};

use crate::{
    Bench,
    meter::Meter,
    ours::size,
    sample::{Sample, manifest, path},
};

/// How many files a commit changes.
const CHANGES: usize = 200;
/// How often it is repeated.
const ROUNDS: usize = 10;

pub(crate) fn measure(bench: &mut Bench<'_>, sample: &Sample) -> anyhow::Result<()> {
    let tip = sample.remote(&["rev-parse", "main"])?;
    let tree = ours(bench, sample, &tip)?;
    let same = in_a_work_tree(bench, sample)?;
    anyhow::ensure!(tree == same, "the trees differ: {tree} and {same}");
    let same = with_plumbing(bench, sample, &tip)?;
    anyhow::ensure!(tree == same, "the trees differ: {tree} and {same}");
    Ok(())
}

fn spec(edits: Edits) -> CommitSpec {
    let person = Person::new("bench", "bench@localhost", Timestamp::UNIX_EPOCH);
    CommitSpec {
        edits,
        author: person.clone(),
        committer: person,
        message: Message::new("Change 200 files"),
        signer: None,
        change_id: None,
    }
}

fn ours(bench: &mut Bench<'_>, sample: &Sample, tip: &str) -> anyhow::Result<String> {
    let place = sample.folder.join("bare");
    sample.git().run(&sample.folder, &["clone", "--quiet", "--bare", &sample.url(), "bare"])?;
    let repo = Repo::open(&place)?;
    let mut parent: CommitId = tip.parse()?;
    let before = size(&place)?;
    let (mut meter, mut tree) = (Meter::new(), String::new());
    for round in 0..ROUNDS {
        let mut edits = Edits::new();
        for n in sample.spread(CHANGES) {
            edits.upsert(path(n), manifest(n, 100 + round))?;
        }
        let specs = [spec(edits)];
        meter.begin()?;
        let written = write(&repo, Some(parent), &specs)?;
        meter.end()?;
        parent = *written.commits.first().context("no commit")?;
        tree = written.tree.to_string();
    }
    bench.cost_below("windlass: commit of 200 changes", meter.cost()?, 30.0);
    let grown = size(&place)?.saturating_sub(before);
    bench.bytes("windlass: bytes of a commit of 200 changes", grown / ROUNDS as u64);
    sample.git().run(&place, &["fsck", "--no-progress", &parent.to_string()])?;

    let mut meter = Meter::new();
    for round in 0..ROUNDS {
        let mut edits = Edits::new();
        edits.upsert(path(round), manifest(round, 500))?;
        let specs = [spec(edits)];
        meter.begin()?;
        let written = write(&repo, Some(parent), &specs)?;
        meter.end()?;
        anyhow::ensure!(written.commits.len() == 1, "no commit");
    }
    bench.cost("windlass: commit of one change", meter.cost()?);
    Ok(tree)
}

fn in_a_work_tree(bench: &mut Bench<'_>, sample: &Sample) -> anyhow::Result<String> {
    let place = sample.folder.join("work");
    sample.git().run(&sample.folder, &["clone", "--quiet", &sample.url(), "work"])?;
    let before = size(&place.join(".git/objects"))?;
    let mut meter = Meter::new();
    for round in 0..ROUNDS {
        let names = write_files(sample, &place, round)?;
        meter.begin()?;
        feed(sample, &place, &["add", "--pathspec-from-file=-"], &names)?;
        sample.git().run(&place, &["commit", "--quiet", "-m", "Change 200 files"])?;
        meter.end()?;
    }
    bench.cost("git: commit of 200 changes (add and commit in a work tree)", meter.cost()?);
    let grown = size(&place.join(".git/objects"))?.saturating_sub(before);
    bench.bytes("git: bytes of a commit of 200 changes", grown / ROUNDS as u64);
    sample.git().run(&place, &["rev-parse", "HEAD^{tree}"])
}

fn with_plumbing(bench: &mut Bench<'_>, sample: &Sample, tip: &str) -> anyhow::Result<String> {
    let place = sample.folder.join("plumbing");
    sample.git().run(&sample.folder, &["clone", "--quiet", "--bare", &sample.url(), "plumbing"])?;
    let (mut meter, mut parent, mut tree) = (Meter::new(), tip.to_owned(), String::new());
    for round in 0..ROUNDS {
        let names = write_files(sample, &place.join("files"), round)?;
        meter.begin()?;
        let inputs: Vec<String> = names.lines().map(|name| format!("files/{name}")).collect();
        let ids = feed(
            sample,
            &place,
            &["hash-object", "-w", "--no-filters", "--stdin-paths"],
            &inputs.join("\n"),
        )?;
        let entries: Vec<String> =
            ids.lines().zip(names.lines()).map(|(id, name)| format!("100644 {id}\t{name}")).collect();
        sample.git().run(&place, &["read-tree", &parent])?;
        feed(sample, &place, &["update-index", "--index-info"], &entries.join("\n"))?;
        tree = sample.git().run(&place, &["write-tree"])?;
        parent = sample.git().run(&place, &["commit-tree", "-p", &parent, "-m", "Change", &tree])?;
        meter.end()?;
    }
    bench.cost("git: commit of 200 changes (hash-object to commit-tree)", meter.cost()?);
    Ok(tree)
}

/// Writes the files of a round; returns their paths, one a line.
fn write_files(sample: &Sample, place: &Path, round: usize) -> anyhow::Result<String> {
    let mut names = String::new();
    for n in sample.spread(CHANGES) {
        let name = path(n);
        let file = place.join(&name);
        std::fs::create_dir_all(file.parent().context("no folder")?)?;
        std::fs::write(file, manifest(n, 100 + round))?;
        names.push_str(&name);
        names.push('\n');
    }
    Ok(names)
}

/// Runs git with something to read.
fn feed(sample: &Sample, place: &Path, args: &[&str], input: &str) -> anyhow::Result<String> {
    let mut command = sample.git().command();
    command.current_dir(place).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run git")?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "git {args:?} failed");
    Ok(String::from_utf8(output.stdout)?)
}
