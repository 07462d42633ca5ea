//! Child processes that end with us, however we end.
//!
//! ```text
//!   test process ──spawn──► sh: announces its group on the pipe, then becomes the program (exec)
//!        │                                                        ▲
//!        └── pipe ──► watchdog (sh) ── at end of pipe: kill ──────┘, remove scratch folders
//! ```
//!
//! A child is a group of its own, is ended on drop (also during a panic), and is killed by the watchdog when this
//! process is gone without dropping it: `kill -9`, Ctrl-C, or values held by statics.

mod port;
mod scratch;
mod watchdog;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

pub use port::Port;
pub use scratch::ScratchDir;

/// Announces the group before the program can do anything, so there is no moment in which it runs unwatched.
const SHIM: &str = r#"printf '+ %s\n' "$$" && log=$1 && shift && exec "$@" >>"$log" 2>&1 </dev/null"#;

/// What to run: a program, its arguments, and the file that takes its output.
#[derive(Debug, Clone)]
pub struct Spec {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    log: PathBuf,
    grace: Duration,
}

impl Spec {
    /// A program whose standard output and error are appended to `log`.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            log: log.into(),
            grace: Duration::from_secs(5),
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable of the child.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the working folder of the child.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// How long [`Child::stop`] and drop wait after SIGTERM before SIGKILL; zero means SIGKILL at once. Five seconds
    /// unless set.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Starts the program.
    pub fn spawn(&self) -> anyhow::Result<Child> {
        let program = self.program.display();
        anyhow::ensure!(
            !self.program.is_absolute() || self.program.exists(),
            "cannot start {program}: there is no such file"
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", SHIM, "windlass-testbed-child"])
            .arg(&self.log)
            .arg(&self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(watchdog::announce_pipe()?)
            .stderr(Stdio::null())
            .process_group(0);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let inner = command.spawn().with_context(|| format!("cannot start {program}"))?;
        Ok(Child { inner, log: self.log.clone(), grace: self.grace, status: None })
    }
}

/// A running program and its process group; ended on drop.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    log: PathBuf,
    grace: Duration,
    status: Option<ExitStatus>,
}

impl Child {
    /// The process id, which is also the id of its group.
    pub fn pid(&self) -> u32 {
        self.inner.id()
    }

    /// The log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The exit status when the program has ended.
    pub fn exit_status(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.status.is_none() && self.ended(WaitIdOptions::NOHANG)? {
            self.reap()?;
        }
        Ok(self.status)
    }

    /// Whether the program still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.exit_status(), Ok(None))
    }

    /// Waits until the program ends or the time is over.
    pub fn wait_timeout(&mut self, limit: Duration) -> anyhow::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.exit_status()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal to the whole group; does nothing when the program has ended.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if self.exit_status()?.is_some() {
            return Ok(());
        }
        rustix::process::kill_process_group(self.group()?, signal)
            .with_context(|| format!("cannot send {signal:?} to process group {}", self.pid()))
    }

    /// Freezes the program (SIGSTOP).
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen program go on (SIGCONT).
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Ends the program at once (SIGKILL) and waits for its end.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)?;
        if self.status.is_none() && self.ended(WaitIdOptions::empty())? {
            self.reap()?;
        }
        Ok(())
    }

    /// Asks the program to end (SIGTERM) and kills it when it has not within its grace time.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        if !self.grace.is_zero() {
            self.signal(Signal::TERM)?;
            // A frozen program cannot act on the signal.
            self.signal(Signal::CONT)?;
            self.wait_timeout(self.grace)?;
        }
        self.kill()
    }

    /// The last lines of the log, for error messages.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }

    fn group(&self) -> anyhow::Result<Pid> {
        i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("a child process has no valid id")
    }

    /// Whether the program has ended, leaving its id reserved until [`Child::reap`].
    fn ended(&self, options: WaitIdOptions) -> anyhow::Result<bool> {
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let group = self.group()?;
        let status = rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(group), options))
            .context("cannot ask for the state of a child process")?;
        Ok(status.is_some())
    }

    /// Ends what the program left behind in its group and takes its exit status, in this order: once the status is
    /// taken, the number may belong to somebody else.
    fn reap(&mut self) -> anyhow::Result<()> {
        let _ = rustix::process::kill_process_group(self.group()?, Signal::KILL);
        drop(watchdog::forget_group(self.pid()));
        self.status = Some(self.inner.wait().context("cannot take the exit status of a child process")?);
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!("{error:#}");
        }
    }
}

/// The last lines of a text file; empty when it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
