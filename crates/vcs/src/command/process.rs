//! The child and its end.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failure::{self, Category, CommandError, Failure};
use super::{Input, Invocation, orphan};

/// How often time, silence and size are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long a killed child may take to go.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The end of the standard error that is kept.
const STDERR_KEPT: usize = 64 * 1024;

/// What a run may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The longest that it may take in all.
    pub total: Duration,
    /// The longest without any sign of life: output, progress, or growth of the pack that arrives.
    pub stalled: Duration,
    /// The most that may arrive in packs.
    pub received: Option<u64>,
    /// The most that it may print.
    pub output: usize,
}

impl Default for Limits {
    /// Ten minutes in all, one minute of silence, 2 GiB of packs, 64 MiB of output.
    fn default() -> Self {
        Self {
            total: Duration::from_secs(600),
            stalled: Duration::from_secs(60),
            received: Some(2 << 30),
            output: 64 << 20,
        }
    }
}

/// What a run of git that succeeded gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it said besides, without progress and credentials.
    pub notes: String,
    /// By how many bytes the packs grew.
    pub received: u64,
}

/// Why the child has to go before its time.
enum Verdict {
    Cancelled,
    Timeout,
    Stalled,
    TooLarge,
}

/// Signs of life, and the size of what was printed.
#[derive(Default)]
struct Signs {
    bytes: AtomicU64,
    printed: AtomicU64,
}

pub(super) async fn run(
    mut invocation: Invocation,
    cancel: &CancellationToken,
) -> Result<Output, CommandError> {
    let (what, place) = (invocation.what(), invocation.place());
    if cancel.is_cancelled() {
        return Err(CommandError::Cancelled { what, place });
    }
    let limits = invocation.limits.clone();
    let before = pack_size(&invocation.repository).await;
    let mut group = Group::start(&mut invocation)?;
    let signs = Signs::default();
    let ended = {
        let work = group.work(&signs, limits.output);
        let watch = watch(&invocation.repository, &limits, before, &signs);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Verdict::Cancelled),
            done = work => Ok(done.map_err(|source| CommandError::Pipe { what: what.clone(), source })?),
            verdict = watch => Err(verdict),
        }
    };
    let received = pack_size(&invocation.repository).await.saturating_sub(before);
    let (status, stdout, stderr) = match ended {
        Ok(done) => done,
        Err(verdict) => {
            group.end().await;
            return Err(match verdict {
                Verdict::Cancelled => CommandError::Cancelled { what, place },
                Verdict::Timeout => CommandError::Timeout { what, place, limit: limits.total },
                Verdict::Stalled => CommandError::Stalled { what, place, limit: limits.stalled },
                Verdict::TooLarge => CommandError::TooLarge { what, place, limit: limits.output as u64 },
            });
        }
    };
    group.is_over = true;
    if stdout.len() > limits.output {
        return Err(CommandError::TooLarge { what, place, limit: limits.output as u64 });
    }
    let stderr = invocation.redact(&String::from_utf8_lossy(&stderr));
    if status.success() {
        return Ok(Output { stdout, notes: failure::telling_lines(&stderr).join("\n"), received });
    }
    let category = failure::classify(&stderr);
    let killed = status.signal() == Some(Signal::KILL.as_raw());
    let message = if killed { failure::KILLED.to_owned() } else { failure::message(&stderr) };
    if category == Category::TooLarge
        && let Some(limit) = limits.received
    {
        return Err(CommandError::TooLarge { what, place, limit });
    }
    let code = status.code();
    Err(CommandError::Failed(Box::new(Failure { category, what, place, code, message, stdout, killed })))
}

/// Waits until a limit is passed.
async fn watch(repository: &Path, limits: &Limits, before: u64, signs: &Signs) -> Verdict {
    let start = Instant::now();
    let (mut last_sign, mut last_seen) = (start, (0, before));
    loop {
        tokio::time::sleep(TICK.min(limits.total).min(limits.stalled)).await;
        let size = pack_size(repository).await;
        if signs.printed.load(Ordering::Relaxed) > limits.output as u64 {
            return Verdict::TooLarge;
        }
        let seen = (signs.bytes.load(Ordering::Relaxed), size);
        if seen != last_seen {
            (last_seen, last_sign) = (seen, Instant::now());
        }
        if start.elapsed() >= limits.total {
            return Verdict::Timeout;
        }
        if last_sign.elapsed() >= limits.stalled {
            return Verdict::Stalled;
        }
    }
}

/// The size of all packs, those that are still arriving too: growth is a sign of life.
async fn pack_size(repository: &Path) -> u64 {
    let folder: PathBuf = repository.join("objects/pack");
    let sum = move || {
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        // A file may be renamed or gone between the two looks.
        entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum()
    };
    tokio::task::spawn_blocking(sum).await.unwrap_or(0)
}

