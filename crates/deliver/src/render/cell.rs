//! Runs a tool in a cell: a private folder, no surroundings, limits, and the end of all it started.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    sync::Semaphore,
    time::Duration,
};

use super::renderer::Limits;
use crate::{sandbox, trouble::Trouble};

/// The end of standard error that reaches people.
const SAID: usize = 2 * 1024;
/// What is kept of standard error while the tool runs.
const KEPT: usize = 32 * 1024;
/// How long a killed tool may take to go.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// How the private folders are called.
const PREFIX: &str = "cell-";
/// Where the files of the repository are in a private folder.
const TREE: &str = "tree";
/// Short texts are likely to be words of the error itself.
const LEAST_HIDDEN: usize = 4;

/// Makes private folders and runs tools in them.
pub(super) struct Cells {
    door: Vec<OsString>,
    scratch: PathBuf,
    permits: Arc<Semaphore>,
    limits: Limits,
}

/// A tool that is to run.
pub(super) struct Job<'a> {
    /// Its file.
    pub(super) program: &'a Path,
    /// How people call it: `helm template`.
    pub(super) called: &'a str,
    /// Its arguments.
    pub(super) args: Vec<OsString>,
    /// What it reads.
    pub(super) stdin: Option<Vec<u8>>,
    /// Texts that must not show in errors.
    pub(super) hide: &'a [String],
    /// The reason of the trouble when it fails.
    pub(super) reason: &'static str,
}

impl Cells {
    /// The scratch folder is this process's own: what an earlier one left there is removed.
    pub(super) fn new(
        scratch: &Path,
        door: Vec<OsString>,
        concurrency: usize,
        limits: Limits,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(scratch)?;
        // Tools print paths with all links followed; they have to be found again in what they print.
        let scratch = scratch.canonicalize()?;
        for entry in std::fs::read_dir(&scratch)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX)
                && let Err(error) = std::fs::remove_dir_all(entry.path())
            {
                tracing::warn!(%error, "cannot remove what an earlier render left");
            }
        }
        Ok(Self { door, scratch, permits: Arc::new(Semaphore::new(concurrency.max(1))), limits })
    }

    /// A private folder with files in it.
    pub(super) async fn folder(&self, files: Vec<(String, Vec<u8>)>) -> Result<Folder, Trouble> {
        let scratch = self.scratch.clone();
        let made = tokio::task::spawn_blocking(move || Folder::make(&scratch, files)).await;
        made.map_err(io::Error::other).and_then(|made| made).map_err(|error| {
            Trouble::passing(
                "ScratchUnusable",
                format!("files cannot be written to the scratch folder: {error}"),
                "make room there; it is tried again",
            )
        })
    }

    /// Runs a tool in a private folder and gives what it printed.
    pub(super) async fn run(&self, folder: &Folder, job: Job<'_>) -> Result<Vec<u8>, Trouble> {
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(Trouble::passing("Stopping", "the process ends", "it is tried again"));
        };
        let mut group = self.start(folder, &job)?;
        let output = self.limits.output;
        let ended = {
            let work = group.work(job.stdin, output);
            tokio::select! {
                biased;
                ended = work => Some(ended),
                () = tokio::time::sleep(self.limits.time) => None,
            }
        };
        // Whatever the tool started goes with it.
        group.end().await;
        let called = job.called;
        match ended {
            None => Err(Trouble::standing(
                "RenderTimeout",
                format!("{called} was not done after {} s", self.limits.time.as_secs()),
                "render less at once: split the folder into several Applications",
            )),
            Some(Err(error)) => Err(Trouble::passing(
                "SandboxFailed",
                format!("{called} cannot be read from: {error}"),
                "it is tried again",
            )),
            Some(Ok(Ended { stdout, .. })) if stdout.len() > output => Err(Trouble::standing(
                "OutputTooLarge",
                format!("{called} printed more than {output} bytes"),
                "render less at once: split the folder into several Applications",
            )),
            Some(Ok(Ended { status: Some(status), stdout, .. })) if status.success() => Ok(stdout),
            Some(Ok(ended)) => Err(failed(folder, called, job.reason, job.hide, &ended)),
        }
    }

    fn start(&self, folder: &Folder, job: &Job<'_>) -> Result<Group, Trouble> {
        let mut cell = sandbox::Cell::new(folder.path());
        cell.readable = vec![job.program.to_owned()];
        cell.memory = self.limits.memory;
        cell.cpu_seconds = self.limits.time.as_secs().saturating_mul(2).max(1);
        cell.file_bytes = self.limits.input_bytes.max(self.limits.output as u64);
        let mut door = self.door.iter();
        let Some(program) = door.next() else {
            return Err(Trouble::standing(
                "SandboxFailed",
                "there is no door to the sandbox",
                "set it in the options",
            ));
        };
        let mut command = Command::new(program);
        command.args(door).args(cell.args(job.program, &job.args)).env_clear().current_dir(folder.path());
        for (name, place) in [
            ("HOME", "home"),
            ("TMPDIR", "tmp"),
            ("XDG_CACHE_HOME", "home/cache"),
            ("XDG_CONFIG_HOME", "home/config"),
            ("XDG_DATA_HOME", "home/data"),
            ("HELM_CACHE_HOME", "home/cache"),
            ("HELM_CONFIG_HOME", "home/config"),
            ("HELM_DATA_HOME", "home/data"),
            ("HELM_PLUGINS", "home/plugins"),
            ("KUBECONFIG", "home/kubeconfig"),
            ("KUSTOMIZE_PLUGIN_HOME", "home/plugins"),
        ] {
            command.env(name, folder.path().join(place));
        }
        // Go collects before the limit of the kernel ends it.
        let soft = self.limits.memory / 4 * 3;
        command
            .env("PATH", "/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("HELM_NO_PLUGINS", "1")
            .env("GOMEMLIMIT", soft.to_string())
            .stdin(if job.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| {
            Trouble::passing(
                "SandboxFailed",
                format!("the sandbox for {} cannot be started: {error}", job.called),
                "it is tried again",
            )
        })?;
        Ok(Group::new(child))
    }
}

