//! What several tests need: bare repositories, commits to write, the real `git`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use jiff::Timestamp;
use tempfile::TempDir;
use windlass_testbed::git::Git;
use windlass_vcs::{
    id::CommitId,
    repo::Repo,
    write::{CommitSpec, Edits, Message, Person, write},
};

/// A bare repository in a folder of its own.
pub struct Bare {
    folder: TempDir,
    git: Git,
}

impl Bare {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::new(folder.path().join("home"));
        std::fs::create_dir(folder.path().join("home")).unwrap();
        git.run(folder.path(), &["init", "--quiet", "--bare", "--initial-branch=main", "repo"]).unwrap();
        Self { folder, git }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    pub fn repo(&self) -> Repo {
        Repo::open(&self.path()).unwrap()
    }

    pub fn write(&self, parent: Option<CommitId>, specs: &[CommitSpec]) -> CommitId {
        *write(&self.repo(), parent, specs).unwrap().commits.last().expect("a commit")
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.git.run(&self.path(), args).unwrap()
    }

    pub fn git_bytes(&self, args: &[&str]) -> Vec<u8> {
        run(self.git.command().current_dir(self.path()).args(args), &[])
    }

    pub fn git_with(&self, args: &[&str], input: &[u8]) -> String {
        let output = run(self.git.command().current_dir(self.path()).args(args), input);
        String::from_utf8(output).unwrap().trim_end().to_owned()
    }

    pub fn files(&self, commit: CommitId) -> Vec<String> {
        let listed = self.git(&["ls-tree", "-r", "--name-only", &commit.to_string()]);
        listed.lines().map(str::to_owned).collect()
    }

    /// How many packs there are.
    pub fn packs(&self) -> usize {
        let entries = std::fs::read_dir(self.path().join("objects/pack")).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".pack")).count()
    }

    pub fn fsck(&self) {
        fsck(&self.git, &self.path());
    }

    /// The tree that `git` itself makes of these files.
    pub fn tree_by_git(&self, files: &BTreeMap<String, (String, bool)>) -> String {
        let mut stream =
            String::from("commit refs/heads/model\ncommitter a <b> 1 +0000\ndata 0\ndeleteall\n");
        for (path, (content, executable)) in files {
            let mode = if *executable { "100755" } else { "100644" };
            writeln!(stream, "M {mode} inline {path}\ndata {}\n{content}", content.len()).unwrap();
        }
        self.git_with(&["fast-import", "--quiet", "--force"], stream.as_bytes());
        self.git(&["rev-parse", "model^{tree}"])
    }
}

/// Fails unless `git fsck` finds nothing to complain about.
pub fn fsck(git: &Git, path: &Path) {
    let mut command = git.command();
    command.current_dir(path).args(["fsck", "--full", "--strict", "--no-dangling", "--no-progress"]);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut complaints = text.lines().filter(|line| !line.starts_with("notice: "));
    assert!(output.status.success() && complaints.next().is_none(), "git fsck: {text}");
}

fn run(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

/// A commit with a fixed author, time and message.
pub fn spec(edits: Edits) -> CommitSpec {
    spec_with(edits, Message::new("Change"))
}

pub fn spec_with(edits: Edits, message: Message) -> CommitSpec {
    let time = Timestamp::from_second(1_700_000_000).unwrap();
    CommitSpec {
        edits,
        author: Person::new("Ada", "ada@example.org", time),
        committer: Person::new("windlass", "windlass@example.org", time),
        message,
        signer: None,
        change_id: None,
    }
}

/// A bare repository beside a remote, and the way there.
pub struct Clone {
    pub bare: Bare,
    pub link: windlass_vcs::push::GitLink,
}

impl Clone {
    pub fn of(url: &str) -> Self {
        Self::at(Bare::new(), url)
    }

    pub fn at(bare: Bare, url: &str) -> Self {
        let git = windlass_vcs::command::Git::new(&bare.folder.path().join("scratch")).unwrap();
        let remote = windlass_vcs::remote::Remote::new(url).unwrap();
        let link = windlass_vcs::push::GitLink::new(git, remote, bare.repo());
        Self { bare, link }
    }
}

/// Edits that write these files.
pub fn upserts(files: &[(&str, &str)]) -> Edits {
    let mut edits = Edits::new();
    for (path, content) in files {
        edits.upsert(*path, *content).unwrap();
    }
    edits
}
