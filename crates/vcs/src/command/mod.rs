//! The `git` program as a child process.
//!
//! ```text
//!  Git ──local(folder)──────────┐
//!      ──remote(folder, Remote)─┴─► Invocation ──run(cancel)──► Output
//!                                     │  environment from nothing        or CommandError, sorted by category
//!                                     │  own process group
//!                                     └─ time, silence, size, cancel, drop: the whole group ends
//! ```
//!
//! Guarantees:
//! - No configuration, hook, helper, agent or prompt of the machine or of its users has a say; only the mirror's own
//!   `config` file and what is set here.
//! - Secrets travel in the child's environment (readable by the same user only) or in files of mode 0600 in a folder of
//!   mode 0700 that is removed afterwards, never in arguments. What git prints is redacted before anybody sees it.
//! - Redirects are not followed: git would repeat the `Authorization` header to wherever it is sent.

mod environment;
mod failure;
mod orphan;
mod process;
mod scratch;

pub use failure::{Category, CommandError, Failure};
pub use process::{Limits, Output};

pub(crate) use orphan::{end_orphan, record as record_owner};
pub(crate) use scratch::FileLock;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::remote::Remote;
use scratch::{Scratch, ScratchRoot};

/// The name under which a remote is known to git in an [`Invocation`] made with [`Git::remote`]: fetch and push take it in
/// place of an address. Branches are mapped to `refs/remotes/origin/*`.
pub const ORIGIN: &str = "origin";

/// Runs `git`. Clones are cheap and share the folder for scratch files.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    ssh: PathBuf,
    scratch: Arc<ScratchRoot>,
}

impl Git {
    /// Uses `git` and `ssh` of the search path, and this folder for its home and for keys while they are in use.
    ///
    /// The folder is created when needed; what a killed process left in it is removed.
    pub fn new(scratch: &Path) -> Result<Self, CommandError> {
        let scratch = ScratchRoot::open(scratch)
            .map_err(|source| CommandError::Scratch { path: scratch.to_owned(), source })?;
        Ok(Self { program: "git".into(), ssh: "ssh".into(), scratch: Arc::new(scratch) })
    }

    /// Uses another program for `git`.
    #[must_use]
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..self }
    }

    /// Uses another program for `ssh`; it must take the options of OpenSSH.
    #[must_use]
    pub fn with_ssh(self, program: impl Into<PathBuf>) -> Self {
        Self { ssh: program.into(), ..self }
    }

    /// A command in a bare repository, without a network.
    pub fn local(&self, repository: &Path) -> Invocation {
        let mut invocation = Invocation::new(self, repository);
        environment::set_local(&mut invocation, self.scratch.home(), repository);
        invocation
    }

    /// A command in a bare repository that may talk to this remote, as [`ORIGIN`], and to nobody else.
    pub fn remote(&self, repository: &Path, remote: &Remote) -> Result<Invocation, CommandError> {
        let mut invocation = self.local(repository);
        environment::set_remote(&mut invocation, self, remote)?;
        invocation.remote = Some(remote.clone());
        Ok(invocation)
    }
}

/// What a command reads.
enum Input {
    Nothing,
    Bytes(Vec<u8>),
    /// An open file: the child holds it, and any lock on it, for as long as it lives.
    Held(File),
}

/// One run of `git`, in the making.
#[must_use = "nothing runs before `run`"]
pub struct Invocation {
    program: PathBuf,
    repository: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    /// Settings with the strength of `git -c`, but not to be seen in the list of processes.
    settings: Vec<(String, String)>,
    input: Input,
    limits: Limits,
    remote: Option<Remote>,
    /// Files that the child reads; removed with this.
    scratch: Option<Scratch>,
}

impl std::fmt::Debug for Invocation {
    /// The environment and the settings hold credentials: they are not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invocation")
            .field("args", &self.args)
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}

impl Invocation {
    fn new(git: &Git, repository: &Path) -> Self {
        Self {
            program: git.program.clone(),
            repository: repository.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            settings: Vec::new(),
            input: Input::Nothing,
            limits: Limits::default(),
            remote: None,
            scratch: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets a setting of git for this run.
    pub fn setting(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Gives the command something to read; without it there is nothing.
    pub fn input(self, bytes: impl Into<Vec<u8>>) -> Self {
        Self { input: Input::Bytes(bytes.into()), ..self }
    }

    /// Lets the child hold an open file as its (empty) input, so that a lock on it lasts as long as the child.
    pub(crate) fn holding(self, file: File) -> Self {
        Self { input: Input::Held(file), ..self }
    }

    /// Sets the limits.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Runs it to its end. A limit that is passed, a cancellation and dropping the future all end the whole process group.
    pub async fn run(self, cancel: &CancellationToken) -> Result<Output, CommandError> {
        process::run(self, cancel).await
    }

    /// The first argument, for messages: never an argument that could hold something private.
    fn what(&self) -> String {
        self.args.first().map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Where it goes, for messages.
    fn place(&self) -> String {
        self.remote.as_ref().map_or_else(|| self.repository.display().to_string(), ToString::to_string)
    }

    fn redact(&self, text: &str) -> String {
        self.remote.as_ref().map_or_else(|| text.to_owned(), |remote| remote.redact(text))
    }
}