/// A private folder. It is removed when it is dropped.
pub(super) struct Folder {
    dir: Option<TempDir>,
    path: PathBuf,
}

impl Folder {
    fn make(scratch: &Path, files: Vec<(String, Vec<u8>)>) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(scratch)?;
        let path = dir.path().to_owned();
        for folder in ["tmp", "home/cache", "home/config", "home/data", "home/plugins"] {
            std::fs::create_dir_all(path.join(folder))?;
        }
        let mut made = PathBuf::new();
        for (name, bytes) in files {
            let file = path.join(name);
            if let Some(parent) = file.parent()
                && made != parent
            {
                std::fs::create_dir_all(parent)?;
                parent.clone_into(&mut made);
            }
            std::fs::write(file, bytes)?;
        }
        Ok(Self { dir: Some(dir), path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let Some(dir) = self.dir.take() else { return };
        // Many files take a while: not on a thread that others wait for.
        match tokio::runtime::Handle::try_current() {
            Ok(handle) => drop(handle.spawn_blocking(move || drop(dir))),
            Err(_) => drop(dir),
        }
    }
}

/// Where a file of the repository is in a private folder.
pub(super) fn in_tree(path: &str) -> String {
    if path.is_empty() { TREE.to_owned() } else { format!("{TREE}/{path}") }
}

/// How a tool ended.
struct Ended {
    /// `None` when it was not waited for because it printed too much.
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// The tool and all that it starts.
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn new(child: Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, id }
    }

    /// Feeds it, reads from it and waits for it to close its output.
    async fn work(&mut self, input: Option<Vec<u8>>, limit: usize) -> io::Result<Ended> {
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let pipe = self.child.stdin.take();
        let feed = async {
            if let (Some(mut pipe), Some(bytes)) = (pipe, input) {
                // A tool that does not read on says why itself.
                if pipe.write_all(&bytes).await.is_ok() {
                    drop(pipe.shutdown().await);
                }
            }
        };
        let said = last(stderr);
        let printed = first(stdout, limit);
        tokio::pin!(printed, said, feed);
        let mut stdout = None;
        let mut stderr = None;
        let mut fed = false;
        loop {
            tokio::select! {
                biased;
                done = &mut printed, if stdout.is_none() => {
                    let done = done?;
                    if done.len() > limit {
                        return Ok(Ended { status: None, stdout: done, stderr: Vec::new() });
                    }
                    stdout = Some(done);
                }
                done = &mut said, if stderr.is_none() => stderr = Some(done?),
                () = &mut feed, if !fed => fed = true,
                else => break,
            }
        }
        let status = Some(self.child.wait().await?);
        Ok(Ended { status, stdout: stdout.unwrap_or_default(), stderr: stderr.unwrap_or_default() })
    }

