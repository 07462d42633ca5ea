//! The repository to measure with.

use std::{
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context as _;
use windlass_testbed::git::Git;

/// Files in a folder.
pub(crate) const FOLDER: usize = 200;

/// A remote repository in a folder.
pub(crate) struct Sample {
    pub(crate) folder: PathBuf,
    pub(crate) files: usize,
    git: Git,
}

impl Sample {
    /// Makes a remote with so many manifests, in folders of 200.
    pub(crate) fn make(folder: &Path, files: usize) -> anyhow::Result<Self> {
        let home = folder.join("home");
        std::fs::create_dir(&home)?;
        let sample = Self { folder: folder.to_owned(), files, git: Git::new(home) };
        sample.git.run(folder, &["init", "--quiet", "--bare", "-b", "main", "remote"])?;
        let mut command = sample.command();
        command.args(["fast-import", "--quiet"]).stdin(Stdio::piped());
        let mut child = command.spawn().context("cannot run git fast-import")?;
        let mut stream = BufWriter::new(child.stdin.take().context("no input")?);
        writeln!(
            stream,
            "commit refs/heads/main\ncommitter bench <bench@localhost> 1700000000 +0000\ndata 5\nFirst"
        )?;
        for n in 0..files {
            let content = manifest(n, 0);
            writeln!(stream, "M 100644 inline {}\ndata {}\n{content}", path(n), content.len())?;
        }
        stream.flush()?;
        drop(stream);
        anyhow::ensure!(child.wait()?.success(), "git fast-import failed");
        sample.remote(&["repack", "-a", "-d", "--quiet"])?;
        Ok(sample)
    }

    /// Address of the remote.
    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.folder.join("remote").display())
    }

    /// A git command in the remote.
    fn command(&self) -> Command {
        let mut command = self.git.command();
        command.current_dir(self.folder.join("remote"));
        command
    }

    /// Runs git in the remote.
    pub(crate) fn remote(&self, args: &[&str]) -> anyhow::Result<String> {
        self.git.run(&self.folder.join("remote"), args)
    }

    /// Runs git anywhere.
    pub(crate) fn git(&self) -> &Git {
        &self.git
    }

    /// Commits a change of one file to the remote; returns the commit.
    pub(crate) fn change_one(&self, n: usize, version: usize) -> anyhow::Result<String> {
        let content = manifest(n, version);
        let parent = self.remote(&["rev-parse", "main"])?;
        let stream = format!(
            "commit refs/heads/main\ncommitter bench <bench@localhost> 17000{version:05} +0000\ndata 3\nOne\nfrom {parent}\n\
             M 100644 inline {}\ndata {}\n{content}\n",
            path(n),
            content.len()
        );
        let mut child = self.command().args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn()?;
        child.stdin.take().context("no input")?.write_all(stream.as_bytes())?;
        anyhow::ensure!(child.wait()?.success(), "git fast-import failed");
        self.remote(&["rev-parse", "main"])
    }

    /// The numbers of files for a commit of so many changes, spread over at most a hundred folders.
    pub(crate) fn spread(&self, count: usize) -> impl Iterator<Item = usize> {
        let folders = (self.files / FOLDER).min(100);
        let step = self.files / FOLDER / folders;
        (0..count).map(move |n| (n % folders) * step * FOLDER + n / folders)
    }
}

/// Path of the folder of a file.
pub(crate) fn folder(n: usize) -> String {
    let app = n / FOLDER;
    format!("apps/team-{:03}/app-{app:04}", app / 10)
}

/// Path of a file.
pub(crate) fn path(n: usize) -> String {
    format!("{}/deployment-{:03}.yaml", folder(n), n % FOLDER)
}

/// A manifest, different for each number and version.
pub(crate) fn manifest(n: usize, version: usize) -> String {
    let hash = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ version.wrapping_mul(0xD1B5_4A32_D192_ED03);
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-{n}\n  namespace: team-{}\n  labels:\n    app: web-{n}\n    \
         tier: front\n  annotations:\n    checksum/config: {hash:016x}{:016x}\nspec:\n  replicas: {}\n  selector:\n    \
         matchLabels:\n      app: web-{n}\n  template:\n    metadata:\n      labels:\n        app: web-{n}\n    spec:\n      \
         containers:\n      - name: web\n        image: registry.example/web:1.{version}.{}\n        ports:\n        - \
         containerPort: 8080\n        resources:\n          requests:\n            cpu: {}m\n            memory: 128Mi\n",
        n / 2000,
        hash.rotate_left(17),
        n % 7,
        n % 100,
        n % 900
    )
}