/// git itself, or git with a limit on the size of the files that it writes.
///
/// git 2.39 has no limit for what a fetch receives (`receive.maxInputSize` is for pushes). The limit of the kernel is
/// exact; it takes a shell to set it for the child alone. Looking at the folder from time to time would let a fast
/// remote through.
fn program(invocation: &Invocation) -> Command {
    let Some(limit) = invocation.limits.received.filter(|_| invocation.remote.is_some()) else {
        return Command::new(&invocation.program);
    };
    let mut command = Command::new("/bin/sh");
    // The unit is 512 bytes. With the signal ignored git says why it stops.
    let script = r#"trap '' XFSZ && ulimit -f "$0" && exec "$@""#;
    command.args(["-c", script, &limit.div_ceil(512).to_string()]);
    command.arg(&invocation.program);
    command
}

/// The child and all that it starts.
struct Group {
    child: Child,
    input: Option<(ChildStdin, Vec<u8>)>,
    is_over: bool,
}

impl Group {
    fn start(invocation: &mut Invocation) -> Result<Self, CommandError> {
        let mut command = program(invocation);
        command
            .args(&invocation.args)
            .env_clear()
            .envs(invocation.env.iter().map(|(name, value)| (name, value)));
        command.env("GIT_CONFIG_COUNT", invocation.settings.len().to_string());
        for (place, (key, value)) in invocation.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{place}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{place}"), value);
        }
        if invocation.remote.is_some() {
            // An orphan whose watch is dead must not hang forever.
            let count = invocation.settings.len();
            let seconds = invocation.limits.stalled.as_secs().max(1).to_string();
            for (place, (key, value)) in
                [("http.lowSpeedLimit", "1"), ("http.lowSpeedTime", seconds.as_str())].iter().enumerate()
            {
                command.env(format!("GIT_CONFIG_KEY_{}", count + place), key);
                command.env(format!("GIT_CONFIG_VALUE_{}", count + place), value);
            }
            command.env("GIT_CONFIG_COUNT", (count + 2).to_string());
        }
        let mut held = None;
        let (stdin, bytes) = match std::mem::replace(&mut invocation.input, Input::Nothing) {
            Input::Nothing => (Stdio::null(), None),
            Input::Bytes(bytes) => (Stdio::piped(), Some(bytes)),
            Input::Held(file) => {
                held = file.try_clone().ok();
                (Stdio::from(file), None)
            }
        };
        if invocation.repository.is_dir() {
            command.current_dir(&invocation.repository);
        }
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| CommandError::Start { program: invocation.program.clone(), source })?;
        let input = child.stdin.take().zip(bytes);
        if let Some(Err(error)) = held.map(|file| orphan::record(&file, child.id())) {
            tracing::debug!(%error, "cannot write down which process holds a lock");
        }
        Ok(Self { child, input, is_over: false })
    }

    /// Feeds it, reads from it and waits for it.
    async fn work(&mut self, signs: &Signs, limit: usize) -> std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let input = self.input.take();
        let feed = async {
            if let Some((mut pipe, bytes)) = input {
                // A child that does not read on says why itself.
                if pipe.write_all(&bytes).await.is_ok() {
                    drop(pipe.shutdown().await);
                }
            }
        };
        let (stdout, stderr, (), status) = tokio::join!(
            read(stdout, signs, Keep::Begin(limit)),
            read(stderr, signs, Keep::End(STDERR_KEPT)),
            feed,
            self.child.wait()
        );
        Ok((status?, stdout?, stderr?))
    }

    /// Kills the whole group and waits for the child.
    async fn end(&mut self) {
        self.kill();
        drop(tokio::time::timeout(LAST_WAIT, self.child.wait()).await);
        self.is_over = true;
    }

    /// The child leads its group. It has not been waited for, so the number is still its own.
    fn kill(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id
            && let Err(error) = rustix::process::kill_process_group(id, Signal::KILL)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(%error, "cannot end a git process");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill();
        }
    }
}

/// Which part of a stream is kept.
#[derive(Clone, Copy)]
enum Keep {
    Begin(usize),
    End(usize),
}

async fn read<R: AsyncRead + Unpin>(
    stream: Option<R>,
    signs: &Signs,
    keep: Keep,
) -> std::io::Result<Vec<u8>> {
    let Some(mut stream) = stream else { return Ok(Vec::new()) };
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(kept);
        }
        signs.bytes.fetch_add(length as u64, Ordering::Relaxed);
        match keep {
            Keep::Begin(limit) => {
                signs.printed.fetch_add(length as u64, Ordering::Relaxed);
                // One byte more than allowed, so that the end can tell.
                let room = (limit + 1).saturating_sub(kept.len()).min(length);
                kept.extend_from_slice(&buffer[..room]);
            }
            Keep::End(limit) => {
                kept.extend_from_slice(&buffer[..length]);
                if kept.len() > 2 * limit {
                    kept.drain(..kept.len() - limit);
                }
            }
        }
    }
}