    /// Kills what is left of the group and waits for the tool.
    async fn end(&mut self) {
        self.kill();
        drop(tokio::time::timeout(LAST_WAIT, self.child.wait()).await);
    }

    /// The filter of the cell keeps everything in the group. The number of a group is not given anew while a process
    /// of it lives; when none does, there is no such group: numbers are given anew only after all others were.
    fn kill(&mut self) {
        if let Some(id) = self.id.take()
            && let Err(error) = rustix::process::kill_process_group(id, Signal::KILL)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(%error, "cannot end a tool");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The beginning of a stream: one byte more than the limit tells that there is more.
async fn first<R: AsyncRead + Unpin>(stream: Option<R>, limit: usize) -> io::Result<Vec<u8>> {
    let Some(stream) = stream else { return Ok(Vec::new()) };
    let mut kept = Vec::new();
    stream.take(limit as u64 + 1).read_to_end(&mut kept).await?;
    Ok(kept)
}

/// The end of a stream.
async fn last<R: AsyncRead + Unpin>(stream: Option<R>) -> io::Result<Vec<u8>> {
    let Some(mut stream) = stream else { return Ok(Vec::new()) };
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 8 * 1024]);
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(buffer.get(..length).unwrap_or_default());
        if kept.len() > 2 * KEPT {
            kept.drain(..kept.len() - KEPT);
        }
    }
}

/// What a tool said when it failed. Its output is never told: it may hold Secrets.
fn failed(folder: &Folder, called: &str, reason: &'static str, hide: &[String], ended: &Ended) -> Trouble {
    let said = said(&ended.stderr, folder.path(), hide);
    if let Some(refused) = said.lines().find(|line| line.contains(sandbox::SAYS)) {
        return Trouble::passing(
            "SandboxFailed",
            format!("{called} cannot be run in the sandbox: {refused}"),
            "check that the kernel of the node allows seccomp; it is tried again",
        );
    }
    let what = if said.is_empty() {
        let how = ended.status.map_or_else(|| "no status".to_owned(), |status| status.to_string());
        format!("{called} ended with {how} and said nothing")
    } else {
        format!("{called} failed: {said}")
    };
    Trouble::standing(reason, what, "correct what it names and commit")
}

/// The end of what a tool said, with paths as the repository has them.
fn said(stderr: &[u8], folder: &Path, hide: &[String]) -> String {
    let folder = folder.to_string_lossy();
    let mut text = String::from_utf8_lossy(stderr).into_owned();
    for text_of_ours in [format!("{folder}/{TREE}/"), format!("{folder}/{TREE}"), format!("{folder}/")] {
        text = text.replace(&text_of_ours, "");
    }
    for hidden in hide.iter().filter(|text| text.len() >= LEAST_HIDDEN) {
        text = text.replace(hidden.as_str(), "***");
    }
    let text: String = text.chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect();
    let text = text.trim();
    let mut start = text.len().saturating_sub(SAID);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let cut = text.get(start..).unwrap_or_default();
    if start == 0 { cut.to_owned() } else { format!("…{cut}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_says_names_paths_of_the_repository_and_no_secrets() {
        let text = "Error: /scratch/cell-1/tree/apps/web/a.yaml: bad hunter22 \u{1b}[31mred";
        let said =
            said(text.as_bytes(), Path::new("/scratch/cell-1"), &["hunter22".to_owned(), "a".to_owned()]);
        assert_eq!(said, "Error: apps/web/a.yaml: bad *** [31mred");
    }

    #[test]
    fn only_the_end_of_much_is_told() {
        let text = format!("{}ende", "ä".repeat(5000));
        let said = said(text.as_bytes(), Path::new("/x"), &[]);
        assert!(said.starts_with('…') && said.ends_with("ende") && said.len() <= SAID + 8, "{}", said.len());
    }
}
