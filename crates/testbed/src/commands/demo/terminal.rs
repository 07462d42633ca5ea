//! The demo's terminal: commands as a person types them, run for real, with what they print.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail};
use windlass_testbed::{
    git::Git,
    process::ScratchDir,
    tools::{self, Tool},
};

/// How the demo reaches a cluster: flags that kubectl and windlass both know.
#[derive(Clone, Debug)]
pub(super) struct Reach(pub(super) String);

/// A folder to work in, and the programs.
pub(super) struct Terminal {
    folder: ScratchDir,
    kubectl: PathBuf,
    windlass: PathBuf,
    helm: PathBuf,
    kustomize: PathBuf,
    git: Git,
}

impl Terminal {
    pub(super) fn new(windlass: &Path, git: Git) -> anyhow::Result<Self> {
        let folder = ScratchDir::new("desk")?;
        let [kubectl, helm, kustomize] = [Tool::Kubectl, Tool::Helm, Tool::Kustomize].map(tools::path);
        let windlass = windlass.to_owned();
        Ok(Self { folder, kubectl: kubectl?, windlass, helm: helm?, kustomize: kustomize?, git })
    }

    /// Where commands run.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, as an editor would.
    pub(super) fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder().join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Changes a file of the checkout; the text has to be there.
    pub(super) fn edit(&self, path: &str, from: &str, to: &str) -> anyhow::Result<()> {
        let file = self.folder().join(path);
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if !text.contains(from) {
            bail!("{path} does not say {from:?}");
        }
        println!("# {path}: {from} → {to}");
        self.write(path, &text.replace(from, to))
    }

    pub(super) async fn kubectl(&self, reach: &Reach, args: &[&str]) -> anyhow::Result<String> {
        let args: Vec<&str> = args.iter().copied().chain([reach.0.as_str()]).collect();
        self.show("kubectl", Command::new(&self.kubectl), &args).await
    }

    /// Without showing it.
    pub(super) async fn ask(&self, reach: &Reach, args: &[&str]) -> anyhow::Result<(bool, String)> {
        let mut command = Command::new(&self.kubectl);
        command.args(args).arg(&reach.0);
        self.output(command).await
    }

    pub(super) async fn windlass(&self, reach: &Reach, args: &[&str]) -> anyhow::Result<String> {
        let args: Vec<&str> = args.iter().copied().chain([reach.0.as_str()]).collect();
        let mut command = Command::new(&self.windlass);
        command.env("WINDLASS_HELM", &self.helm).env("WINDLASS_KUSTOMIZE", &self.kustomize);
        self.show("windlass", command, &args).await
    }

    pub(super) async fn git(&self, args: &[&str]) -> anyhow::Result<String> {
        self.show("git", self.git.command(), args).await
    }

    /// Prints the command, runs it, prints what it says. `windlass why` ends with 1 when something is wrong, which is
    /// what it is asked for: only a command that says nothing at all fails here.
    async fn show(&self, name: &str, mut command: Command, args: &[&str]) -> anyhow::Result<String> {
        let typed: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
        println!("\n$ {name} {}", typed.join(" "));
        command.args(args);
        let (success, text) = self.output(command).await?;
        print!("{text}");
        if !success && args.first() != Some(&"why") {
            bail!("{name} failed: {text}");
        }
        Ok(text)
    }

    async fn output(&self, mut command: Command) -> anyhow::Result<(bool, String)> {
        command.current_dir(self.folder());
        let mut command = tokio::process::Command::from(command);
        let output = tokio::time::timeout(Duration::from_secs(60), command.kill_on_drop(true).output());
        let output = output.await.context("a command takes too long")?.context("cannot run a command")?;
        let text = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    }
}

/// As a shell needs it.
fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+~".contains(c);
    if arg.chars().all(plain) { arg.to_owned() } else { format!("'{arg}'") }
}
